//! The place of a change in lists.

use std::fmt;
use std::str::FromStr;

use crate::ids::ChangeId;
use crate::problem::BadValue;
use crate::time::Timestamp;

/// The place of a change in lists, written `ID` or `ID@TIME`.
///
/// A change can move in lists while a client reads them page by page. With the time,
/// the place is the one at which the client saw the change; without it, the one at
/// which the change is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeCursor {
    /// The id of the change.
    pub id: ChangeId,
    /// The time by which the change was listed, see
    /// [`Change::effective_at`](super::Change::effective_at).
    pub at: Option<Timestamp>,
}

impl From<ChangeId> for ChangeCursor {
    fn from(id: ChangeId) -> Self {
        Self { id, at: None }
    }
}

impl fmt::Display for ChangeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        self.at.map_or(Ok(()), |at| write!(f, "@{at}"))
    }
}

impl FromStr for ChangeCursor {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let (id, at) = match text.split_once('@') {
            Some((id, at)) => (id, Some(at.parse()?)),
            None => (text, None),
        };
        Ok(Self {
            id: id.parse()?,
            at,
        })
    }
}

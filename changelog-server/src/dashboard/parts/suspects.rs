//! Rows of changes that may have caused something.

use changelog_core::{Change, Reason, ReasonCode, Timestamp};

use super::format;

/// A change that may be the cause of what happened at a moment.
pub(crate) struct SuspectRow {
    pub(crate) change: Change,
    /// Why, without what the row shows in other ways.
    pub(crate) reasons: Vec<Reason>,
    /// How long before the moment it started.
    pub(crate) offset: String,
    pub(crate) score: i32,
}

impl SuspectRow {
    pub(crate) fn new(change: Change, mut reasons: Vec<Reason>, score: i32, at: Timestamp) -> Self {
        reasons.retain(|reason| !matches!(reason.code, ReasonCode::Recent | ReasonCode::Risk));
        Self {
            offset: format::offset(change.effective_at(), at),
            change,
            reasons,
            score,
        }
    }
}

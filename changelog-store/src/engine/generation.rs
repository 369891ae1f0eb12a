//! The generation of a SQLite database: a number that changes with each commit,
//! of whichever process, except those of which the writer knows that they only
//! add rows. What was read of other rows is valid for as long.

use std::sync::{Arc, Mutex, PoisonError};

use super::wal_index::{Header, WalIndex};

/// The number of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u64);

/// The generations of one database.
#[derive(Debug)]
pub(crate) struct Generations {
    index: Arc<WalIndex>,
    current: Mutex<Current>,
}

#[derive(Debug, Default)]
struct Current {
    /// The header of this generation.
    header: Option<Header>,
    number: u64,
}

impl Current {
    fn number_of(&mut self, header: Header) -> Generation {
        if self.header != Some(header) {
            self.header = Some(header);
            self.number += 1;
        }
        Generation(self.number)
    }

    fn extend(&mut self, before: Header, after: Header) {
        if self.header == Some(before) && after.is_next_after(&before) {
            self.header = Some(after);
        }
    }
}

/// The state of the database before rows are added.
#[derive(Debug)]
pub(crate) struct Before(Option<Header>);

impl Generations {
    /// Counts the generations of a database from now on.
    pub(crate) fn new(index: Arc<WalIndex>) -> Self {
        Self {
            index,
            current: Mutex::default(),
        }
    }

    /// Returns the generation now; `None` when it cannot be known.
    pub(crate) fn now(&self) -> Option<Generation> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // Read while locked, so that numbers follow the order of commits.
        Some(current.number_of(self.index.header()?))
    }

    /// Notes the state before a transaction that only adds rows.
    pub(crate) fn before(&self) -> Before {
        Before(self.index.header())
    }

    /// Extends the generation over a transaction that only added rows, when it
    /// is the only one that was committed since `before`.
    pub(crate) fn extend(&self, before: &Before) {
        if let (Some(before), Some(after)) = (before.0, self.index.header()) {
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            current.extend(before, after);
        }
    }
}

//! Whether writes to PostgreSQL return. While a lock or a synchronous replica that is away holds
//! them up, reads are answered as ever.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::error::StoreError;

/// For how long writes must have failed, and none succeeded.
const STUCK_AFTER: Duration = Duration::from_secs(2);
/// A failure that is older says nothing of the present.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// What became of the last writes.
#[derive(Debug, Default)]
pub(crate) struct WriteOutcomes(Mutex<Option<Failures>>);

/// Writes that did not return in time, since the last one that did.
#[derive(Clone, Copy, Debug)]
struct Failures {
    first: Instant,
    last: Instant,
}

impl WriteOutcomes {
    /// Notes what became of a write, and returns it.
    pub(crate) fn note<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &result {
            Ok(_) => *failures = None,
            Err(StoreError::Unavailable(_) | StoreError::Uncertain(_) | StoreError::Locked) => {
                let last = Instant::now();
                let recent = failures.filter(|past| past.last.elapsed() < FORGOTTEN_AFTER);
                let first = recent.map_or(last, |past| past.first);
                *failures = Some(Failures { first, last });
            }
            // The database has answered.
            Err(_) => {}
        }
        drop(failures);
        result
    }

    /// Returns whether none has returned for some time, although some were tried.
    pub(crate) fn are_stuck(&self) -> bool {
        let failures = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.is_some_and(|past| {
            past.last.elapsed() < FORGOTTEN_AFTER && past.last - past.first >= STUCK_AFTER
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_stuck_while_none_returns() {
        let outcomes = WriteOutcomes::default();
        let fail = || drop(outcomes.note::<()>(Err(StoreError::Locked)));
        let age = |seconds| {
            if let Some(past) = &mut *outcomes.0.lock().unwrap() {
                past.first -= Duration::from_secs(seconds);
                past.last -= Duration::from_secs(seconds);
            }
        };
        assert!(!outcomes.are_stuck());
        fail();
        assert!(!outcomes.are_stuck(), "the first one");
        age(3);
        fail();
        assert!(outcomes.are_stuck());
        // A conflict is an answer, but not of a commit.
        drop(outcomes.note::<()>(Err(StoreError::Conflict)));
        assert!(outcomes.are_stuck());
        age(11);
        assert!(!outcomes.are_stuck(), "nothing was tried since");
        fail();
        assert!(!outcomes.are_stuck(), "the first one again");
        age(3);
        fail();
        drop(outcomes.note(Ok(())));
        assert!(!outcomes.are_stuck(), "one has returned");
    }
}

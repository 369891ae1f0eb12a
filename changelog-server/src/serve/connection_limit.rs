//! The slots that connections take.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::open_files;

/// The maximum number of connections of one client, unless it is a trusted proxy; further ones
/// are closed at once.
pub(super) const MAX_PER_CLIENT: usize = 256;

/// The slots for connections.
pub(super) struct ConnectionLimit {
    regular: Arc<Semaphore>,
    surplus: Arc<Semaphore>,
}

/// A slot that a connection takes until it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    regular: Arc<Semaphore>,
    permit: Mutex<SlotPermit>,
}

#[derive(Debug)]
struct SlotPermit {
    is_surplus: bool,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionLimit {
    pub(super) fn new() -> Self {
        let (regular, surplus) = open_files::connections();
        Self {
            regular: Arc::new(Semaphore::new(regular)),
            surplus: Arc::new(Semaphore::new(surplus)),
        }
    }

    /// Takes a slot, preferably a regular one, if one is free.
    pub(super) fn try_take(&self) -> Option<Slot> {
        let regular = Arc::clone(&self.regular).try_acquire_owned();
        if let Ok(permit) = regular {
            return Some(self.slot(false, permit));
        }
        let surplus = Arc::clone(&self.surplus).try_acquire_owned();
        surplus.ok().map(|permit| self.slot(true, permit))
    }

    /// Waits for a regular slot.
    pub(super) async fn take_within(&self, wait: Duration) -> Option<Slot> {
        let permit = Arc::clone(&self.regular).acquire_owned();
        let permit = timeout(wait, permit).await.ok()?.ok()?;
        Some(self.slot(false, permit))
    }

    fn slot(&self, is_surplus: bool, permit: OwnedSemaphorePermit) -> Slot {
        Slot {
            regular: Arc::clone(&self.regular),
            permit: Mutex::new(SlotPermit {
                is_surplus,
                _permit: permit,
            }),
        }
    }
}

impl Slot {
    /// Returns whether the connection's requests are served. A surplus slot
    /// becomes a regular one as soon as one is free.
    pub(super) fn is_regular(&self) -> bool {
        let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
        if permit.is_surplus
            && let Ok(regular) = Arc::clone(&self.regular).try_acquire_owned()
        {
            *permit = SlotPermit {
                is_surplus: false,
                _permit: regular,
            };
        }
        !permit.is_surplus
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(regular: usize, surplus: usize) -> ConnectionLimit {
        ConnectionLimit {
            regular: Arc::new(Semaphore::new(regular)),
            surplus: Arc::new(Semaphore::new(surplus)),
        }
    }

    #[test]
    fn a_surplus_slot_becomes_regular_when_one_is_free() {
        let limit = limit(1, 1);
        let first = limit.try_take().unwrap();
        let second = limit.try_take().unwrap();
        assert!(limit.try_take().is_none());
        assert!(first.is_regular() && !second.is_regular());
        drop(first);
        assert!(second.is_regular());
        // Its surplus slot is free again.
        assert!(!limit.try_take().unwrap().is_regular());
    }
}

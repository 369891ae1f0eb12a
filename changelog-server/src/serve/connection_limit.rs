//! The number of connections: how many the limit of open files allows, and the
//! slots that they take.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The most connections, if the limit of open files allows them.
const MAX_CONNECTIONS: usize = 4_096;
/// The most connections of one client, unless it is a trusted proxy; further ones
/// are closed at once.
pub(super) const MAX_PER_CLIENT: usize = 256;
/// The most connections beyond the limit, which get an error or the service's
/// health.
const MAX_SURPLUS: usize = 64;
/// Open files that are not connections: of the database and of the system.
const OTHER_FILES: usize = 128;
/// The connections that are served even with a very low limit of open files.
const MIN_CONNECTIONS: usize = 32;
/// The limit of open files that the service asks for at its start.
const WANTED_FILES: u64 = 8_192;

/// Raises the process's limit of open files to [`WANTED_FILES`], or as far as it
/// may.
pub(crate) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit
        .maximum
        .map_or(WANTED_FILES, |maximum| maximum.min(WANTED_FILES));
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let raised = Rlimit {
        current: Some(wanted),
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

/// Returns the number of regular slots and of surplus slots.
fn slot_counts() -> (usize, usize) {
    let files = getrlimit(Resource::Nofile).current;
    let files = files.map_or(usize::MAX, |files| {
        usize::try_from(files).unwrap_or(usize::MAX)
    });
    let available = files.saturating_sub(OTHER_FILES).max(MIN_CONNECTIONS);
    let surplus = MAX_SURPLUS.min(available / 8);
    (MAX_CONNECTIONS.min(available - surplus), surplus)
}

/// Returns how many connections are served at once.
pub(crate) fn max_connections() -> usize {
    slot_counts().0
}

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
        let (regular, surplus) = slot_counts();
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

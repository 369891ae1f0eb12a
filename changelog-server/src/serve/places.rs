//! How many connections there may be, in all and of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections in all; beyond that the next waits in the system's queue.
const IN_ALL: usize = 4_096;
/// Connections of one address; beyond that they are closed at once.
const OF_ONE: usize = 256;

/// The places for connections.
pub(super) struct Places {
    free: Arc<Semaphore>,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// A place that one connection holds until it is dropped.
pub(super) struct Place {
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
    _free: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new() -> Self {
        Self {
            free: Arc::new(Semaphore::new(IN_ALL)),
            taken: Arc::default(),
        }
    }

    /// Waits until there is a place at all.
    pub(super) async fn free(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.free).acquire_owned().await.ok()
    }

    /// Takes the place for an address, unless it has its share already.
    pub(super) fn take(
        &self,
        free: Option<OwnedSemaphorePermit>,
        address: IpAddr,
    ) -> Option<Place> {
        let free = free?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(address).or_default();
        if *count >= OF_ONE {
            tracing::debug!(%address, "too many connections of one address");
            return None;
        }
        *count += 1;
        Some(Place {
            taken: Arc::clone(&self.taken),
            address,
            _free: free,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

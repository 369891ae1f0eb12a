//! Whether this server should be sent requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the server takes new requests, or is about to stop; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    is_stopping: Arc<AtomicBool>,
}

impl Readiness {
    /// Makes `/readyz` fail from now on, so that proxies send no more requests.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Returns whether the server was asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }
}

//! Which organizations have requests of sources to read, as this process knows.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Database, Tenant};

/// Organizations with requests to read; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceWork(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    tenants: Mutex<HashSet<Tenant>>,
    notify: Notify,
}

impl SourceWork {
    fn tenants(&self) -> MutexGuard<'_, HashSet<Tenant>> {
        self.0
            .tenants
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies of an organization.
    pub(super) fn add(&self, tenant: Tenant) {
        self.tenants().insert(tenant);
        self.0.notify.notify_one();
    }
}

impl Database {
    /// Waits until requests of sources are to be read, and takes their organizations.
    pub async fn source_work(&self) -> HashSet<Tenant> {
        loop {
            let tenants = self.take_source_work();
            if !tenants.is_empty() {
                return tenants;
            }
            self.source_work.0.notify.notified().await;
        }
    }

    /// Takes the organizations whose requests are to be read, without waiting.
    pub fn take_source_work(&self) -> HashSet<Tenant> {
        std::mem::take(&mut *self.source_work.tenants())
    }
}

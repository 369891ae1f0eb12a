//! Which organizations have something to do in the background, as this process knows.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Database, Tenant};

/// Organizations with something to do; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct TenantWork(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    tenants: Mutex<HashSet<Tenant>>,
    notify: Notify,
}

impl TenantWork {
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

    /// Waits until there is something to do, and takes the organizations.
    async fn wait(&self) -> HashSet<Tenant> {
        loop {
            let tenants = self.take();
            if !tenants.is_empty() {
                return tenants;
            }
            self.0.notify.notified().await;
        }
    }

    /// Takes the organizations, without waiting.
    fn take(&self) -> HashSet<Tenant> {
        std::mem::take(&mut *self.tenants())
    }
}

impl Database {
    /// Waits until requests of sources are to be read, and takes their organizations.
    pub async fn source_work(&self) -> HashSet<Tenant> {
        self.source_work.wait().await
    }

    /// Takes the organizations whose requests are to be read, without waiting.
    pub fn take_source_work(&self) -> HashSet<Tenant> {
        self.source_work.take()
    }

    /// Waits until suspects of incidents are to be ranked, and takes their organizations.
    pub async fn ranking_work(&self) -> HashSet<Tenant> {
        self.ranking_work.wait().await
    }

    /// Takes the organizations whose suspects are to be ranked, without waiting.
    pub fn take_ranking_work(&self) -> HashSet<Tenant> {
        self.ranking_work.take()
    }
}

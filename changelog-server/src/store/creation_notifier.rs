//! Notifies the tasks of this process of the changes that it has recorded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use changelog_core::{ActivityId, ChangeId};
use tokio::sync::mpsc;

use super::tenant::Tenant;

/// The limit on entries that wait for a subscriber; later ones are dropped.
const MAX_WAITING_ENTRIES: usize = 4_096;

/// The entry of the activity log that records the creation of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreationEntry {
    /// Its id, which orders by the time of recording.
    pub id: ActivityId,
    /// The change.
    pub change: ChangeId,
}

/// The subscribers, one per organization. A notification is only a hint: other
/// processes record changes too, so a subscriber must also read the database
/// periodically.
#[derive(Clone, Debug, Default)]
pub(super) struct CreationNotifier(Arc<Mutex<HashMap<Tenant, mpsc::Sender<CreationEntry>>>>);

impl CreationNotifier {
    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, mpsc::Sender<CreationEntry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to the changes that this process records for an organization. This
    /// replaces an earlier subscriber of that organization.
    pub(super) fn subscribe(&self, tenant: Tenant) -> mpsc::Receiver<CreationEntry> {
        let (subscriber, entries) = mpsc::channel(MAX_WAITING_ENTRIES);
        self.lock().insert(tenant, subscriber);
        entries
    }

    /// Notifies the subscribers of creations that were committed.
    pub(super) fn notify(&self, created: impl Iterator<Item = (Tenant, CreationEntry)>) {
        let mut subscribers = self.lock();
        if subscribers.is_empty() {
            return;
        }
        for (tenant, entry) in created {
            if let Some(subscriber) = subscribers.get(&tenant)
                && let Err(mpsc::error::TrySendError::Closed(_)) = subscriber.try_send(entry)
            {
                subscribers.remove(&tenant);
            }
        }
    }
}

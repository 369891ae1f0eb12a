//! Notifies the tasks of this process of the changes that were recorded, by it or by
//! [another server](super::server_notifications).

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

/// Who is notified. A notification is only a hint: some are dropped, so a subscriber
/// must also read the database periodically.
#[derive(Clone, Debug, Default)]
pub(super) struct CreationNotifier(Arc<Mutex<Receivers>>);

#[derive(Debug, Default)]
struct Receivers {
    /// The subscribers in this process, one per organization.
    subscribers: HashMap<Tenant, mpsc::Sender<CreationEntry>>,
    /// The task that notifies the other servers.
    other_servers: Option<mpsc::Sender<(Tenant, CreationEntry)>>,
}

impl CreationNotifier {
    fn lock(&self) -> MutexGuard<'_, Receivers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to the changes that are recorded for an organization. This replaces
    /// an earlier subscriber of that organization.
    pub(super) fn subscribe(&self, tenant: Tenant) -> mpsc::Receiver<CreationEntry> {
        let (subscriber, entries) = mpsc::channel(MAX_WAITING_ENTRIES);
        self.lock().subscribers.insert(tenant, subscriber);
        entries
    }

    /// Returns what this process records from now on, for the other servers.
    pub(super) fn for_other_servers(&self) -> mpsc::Receiver<(Tenant, CreationEntry)> {
        let (sender, entries) = mpsc::channel(MAX_WAITING_ENTRIES);
        self.lock().other_servers = Some(sender);
        entries
    }

    /// Notifies of creations that this process has committed.
    pub(super) fn notify(&self, created: impl Iterator<Item = (Tenant, CreationEntry)>) {
        let mut receivers = self.lock();
        if receivers.subscribers.is_empty() && receivers.other_servers.is_none() {
            return;
        }
        for (tenant, entry) in created {
            receivers.notify_subscriber(tenant, entry);
            if let Some(sender) = &receivers.other_servers {
                // What does not fit is found by the other servers' own reads.
                let _ = sender.try_send((tenant, entry));
            }
        }
    }

    /// Notifies the subscribers of creations that another server has committed.
    pub(super) fn notify_subscribers(
        &self,
        created: impl Iterator<Item = (Tenant, CreationEntry)>,
    ) {
        let mut receivers = self.lock();
        for (tenant, entry) in created {
            receivers.notify_subscriber(tenant, entry);
        }
    }
}

impl Receivers {
    fn notify_subscriber(&mut self, tenant: Tenant, entry: CreationEntry) {
        if let Some(subscriber) = self.subscribers.get(&tenant)
            && let Err(mpsc::error::TrySendError::Closed(_)) = subscriber.try_send(entry)
        {
            self.subscribers.remove(&tenant);
        }
    }
}

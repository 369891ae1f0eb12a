//! Notifies the tasks of this process of the changes and incidents that were created and
//! updated, by it or by [another server](super::server_notifications).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use changelog_core::ids::time_of_uuid;
use changelog_core::{ActivityId, ChangeEvent, Timestamp};
use sqlx::types::Uuid;
use tokio::sync::{Notify, mpsc};

use super::tenant::Tenant;

/// The limit on entries that wait for a subscriber; later ones are dropped.
const MAX_WAITING_ENTRIES: usize = 4_096;

/// An entry of the activity log that a stream of changes sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// Its id, which orders by the time of recording. A new ranking of suspects has one of
    /// its own, although the log has no entry for it.
    pub id: ActivityId,
    /// The id of the change or the incident.
    pub resource: Uuid,
    /// What happened to it.
    pub event: ChangeEvent,
}

/// Who is notified. A notification is only a hint: some are dropped, so a subscriber
/// must also read the database periodically.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangeNotifier(Arc<Mutex<Receivers>>);

#[derive(Debug, Default)]
struct Receivers {
    /// The subscribers in this process, one per organization.
    subscribers: HashMap<Tenant, mpsc::Sender<StreamEntry>>,
    /// The task that notifies the other servers.
    other_servers: Option<mpsc::Sender<(Tenant, StreamEntry)>>,
    /// The organizations for which the worker may have something to do.
    with_work: HashSet<Tenant>,
    /// The earliest of the changes that this process has recorded or updated in each
    /// organization since this was looked at last.
    late_changes: HashMap<Tenant, Timestamp>,
    /// Notified when one is added to `with_work`.
    work: Arc<Notify>,
}

impl ChangeNotifier {
    fn lock(&self) -> MutexGuard<'_, Receivers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to what happens to the changes and incidents of an organization. This replaces an
    /// earlier subscriber of that organization.
    pub(super) fn subscribe(&self, tenant: Tenant) -> mpsc::Receiver<StreamEntry> {
        let (subscriber, entries) = mpsc::channel(MAX_WAITING_ENTRIES);
        self.lock().subscribers.insert(tenant, subscriber);
        entries
    }

    /// Returns what this process records from now on, for the other servers.
    pub(super) fn for_other_servers(&self) -> mpsc::Receiver<(Tenant, StreamEntry)> {
        let (sender, entries) = mpsc::channel(MAX_WAITING_ENTRIES);
        self.lock().other_servers = Some(sender);
        entries
    }

    /// Returns what is notified when the worker may have something to do.
    pub(super) fn work(&self) -> Arc<Notify> {
        Arc::clone(&self.lock().work)
    }

    /// Takes the organizations for which the worker may have something to do.
    pub(super) fn take_with_work(&self) -> HashSet<Tenant> {
        std::mem::take(&mut self.lock().with_work)
    }

    /// Takes the earliest of the changes that this process has recorded or updated in each
    /// organization.
    pub(super) fn take_late_changes(&self) -> HashMap<Tenant, Timestamp> {
        std::mem::take(&mut self.lock().late_changes)
    }

    /// Wakes the worker, because events or deliveries of organizations were committed.
    pub(super) fn wake_worker(&self, tenants: impl IntoIterator<Item = Tenant>) {
        let mut tenants = tenants.into_iter().peekable();
        if tenants.peek().is_some() {
            let mut receivers = self.lock();
            receivers.with_work.extend(tenants);
            receivers.work.notify_one();
        }
    }

    /// Notifies of entries that this process has committed.
    pub(super) fn notify(&self, entries: impl Iterator<Item = (Tenant, StreamEntry)>) {
        let mut receivers = self.lock();
        for (tenant, entry) in entries {
            receivers.note_change(tenant, entry);
            receivers.notify_subscriber(tenant, entry);
            if let Some(sender) = &receivers.other_servers {
                // What does not fit is found by the other servers' own reads.
                let _ = sender.try_send((tenant, entry));
            }
        }
    }

    /// Notifies the subscribers of entries that another server has committed.
    pub(super) fn notify_subscribers(&self, entries: impl Iterator<Item = (Tenant, StreamEntry)>) {
        let mut receivers = self.lock();
        for (tenant, entry) in entries {
            receivers.notify_subscriber(tenant, entry);
        }
    }
}

impl Receivers {
    /// Notes when a change happened. The time in the id may be that before an update, so that
    /// one that was updated may have any time.
    fn note_change(&mut self, tenant: Tenant, entry: StreamEntry) {
        let at = match entry.event {
            ChangeEvent::Created => time_of_uuid(entry.resource),
            ChangeEvent::Updated => Timestamp::EPOCH,
            ChangeEvent::Incident => return,
        };
        self.late_changes
            .entry(tenant)
            .and_modify(|earliest| *earliest = at.min(*earliest))
            .or_insert(at);
    }

    fn notify_subscriber(&mut self, tenant: Tenant, entry: StreamEntry) {
        if let Some(subscriber) = self.subscribers.get(&tenant)
            && let Err(mpsc::error::TrySendError::Closed(_)) = subscriber.try_send(entry)
        {
            self.subscribers.remove(&tenant);
        }
    }
}

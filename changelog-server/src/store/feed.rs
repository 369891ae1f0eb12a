//! Announces within this process which changes were recorded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use changelog_core::{ActivityId, ChangeId};
use tokio::sync::mpsc;

use super::tenant::Tenant;

/// How many entries may wait for a follower; beyond that they are left out.
const MAX_WAITING_ENTRIES: usize = 4_096;

/// The entry of the activity log that records the creation of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreationEntry {
    /// Its id, which orders by the time of recording.
    pub id: ActivityId,
    /// The change.
    pub change: ChangeId,
}

/// The followers, one for each organization. What they receive is a hint:
/// another process may have recorded something too, so that a follower must read
/// the database from time to time.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed(Arc<Mutex<HashMap<Tenant, mpsc::Sender<CreationEntry>>>>);

impl Feed {
    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, mpsc::Sender<CreationEntry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to announce what this process records for an organization; an
    /// earlier follower of it gets nothing more.
    pub(super) fn follow(&self, tenant: Tenant) -> mpsc::Receiver<CreationEntry> {
        let (follower, entries) = mpsc::channel(MAX_WAITING_ENTRIES);
        self.lock().insert(tenant, follower);
        entries
    }

    /// Announces creations that were committed.
    pub(super) fn announce(&self, created: impl Iterator<Item = (Tenant, CreationEntry)>) {
        let mut followers = self.lock();
        if followers.is_empty() {
            return;
        }
        for (tenant, entry) in created {
            if let Some(follower) = followers.get(&tenant)
                && let Err(mpsc::error::TrySendError::Closed(_)) = follower.try_send(entry)
            {
                followers.remove(&tenant);
            }
        }
    }
}

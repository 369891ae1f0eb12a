//! Records when keys and sessions were last used, and when keys have recorded changes,
//! outside of the requests: all uses of a minute by one statement.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use changelog_core::{ApiKeyId, Timestamp, Workload};
use chrono::TimeDelta;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::coverage;
use crate::store::{Actor, LastUses, MAX_CLOCK_SKEW, Session, Store, StoreError, Tenant};

/// The precision of the last use of a key.
const PRECISION: TimeDelta = TimeDelta::minutes(1);
/// The time between two writes.
const WRITE_INTERVAL: Duration = Duration::from_mins(1);
/// How long it is remembered that a key has recorded changes.
const RECORDING_REMEMBERED: TimeDelta = TimeDelta::hours(1);

/// Gathers the last uses of keys and sessions until they are written.
#[derive(Debug, Default)]
pub(crate) struct LastUsed {
    uses: Mutex<LastUses>,
    recordings: Mutex<BTreeMap<(Tenant, ApiKeyId), Recording>>,
    has_uses: Notify,
}

/// When a key has recorded a change, to the minute.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    /// The key, as who acts.
    pub(crate) actor: Actor,
    /// When.
    pub(crate) at: Timestamp,
    is_written: bool,
}

impl LastUsed {
    fn lock(&self) -> MutexGuard<'_, LastUses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recordings(&self) -> MutexGuard<'_, BTreeMap<(Tenant, ApiKeyId), Recording>> {
        self.recordings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a key was used now, unless its recorded last use is recent.
    pub(crate) fn note_key(&self, key: ApiKeyId, recorded: Option<Timestamp>, now: Timestamp) {
        if is_due(recorded, now) {
            self.lock().keys.insert(key, now);
            self.has_uses.notify_one();
        }
    }

    /// Notes that a workload identity was used now, unless its recorded last use is recent.
    pub(crate) fn note_workload(&self, workload: &Workload, now: Timestamp) {
        if is_due(workload.last_used_at, now) {
            self.lock().workloads.insert(workload.id, now);
            self.has_uses.notify_one();
        }
    }

    /// Notes why a token did not fit a workload identity, unless that was recorded recently.
    pub(crate) fn note_refusal(&self, workload: &Workload, reason: String, now: Timestamp) {
        let recorded = workload.last_refusal.as_ref().map(|refusal| refusal.at);
        if is_due(recorded, now) {
            self.lock().refusals.insert(workload.id, (now, reason));
            self.has_uses.notify_one();
        }
    }

    /// Notes that a session was used now, unless its recorded last use is recent.
    pub(crate) fn note_session(&self, session: &Session, now: Timestamp) {
        if session.is_stale {
            self.lock().sessions.insert(session.id.clone(), now);
            self.has_uses.notify_one();
        }
    }

    /// Notes that a key has recorded a change now, unless that was noted recently.
    pub(crate) fn note_recording(
        &self,
        tenant: Tenant,
        key: ApiKeyId,
        actor: &Actor,
        now: Timestamp,
    ) {
        let mut recordings = self.recordings();
        let known = recordings.get(&(tenant, key));
        if is_due(known.map(|one| one.at), now) {
            let recording = Recording {
                actor: actor.clone(),
                at: now,
                is_written: false,
            };
            recordings.insert((tenant, key), recording);
            self.has_uses.notify_one();
        }
    }

    /// Returns the keys of an organization that have recorded changes recently, with the time:
    /// it may not be written yet.
    pub(crate) fn recording_keys(&self, tenant: Tenant) -> Vec<(ApiKeyId, Timestamp)> {
        let (first, last) = (Uuid::nil().into(), Uuid::max().into());
        let recordings = self.recordings();
        let of_tenant = recordings.range((tenant, first)..=(tenant, last));
        of_tenant.map(|((_, key), one)| (*key, one.at)).collect()
    }

    /// Writes the uses from now on: the first at once, and then once a minute.
    pub(crate) async fn write_each_minute(&self, store: &Store) {
        loop {
            self.has_uses.notified().await;
            self.write(store).await;
            tokio::time::sleep(WRITE_INTERVAL).await;
        }
    }

    /// Writes the uses that are not written yet. If that fails, the next write has them.
    pub(crate) async fn write(&self, store: &Store) {
        let uses = std::mem::take(&mut *self.lock());
        if !uses.is_empty()
            && let Err(error) = store.record_last_uses(&uses).await
        {
            tracing::warn!(%error, "the last uses of keys and sessions could not be recorded");
            self.lock().add_earlier(uses);
            self.has_uses.notify_one();
        }
        if let Err(error) = self.write_recordings(store).await {
            tracing::warn!(%error, "when keys have recorded changes could not be stored");
            self.has_uses.notify_one();
        }
    }

    async fn write_recordings(&self, store: &Store) -> Result<(), StoreError> {
        let unwritten: Vec<_> = {
            let recordings = self.recordings();
            let unwritten = recordings.iter().filter(|(_, one)| !one.is_written);
            unwritten.map(|(key, one)| (*key, one.clone())).collect()
        };
        for of_tenant in unwritten.chunk_by(|((one, _), _), ((other, _), _)| one == other) {
            coverage::hear_keys(store, of_tenant).await?;
            let mut recordings = self.recordings();
            for (key, written) in of_tenant {
                if let Some(one) = recordings.get_mut(key) {
                    one.is_written = one.at == written.at;
                }
            }
        }
        if let Some(latest) = unwritten.iter().map(|(_, one)| one.at).max() {
            let kept = latest.plus(-RECORDING_REMEMBERED);
            self.recordings()
                .retain(|_, one| one.at > kept || !one.is_written);
        }
        Ok(())
    }
}

/// Returns whether a use has to be recorded: the recorded one is old, or in the future
/// because a clock was wrong.
fn is_due(recorded: Option<Timestamp>, now: Timestamp) -> bool {
    recorded.is_none_or(|at| at.plus(PRECISION) <= now || at > now.plus(MAX_CLOCK_SKEW))
}

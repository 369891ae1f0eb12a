//! Records when keys and sessions were last used, outside of the requests: all uses of
//! a minute by one statement.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use changelog_core::{ApiKeyId, Timestamp};
use chrono::TimeDelta;
use tokio::sync::Notify;

use crate::store::{LastUses, MAX_CLOCK_SKEW, Session, Store};

/// The precision of the last use of a key.
const PRECISION: TimeDelta = TimeDelta::minutes(1);
/// The time between two writes.
const WRITE_INTERVAL: Duration = Duration::from_mins(1);

/// Gathers the last uses of keys and sessions until they are written.
#[derive(Debug, Default)]
pub(crate) struct LastUsed {
    uses: Mutex<LastUses>,
    has_uses: Notify,
}

impl LastUsed {
    fn lock(&self) -> MutexGuard<'_, LastUses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a key was used now, unless its recorded last use is recent.
    pub(crate) fn note_key(&self, key: ApiKeyId, recorded: Option<Timestamp>, now: Timestamp) {
        if is_due(recorded, now) {
            self.lock().keys.insert(key, now);
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
        if uses.is_empty() {
            return;
        }
        if let Err(error) = store.record_last_uses(&uses).await {
            tracing::warn!(%error, "the last uses of keys and sessions could not be recorded");
            self.lock().add_earlier(uses);
            self.has_uses.notify_one();
        }
    }
}

/// Returns whether a use has to be recorded: the recorded one is old, or in the future
/// because a clock was wrong.
fn is_due(recorded: Option<Timestamp>, now: Timestamp) -> bool {
    recorded.is_none_or(|at| at.plus(PRECISION) <= now || at > now.plus(MAX_CLOCK_SKEW))
}

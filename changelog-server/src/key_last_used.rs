//! Noting when keys are used, to the minute, outside of the requests' way.

use std::collections::HashMap;

use changelog_core::{ApiKeyId, Timestamp};
use chrono::TimeDelta;
use tokio::sync::mpsc;

use crate::store::{CLOCKS_DIFFER, Store};

/// How exactly the last use of a key is known.
const PRECISION: TimeDelta = TimeDelta::minutes(1);
/// Notes that may wait; beyond that the next request will make the same note.
const WAITING: usize = 256;

/// Takes notes of used keys.
#[derive(Debug)]
pub(crate) struct KeyLastUsed {
    notes: mpsc::Sender<(ApiKeyId, Timestamp)>,
}

impl KeyLastUsed {
    /// Starts the task that writes the notes down; it ends with the last
    /// sender.
    pub(crate) fn start(store: Store) -> Self {
        let (notes, mut taken) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            // Many requests see the old value before the first note is written.
            let mut written: HashMap<ApiKeyId, Timestamp> = HashMap::new();
            while let Some((key, at)) = taken.recv().await {
                if written
                    .get(&key)
                    .is_some_and(|before| !is_due(Some(*before), at))
                {
                    continue;
                }
                match write(&store, key, at).await {
                    Ok(()) => {
                        written.retain(|_, before| !is_due(Some(*before), at));
                        written.insert(key, at);
                    }
                    Err(error) => {
                        tracing::warn!(%error, %key, "the use of a key could not be noted");
                    }
                }
            }
        });
        Self { notes }
    }

    /// Notes that a key was used now, unless that is known already.
    pub(crate) fn note(&self, key: ApiKeyId, known: Option<Timestamp>, now: Timestamp) {
        if is_due(known, now) {
            // A full queue is no harm, see above.
            let _ = self.notes.try_send((key, now));
        }
    }
}

/// Returns whether a use is to be noted: the known one is old, or in the future,
/// where a clock that was wrong put it.
fn is_due(known: Option<Timestamp>, now: Timestamp) -> bool {
    known.is_none_or(|known| known.plus(PRECISION) <= now || known > now.plus(CLOCKS_DIFFER))
}

async fn write(
    store: &Store,
    key: ApiKeyId,
    at: Timestamp,
) -> Result<(), crate::store::StoreError> {
    let mut tx = store.begin().await?;
    tx.touch_api_key(key, at).await?;
    tx.commit().await
}

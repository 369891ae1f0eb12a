//! Records when keys were last used, to the minute, outside of the requests.

use std::collections::HashMap;

use changelog_core::{ApiKeyId, Timestamp};
use chrono::TimeDelta;
use tokio::sync::mpsc;

use crate::store::{MAX_CLOCK_SKEW, Store};

/// The precision of the last use of a key.
const PRECISION: TimeDelta = TimeDelta::minutes(1);
/// How many uses are buffered; the next request records a use that was dropped.
const MAX_BUFFERED: usize = 256;

/// Records the last uses of keys.
#[derive(Debug)]
pub(crate) struct KeyLastUsed {
    notes: mpsc::Sender<(ApiKeyId, Timestamp)>,
}

impl KeyLastUsed {
    /// Starts the task that writes the uses; it ends with the last sender.
    pub(crate) fn start(store: Store) -> Self {
        let (notes, mut taken) = mpsc::channel(MAX_BUFFERED);
        tokio::spawn(async move {
            // Many requests read the old value before the first use is written.
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
                        tracing::warn!(%error, %key, "the use of a key could not be recorded");
                    }
                }
            }
        });
        Self { notes }
    }

    /// Records that a key was used now, unless a recent use is known already.
    pub(crate) fn note(&self, key: ApiKeyId, known: Option<Timestamp>, now: Timestamp) {
        if is_due(known, now) {
            // A full buffer is no harm, see [`MAX_BUFFERED`].
            let _ = self.notes.try_send((key, now));
        }
    }
}

/// Returns whether a use has to be recorded: the known one is old, or in the future
/// because a clock was wrong.
fn is_due(known: Option<Timestamp>, now: Timestamp) -> bool {
    known.is_none_or(|known| known.plus(PRECISION) <= now || known > now.plus(MAX_CLOCK_SKEW))
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

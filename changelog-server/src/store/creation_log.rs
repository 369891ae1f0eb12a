//! Reads changes in the order in which they were recorded.
//!
//! That order is given by the ids of the activity entries that record the creations.
//! The ids of the changes follow `occurred_at`, which may be long ago.
//!
//! An entry gets its id when its request is handled, but becomes visible when it is
//! committed, possibly after an entry with a later id. A reader therefore reads the
//! entries that are younger than [`OVERLAP`] again.

use std::collections::HashMap;
use std::time::Duration;

use changelog_core::ids::first_uuid_at;
use changelog_core::{Action, ActivityId, ChangeId, Timestamp};
use chrono::TimeDelta;
use sqlx::types::{Text, Uuid};

use super::creation_notifier::CreationEntry;
use super::engine::on;
use super::index::search::IndexTerms;
use super::index::sort_key;
use super::{ChangeJson, Database, StoreError, Tenant};

/// How long after its id was made an entry may still become visible: up to 20 s for
/// the request, 20 s for its transaction, and the rest for differences between the
/// clocks of several servers.
const OVERLAP: Duration = Duration::from_mins(1);

/// The number of entries that one statement reads; the statement repeats it.
const MAX_ENTRIES: usize = 1_000;

/// Entries about changes, in the order of the primary key. The caller selects the
/// creations, so that one statement reads no more rows than its limit.
const SINCE: &str = "
SELECT id, resource_id, action FROM activity
WHERE organization_id = $1 AND resource_type = 'change' AND id >= $2
ORDER BY id LIMIT 1000";

/// A batch of entries, ordered by id.
#[derive(Debug)]
pub struct CreationBatch {
    /// The creations among them.
    pub created: Vec<CreationEntry>,
    /// The id to read the next batch from; `None` when there are no more entries.
    pub next: Option<ActivityId>,
}

/// A recorded change in its current state.
#[derive(Debug)]
pub struct RecordedChange {
    /// The entry that records its creation.
    pub creation: CreationEntry,
    /// The change as JSON, as the API returns it.
    pub json: String,
    /// The terms by which a search finds it.
    pub terms: IndexTerms,
}

/// Returns the smallest id of an entry of this time.
pub(crate) fn first_id_at(at: Timestamp) -> ActivityId {
    ActivityId(first_uuid_at(at))
}

/// Returns the id to read from again when everything up to a time was read.
pub(crate) fn overlap_start(at: Timestamp) -> ActivityId {
    let overlap = TimeDelta::from_std(OVERLAP).unwrap_or_default();
    first_id_at(at.plus(-overlap))
}

/// Returns the time at which the id of an entry was made.
pub(crate) fn time_of(id: ActivityId) -> Timestamp {
    sort_key::moment(id.0)
}

impl Database {
    /// Reads a batch of creations from an id onwards.
    pub async fn creations_from(
        &self,
        tenant: Tenant,
        from: ActivityId,
    ) -> Result<CreationBatch, StoreError> {
        let rows: Vec<(Uuid, Uuid, Text<Action>)> = on!(&mut self.reader(tenant).await?, |db| {
            sqlx::query_as(SINCE)
                .bind(tenant.uuid())
                .bind(from.0)
                .fetch_all(&mut **db)
        })?;
        let last = rows.last().filter(|_| rows.len() >= MAX_ENTRIES);
        Ok(CreationBatch {
            next: last.map(|(id, ..)| ActivityId(Uuid::from_u128(id.as_u128() + 1))),
            created: rows
                .into_iter()
                .filter(|(.., Text(action))| *action == Action::Created)
                .map(|(id, change, _)| CreationEntry {
                    id: id.into(),
                    change: change.into(),
                })
                .collect(),
        })
    }

    /// Reads the changes of creations, without those that were deleted since.
    pub async fn recorded_changes(
        &self,
        tenant: Tenant,
        entries: &[CreationEntry],
    ) -> Result<Vec<RecordedChange>, StoreError> {
        let found = self.changes_of(tenant, entries.iter().map(|entry| entry.change));
        let mut found: HashMap<ChangeId, ChangeJson> = found.await?.into_iter().collect();
        let mut recorded = Vec::new();
        for entry in entries {
            let Some(json) = found.remove(&entry.change) else {
                continue;
            };
            let terms =
                IndexTerms::from_json(&json.0).map_err(|error| super::changes::broken(&error))?;
            recorded.push(RecordedChange {
                creation: *entry,
                terms,
                json: json.0,
            });
        }
        Ok(recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::explain;

    #[tokio::test]
    async fn entries_are_found_by_the_primary_key() {
        assert_eq!(
            explain::of(SINCE).await,
            ["SEARCH activity USING PRIMARY KEY \
                 (organization_id=? AND resource_type=? AND id>?)"]
        );
    }
}

//! Reads what happened to changes in the order in which it was recorded: that they were
//! created and updated.
//!
//! That order is given by the ids of the entries of the activity log. The ids of the
//! changes follow `occurred_at`, which may be long ago.
//!
//! An entry gets its id when its request is handled, but becomes visible when it is
//! committed, possibly after an entry with a later id. A reader therefore reads the
//! entries that are younger than [`OVERLAP`] again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use changelog_core::ids::{first_uuid_at, time_of_uuid};
use changelog_core::{Action, ActivityId, ChangeEvent, ChangeId, Differences, Timestamp};
use chrono::TimeDelta;
use serde::Deserialize;
use sqlx::QueryBuilder;
use sqlx::types::{Json, Text, Uuid};

use super::change_notifier::ChangeEntry;
use super::engine::{Dialect, read};
use super::index::search::IndexTerms;
use super::{Database, StoreError, Tenant};

/// How long after its id was made an entry may still become visible: up to 20 s for
/// the request, 20 s for its transaction, and the rest for differences between the
/// clocks of several servers.
const OVERLAP: Duration = Duration::from_mins(1);

/// The number of entries that one statement reads; the statement repeats it.
const MAX_ENTRIES: usize = 1_000;

/// Entries about changes, in the order of the primary key. The caller selects by the
/// action, so that one statement reads no more rows than its limit.
const SINCE: &str = "
SELECT id, resource_id, action FROM activity
WHERE organization_id = $1 AND resource_type = 'change' AND id >= $2
ORDER BY id LIMIT 1000";

/// A batch of entries, ordered by id.
#[derive(Debug)]
pub struct EntryBatch {
    /// Those that streams send.
    pub entries: Vec<ChangeEntry>,
    /// The id to read the next batch from; `None` when there are no more entries.
    pub next: Option<ActivityId>,
}

/// Something that happened to a change.
#[derive(Debug)]
pub struct RecordedChange {
    /// The entry that records it.
    pub entry: ChangeEntry,
    /// The change.
    pub change: Arc<CurrentChange>,
    /// What an update changed, as JSON; `None` for a creation.
    pub differences: Option<String>,
}

/// A change in its present state.
#[derive(Debug)]
pub struct CurrentChange {
    /// The change as JSON, as the API returns it.
    pub json: String,
    /// The terms by which a search finds it.
    pub terms: IndexTerms,
}

/// The part of an update's metadata that streams send.
#[derive(Deserialize)]
struct UpdateMetadata {
    changes: Differences,
}

impl RecordedChange {
    /// Returns its size in memory, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.change.json.len() + self.differences.as_ref().map_or(0, String::len)
    }
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
    time_of_uuid(id.0)
}

impl Database {
    /// Reads a batch of entries about changes from an id onwards.
    pub async fn change_entries_from(
        &self,
        tenant: Tenant,
        from: ActivityId,
    ) -> Result<EntryBatch, StoreError> {
        let rows: Vec<(Uuid, Uuid, Text<Action>)> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SINCE)
                .bind(tenant.uuid())
                .bind(from.0)
                .fetch_all(&mut **db)
        })?;
        let last = rows.last().filter(|_| rows.len() >= MAX_ENTRIES);
        let next = last.map(|(id, ..)| ActivityId(Uuid::from_u128(id.as_u128() + 1)));
        let entry = |(id, change, Text(action)): (Uuid, Uuid, Text<Action>)| {
            let event = ChangeEvent::of_action(&action)?;
            Some(ChangeEntry {
                id: id.into(),
                change: change.into(),
                event,
            })
        };
        let entries = rows.into_iter().filter_map(entry).collect();
        Ok(EntryBatch { entries, next })
    }

    /// Reads the changes of entries, without those that were deleted since.
    pub async fn recorded_changes(
        &self,
        tenant: Tenant,
        entries: &[ChangeEntry],
    ) -> Result<Vec<RecordedChange>, StoreError> {
        let ids: BTreeSet<ChangeId> = entries.iter().map(|entry| entry.change).collect();
        let mut changes = HashMap::new();
        for (id, json) in self.changes_of(tenant, ids).await? {
            let terms =
                IndexTerms::from_json(&json.0).map_err(|error| super::changes::broken(&error))?;
            changes.insert(
                id,
                Arc::new(CurrentChange {
                    json: json.0,
                    terms,
                }),
            );
        }
        let mut differences = self.differences_of(tenant, entries).await?;
        let recorded = |entry: &ChangeEntry| {
            Some(RecordedChange {
                entry: *entry,
                change: Arc::clone(changes.get(&entry.change)?),
                differences: match entry.event {
                    ChangeEvent::Created => None,
                    ChangeEvent::Updated => Some(differences.remove(&entry.id)?),
                },
            })
        };
        Ok(entries.iter().filter_map(recorded).collect())
    }

    /// Reads, as JSON, what those of the entries changed that are updates.
    async fn differences_of(
        &self,
        tenant: Tenant,
        entries: &[ChangeEntry],
    ) -> Result<HashMap<ActivityId, String>, StoreError> {
        let updates = entries
            .iter()
            .filter(|entry| entry.event == ChangeEvent::Updated);
        let ids: Vec<Uuid> = updates.map(|entry| entry.id.0).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let rows: Vec<(Uuid, Json<UpdateMetadata>)> =
            read!(self.point_reader(tenant).await?, |db| async {
                let mut query = select_metadata(tenant, ids);
                query.build_query_as().fetch_all(&mut **db).await
            })?;
        let json = |(id, Json(metadata)): (Uuid, Json<UpdateMetadata>)| {
            let json = serde_json::to_string(&metadata.changes);
            Ok((
                id.into(),
                json.map_err(|error| super::changes::broken(&error))?,
            ))
        };
        rows.into_iter().map(json).collect()
    }
}

/// Selects the metadata of entries about changes.
fn select_metadata<DB: Dialect>(tenant: Tenant, ids: Vec<Uuid>) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT id, metadata FROM activity WHERE organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND resource_type = 'change' AND id");
    DB::push_in_ids(&mut query, ids);
    query
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

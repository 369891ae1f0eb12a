//! Reads what happened to changes and incidents in the order in which it was recorded: that
//! they were created and updated.
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
use changelog_core::{
    Action, ActivityId, ChangeEvent, ChangeId, Differences, ResourceType, Timestamp,
};
use chrono::TimeDelta;
use serde::Deserialize;
use sqlx::QueryBuilder;
use sqlx::types::{Json, Text, Uuid};

use super::change_notifier::StreamEntry;
use super::engine::{Dialect, read};
use super::incidents::RecordedIncident;
use super::index::search::IndexTerms;
use super::{Database, StoreError, Tenant};

/// How long after its id was made an entry may still become visible: up to 20 s for
/// the request, 20 s for its transaction, and the rest for differences between the
/// clocks of several servers.
const OVERLAP: Duration = Duration::from_mins(1);

/// The number of entries that one statement reads; the statement repeats it.
const MAX_ENTRIES: usize = 1_000;

/// Entries about changes or incidents, in the order of the primary key. The caller selects by
/// the action, so that one statement reads no more rows than its limit.
const SINCE: &str = "
SELECT id, resource_id, action FROM activity
WHERE organization_id = $1 AND resource_type = $3 AND id >= $2
ORDER BY id LIMIT 1000";

/// A batch of entries, ordered by id.
#[derive(Debug)]
pub struct EntryBatch {
    /// Those that streams send.
    pub entries: Vec<StreamEntry>,
    /// The id to read the next batch from; `None` when there are no more entries.
    pub next: Option<ActivityId>,
}

/// Something that happened.
#[derive(Debug)]
pub enum Recorded {
    /// To a change.
    Change(RecordedChange),
    /// To an incident.
    Incident(RecordedIncident),
}

/// Something that happened to a change.
#[derive(Debug)]
pub struct RecordedChange {
    /// The entry that records it.
    pub entry: StreamEntry,
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

impl Recorded {
    /// Returns the entry that records it.
    pub fn entry(&self) -> StreamEntry {
        match self {
            Self::Change(recorded) => recorded.entry,
            Self::Incident(recorded) => recorded.entry,
        }
    }

    /// Returns its size in memory, in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Change(RecordedChange {
                change,
                differences,
                ..
            }) => change.json.len() + differences.as_ref().map_or(0, String::len),
            Self::Incident(recorded) => recorded.json.len(),
        }
    }
}

/// Returns the smallest id of an entry of this time.
pub fn first_id_at(at: Timestamp) -> ActivityId {
    ActivityId(first_uuid_at(at))
}

/// Returns the id to read from again when everything up to a time was read.
pub fn overlap_start(at: Timestamp) -> ActivityId {
    let overlap = TimeDelta::from_std(OVERLAP).unwrap_or_default();
    first_id_at(at.plus(-overlap))
}

/// Returns the time at which the id of an entry was made.
pub fn time_of(id: ActivityId) -> Timestamp {
    time_of_uuid(id.0)
}

impl Database {
    /// Reads a batch of entries about changes and incidents from an id onwards.
    pub async fn stream_entries_from(
        &self,
        tenant: Tenant,
        from: ActivityId,
    ) -> Result<EntryBatch, StoreError> {
        let mut batch = EntryBatch {
            entries: Vec::new(),
            next: None,
        };
        for resource in [ResourceType::Change, ResourceType::Incident] {
            let rows: Vec<(Uuid, Uuid, Text<Action>)> = read!(self.reader(tenant).await?, |db| {
                sqlx::query_as(SINCE)
                    .bind(tenant.uuid())
                    .bind(from.0)
                    .bind(resource.as_str())
                    .fetch_all(&mut **db)
            })?;
            let last = rows.last().filter(|_| rows.len() >= MAX_ENTRIES);
            let next = last.map(|(id, ..)| ActivityId(Uuid::from_u128(id.as_u128() + 1)));
            batch.next = batch.next.into_iter().chain(next).min();
            let entry = |(id, change, Text(action)): (Uuid, Uuid, Text<Action>)| {
                Some(StreamEntry {
                    id: id.into(),
                    resource: change,
                    event: ChangeEvent::of_action(&resource, &action)?,
                })
            };
            batch.entries.extend(rows.into_iter().filter_map(entry));
        }
        // Where one of both goes on, the other one is read again.
        let next = batch.next;
        let is_complete = |entry: &StreamEntry| next.is_none_or(|next| entry.id < next);
        batch.entries.retain(is_complete);
        batch.entries.sort_by_key(|entry| entry.id);
        Ok(batch)
    }

    /// Reads the changes and incidents of entries, without changes that were deleted since.
    pub async fn recorded(
        &self,
        tenant: Tenant,
        entries: &[StreamEntry],
    ) -> Result<Vec<Recorded>, StoreError> {
        let (incidents, changes): (Vec<StreamEntry>, Vec<StreamEntry>) = entries
            .iter()
            .partition(|entry| entry.event == ChangeEvent::Incident);
        let changes = self.recorded_changes(tenant, &changes).await?;
        let mut recorded: Vec<Recorded> = changes.into_iter().map(Recorded::Change).collect();
        for entry in incidents {
            let incident = self.recorded_incident(tenant, entry).await?;
            recorded.extend(incident.map(Recorded::Incident));
        }
        recorded.sort_by_key(|one| one.entry().id);
        Ok(recorded)
    }

    async fn recorded_changes(
        &self,
        tenant: Tenant,
        entries: &[StreamEntry],
    ) -> Result<Vec<RecordedChange>, StoreError> {
        let ids: BTreeSet<ChangeId> = entries.iter().map(|entry| entry.resource.into()).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
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
        let recorded = |entry: &StreamEntry| {
            Some(RecordedChange {
                entry: *entry,
                change: Arc::clone(changes.get(&entry.resource.into())?),
                differences: match entry.event {
                    ChangeEvent::Updated => Some(differences.remove(&entry.id)?),
                    _ => None,
                },
            })
        };
        Ok(entries.iter().filter_map(recorded).collect())
    }

    /// Reads, as JSON, what those of the entries changed that are updates.
    async fn differences_of(
        &self,
        tenant: Tenant,
        entries: &[StreamEntry],
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
    use crate::engine::explain;

    #[tokio::test]
    async fn entries_are_found_by_the_primary_key() {
        assert_eq!(
            explain::of(SINCE).await,
            ["SEARCH activity USING PRIMARY KEY \
                 (organization_id=? AND resource_type=? AND id>?)"]
        );
    }
}

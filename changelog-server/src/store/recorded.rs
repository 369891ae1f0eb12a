//! Which changes were recorded, in the order of recording: not of `occurred_at`,
//! which may be long ago, and so not of the changes' own ids, but of the ids of
//! the entries of the activity log that record their creation.
//!
//! An entry gets its id when its request is handled, and is visible when it is
//! committed, so that one may appear behind another of a later id. A reader that
//! follows the entries reads those that are younger than [`OVERLAP`] again.

use std::collections::HashMap;
use std::time::Duration;

use changelog_core::ids::first_uuid_at;
use changelog_core::{Action, ActivityId, ChangeId, Timestamp};
use chrono::TimeDelta;
use sqlx::types::{Text, Uuid};

use super::engine::on;
use super::feed::CreationEntry;
use super::index::search::IndexTerms;
use super::index::sort_key;
use super::{ChangeJson, Database, StoreError, Tenant};

/// How long after its id was made an entry may still appear: a request may take
/// 20 s, its transaction as much again, and the clocks of several servers may
/// disagree by the rest.
const OVERLAP: Duration = Duration::from_mins(1);

/// The most entries that one statement reads; the statement has the number too.
const MAX_ENTRIES: usize = 1_000;

/// Entries about changes, in the order of the primary key. The caller selects the
/// creations, so that one statement reads no more rows than its limit.
const SINCE: &str = "
SELECT id, resource_id, action FROM activity
WHERE organization_id = $1 AND resource_type = 'change' AND id >= $2
ORDER BY id LIMIT 1000";

/// Some entries in the order of their ids.
#[derive(Debug)]
pub struct Entries {
    /// The creations among them.
    pub created: Vec<CreationEntry>,
    /// From where to read on; `None` when these were all.
    pub next: Option<ActivityId>,
}

/// A change that was recorded, as it is now.
#[derive(Debug)]
pub struct RecordedChange {
    /// The entry that records its creation.
    pub creation: CreationEntry,
    /// Its detail shape.
    pub json: String,
    /// The terms that a search finds it by.
    pub terms: IndexTerms,
}

/// Returns the first id that an entry of a moment can have.
pub(crate) fn first_entry_at(at: Timestamp) -> ActivityId {
    ActivityId(first_uuid_at(at))
}

/// Returns from where to read again when everything up to a moment was read.
pub(crate) fn overlapping(at: Timestamp) -> ActivityId {
    let overlap = TimeDelta::from_std(OVERLAP).unwrap_or_default();
    first_entry_at(at.plus(-overlap))
}

/// Returns when the id of an entry was made.
pub(crate) fn moment(id: ActivityId) -> Timestamp {
    sort_key::moment(id.0)
}

impl Database {
    /// Reads the next entries about changes from an id on.
    pub async fn entries_from(
        &self,
        tenant: Tenant,
        from: ActivityId,
    ) -> Result<Entries, StoreError> {
        let rows: Vec<(Uuid, Uuid, Text<Action>)> = on!(&mut self.reader(tenant).await?, |db| {
            sqlx::query_as(SINCE)
                .bind(tenant.uuid())
                .bind(from.0)
                .fetch_all(&mut **db)
        })?;
        let last = rows.last().filter(|_| rows.len() >= MAX_ENTRIES);
        Ok(Entries {
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

    /// Reads the changes that entries record; those that were deleted meanwhile
    /// are left out.
    pub async fn recorded(
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

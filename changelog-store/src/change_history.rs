//! The history of a change as the API returns it: the entries of the activity log, with
//! the present names of people.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use changelog_core::activity::AGENT;
use changelog_core::{Action, Change, ChangeId, ResourceType, UserId};
use changelog_core::{ActorType, ChangeHistory, HistoryActor, HistoryEntry};
use serde_json::{Map, Value};
use sqlx::types::{Json, Uuid};

use super::activity::StoredEntry;
use super::engine::{on, read};
use super::{Database, StoreError, Tenant, Tx};

/// The name of a person in an organization.
const NAME: &str = "
SELECT actor_name FROM activity_actors WHERE organization_id = $1 AND actor_key = $2";

/// The metadata of the newest updates of a change. The condition on the action must be the one of
/// the partial index that finds them.
const NEWEST: &str = "
SELECT a.metadata
FROM (SELECT id FROM activity
      WHERE organization_id = $1 AND resource_id = $2 AND resource_type = 'change'
          AND action <> 'created'
      ORDER BY id DESC LIMIT 20) AS page
LEFT JOIN activity a
    ON a.organization_id = $1 AND a.resource_type = 'change' AND a.id = page.id
ORDER BY page.id DESC";

/// The limit on changes whose updates one statement looks up.
const MAX_PER_STATEMENT: usize = 100;

impl Database {
    /// Reads the history of a change.
    pub async fn change_history(
        &self,
        tenant: Tenant,
        change: &Change,
    ) -> Result<ChangeHistory, StoreError> {
        let entries = self
            .history(tenant, ResourceType::Change, change.id.0, change.created_at)
            .await?;
        let mut entries: Vec<HistoryEntry> = entries.into_iter().map(history_entry).collect();
        let mut names = HashMap::new();
        for by in entries.iter_mut().map(|entry| &mut entry.by) {
            self.set_name(tenant, by, &mut names).await?;
        }
        let author = |action: &Action| {
            let entry = entries.iter().find(|entry| entry.action == *action)?;
            entry.by.author()
        };
        Ok(ChangeHistory {
            created_by: author(&Action::Created),
            updated_by: author(&Action::Updated),
            entries,
        })
    }

    /// Sets who made the last update of changes.
    pub async fn add_updaters(
        &self,
        tenant: Tenant,
        changes: &mut [Change],
    ) -> Result<(), StoreError> {
        let mut names = HashMap::new();
        let is_updated = |change: &&mut Change| change.updated_at != change.created_at;
        let mut updated: Vec<&mut Change> = changes.iter_mut().filter(is_updated).collect();
        for changes in updated.chunks_mut(MAX_PER_STATEMENT) {
            let ids: Vec<Uuid> = changes.iter().map(|change| change.id.0).collect();
            let newest = self.newest_entries(tenant, ResourceType::Change, &ids);
            let newest = newest.await?.into_iter();
            let mut by: HashMap<Uuid, HistoryActor> = newest
                .map(|entry| (entry.entry.resource_id, entry.actor()))
                .collect();
            for change in changes {
                let Some(mut by) = by.remove(&change.id.0) else {
                    continue;
                };
                self.set_name(tenant, &mut by, &mut names).await?;
                change.updated_by = by.author();
            }
        }
        Ok(())
    }

    /// Sets the present name of a person. `names` are those that were read before.
    async fn set_name(
        &self,
        tenant: Tenant,
        by: &mut HistoryActor,
        names: &mut HashMap<UserId, Option<String>>,
    ) -> Result<(), StoreError> {
        let (ActorType::Person, Some(person)) = (&by.kind, by.id) else {
            return Ok(());
        };
        let person = UserId(person);
        let name = match names.entry(person) {
            Entry::Occupied(name) => name.into_mut(),
            Entry::Vacant(name) => name.insert(self.name_of(tenant, person).await?),
        };
        if let Some(name) = name {
            by.name.clone_from(name);
        }
        Ok(())
    }

    /// Returns the present name of a person who has entries in the activity log.
    async fn name_of(&self, tenant: Tenant, person: UserId) -> Result<Option<String>, StoreError> {
        let name: Option<(String,)> = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(NAME)
                .bind(tenant.uuid())
                .bind(person.to_string())
                .fetch_optional(&mut **db)
        })?;
        Ok(name.map(|(name,)| name))
    }
}

impl Tx {
    /// Returns whether the most recent reason among the last 20 updates of a change is this one.
    pub(super) async fn has_reason(
        &mut self,
        tenant: Tenant,
        change: ChangeId,
        reason: &str,
    ) -> Result<bool, StoreError> {
        let rows: Vec<(Json<Map<String, Value>>,)> =
            on!(&mut self.connection, |db| sqlx::query_as(NEWEST)
                .bind(tenant.uuid())
                .bind(change.0)
                .fetch_all(&mut **db))?;
        let last = rows
            .iter()
            .find_map(|(Json(metadata),)| metadata.get("reason"));
        Ok(last.and_then(Value::as_str) == Some(reason))
    }
}

fn history_entry(stored: StoredEntry) -> HistoryEntry {
    let by = stored.actor();
    let entry = stored.entry;
    let mut metadata = entry.metadata;
    let changes = serde_json::from_value(metadata["changes"].take());
    HistoryEntry {
        id: entry.id,
        action: entry.action,
        by,
        at: entry.created_at,
        // Creations have none.
        changes: changes.unwrap_or_default(),
        reason: metadata["reason"].as_str().map(str::to_owned),
        agent: metadata[AGENT].as_str().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::explain;

    #[tokio::test]
    async fn a_name_is_found_by_the_primary_key() {
        let plan = explain::of(NAME).await;
        assert_eq!(
            plan,
            ["SEARCH activity_actors USING PRIMARY KEY (organization_id=? AND actor_key=?)"]
        );
    }

    #[tokio::test]
    async fn the_newest_updates_are_found_by_their_index() {
        let plan = explain::of(NEWEST).await;
        assert!(
            plan.iter().any(|step| step.starts_with(
                "SEARCH activity USING COVERING INDEX activity_by_thing \
                 (organization_id=? AND resource_id=? AND resource_type=?)"
            )),
            "{plan:?}"
        );
    }
}

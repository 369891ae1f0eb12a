//! Deleting changes.

use changelog_core::{Action, Change, ChangeId, Differences, EventKind, EventOfChange};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use sqlx::{Postgres, Sqlite};

use super::row::{ChangeRow, push_delete_more_services, push_delete_tag};
use crate::store::activity::Entry;
use crate::store::engine::{Engine, PushValue, Script};
use crate::store::index::counts;
use crate::store::index::search::SearchDialect;
use crate::store::{Actor, StoreError, Tenant, Tx, new_id};

impl Tx {
    /// Deletes a change with its tags, search entry and counts, records the deletion, and
    /// returns the change.
    ///
    /// The outcome stored under an idempotency key stays: repeating the request that
    /// created the change does not create it again.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the change does not exist.
    pub async fn delete_change(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        id: ChangeId,
        now: DateTime<Utc>,
    ) -> Result<Change, StoreError> {
        let locked = self.lock_change(tenant, id).await?;
        self.delete_locked(tenant, actor, locked, Map::new(), now)
            .await
    }

    /// Deletes a change which another one takes the place of, unless `may_go` says that it has
    /// to stay. Returns whether it is gone; one that somebody has deleted before is.
    pub async fn join_change(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        (id, into): (ChangeId, ChangeId),
        may_go: impl FnOnce(&Change) -> bool,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let locked = match self.lock_change(tenant, id).await {
            Err(StoreError::NotFound) => return Ok(true),
            locked => locked?,
        };
        if !may_go(&locked.1) {
            return Ok(false);
        }
        let metadata = [("joined_into".to_owned(), json!(into))];
        let metadata = metadata.into_iter().collect();
        self.delete_locked(tenant, actor, locked, metadata, now)
            .await?;
        self.note_joined(tenant, id, into, now.into()).await?;
        Ok(true)
    }

    async fn delete_locked(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        (sort_key, change): (i64, Change),
        metadata: Map<String, Value>,
        now: DateTime<Utc>,
    ) -> Result<Change, StoreError> {
        let row = ChangeRow::new(tenant, sort_key, &change);
        let slot = self.slot;
        match &mut self.connection {
            Engine::Sqlite(db) => script::<Sqlite>(&row, slot).run(&mut **db).await?,
            Engine::Postgres(db) => script::<Postgres>(&row, slot).run(&mut **db).await?,
        }
        let entry = Entry::of_change(Action::Deleted, &change, metadata);
        self.record(tenant, actor, entry, now).await?;
        let event = EventOfChange {
            id: new_id(now),
            kind: EventKind::Deleted,
            at: now.into(),
            actor: actor.name.clone(),
            actor_id: actor.person,
            change,
            changes: Differences::new(),
            reason: None,
        };
        self.record_event(tenant, actor, event.at, &event).await?;
        Ok(event.change)
    }
}

/// Returns the statements that delete a change.
fn script<DB: SearchDialect>(change: &ChangeRow<'_>, slot: i64) -> Script<DB> {
    let (tenant, sort_key) = (change.tenant, change.sort_key);
    let mut script = Script::new();
    let query = script.statement("DELETE FROM changes WHERE organization_id = ");
    DB::bind(query, tenant.uuid().into());
    query.push_value(" AND sort_key = ", sort_key);
    push_delete_more_services(&mut script, change);
    for tag in &change.change.tags {
        push_delete_tag(&mut script, change, tag);
    }
    DB::remove(&mut script, tenant, sort_key);
    counts::push(&mut script, slot, [(-1, change.count_delta())].into_iter());
    script
}

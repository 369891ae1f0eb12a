//! Deleting changes.

use std::collections::BTreeMap;

use changelog_core::{
    Action, Change, ChangeId, Differences, EventKind, EventOfChange, HostId, Timestamp,
};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::row::{ChangeRow, push_delete_of};
use super::stored;
use crate::activity::Entry;
use crate::engine::{Dialect, PushValue, Script, on, push_limit, run_script};
use crate::index::search::SearchDialect;
use crate::index::{counts, sort_key};
use crate::{Actor, StoreError, Tenant, Tx, new_id};

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
        let slot = self.slot.number();
        run_script!(self, |DB| script::<DB>(tenant, &[row], slot))?;
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

/// A change as [`stored`] reads it.
type StoredRow = (i64, Option<Uuid>, Option<String>, String);

impl Tx {
    /// Deletes the first changes that took place before some time, at most `limit`, with their
    /// tags, search entries and counts, but for what is planned or in progress. Nothing is recorded of each.
    /// Returns how many.
    pub(crate) async fn delete_old_changes(
        &mut self,
        tenant: Tenant,
        before: Timestamp,
        limit: u64,
    ) -> Result<usize, StoreError> {
        let rows: Vec<StoredRow> = on!(&mut self.connection, |db| async {
            let mut query = select_old(tenant, before, limit);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let changes = rows
            .iter()
            .map(|(_, _, author, document)| stored(document, author.as_deref()))
            .collect::<Result<Vec<_>, _>>()?;
        let rows: Vec<ChangeRow<'_>> = rows
            .iter()
            .zip(&changes)
            .map(|((sort_key, host, ..), change)| {
                let host = host.map(HostId);
                ChangeRow::prepared(tenant, *sort_key, change, host, "".into(), "".into())
            })
            .collect();
        if !rows.is_empty() {
            let slot = self.slot.number();
            run_script!(self, |DB| script::<DB>(tenant, &rows, slot))?;
        }
        Ok(rows.len())
    }
}

fn select_old<DB: Dialect>(tenant: Tenant, before: Timestamp, limit: u64) -> QueryBuilder<DB> {
    let mut query =
        QueryBuilder::new("SELECT sort_key, host_id, author_key, document FROM changes");
    query.push_value(" WHERE organization_id = ", tenant.uuid());
    let sort_keys = sort_key::of_millis(0..before.millis());
    query.push_value(" AND sort_key < ", sort_keys.end);
    query.push(" AND status <> 'planned' AND status <> 'in_progress' ORDER BY sort_key");
    push_limit(&mut query, limit, 0);
    query.push(DB::FOR_UPDATE);
    query
}

/// Returns the statements that delete changes of an organization: as few as possible, because
/// PostgreSQL gets them one after the other.
fn script<DB: SearchDialect>(tenant: Tenant, changes: &[ChangeRow<'_>], slot: i64) -> Script<DB> {
    let mut tags: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let mut services: BTreeMap<Uuid, Vec<i64>> = BTreeMap::new();
    for change in changes {
        for tag in &change.change.tags {
            tags.entry(tag).or_default().push(change.sort_key);
        }
        for (service, _) in change.more_services() {
            services.entry(service.0).or_default().push(change.sort_key);
        }
    }
    let all: Vec<i64> = changes.iter().map(|change| change.sort_key).collect();
    let mut script = Script::new();
    let query = script.statement("DELETE FROM changes WHERE organization_id = ");
    DB::bind(query, tenant.uuid().into());
    query.push(" AND sort_key");
    DB::push_in(query, all.clone());
    for (service, sort_keys) in services {
        let rows = ("change_services", "service_id", service.into());
        push_delete_of(&mut script, tenant, rows, sort_keys);
    }
    for (tag, sort_keys) in tags {
        let rows = ("change_tags", "tag", tag.into());
        push_delete_of(&mut script, tenant, rows, sort_keys);
    }
    DB::remove(&mut script, tenant, all);
    let deltas = changes.iter().map(|change| (-1, change.count_delta()));
    counts::push(&mut script, slot, deltas);
    script
}

//! Updating changes.

use changelog_core::{
    Action, Change, ChangeId, ChangePatch, Differences, EventOfChange, Timestamp, Violations,
};
use sqlx_postgres::Postgres;
use sqlx_sqlite::Sqlite;

use super::create::{no_host, no_service};
use super::row::{
    ChangeRow, push_delete_more_services, push_delete_tag, push_more_services, push_tags,
};
use crate::activity::{Entry, changed, difference};
use crate::clock::Clock;
use crate::engine::{Engine, PushValue, Script, on};
use crate::index::counts;
use crate::index::search::SearchDialect;
use crate::{Actor, StoreError, Tenant, Tx, new_id};

const SELECT_SERVICE: &str =
    "SELECT reference FROM services WHERE organization_id = $1 AND id = $2";
const SELECT_HOST: &str = "SELECT reference FROM hosts WHERE organization_id = $1 AND id = $2";

impl Tx {
    /// Reads and locks a change that is about to be updated.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the change does not exist.
    pub async fn change_before_update(
        &mut self,
        tenant: Tenant,
        id: ChangeId,
    ) -> Result<Change, StoreError> {
        Ok(self.lock_change(tenant, id).await?.1)
    }

    /// Updates a change, records it in the activity log if a field changed, and returns
    /// the change. A change whose effective time changes moves in lists, counts and
    /// search.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the change does not exist,
    /// [`StoreError::Invalid`] when a service or the host does not exist, or when a field
    /// contradicts the status of the change.
    pub async fn update_change(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        id: ChangeId,
        patch: &ChangePatch,
        clock: &Clock,
    ) -> Result<Change, StoreError> {
        self.update_change_by(tenant, actor, id, |_| Ok(patch.clone()), clock)
            .await
    }

    /// The same with a patch that depends on what the change is now.
    pub async fn update_change_by(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        id: ChangeId,
        patch: impl FnOnce(&Change) -> Result<ChangePatch, StoreError>,
        clock: &Clock,
    ) -> Result<Change, StoreError> {
        let (sort_key, before) = self.lock_change(tenant, id).await?;
        let patch = patch(&before)?;
        // Read after locking the row, so that `updated_at` never decreases.
        let now = clock.now();
        let mut change = before.clone();
        self.apply(tenant, &mut change, patch.clone(), now.into())
            .await?;
        let changes = difference(&before, &change);
        if changes.is_empty() {
            // Also if it is repeated, because its answer was lost.
            let is_known = match &patch.reason {
                Some(reason) => self.has_reason(tenant, change.id, reason).await?,
                None => true,
            };
            if is_known {
                return Ok(change);
            }
        }
        change.updated_at = now.into();
        let at = change.effective_at();
        let new_sort_key = if at == before.effective_at() {
            sort_key
        } else {
            self.free_place(tenant, id, at).await?
        };
        let update = Update {
            before: ChangeRow::new(tenant, sort_key, &before),
            after: ChangeRow::new(tenant, new_sort_key, &change),
            slot: self.slot.number(),
        };
        match &mut self.connection {
            Engine::Sqlite(db) => update.script::<Sqlite>().run(&mut **db).await?,
            Engine::Postgres(db) => update.script::<Postgres>().run(&mut **db).await?,
        }
        let differences: Differences = serde_json::from_value(changes.clone().into())
            .map_err(|error| super::broken(&error))?;
        let event = EventOfChange {
            id: new_id(now),
            kind: EventOfChange::kind_of_update(&differences),
            at: now.into(),
            actor: actor.name.clone(),
            actor_id: actor.person,
            change: change.clone(),
            changes: differences,
            reason: patch.reason.clone(),
        };
        self.record_event(tenant, actor, event.at, &event).await?;
        let mut metadata = changed(changes);
        if let Some(reason) = &patch.reason {
            metadata.insert("reason".to_owned(), reason.as_str().into());
        }
        let entry = Entry::of_change(Action::Updated, &change, metadata);
        self.record(tenant, actor, entry, now).await?;
        Ok(change)
    }

    /// Applies a patch to a change; reports everything that is wrong with it.
    async fn apply(
        &mut self,
        tenant: Tenant,
        change: &mut Change,
        patch: ChangePatch,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut problems = Violations::default();
        if let Some(ids) = patch.services_after(&change.service_ids) {
            let mut services = Vec::new();
            for (index, id) in ids.into_iter().enumerate() {
                let known = change
                    .all_services()
                    .iter()
                    .find(|service| service.id == id);
                let found = match known {
                    Some(service) => Some(service.clone()),
                    None => self.reference(SELECT_SERVICE, tenant, id.0).await?,
                };
                match found {
                    Some(service) => services.push(service),
                    None => {
                        no_service(&mut problems, "", index, patch.service_id.is_some(), id);
                    }
                }
            }
            change.set_services(services);
        }
        let host_environment = |change: &Change| {
            let host = change.host_ref.as_ref();
            host.and_then(|host| host.environment.clone())
        };
        // An environment that is that of the host follows the host.
        let follows_host =
            change.environment.is_none() || change.environment == host_environment(change);
        match patch.host_id {
            None => {}
            Some(None) => change.host_ref = None,
            Some(Some(id)) => match self.reference(SELECT_HOST, tenant, id.0).await? {
                None => no_host(&mut problems, "", id),
                host => change.host_ref = host,
            },
        }
        match patch.environment.clone() {
            Some(Some(environment)) => change.environment = Some(environment),
            Some(None) => change.environment = host_environment(change),
            None if patch.host_id.is_some() && follows_host => {
                change.environment = host_environment(change);
            }
            None => {}
        }
        patch.apply(change, now, &mut problems);
        Ok(problems.into_result(())?)
    }

    /// Reads the reference to a service or a host.
    async fn reference<T: serde::de::DeserializeOwned>(
        &mut self,
        statement: &'static str,
        tenant: Tenant,
        id: sqlx::types::Uuid,
    ) -> Result<Option<T>, StoreError> {
        let found: Option<(String,)> = on!(&mut self.connection, |db| {
            sqlx::query_as(statement)
                .bind(tenant.uuid())
                .bind(id)
                .fetch_optional(&mut **db)
        })?;
        found
            .map(|(json,)| serde_json::from_str(&json).map_err(|error| super::broken(&error)))
            .transpose()
    }
}

/// An update of a change.
struct Update<'c> {
    before: ChangeRow<'c>,
    after: ChangeRow<'c>,
    slot: i64,
}

impl Update<'_> {
    /// Returns the column `undone_at` after the update; `None` if it stays as it is. A change
    /// that had ended otherwise before is undone by this update, not when it ended.
    #[expect(clippy::option_option, reason = "the column may be cleared")]
    fn undone_at(&self) -> Option<Option<i64>> {
        let (before, after) = (&self.before, &self.after);
        let ended_before =
            before.change.status.is_ended() && before.change.ended_at == after.change.ended_at;
        match (before.is_undone(), after.is_undone()) {
            (true, true) if ended_before => None,
            (false, true) if ended_before => Some(Some(after.change.updated_at.millis())),
            _ => Some(after.undone_at()),
        }
    }

    /// Returns the statements that update the row, its services, tags, search entry and
    /// counts.
    fn script<DB: SearchDialect>(&self) -> Script<DB> {
        let (before, after) = (&self.before, &self.after);
        let tenant = after.tenant;
        let is_moved = before.sort_key != after.sort_key;
        let mut script = Script::new();
        let query = script.statement("UPDATE changes SET document = ");
        DB::bind(query, after.document.as_ref().into());
        for (column, mut value) in after.updatable_columns() {
            if column == "undone_at" {
                match self.undone_at() {
                    Some(at) => value = at.into(),
                    None => continue,
                }
            }
            query.push(", ").push(column).push_value(" = ", value);
        }
        query.push_value(" WHERE organization_id = ", tenant.uuid());
        query.push_value(" AND sort_key = ", before.sort_key);
        if is_moved || before.more_service_ids != after.more_service_ids {
            push_delete_more_services(&mut script, before);
            push_more_services(&mut script, [after].into_iter());
        }
        let (old, new) = (&before.change.tags, &after.change.tags);
        for tag in old.iter().filter(|tag| is_moved || !new.contains(tag)) {
            push_delete_tag(&mut script, before, tag);
        }
        let added = new.iter().filter(|tag| is_moved || !old.contains(tag));
        push_tags(
            &mut script,
            added.map(|tag| (tenant, tag.as_str(), after.sort_key)),
        );
        let words = (tenant, after.sort_key, after.words.as_ref());
        if is_moved {
            DB::remove(&mut script, tenant, vec![before.sort_key]);
            DB::index_new(&mut script, &[words]);
        } else if before.words != after.words {
            DB::replace(&mut script, words);
        }
        let deltas = [(-1, before.count_delta()), (1, after.count_delta())];
        counts::push(&mut script, self.slot, deltas.into_iter());
        script
    }
}

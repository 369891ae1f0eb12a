//! Updating changes.

use changelog_core::{Change, ChangeId, ChangePatch, Violations};
use serde_json::{Map, Value};
use sqlx::{Postgres, Sqlite};

use super::create::{no_host, no_service};
use super::{ChangeRow, push_tags};
use crate::clock::Clock;
use crate::store::activity::difference;
use crate::store::engine::{Engine, Script, on};
use crate::store::index::counts;
use crate::store::index::search::SearchDialect;
use crate::store::{StoreError, Tenant, Tx};

const SELECT_SERVICE: &str =
    "SELECT reference FROM services WHERE organization_id = $1 AND id = $2";
const SELECT_HOST: &str = "SELECT reference FROM hosts WHERE organization_id = $1 AND id = $2";

impl Tx {
    /// Updates a change and returns it with the differences, `{field: {from, to}}`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the change does not exist,
    /// [`StoreError::Invalid`] when the service or the host does not exist.
    pub async fn update_change(
        &mut self,
        tenant: Tenant,
        id: ChangeId,
        patch: &ChangePatch,
        clock: &Clock,
    ) -> Result<(Change, Map<String, Value>), StoreError> {
        let (sort_key, before) = self.lock_change(tenant, id).await?;
        let mut change = before.clone();
        self.apply(tenant, &mut change, patch.clone()).await?;
        let changes = difference(&before, &change);
        if !changes.is_empty() {
            // Read after locking the row, so that `updated_at` never decreases.
            change.updated_at = clock.now().into();
            let update = Update {
                tenant,
                sort_key,
                before: &before,
                after: &change,
                slot: self.slot,
            };
            match &mut self.connection {
                Engine::Sqlite(db) => update.script::<Sqlite>().run(&mut **db).await?,
                Engine::Postgres(db) => update.script::<Postgres>().run(&mut **db).await?,
            }
        }
        Ok((change, changes))
    }

    /// Applies a patch to a change; reports both a missing service and a missing host.
    async fn apply(
        &mut self,
        tenant: Tenant,
        change: &mut Change,
        patch: ChangePatch,
    ) -> Result<(), StoreError> {
        let mut missing = Violations::default();
        match patch.service_id {
            None => {}
            Some(None) => change.service = None,
            Some(Some(id)) => match self.reference(SELECT_SERVICE, tenant, id.0).await? {
                None => no_service(&mut missing, "", id),
                service => change.service = service,
            },
        }
        match patch.host_id {
            None => {}
            Some(None) => change.host_ref = None,
            Some(Some(id)) => match self.reference(SELECT_HOST, tenant, id.0).await? {
                None => no_host(&mut missing, "", id),
                host => change.host_ref = host,
            },
        }
        patch.apply(change);
        Ok(missing.into_result(())?)
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
    tenant: Tenant,
    sort_key: i64,
    before: &'c Change,
    after: &'c Change,
    slot: i64,
}

impl Update<'_> {
    /// Returns the statements that update the row, its tags, search entry and counts.
    fn script<DB: SearchDialect>(&self) -> Script<DB> {
        let (tenant, sort_key) = (self.tenant, self.sort_key);
        let before = ChangeRow::new(tenant, sort_key, self.before);
        let after = ChangeRow::new(tenant, sort_key, self.after);
        let mut script = Script::new();
        let query = script.statement("UPDATE changes SET document = ");
        DB::bind(query, after.document.as_ref().into());
        query.push(", risk_level = ");
        DB::bind(query, after.risk_level.as_str().into());
        query.push(", status = ");
        DB::bind(query, after.status.as_str().into());
        query.push(", service_id = ");
        DB::bind(query, after.service_id.map(|id| id.0).into());
        query.push(", host_id = ");
        DB::bind(query, after.host_id.map(|id| id.0).into());
        query.push(", scheduled_for = ");
        DB::bind(query, after.scheduled_for.into());
        query.push(" WHERE organization_id = ");
        DB::bind(query, tenant.uuid().into());
        query.push(" AND sort_key = ");
        DB::bind(query, sort_key.into());
        let removed = before.tags.iter().filter(|tag| !after.tags.contains(tag));
        for tag in removed {
            let query = script.statement("DELETE FROM change_tags WHERE organization_id = ");
            DB::bind(query, tenant.uuid().into());
            query.push(" AND tag = ");
            DB::bind(query, tag.as_str().into());
            query.push(" AND sort_key = ");
            DB::bind(query, sort_key.into());
        }
        let added = after.tags.iter().filter(|tag| !before.tags.contains(tag));
        push_tags(
            &mut script,
            added.map(|tag| (tenant, tag.as_str(), sort_key)),
        );
        if before.words != after.words {
            DB::index(&mut script, &[(tenant, sort_key, &after.words)]);
        }
        let deltas = [(-1, before.count_delta()), (1, after.count_delta())];
        counts::push(&mut script, self.slot, deltas.into_iter());
        script
    }
}

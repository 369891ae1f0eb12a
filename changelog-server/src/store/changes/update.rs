//! Changing a change.

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

const SERVICE: &str = "SELECT reference FROM services WHERE organization_id = $1 AND id = $2";
const HOST: &str = "SELECT reference FROM hosts WHERE organization_id = $1 AND id = $2";

impl Tx {
    /// Changes a change and returns it with what differs, `{field: {from, to}}`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] without such a change, [`StoreError::Invalid`]
    /// when the organization does not have the service or the host.
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
            // After the lock: a row's versions follow each other in time.
            change.updated_at = clock.now().into();
            let step = Step {
                tenant,
                sort_key,
                before: &before,
                after: &change,
                slot: self.slot,
            };
            match &mut self.connection {
                Engine::Sqlite(db) => step.script::<Sqlite>().run(&mut **db).await?,
                Engine::Postgres(db) => step.script::<Postgres>().run(&mut **db).await?,
            }
        }
        Ok((change, changes))
    }

    /// Puts what a patch has into a change; a service and a host are both
    /// looked for before either is reported missing.
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
            Some(Some(id)) => match self.reference(SERVICE, tenant, id.0).await? {
                None => no_service(&mut missing, "", id),
                service => change.service = service,
            },
        }
        match patch.host_id {
            None => {}
            Some(None) => change.host_ref = None,
            Some(Some(id)) => match self.reference(HOST, tenant, id.0).await? {
                None => no_host(&mut missing, "", id),
                host => change.host_ref = host,
            },
        }
        patch.apply(change);
        Ok(missing.into_result(())?)
    }

    /// Finds what a change shows of a service or a host.
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

/// A change from one version to the next.
struct Step<'c> {
    tenant: Tenant,
    sort_key: i64,
    before: &'c Change,
    after: &'c Change,
    slot: i64,
}

impl Step<'_> {
    /// Writes the statements: the row, its tags, what finds it, the counts.
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
        let gone = before.tags.iter().filter(|tag| !after.tags.contains(tag));
        for tag in gone {
            let query = script.statement("DELETE FROM change_tags WHERE organization_id = ");
            DB::bind(query, tenant.uuid().into());
            query.push(" AND tag = ");
            DB::bind(query, tag.as_str().into());
            query.push(" AND sort_key = ");
            DB::bind(query, sort_key.into());
        }
        let come = after.tags.iter().filter(|tag| !before.tags.contains(tag));
        push_tags(
            &mut script,
            come.map(|tag| (tenant, tag.as_str(), sort_key)),
        );
        if before.words != after.words {
            DB::index(&mut script, &[(tenant, sort_key, &after.words)]);
        }
        let steps = [(-1, before.count_delta()), (1, after.count_delta())];
        counts::push(&mut script, self.slot, steps.into_iter());
        script
    }
}

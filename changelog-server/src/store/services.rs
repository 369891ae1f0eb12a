//! Services.

use std::collections::HashMap;
use std::ops::Range;

use changelog_core::service::DEFAULT_COLOR;
use changelog_core::{
    NewService, Service, ServiceId, ServicePatch, ServiceRef, Timestamp, ViolationCode, Violations,
};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use sqlx::FromRow;
use sqlx::types::{Json, Uuid};

use super::activity::difference;
use super::catalog_words::Named;
use super::engine::error::or_conflict;
use super::engine::{execute, on, read};
use super::summaries::{Summarized, Summary, by_ids, page, page_after};
use super::{Database, Quota, StoreError, Tenant, Tx, new_id};

const SELECT_ALL: &str = "
SELECT id, name, description, color, depends_on, created_at
FROM services WHERE organization_id = $1 ORDER BY name_folded, id";

const SELECT_NAMES: &str = "
SELECT id, name FROM services WHERE organization_id = $1 ORDER BY name_folded, id";

const SELECT_FIRST_NAMES: &str = "
SELECT name FROM services WHERE organization_id = $1 ORDER BY name_folded, id LIMIT $2";

const SELECT_BY_ID: &str = "
SELECT id, name, description, color, depends_on, created_at
FROM services WHERE organization_id = $1 AND id = $2";

const SELECT_BY_NAME: &str = "
SELECT id, name, description, color, depends_on, created_at
FROM services WHERE organization_id = $1 AND name_folded = $2";

/// The start of the statements that read a page, or services by their ids.
const SELECT_PAGE: &str = "
SELECT id, name, description, color, depends_on, created_at FROM services WHERE organization_id = ";

/// Inserts no row on a conflict: an error would end the transaction on PostgreSQL,
/// which still has to record the outcome.
const INSERT: &str = "
INSERT INTO services (organization_id, id, name, name_folded, description, color, depends_on,
                      created_at, reference)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (organization_id, name_folded) DO NOTHING";

/// Locks the row on PostgreSQL between reading and updating it.
const LOCK: &str = "UPDATE services SET name = name WHERE organization_id = $1 AND id = $2";

const UPDATE: &str = "
UPDATE services SET name = $3, name_folded = $4, description = $5, color = $6, depends_on = $7,
                    reference = $8
WHERE organization_id = $1 AND id = $2";

#[derive(FromRow)]
struct ServiceRow {
    #[sqlx(try_from = "Uuid")]
    id: ServiceId,
    name: String,
    description: Option<String>,
    color: String,
    depends_on: Json<Vec<ServiceId>>,
    created_at: i64,
}

impl ServiceRow {
    fn into_service(self, tenant: Tenant) -> Service {
        Service {
            id: self.id,
            name: self.name,
            description: self.description,
            color: self.color,
            depends_on: self.depends_on.0,
            organization_id: tenant.id(),
            created_at: Timestamp::from_millis(self.created_at),
        }
    }
}

impl Database {
    /// Lists the services of an organization, ordered by name.
    pub async fn services(&self, tenant: Tenant) -> Result<Vec<Service>, StoreError> {
        let rows: Vec<ServiceRow> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_ALL)
                .bind(tenant.uuid())
                .fetch_all(&mut **db)
        })?;
        Ok(rows
            .into_iter()
            .map(|row| row.into_service(tenant))
            .collect())
    }

    /// Lists at most `limit` services of an organization, ordered by name: those
    /// whose names come after `after`.
    pub async fn services_after(
        &self,
        tenant: Tenant,
        after: &str,
        limit: u64,
    ) -> Result<Vec<Service>, StoreError> {
        let rows: Vec<ServiceRow> = read!(self.reader(tenant).await?, |db| async {
            let mut query = page_after(SELECT_PAGE, tenant, "name_folded", after, limit);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(rows
            .into_iter()
            .map(|row| row.into_service(tenant))
            .collect())
    }

    /// Lists the ids and names of the services of an organization, ordered by name.
    pub async fn service_names(
        &self,
        tenant: Tenant,
    ) -> Result<Vec<(ServiceId, String)>, StoreError> {
        let rows: Vec<(Uuid, String)> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_NAMES)
                .bind(tenant.uuid())
                .fetch_all(&mut **db)
        })?;
        Ok(rows
            .into_iter()
            .map(|(id, name)| (id.into(), name))
            .collect())
    }

    /// Lists the first names of the services of an organization.
    pub async fn first_service_names(
        &self,
        tenant: Tenant,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let rows: Vec<(String,)> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_FIRST_NAMES)
                .bind(tenant.uuid())
                .bind(i64::from(limit))
                .fetch_all(&mut **db)
        })?;
        Ok(rows.into_iter().map(|(name,)| name).collect())
    }

    /// Lists a page of the services of an organization, ordered by name, each with a
    /// summary of its changes; `days`, numbers since 1970 in UTC, are counted apart.
    pub async fn service_page(
        &self,
        tenant: Tenant,
        limit: u64,
        offset: u64,
        days: Range<i64>,
    ) -> Result<Vec<Summary<Service>>, StoreError> {
        let rows: Vec<ServiceRow> = read!(self.reader(tenant).await?, |db| async {
            let mut query = page(SELECT_PAGE, tenant, "name_folded", limit, offset);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let services = rows.into_iter().map(|row| {
            let service = row.into_service(tenant);
            (service.id.0, service)
        });
        self.summarize(tenant, Summarized::Service, services.collect(), days)
            .await
    }

    /// Returns the services with these ids, in this order, each with a summary of its
    /// changes. Services that do not exist are left out.
    pub async fn service_summaries(
        &self,
        tenant: Tenant,
        ids: &[ServiceId],
        days: Range<i64>,
    ) -> Result<Vec<Summary<Service>>, StoreError> {
        let mut found = self.services_by_id(tenant, ids.iter().copied()).await?;
        let in_order = ids.iter().filter_map(|id| Some((id.0, found.remove(id)?)));
        self.summarize(tenant, Summarized::Service, in_order.collect(), days)
            .await
    }

    /// Finds services of an organization by their ids.
    pub(super) async fn services_by_id(
        &self,
        tenant: Tenant,
        ids: impl ExactSizeIterator<Item = ServiceId> + Clone + Send,
    ) -> Result<HashMap<ServiceId, Service>, StoreError> {
        if ids.len() == 0 {
            return Ok(HashMap::new());
        }
        let rows: Vec<ServiceRow> = read!(self.reader(tenant).await?, |db| async {
            let mut query = by_ids(SELECT_PAGE, tenant, ids.map(|id| id.0));
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(rows
            .into_iter()
            .map(|row| (row.id, row.into_service(tenant)))
            .collect())
    }

    /// Finds a service of an organization by its name, ignoring ASCII case.
    pub async fn service_named(
        &self,
        tenant: Tenant,
        name: &str,
    ) -> Result<Option<Service>, StoreError> {
        let row: Option<ServiceRow> = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_BY_NAME)
                .bind(tenant.uuid())
                .bind(name.to_ascii_lowercase())
                .fetch_optional(&mut **db)
        })?;
        Ok(row.map(|row| row.into_service(tenant)))
    }

    /// Finds a service of an organization.
    pub async fn service(&self, tenant: Tenant, id: ServiceId) -> Result<Service, StoreError> {
        let row: ServiceRow = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_BY_ID)
                .bind(tenant.uuid())
                .bind(id.0)
                .fetch_one(&mut **db)
        })?;
        Ok(row.into_service(tenant))
    }
}

impl Tx {
    /// Creates a service.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when a service that it depends on does not exist,
    /// [`StoreError::Conflict`] when its name is taken,
    /// [`StoreError::QuotaExceeded`] when the organization has too many services.
    pub async fn insert_service(
        &mut self,
        tenant: Tenant,
        new: &NewService,
        now: DateTime<Utc>,
    ) -> Result<Service, StoreError> {
        let service = Service {
            id: new_id(now).into(),
            name: new.name.clone(),
            description: new.description.clone(),
            color: new
                .color
                .clone()
                .unwrap_or_else(|| DEFAULT_COLOR.to_owned()),
            depends_on: new.depends_on.clone(),
            organization_id: tenant.id(),
            created_at: now.into(),
        };
        self.check_dependencies(tenant, &[], &service.depends_on)
            .await?;
        let inserted = execute!(
            self,
            sqlx::query(INSERT)
                .bind(tenant.uuid())
                .bind(service.id.0)
                .bind(&service.name)
                .bind(service.name.to_ascii_lowercase())
                .bind(&service.description)
                .bind(&service.color)
                .bind(Json(&service.depends_on))
                .bind(now.timestamp_millis())
                .bind(reference(&service))
        )?;
        if inserted == 0 {
            return Err(StoreError::Conflict);
        }
        self.write_words(tenant, Named::Service(service.id), None, &service.name)
            .await?;
        self.write_dependencies(tenant, &[], &service).await?;
        self.check_quota(tenant, Quota::Services).await?;
        Ok(service)
    }

    /// Updates a service and returns it with the differences, `{field: {from, to}}`.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when a service that it is to depend on does not exist or
    /// is this one, [`StoreError::Conflict`] when its new name is taken.
    pub async fn update_service(
        &mut self,
        tenant: Tenant,
        id: ServiceId,
        patch: &ServicePatch,
    ) -> Result<(Service, Map<String, Value>), StoreError> {
        execute!(self, sqlx::query(LOCK).bind(tenant.uuid()).bind(id.0))?;
        let row: ServiceRow = on!(&mut self.connection, |db| {
            sqlx::query_as(SELECT_BY_ID)
                .bind(tenant.uuid())
                .bind(id.0)
                .fetch_one(&mut **db)
        })?;
        let before = row.into_service(tenant);
        let mut service = before.clone();
        patch.clone().apply(&mut service)?;

        let mut changes = difference(&before, &service);
        if let Some(change) = changes.get_mut("depends_on") {
            *change = self
                .check_dependencies(tenant, &before.depends_on, &service.depends_on)
                .await?;
        }
        if !changes.is_empty() {
            or_conflict(execute!(
                self,
                sqlx::query(UPDATE)
                    .bind(tenant.uuid())
                    .bind(id.0)
                    .bind(&service.name)
                    .bind(service.name.to_ascii_lowercase())
                    .bind(&service.description)
                    .bind(&service.color)
                    .bind(Json(&service.depends_on))
                    .bind(reference(&service))
            ))?;
            self.write_words(
                tenant,
                Named::Service(id),
                Some(&before.name),
                &service.name,
            )
            .await?;
            self.write_dependencies(tenant, &before.depends_on, &service)
                .await?;
        }
        Ok((service, changes))
    }
}

/// Returns the JSON by which changes refer to a service.
pub(super) fn reference(service: &Service) -> String {
    let reference = ServiceRef {
        id: service.id,
        name: service.name.clone(),
        color: service.color.clone(),
    };
    serde_json::to_string(&reference).unwrap_or_default()
}

/// Reports a service that the organization does not have.
pub(super) fn missing_service(missing: &mut Violations, pointer: String, id: ServiceId) {
    let message = format!("must be a service of the organization, which has none with the id {id}");
    missing.add(pointer, ViolationCode::NotFound, message);
}

#[cfg(test)]
mod tests {
    use sqlx::Sqlite;

    use super::*;
    use crate::store::engine::explain;

    #[tokio::test]
    async fn services_are_looked_up_by_ids() {
        for count in [1, 2, 100] {
            let ids = std::iter::repeat_n(Uuid::from_u128(1), count);
            let query = by_ids::<Sqlite>(SELECT_PAGE, Tenant(Uuid::from_u128(2).into()), ids);
            let plan = explain::of(&query.into_string()).await;
            let expected = "SEARCH services USING INDEX sqlite_autoindex_services_1 \
                            (organization_id=? AND id=?)";
            assert_eq!(plan, [expected], "{count}");
        }
    }
}

//! Services.

use changelog_core::{Service, ServiceId, ServiceRef, Timestamp, ViolationCode, Violations};
use serde_json::{Map, Value};
use sqlx::FromRow;
use sqlx::types::{Json, Uuid};

use super::catalog::StoredItem;
use super::{ChartScope, Outcome, Quota, StoreError, Tenant, Tx};

/// The row of a service.
#[derive(FromRow)]
pub struct ServiceRow {
    #[sqlx(try_from = "Uuid")]
    id: ServiceId,
    name: String,
    description: Option<String>,
    color: String,
    depends_on: Json<Vec<ServiceId>>,
    created_at: i64,
}

impl StoredItem for Service {
    const COLUMN: &'static str = "service_id";
    const HAS_FURTHER: bool = true;
    const QUOTA: Quota = Quota::Services;

    type Row = ServiceRow;
    type Reference = ServiceRef;

    fn from_row(row: ServiceRow, tenant: Tenant) -> Self {
        Self {
            id: row.id,
            name: row.name,
            description: row.description,
            color: row.color,
            depends_on: row.depends_on.0,
            organization_id: tenant.id(),
            created_at: Timestamp::from_millis(row.created_at),
        }
    }

    fn chart_scope(id: ServiceId) -> ChartScope {
        ChartScope::Service(id)
    }

    fn outcome(self) -> Outcome {
        Outcome::Service(self)
    }

    async fn check(
        &self,
        tx: &mut Tx,
        tenant: Tenant,
        before: Option<&Self>,
        changes: &mut Map<String, Value>,
    ) -> Result<(), StoreError> {
        let before = before.map_or(&[][..], |before| &before.depends_on);
        if before != self.depends_on {
            let change = tx.check_dependencies(tenant, before, &self.depends_on);
            changes.insert("depends_on".to_owned(), change.await?);
        }
        Ok(())
    }

    async fn write_elsewhere(
        &self,
        tx: &mut Tx,
        tenant: Tenant,
        before: Option<&Self>,
    ) -> Result<(), StoreError> {
        let before = before.map_or(&[][..], |before| &before.depends_on);
        tx.write_dependencies(tenant, before, self).await
    }
}

/// Reports a service that the organization does not have.
pub(super) fn missing_service(missing: &mut Violations, pointer: String, id: ServiceId) {
    let message = format!("must be a service of the organization, which has none with the id {id}");
    missing.add(pointer, ViolationCode::NotFound, message);
}

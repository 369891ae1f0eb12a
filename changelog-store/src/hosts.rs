//! Hosts.

use changelog_core::{Environment, Host, HostId, HostRef, Platform, Timestamp};
use sqlx::FromRow;
use sqlx::types::{Json, Text, Uuid};

use super::catalog::StoredItem;
use super::{ChartScope, Outcome, Quota, StoreError, Tenant, Tx};

/// The row of a host.
#[derive(FromRow)]
pub struct HostRow {
    #[sqlx(try_from = "Uuid")]
    id: HostId,
    hostname: String,
    fqdn: Option<String>,
    ip_address: Option<String>,
    os: Option<String>,
    platform: Text<Platform>,
    environment: Option<Text<Environment>>,
    roles: Json<Vec<String>>,
    description: Option<String>,
    created_at: i64,
}

impl StoredItem for Host {
    const COLUMN: &'static str = "host_id";
    const HAS_FURTHER: bool = false;
    const QUOTA: Quota = Quota::Hosts;

    type Row = HostRow;
    type Reference = HostRef;

    fn from_row(row: HostRow, tenant: Tenant) -> Self {
        Self {
            id: row.id,
            hostname: row.hostname,
            fqdn: row.fqdn,
            ip_address: row.ip_address,
            os: row.os,
            platform: row.platform.0,
            environment: row.environment.map(|text| text.0),
            roles: row.roles.0,
            description: row.description,
            organization_id: tenant.id(),
            created_at: Timestamp::from_millis(row.created_at),
        }
    }

    fn chart_scope(id: HostId) -> ChartScope {
        ChartScope::Host(id)
    }

    fn outcome(self) -> Outcome {
        Outcome::Host(self)
    }

    async fn write_elsewhere(
        &self,
        tx: &mut Tx,
        tenant: Tenant,
        before: Option<&Self>,
    ) -> Result<(), StoreError> {
        if before.is_some_and(|before| before.environment != self.environment) {
            tx.forget_environment(tenant, self.id);
        }
        Ok(())
    }
}

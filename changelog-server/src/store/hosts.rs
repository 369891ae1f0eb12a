//! Hosts.

use std::collections::HashMap;
use std::ops::Range;

use changelog_core::{Environment, Host, HostId, HostPatch, HostRef, NewHost, Platform, Timestamp};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use sqlx::FromRow;
use sqlx::types::{Json, Text, Uuid};

use super::activity::difference;
use super::catalog_words::Named;
use super::engine::error::or_conflict;
use super::engine::{execute, on, read};
use super::summaries::{Summarized, Summary, by_ids, page, page_after};
use super::{Database, Quota, StoreError, Tenant, Tx, new_id};

const SELECT_ALL: &str = "
SELECT id, hostname, fqdn, ip_address, os, platform, environment, roles, description, created_at
FROM hosts WHERE organization_id = $1 ORDER BY hostname_folded, id";

const SELECT_NAMES: &str = "
SELECT id, hostname FROM hosts WHERE organization_id = $1 ORDER BY hostname_folded, id";

const SELECT_BY_ID: &str = "
SELECT id, hostname, fqdn, ip_address, os, platform, environment, roles, description, created_at
FROM hosts WHERE organization_id = $1 AND id = $2";

const SELECT_BY_NAME: &str = "
SELECT id, hostname, fqdn, ip_address, os, platform, environment, roles, description, created_at
FROM hosts WHERE organization_id = $1 AND hostname_folded = $2";

/// The start of the statement that reads a page.
const SELECT_PAGE: &str = "
SELECT id, hostname, fqdn, ip_address, os, platform, environment, roles, description, created_at
FROM hosts WHERE organization_id = ";

/// Inserts no row on a conflict: an error would end the transaction on PostgreSQL,
/// which still has to record the outcome.
const INSERT: &str = "
INSERT INTO hosts (organization_id, id, hostname, hostname_folded, fqdn, ip_address, os, platform,
                   environment, roles, description, created_at, reference)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT (organization_id, hostname_folded) DO NOTHING";

/// Locks the row on PostgreSQL between reading and updating it.
const LOCK: &str = "UPDATE hosts SET hostname = hostname WHERE organization_id = $1 AND id = $2";

const UPDATE: &str = "
UPDATE hosts SET hostname = $3, hostname_folded = $4, fqdn = $5, ip_address = $6, os = $7,
                 platform = $8, environment = $9, roles = $10, description = $11,
                 reference = $12
WHERE organization_id = $1 AND id = $2";

#[derive(FromRow)]
struct HostRow {
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

impl HostRow {
    fn into_host(self, tenant: Tenant) -> Host {
        Host {
            id: self.id,
            hostname: self.hostname,
            fqdn: self.fqdn,
            ip_address: self.ip_address,
            os: self.os,
            platform: self.platform.0,
            environment: self.environment.map(|text| text.0),
            roles: self.roles.0,
            description: self.description,
            organization_id: tenant.id(),
            created_at: Timestamp::from_millis(self.created_at),
        }
    }
}

impl Database {
    /// Lists the hosts of an organization, ordered by hostname.
    pub async fn hosts(&self, tenant: Tenant) -> Result<Vec<Host>, StoreError> {
        let rows: Vec<HostRow> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_ALL)
                .bind(tenant.uuid())
                .fetch_all(&mut **db)
        })?;
        Ok(rows.into_iter().map(|row| row.into_host(tenant)).collect())
    }

    /// Lists at most `limit` hosts of an organization, ordered by hostname: those
    /// whose names come after `after`.
    pub async fn hosts_after(
        &self,
        tenant: Tenant,
        after: &str,
        limit: u64,
    ) -> Result<Vec<Host>, StoreError> {
        let rows: Vec<HostRow> = read!(self.reader(tenant).await?, |db| async {
            let mut query = page_after(SELECT_PAGE, tenant, "hostname_folded", after, limit);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(rows.into_iter().map(|row| row.into_host(tenant)).collect())
    }

    /// Lists the ids and names of the hosts of an organization, ordered by name.
    pub async fn host_names(&self, tenant: Tenant) -> Result<Vec<(HostId, String)>, StoreError> {
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

    /// Lists a page of the hosts of an organization, ordered by hostname, each with a
    /// summary of its changes; `days`, numbers since 1970 in UTC, are counted apart.
    pub async fn host_page(
        &self,
        tenant: Tenant,
        limit: u64,
        offset: u64,
        days: Range<i64>,
    ) -> Result<Vec<Summary<Host>>, StoreError> {
        let rows: Vec<HostRow> = read!(self.reader(tenant).await?, |db| async {
            let mut query = page(SELECT_PAGE, tenant, "hostname_folded", limit, offset);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let hosts = rows.into_iter().map(|row| {
            let host = row.into_host(tenant);
            (host.id.0, host)
        });
        self.summarize(tenant, Summarized::Host, hosts.collect(), days)
            .await
    }

    /// Returns the hosts with these ids, in this order, each with a summary of its
    /// changes. Hosts that do not exist are left out.
    pub async fn host_summaries(
        &self,
        tenant: Tenant,
        ids: &[HostId],
        days: Range<i64>,
    ) -> Result<Vec<Summary<Host>>, StoreError> {
        let mut found = self.hosts_by_id(tenant, ids).await?;
        let in_order = ids.iter().filter_map(|id| Some((id.0, found.remove(id)?)));
        self.summarize(tenant, Summarized::Host, in_order.collect(), days)
            .await
    }

    /// Finds hosts of an organization by their ids.
    pub(super) async fn hosts_by_id(
        &self,
        tenant: Tenant,
        ids: &[HostId],
    ) -> Result<HashMap<HostId, Host>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let rows: Vec<HostRow> = read!(self.reader(tenant).await?, |db| async {
            let mut query = by_ids(SELECT_PAGE, tenant, ids.iter().map(|id| id.0));
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let hosts = rows.into_iter().map(|row| (row.id, row.into_host(tenant)));
        Ok(hosts.collect())
    }

    /// Finds a host of an organization by its name, ignoring ASCII case.
    pub async fn host_named(&self, tenant: Tenant, name: &str) -> Result<Option<Host>, StoreError> {
        let row: Option<HostRow> = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_BY_NAME)
                .bind(tenant.uuid())
                .bind(name.to_ascii_lowercase())
                .fetch_optional(&mut **db)
        })?;
        Ok(row.map(|row| row.into_host(tenant)))
    }

    /// Finds a host of an organization.
    pub async fn host(&self, tenant: Tenant, id: HostId) -> Result<Host, StoreError> {
        let row: HostRow = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_BY_ID)
                .bind(tenant.uuid())
                .bind(id.0)
                .fetch_one(&mut **db)
        })?;
        Ok(row.into_host(tenant))
    }
}

impl Tx {
    /// Creates a host.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when its name is taken,
    /// [`StoreError::QuotaExceeded`] when the organization has too many hosts.
    pub async fn insert_host(
        &mut self,
        tenant: Tenant,
        new: &NewHost,
        now: DateTime<Utc>,
    ) -> Result<Host, StoreError> {
        let host = Host {
            id: new_id(now).into(),
            hostname: new.hostname.clone(),
            fqdn: new.fqdn.clone(),
            ip_address: new.ip_address.clone(),
            os: new.os.clone(),
            platform: new.platform.clone().unwrap_or(Platform::OnPrem),
            environment: new.environment.clone(),
            roles: new.roles.clone(),
            description: new.description.clone(),
            organization_id: tenant.id(),
            created_at: now.into(),
        };
        let inserted = execute!(
            self,
            sqlx::query(INSERT)
                .bind(tenant.uuid())
                .bind(host.id.0)
                .bind(&host.hostname)
                .bind(host.hostname.to_ascii_lowercase())
                .bind(&host.fqdn)
                .bind(&host.ip_address)
                .bind(&host.os)
                .bind(host.platform.as_str())
                .bind(host.environment.as_ref().map(Environment::as_str))
                .bind(Json(&host.roles))
                .bind(&host.description)
                .bind(now.timestamp_millis())
                .bind(reference(&host))
        )?;
        if inserted == 0 {
            return Err(StoreError::Conflict);
        }
        self.write_words(tenant, Named::Host(host.id), None, &host.hostname)
            .await?;
        self.check_quota(tenant, Quota::Hosts).await?;
        Ok(host)
    }

    /// Updates a host and returns it with the differences, `{field: {from, to}}`.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when its new name is taken.
    pub async fn update_host(
        &mut self,
        tenant: Tenant,
        id: HostId,
        patch: &HostPatch,
    ) -> Result<(Host, Map<String, Value>), StoreError> {
        execute!(self, sqlx::query(LOCK).bind(tenant.uuid()).bind(id.0))?;
        let row: HostRow = on!(&mut self.connection, |db| {
            sqlx::query_as(SELECT_BY_ID)
                .bind(tenant.uuid())
                .bind(id.0)
                .fetch_one(&mut **db)
        })?;
        let before = row.into_host(tenant);
        let mut host = before.clone();
        let HostPatch {
            hostname,
            fqdn,
            ip_address,
            os,
            platform,
            environment,
            roles,
            description,
        } = patch.clone();
        host.hostname = hostname.unwrap_or(host.hostname);
        host.fqdn = fqdn.unwrap_or(host.fqdn);
        host.ip_address = ip_address.unwrap_or(host.ip_address);
        host.os = os.unwrap_or(host.os);
        host.platform = platform.unwrap_or(host.platform);
        host.environment = environment.unwrap_or(host.environment);
        host.roles = roles.unwrap_or(host.roles);
        host.description = description.unwrap_or(host.description);

        let changes = difference(&before, &host);
        if host.environment != before.environment {
            self.forget_environment(tenant, id);
        }
        if !changes.is_empty() {
            or_conflict(execute!(
                self,
                sqlx::query(UPDATE)
                    .bind(tenant.uuid())
                    .bind(id.0)
                    .bind(&host.hostname)
                    .bind(host.hostname.to_ascii_lowercase())
                    .bind(&host.fqdn)
                    .bind(&host.ip_address)
                    .bind(&host.os)
                    .bind(host.platform.as_str())
                    .bind(host.environment.as_ref().map(Environment::as_str))
                    .bind(Json(&host.roles))
                    .bind(&host.description)
                    .bind(reference(&host))
            ))?;
            self.write_words(
                tenant,
                Named::Host(id),
                Some(&before.hostname),
                &host.hostname,
            )
            .await?;
        }
        Ok((host, changes))
    }
}

/// Returns the JSON by which changes refer to a host.
pub(super) fn reference(host: &Host) -> String {
    let reference = HostRef {
        id: host.id,
        hostname: host.hostname.clone(),
        environment: host.environment.clone(),
    };
    serde_json::to_string(&reference).unwrap_or_default()
}

//! API keys, found by the hash of their value.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use changelog_core::{
    Action, ApiKey, ApiKeyId, CreatedApiKey, KeyInfo, NewApiKey, OrganizationId, OrganizationRef,
    Permissions, Plan, ResourceType, Service, ServiceId, ServiceRef, Timestamp, api_key,
};
use chrono::{DateTime, Utc};
use rand::distr::{Alphanumeric, SampleString};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use sqlx::types::{Json, Text, Uuid};
use sqlx::{FromRow, QueryBuilder};

use super::activity::{self, Entry};
use super::engine::error::or_conflict;
use super::engine::{Results, execute, push_values, read};
use super::{Actor, Database, Quota, StoreError, Tenant, Tx, existing, new_id};

const INSERT: &str = "
INSERT INTO api_keys (id, organization_id, name, key_hash, masked, permissions, created_at,
                      expires_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";

const SELECT_ALL: &str = "
SELECT id, organization_id, name, masked, created_at, created_by, expires_at, revoked_at,
       last_used_at, permissions
FROM api_keys WHERE organization_id = $1 ORDER BY id";

const SELECT_BY_ID: &str = "
SELECT id, organization_id, name, masked, created_at, created_by, expires_at, revoked_at,
       last_used_at, permissions
FROM api_keys WHERE id = $1";

const SELECT_IN_ORGANIZATION: &str = "
SELECT id, organization_id, name, masked, created_at, created_by, expires_at, revoked_at,
       last_used_at, permissions
FROM api_keys WHERE organization_id = $1 AND id = $2";

const REVOKE: &str = "UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";

/// A key as requests are authenticated with it.
#[derive(Clone, Debug)]
pub struct KeyOwner {
    /// The organization.
    pub tenant: Tenant,
    /// The id of the key.
    pub key: ApiKeyId,
    /// The name of the key.
    pub name: String,
    /// What the key may do.
    pub permissions: Arc<Permissions>,
    /// The plan of the organization.
    pub plan: Plan,
    /// When the key expires.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When its last use was recorded.
    pub last_used_at: Option<Timestamp>,
    /// Whether the organization has receivers of events.
    pub has_receivers: bool,
}

#[derive(FromRow)]
struct OwnerRow {
    key_hash: KeyHash,
    #[sqlx(try_from = "Uuid")]
    id: ApiKeyId,
    #[sqlx(try_from = "Uuid")]
    organization_id: OrganizationId,
    name: String,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
    last_used_at: Option<i64>,
    permissions: Json<Permissions>,
    plan: Text<Plan>,
    has_receivers: i64,
}

#[derive(FromRow)]
struct ApiKeyRow {
    #[sqlx(try_from = "Uuid")]
    id: ApiKeyId,
    #[sqlx(try_from = "Uuid")]
    organization_id: OrganizationId,
    name: String,
    masked: String,
    created_at: i64,
    created_by: Option<String>,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
    last_used_at: Option<i64>,
    permissions: Json<Permissions>,
}

impl From<ApiKeyRow> for ApiKey {
    fn from(row: ApiKeyRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            masked: row.masked,
            organization_id: row.organization_id,
            created_at: Timestamp::from_millis(row.created_at),
            created_by: row.created_by,
            last_used_at: row.last_used_at.map(Timestamp::from_millis),
            expires_at: row.expires_at.map(Timestamp::from_millis),
            revoked_at: row.revoked_at.map(Timestamp::from_millis),
            permissions: row.permissions.0,
        }
    }
}

/// The SHA-256 of a key; its value is not kept.
pub(super) type KeyHash = Vec<u8>;

pub(super) fn hash(key: &str) -> KeyHash {
    Sha256::digest(key).to_vec()
}

/// Finds the owners of keys by the hashes of the keys.
pub(super) async fn owners(database: Database, hashes: Vec<KeyHash>) -> Results<Option<KeyOwner>> {
    // Most concurrent requests use the same key.
    let distinct: BTreeSet<&KeyHash> = hashes.iter().collect();
    let rows: Vec<OwnerRow> = read!(database.system().await?, |db| async {
        let mut query = QueryBuilder::new(
            "SELECT k.key_hash, k.id, k.organization_id, k.name, k.expires_at, k.revoked_at, \
             k.last_used_at, k.permissions, o.plan, o.has_receivers FROM (",
        );
        push_values(
            &mut query,
            distinct.iter().map(|hash| [hash.as_slice().into()]),
        );
        query.push(
            ") AS wanted JOIN api_keys k ON k.key_hash = wanted.column1 \
             JOIN organizations o ON o.id = k.organization_id",
        );
        query.build_query_as().fetch_all(&mut **db).await
    })?;
    let found: HashMap<KeyHash, KeyOwner> = rows
        .into_iter()
        .map(|row| (row.key_hash.clone(), row.into()))
        .collect();
    Ok(hashes
        .iter()
        .map(|hash| Ok(found.get(hash).cloned()))
        .collect())
}

impl From<OwnerRow> for KeyOwner {
    fn from(row: OwnerRow) -> Self {
        Self {
            tenant: Tenant(row.organization_id),
            key: row.id,
            name: row.name,
            permissions: Arc::new(row.permissions.0),
            plan: row.plan.0,
            expires_at: row.expires_at.map(Timestamp::from_millis),
            revoked_at: row.revoked_at.map(Timestamp::from_millis),
            last_used_at: row.last_used_at.map(Timestamp::from_millis),
            has_receivers: row.has_receivers != 0,
        }
    }
}

impl Database {
    /// Lists the keys of an organization, oldest first.
    pub async fn api_keys(&self, tenant: Tenant) -> Result<Vec<ApiKey>, StoreError> {
        let rows: Vec<ApiKeyRow> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_ALL)
                .bind(tenant.uuid())
                .fetch_all(&mut **db)
        })?;
        Ok(rows.into_iter().map(ApiKey::from).collect())
    }

    /// Finds a key by its id, with its organization.
    pub async fn api_key(&self, id: ApiKeyId) -> Result<(Tenant, ApiKey), StoreError> {
        let row: ApiKeyRow = read!(self.system().await?, |db| sqlx::query_as(SELECT_BY_ID)
            .bind(id.0)
            .fetch_one(&mut **db))?;
        let key = ApiKey::from(row);
        Ok((Tenant(key.organization_id), key))
    }

    /// Finds a key of an organization.
    pub async fn api_key_of(&self, tenant: Tenant, id: ApiKeyId) -> Result<ApiKey, StoreError> {
        let row: ApiKeyRow = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_IN_ORGANIZATION)
                .bind(tenant.uuid())
                .bind(id.0)
                .fetch_one(&mut **db)
        })?;
        Ok(row.into())
    }

    /// Returns the services of a list that still exist.
    pub async fn services_of(
        &self,
        tenant: Tenant,
        ids: &[ServiceId],
    ) -> Result<Vec<ServiceRef>, StoreError> {
        let mut services = Vec::with_capacity(ids.len());
        for id in ids {
            let found = existing(self.item::<Service>(tenant, *id).await)?;
            services.extend(found.as_ref().map(ServiceRef::from));
        }
        Ok(services)
    }

    /// Returns what `GET /api/key` shows of a key.
    pub async fn key_info(&self, tenant: Tenant, id: ApiKeyId) -> Result<KeyInfo, StoreError> {
        let key = self.api_key_of(tenant, id).await?;
        let organization = self.organization(tenant).await?;
        let services = self.services_of(tenant, &key.permissions.service_ids);
        let services = services.await?;
        Ok(KeyInfo {
            verified: None,
            id: key.id,
            name: key.name,
            masked: key.masked,
            organization: OrganizationRef {
                id: organization.id,
                name: organization.name,
            },
            plan: organization.plan,
            created_at: key.created_at,
            expires_at: key.expires_at,
            scopes: key.permissions.scopes,
            environments: key.permissions.environments,
            services,
        })
    }
}

impl Tx {
    /// Creates a key and records it. The value is returned and not kept.
    ///
    /// # Errors
    /// [`StoreError::QuotaExceeded`] when the organization has too many keys.
    pub async fn insert_api_key(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        new: &NewApiKey,
        now: DateTime<Utc>,
    ) -> Result<CreatedApiKey, StoreError> {
        let id = new_id(now).into();
        self.insert_api_key_with_id(tenant, actor, id, new, now)
            .await
    }

    /// Creates a key as [`Self::insert_api_key`] does, with an id that the caller has chosen.
    ///
    /// # Errors
    /// Also [`StoreError::Conflict`] when there is a key with this id.
    pub async fn insert_api_key_with_id(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        id: ApiKeyId,
        new: &NewApiKey,
        now: DateTime<Utc>,
    ) -> Result<CreatedApiKey, StoreError> {
        let random = Alphanumeric.sample_string(&mut rand::rng(), api_key::RANDOM_LENGTH);
        let created = CreatedApiKey {
            id,
            name: new.name.clone(),
            key: api_key::assemble(&random),
            organization_id: tenant.id(),
            created_at: now.into(),
            expires_at: new.expires_at,
            permissions: new.permissions.clone(),
        };
        or_conflict(execute!(
            self,
            sqlx::query(INSERT)
                .bind(created.id.0)
                .bind(tenant.uuid())
                .bind(&created.name)
                .bind(hash(&created.key))
                .bind(api_key::mask(&created.key))
                .bind(Json(&new.permissions))
                .bind(now.timestamp_millis())
                .bind(new.expires_at.map(Timestamp::millis))
                .bind(&actor.name)
        ))?;
        self.check_quota(tenant, Quota::ApiKeys).await?;
        self.record_pending(
            tenant,
            actor,
            Entry {
                metadata: granted(&new.permissions),
                ..key_entry(Action::Created, created.id, &created.name)
            },
            now,
        )
        .await?;
        Ok(created)
    }

    /// Revokes a key and records it; returns whether it was not revoked before. No
    /// request with the key is accepted after the commit.
    pub async fn revoke_api_key(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        key: &ApiKey,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let revoked = execute!(
            self,
            sqlx::query(REVOKE)
                .bind(key.id.0)
                .bind(now.timestamp_millis())
        )?;
        if revoked > 0 {
            self.record_pending(
                tenant,
                actor,
                key_entry(Action::Revoked, key.id, &key.name),
                now,
            )
            .await?;
        }
        Ok(revoked > 0)
    }
}

/// Returns what the activity log shows of the permissions of a new key.
fn granted(permissions: &Permissions) -> Map<String, Value> {
    let mut granted = activity::fields(permissions);
    granted.retain(|_, list| list.as_array().is_none_or(|list| !list.is_empty()));
    granted
}

fn key_entry(action: Action, id: ApiKeyId, name: &str) -> Entry<'_> {
    Entry {
        action,
        resource_type: ResourceType::ApiKey,
        resource_id: id.0,
        label: name,
        metadata: Map::new(),
    }
}

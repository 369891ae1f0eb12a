//! Workload identities: which pipelines may act without a key.
//!
//! Like keys they are read before the organization is known, and are with them on a database
//! that is distributed.

use std::collections::BTreeSet;
use std::sync::Arc;

use changelog_core::{
    Action, ClaimPattern, KeyInfo, LookupKey, NewWorkload, OrganizationId, OrganizationRef,
    Permissions, Plan, RefusedToken, ResourceType, Timestamp, Workload, WorkloadId,
};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use sqlx::types::{Json, Text, Uuid};
use sqlx::{FromRow, QueryBuilder};

use super::activity::{self, Entry};
use super::engine::error::or_conflict;
use super::engine::{Dialect, PushValue, Results, execute, on, read};
use super::{Actor, Database, Pipeline, StoreError, Tenant, Tx};

/// The most workload identities of an organization.
pub const MAX_WORKLOADS: usize = 200;

macro_rules! columns {
    () => {
        "w.id, w.organization_id, w.name, w.issuer, w.audience, w.claims, w.is_insecure, \
         w.permissions, w.created_by, w.created_at, w.last_used_at, w.refused_at, \
         w.refused_reason"
    };
}

/// The literal limit is above [`MAX_WORKLOADS`], which two requests at once may exceed.
const SELECT_ALL: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM workloads w WHERE w.organization_id = $1 ORDER BY w.name_folded LIMIT 300"
);

const SELECT_ONE: &str = concat!("SELECT ", columns!(), " FROM workloads w WHERE w.id = $1");

const INSERT: &str = "
INSERT INTO workloads (id, organization_id, name, name_folded, issuer, audience, claims,
                       is_insecure, lookup, hint_lookup, permissions, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT DO NOTHING";

const UPDATE: &str = "
UPDATE workloads
SET name = $3, name_folded = $4, issuer = $5, audience = $6, claims = $7, lookup = $8,
    hint_lookup = $9, permissions = $10, is_insecure = $11,
    refused_at = NULL, refused_reason = NULL
WHERE id = $1 AND organization_id = $2";

const DELETE: &str = "DELETE FROM workloads WHERE id = $1 AND organization_id = $2";

/// The most bindings of which one request is told why its token does not fit.
const MAX_HINTS: usize = 5;

#[derive(FromRow)]
struct Row {
    #[sqlx(try_from = "Uuid")]
    id: WorkloadId,
    #[sqlx(try_from = "Uuid")]
    organization_id: OrganizationId,
    name: String,
    issuer: String,
    audience: String,
    claims: Json<Vec<ClaimPattern>>,
    is_insecure: i64,
    permissions: Json<Permissions>,
    created_by: String,
    created_at: i64,
    last_used_at: Option<i64>,
    refused_at: Option<i64>,
    refused_reason: Option<String>,
}

impl From<Row> for Workload {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            name: row.name,
            organization_id: row.organization_id,
            issuer: row.issuer,
            audience: row.audience,
            claims: row.claims.0,
            allow_insecure_issuer: row.is_insecure != 0,
            created_at: Timestamp::from_millis(row.created_at),
            created_by: row.created_by,
            last_used_at: row.last_used_at.map(Timestamp::from_millis),
            last_refusal: row.refused_at.map(|at| RefusedToken {
                at: Timestamp::from_millis(at),
                reason: row.refused_reason.unwrap_or_default(),
            }),
            permissions: row.permissions.0,
        }
    }
}

/// A workload identity as requests are authenticated with it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The organization.
    pub tenant: Tenant,
    /// The workload identity.
    pub workload: Arc<Workload>,
    /// What it may do.
    pub permissions: Arc<Permissions>,
    /// The plan of the organization.
    pub plan: Plan,
    /// Whether the organization has receivers of events.
    pub has_receivers: bool,
}

#[derive(FromRow)]
struct CandidateRow {
    lookup: Uuid,
    plan: Text<Plan>,
    has_receivers: i64,
    #[sqlx(flatten)]
    workload: Row,
}

/// By which bindings are looked up: the hash of a [`LookupKey`].
pub(super) type Lookup = Uuid;

pub(super) fn lookup(key: &LookupKey) -> Lookup {
    let hash = Sha256::digest(key.as_str());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    Uuid::from_bytes(bytes)
}

fn select_candidates<DB: Dialect>(lookups: Vec<Uuid>) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(concat!(
        "SELECT w.lookup, o.plan, o.has_receivers, ",
        columns!(),
        " FROM workloads w JOIN organizations o ON o.id = w.organization_id WHERE w.lookup"
    ));
    DB::push_in_ids(&mut query, lookups);
    query
}

fn select_hints<DB: Dialect>(organization: OrganizationId, lookups: Vec<Uuid>) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(concat!("SELECT ", columns!(), " FROM workloads w"));
    query.push_value(" WHERE w.organization_id = ", organization.0);
    query.push(" AND w.hint_lookup");
    DB::push_in_ids(&mut query, lookups);
    query.push(" ORDER BY w.hint_lookup, w.id LIMIT 5");
    query
}

/// Finds the bindings that tokens may fit, by the lookups of each token.
pub(super) async fn candidates(
    database: Database,
    tokens: Vec<Vec<Lookup>>,
) -> Results<Option<Vec<Candidate>>> {
    let distinct: BTreeSet<Lookup> = tokens.iter().flatten().copied().collect();
    let rows: Vec<CandidateRow> = read!(database.system().await?, |db| async {
        let mut query = select_candidates(distinct.into_iter().collect());
        query.build_query_as().fetch_all(&mut **db).await
    })?;
    let found: Vec<(Lookup, Candidate)> = rows
        .into_iter()
        .map(|row| (row.lookup, row.into()))
        .collect();
    let of = |lookups: &Vec<Lookup>| {
        let fitting = found.iter().filter(|(lookup, _)| lookups.contains(lookup));
        let fitting: Vec<Candidate> = fitting.map(|(_, one)| one.clone()).collect();
        Ok((!fitting.is_empty()).then_some(fitting))
    };
    Ok(tokens.iter().map(of).collect())
}

impl From<CandidateRow> for Candidate {
    fn from(row: CandidateRow) -> Self {
        let workload = Workload::from(row.workload);
        Self {
            tenant: Tenant(workload.organization_id),
            permissions: Arc::new(workload.permissions.clone()),
            workload: Arc::new(workload),
            plan: row.plan.0,
            has_receivers: row.has_receivers != 0,
        }
    }
}

impl Database {
    /// Lists the workload identities of an organization by name.
    pub async fn workloads(&self, tenant: Tenant) -> Result<Vec<Workload>, StoreError> {
        let rows: Vec<Row> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_ALL)
                .bind(tenant.uuid())
                .fetch_all(&mut **db)
        })?;
        Ok(rows.into_iter().map(Workload::from).collect())
    }

    /// Finds a workload identity by its id, with its organization.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn workload(&self, id: WorkloadId) -> Result<(Tenant, Workload), StoreError> {
        let row: Option<Row> = read!(self.system().await?, |db| sqlx::query_as(SELECT_ONE)
            .bind(id.0)
            .fetch_optional(&mut **db))?;
        let workload = Workload::from(row.ok_or(StoreError::NotFound)?);
        Ok((Tenant(workload.organization_id), workload))
    }

    /// Finds a workload identity of an organization.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn workload_of(
        &self,
        tenant: Tenant,
        id: WorkloadId,
    ) -> Result<Workload, StoreError> {
        let (owner, workload) = self.workload(id).await?;
        if owner == tenant {
            return Ok(workload);
        }
        Err(StoreError::NotFound)
    }

    /// Returns what `GET /api/key` shows of the token of a pipeline.
    pub async fn pipeline_info(
        &self,
        tenant: Tenant,
        pipeline: &Pipeline,
        expires_at: Option<Timestamp>,
    ) -> Result<KeyInfo, StoreError> {
        let workload = self.workload_of(tenant, pipeline.workload).await?;
        let organization = self.organization(tenant).await?;
        let services = self.services_of(tenant, &workload.permissions.service_ids);
        let services = services.await?;
        Ok(KeyInfo {
            id: workload.id.0.into(),
            name: workload.name,
            verified: Some(Box::new((*pipeline.run).clone())),
            masked: "id token".to_owned(),
            organization: OrganizationRef {
                id: organization.id,
                name: organization.name,
            },
            plan: organization.plan,
            created_at: workload.created_at,
            expires_at,
            scopes: workload.permissions.scopes,
            environments: workload.permissions.environments,
            services,
        })
    }

    /// Finds some of the bindings of an organization that a token does not fit, but which may say
    /// why.
    pub async fn workloads_nearby(
        &self,
        organization: OrganizationId,
        keys: &[LookupKey],
    ) -> Result<Vec<Workload>, StoreError> {
        let lookups: Vec<Uuid> = keys.iter().map(lookup).collect();
        let rows: Vec<Row> = read!(self.system().await?, |db| async {
            let mut query = select_hints(organization, lookups);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        debug_assert!(rows.len() <= MAX_HINTS);
        Ok(rows.into_iter().map(Workload::from).collect())
    }
}

impl Tx {
    /// Makes a workload identity and records it. Returns `None`, and makes nothing, when the
    /// organization has [`MAX_WORKLOADS`].
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the name or the id is taken.
    pub async fn insert_workload(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        id: WorkloadId,
        new: NewWorkload,
        allow_insecure_issuer: bool,
        now: DateTime<Utc>,
    ) -> Result<Option<Workload>, StoreError> {
        let rows: Vec<Row> = on!(&mut self.connection, |db| sqlx::query_as(SELECT_ALL)
            .bind(tenant.uuid())
            .fetch_all(&mut **db))?;
        if rows.len() >= MAX_WORKLOADS {
            return Ok(None);
        }
        let (issuer, audience, claims) = (&new.issuer, &new.audience, &new.claims);
        let inserted = execute!(
            self,
            sqlx::query(INSERT)
                .bind(id.0)
                .bind(tenant.uuid())
                .bind(&new.name)
                .bind(new.name.to_lowercase())
                .bind(issuer)
                .bind(audience)
                .bind(Json(claims))
                .bind(i64::from(allow_insecure_issuer))
                .bind(lookup(&LookupKey::of_binding(issuer, audience, claims)))
                .bind(lookup(&LookupKey::of_hints(issuer, audience, claims)))
                .bind(Json(&new.permissions))
                .bind(&actor.name)
                .bind(now.timestamp_millis())
        )?;
        if inserted == 0 {
            return Err(StoreError::Conflict);
        }
        let workload = Workload {
            id,
            name: new.name,
            organization_id: tenant.id(),
            issuer: new.issuer,
            audience: new.audience,
            claims: new.claims,
            allow_insecure_issuer,
            created_at: now.into(),
            created_by: actor.name.clone(),
            last_used_at: None,
            last_refusal: None,
            permissions: new.permissions,
        };
        let mut metadata = activity::fields(&workload.permissions);
        metadata.retain(|_, list| list.as_array().is_none_or(|list| !list.is_empty()));
        metadata.insert("issuer".to_owned(), json!(workload.issuer));
        metadata.insert("audience".to_owned(), json!(workload.audience));
        metadata.insert("claims".to_owned(), json!(workload.claims));
        if allow_insecure_issuer {
            metadata.insert("allow_insecure_issuer".to_owned(), json!(true));
        }
        let entry = entry(Action::Created, &workload, metadata);
        self.record_pending(tenant, actor, entry, now).await?;
        Ok(Some(workload))
    }

    /// Replaces what a workload identity is bound to and what it may do, and records it. What it
    /// no longer allows is refused after the commit, on every server.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], and [`StoreError::Conflict`] when another one has the name.
    pub async fn update_workload(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        before: &Workload,
        new: NewWorkload,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let after = Workload {
            name: new.name,
            // An operator has allowed one issuer to be reached in any way, and no other.
            allow_insecure_issuer: before.allow_insecure_issuer && before.issuer == new.issuer,
            issuer: new.issuer,
            audience: new.audience,
            claims: new.claims,
            permissions: new.permissions,
            ..before.clone()
        };
        let mut changes = activity::difference(before, &after);
        let (from, to) = (
            &before.permissions.service_ids,
            &after.permissions.service_ids,
        );
        if from != to {
            changes.insert("service_ids".to_owned(), json!({ "from": from, "to": to }));
        }
        if changes.is_empty() {
            return Ok(());
        }
        let (issuer, audience, claims) = (&after.issuer, &after.audience, &after.claims);
        let updated = execute!(
            self,
            sqlx::query(UPDATE)
                .bind(after.id.0)
                .bind(tenant.uuid())
                .bind(&after.name)
                .bind(after.name.to_lowercase())
                .bind(issuer)
                .bind(audience)
                .bind(Json(claims))
                .bind(lookup(&LookupKey::of_binding(issuer, audience, claims)))
                .bind(lookup(&LookupKey::of_hints(issuer, audience, claims)))
                .bind(Json(&after.permissions))
                .bind(i64::from(after.allow_insecure_issuer))
        );
        if or_conflict(updated)? == 0 {
            return Err(StoreError::NotFound);
        }
        let entry = entry(Action::Updated, &after, activity::changed(changes));
        self.record_pending(tenant, actor, entry, now).await
    }

    /// Deletes a workload identity and records it. No request with a token that fits it is
    /// accepted after the commit, unless the token fits another one.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn delete_workload(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        workload: &Workload,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let deleted = execute!(
            self,
            sqlx::query(DELETE).bind(workload.id.0).bind(tenant.uuid())
        )?;
        if deleted == 0 {
            return Err(StoreError::NotFound);
        }
        let entry = entry(Action::Deleted, workload, Map::new());
        self.record_pending(tenant, actor, entry, now).await
    }
}

fn entry(action: Action, workload: &Workload, metadata: Map<String, Value>) -> Entry<'_> {
    Entry {
        action,
        resource_type: ResourceType::Workload,
        resource_id: workload.id.0,
        label: &workload.name,
        metadata,
    }
}

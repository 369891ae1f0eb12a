//! Sources: the addresses at which other systems send what changes.

use changelog_core::{Action, ResourceType, SourceId, SourceKind, SourceRef, Timestamp};
use changelog_sources::Settings;
use chrono::{DateTime, Utc};
use serde_json::{Map, json};
use sqlx::FromRow;
use sqlx::types::{Text, Uuid};

use super::activity::Entry;
use super::engine::{execute, on, read};
use super::sessions::hash;
use super::{Actor, Database, Reporter, StoreError, Tenant, Tx};

/// The most sources of an organization.
pub const MAX_SOURCES: usize = 100;

macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT id, kind, name, secret, settings, created_at, created_by, disabled_at, \
             last_event_at, refused, refused_at, refused_reason, confirm_url FROM sources \
             WHERE organization_id = $1 ",
            $condition
        )
    };
}

/// The literal limit is above [`MAX_SOURCES`], which two requests at once may exceed.
const SELECT_ALL: &str = select!("ORDER BY name_folded LIMIT 200");
const SELECT_ONE: &str = select!("AND id = $2");
const SELECT_BY_TOKEN: &str = select!("AND token_hash = $2");

/// The organization of a source, for commands that have only its id.
const SELECT_ORGANIZATION: &str = "SELECT organization_id FROM sources WHERE id = $1";

const HAS_RECEIVERS: &str = "SELECT has_receivers FROM organizations WHERE id = $1";

const INSERT: &str = "
INSERT INTO sources (organization_id, id, kind, name, name_folded, token_hash, secret, settings,
                     created_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT DO NOTHING";

const UPDATE: &str = "
UPDATE sources SET name = $3, name_folded = $4, secret = $5, settings = $6, disabled_at = $7
WHERE organization_id = $1 AND id = $2";

const RENEW: &str = "
UPDATE sources SET token_hash = $3 WHERE organization_id = $1 AND id = $2";

const REPLACE_SECRET: &str = "
UPDATE sources SET secret = $3 WHERE organization_id = $1 AND id = $2 AND secret = $4";

const WITH_SOURCES: &str = "SELECT DISTINCT organization_id FROM sources";

const DELETE: &str = "DELETE FROM sources WHERE organization_id = $1 AND id = $2";

const REFUSED: &str = "
UPDATE sources SET refused = refused + 1, refused_at = $3, refused_reason = $4
WHERE organization_id = $1 AND id = $2";

const CONFIRM: &str = "
UPDATE sources SET confirm_url = $3 WHERE organization_id = $1 AND id = $2";

const DISMISS: &str = "
UPDATE sources SET refused = 0, refused_at = NULL, refused_reason = NULL, confirm_url = NULL
WHERE organization_id = $1 AND id = $2";

/// The beginning of a token.
const TOKEN_PREFIX: &str = "src_";

/// Makes the token of an address from random characters. It begins with the organization,
/// so that the source is found where the organization's rows are.
pub fn token_of(tenant: Tenant, random: &str) -> String {
    format!("{TOKEN_PREFIX}{}_{random}", tenant.uuid().simple())
}

/// Returns the organization that a token begins with.
fn tenant_of(token: &str) -> Option<Tenant> {
    let (organization, _) = token.strip_prefix(TOKEN_PREFIX)?.split_once('_')?;
    Some(Tenant(Uuid::try_parse(organization).ok()?.into()))
}

/// A source.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its organization.
    pub tenant: Tenant,
    /// The id.
    pub id: SourceId,
    /// What sends to it.
    pub kind: SourceKind,
    /// The name, unique in the organization without regard to case.
    pub name: String,
    /// By which the sender proves its requests, encrypted.
    pub secret: Option<Vec<u8>>,
    /// How its requests are read.
    pub settings: Settings,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who made it.
    pub created_by: String,
    /// Since when it takes nothing.
    pub disabled_at: Option<Timestamp>,
    /// When the last of its requests that was read arrived.
    pub last_event_at: Option<Timestamp>,
    /// The requests that did not prove their origin: how many, when and why the last one.
    pub refused: Option<Refused>,
    /// The link by which the sender wants the address to be confirmed.
    pub confirm_url: Option<String>,
}

/// Requests that did not prove their origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// How many.
    pub count: i64,
    /// When the last one arrived.
    pub at: Timestamp,
    /// Why the last one was refused, in a sentence for the admin.
    pub reason: String,
}

#[derive(FromRow)]
struct Row {
    #[sqlx(try_from = "Uuid")]
    id: SourceId,
    kind: Text<SourceKind>,
    name: String,
    secret: Option<Vec<u8>>,
    settings: String,
    created_at: i64,
    created_by: String,
    disabled_at: Option<i64>,
    last_event_at: Option<i64>,
    refused: i64,
    refused_at: Option<i64>,
    refused_reason: Option<String>,
    confirm_url: Option<String>,
}

impl Source {
    /// Returns the source without its address and its secret, as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "id": self.id,
            "name": self.name,
            "kind": self.kind,
            "settings": self.settings,
            "is_signed": self.secret.is_some(),
            "created_at": self.created_at,
            "created_by": self.created_by,
            "disabled_at": self.disabled_at,
            "last_event_at": self.last_event_at,
            "refused": self.refused.as_ref().map(|refused| json!({
                "count": refused.count, "at": refused.at, "reason": refused.reason,
            })),
            "confirm_url": self.confirm_url,
        })
    }

    fn of(tenant: Tenant, row: Row) -> Result<Self, StoreError> {
        let settings = serde_json::from_str(&row.settings);
        Ok(Self {
            tenant,
            id: row.id,
            kind: row.kind.0,
            name: row.name,
            secret: row.secret,
            settings: settings.map_err(|error| super::changes::broken(&error))?,
            created_at: Timestamp::from_millis(row.created_at),
            created_by: row.created_by,
            disabled_at: row.disabled_at.map(Timestamp::from_millis),
            last_event_at: row.last_event_at.map(Timestamp::from_millis),
            refused: row.refused_at.map(|at| Refused {
                count: row.refused,
                at: Timestamp::from_millis(at),
                reason: row.refused_reason.unwrap_or_default(),
            }),
            confirm_url: row.confirm_url,
        })
    }
}

impl Source {
    /// Returns who acts when a change follows from what the sender has told;
    /// `has_receivers` as in [`Actor::has_receivers`].
    pub fn actor(&self, has_receivers: bool) -> Actor {
        let source = SourceRef {
            id: self.id,
            kind: self.kind.clone(),
            name: self.name.clone(),
        };
        Actor::source(source, has_receivers)
    }

    fn settings_json(&self) -> Result<String, StoreError> {
        serde_json::to_string(&self.settings).map_err(|error| super::changes::broken(&error))
    }

    fn entry(&self, action: Action, mut metadata: Map<String, serde_json::Value>) -> Entry<'_> {
        metadata.insert("kind".to_owned(), self.kind.as_str().into());
        Entry {
            action,
            resource_type: ResourceType::Source,
            resource_id: self.id.0,
            label: &self.name,
            metadata,
        }
    }

    /// Returns what the activity log shows of an update.
    fn differences(&self, after: &Self) -> Map<String, serde_json::Value> {
        let shown = |source: &Self| {
            json!({
                "name": source.name,
                "settings": source.settings,
                "enabled": source.disabled_at.is_none(),
            })
        };
        let mut changes = Map::new();
        let (before, now) = (shown(self), shown(after));
        for name in ["name", "settings", "enabled"] {
            if before[name] != now[name] {
                changes.insert(
                    name.to_owned(),
                    json!({ "from": before[name], "to": now[name] }),
                );
            }
        }
        if self.secret != after.secret {
            // Never the secret itself.
            changes.insert("secret".to_owned(), json!({ "from": "***", "to": "***" }));
        }
        changes
    }
}

impl Database {
    /// Lists the sources of an organization by name.
    pub async fn sources(&self, tenant: Tenant) -> Result<Vec<Source>, StoreError> {
        let rows: Vec<Row> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_ALL)
                .bind(tenant.uuid())
                .fetch_all(&mut **db)
        })?;
        rows.into_iter()
            .map(|row| Source::of(tenant, row))
            .collect()
    }

    /// Finds a source by its id, for the operator.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn source(&self, id: SourceId) -> Result<Source, StoreError> {
        let row: Option<(Uuid,)> = read!(self.system().await?, |db| {
            sqlx::query_as(SELECT_ORGANIZATION)
                .bind(id.0)
                .fetch_optional(&mut **db)
        })?;
        let (organization,) = row.ok_or(StoreError::NotFound)?;
        self.source_of(Tenant(organization.into()), id).await
    }

    /// Finds a source of an organization.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn source_of(&self, tenant: Tenant, id: SourceId) -> Result<Source, StoreError> {
        let row: Option<Row> = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_ONE)
                .bind(tenant.uuid())
                .bind(id.0)
                .fetch_optional(&mut **db)
        })?;
        Source::of(tenant, row.ok_or(StoreError::NotFound)?)
    }

    /// Finds the source that has a token.
    pub async fn source_of_token(&self, token: &str) -> Result<Option<Source>, StoreError> {
        let Some(tenant) = tenant_of(token) else {
            return Ok(None);
        };
        let row: Option<Row> = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_BY_TOKEN)
                .bind(tenant.uuid())
                .bind(hash(token))
                .fetch_optional(&mut **db)
        })?;
        row.map(|row| Source::of(tenant, row)).transpose()
    }

    /// Returns the organizations that have sources.
    pub async fn tenants_with_sources(&self) -> Result<Vec<Tenant>, StoreError> {
        let rows: Vec<(Uuid,)> = read!(self.system().await?, |db| {
            sqlx::query_as(WITH_SOURCES).fetch_all(&mut **db)
        })?;
        Ok(rows.into_iter().map(|(id,)| Tenant(id.into())).collect())
    }

    /// Replaces the encrypted secret of a source by the same one, encrypted by another key.
    /// Returns `false` if it was changed meanwhile.
    pub async fn replace_secret(
        &self,
        source: &Source,
        encrypted: &[u8],
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin_for(source.tenant).await?;
        let replaced = execute!(
            tx,
            sqlx::query(REPLACE_SECRET)
                .bind(source.tenant.uuid())
                .bind(source.id.0)
                .bind(encrypted)
                .bind(&source.secret)
        )?;
        tx.commit().await?;
        Ok(replaced > 0)
    }

    /// Returns whether an organization has receivers of events.
    pub async fn has_receivers(&self, tenant: Tenant) -> Result<bool, StoreError> {
        let row: Option<(i64,)> = read!(self.system().await?, |db| {
            sqlx::query_as(HAS_RECEIVERS)
                .bind(tenant.uuid())
                .fetch_optional(&mut **db)
        })?;
        Ok(row == Some((1,)))
    }

    /// Records that a request did not prove its origin.
    pub async fn refuse_request(
        &self,
        source: &Source,
        reason: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin_for(source.tenant).await?;
        execute!(
            tx,
            sqlx::query(REFUSED)
                .bind(source.tenant.uuid())
                .bind(source.id.0)
                .bind(now.millis())
                .bind(reason)
        )?;
        tx.commit().await
    }

    /// Keeps the link by which the sender wants the address to be confirmed.
    pub async fn keep_confirmation(&self, source: &Source, url: &str) -> Result<(), StoreError> {
        let mut tx = self.begin_for(source.tenant).await?;
        execute!(
            tx,
            sqlx::query(CONFIRM)
                .bind(source.tenant.uuid())
                .bind(source.id.0)
                .bind(url)
        )?;
        tx.commit().await
    }

    /// Forgets the requests that were refused and the link by which the address is
    /// confirmed: an admin has seen to them.
    pub async fn dismiss_notices(&self, source: &Source) -> Result<(), StoreError> {
        let mut tx = self.begin_for(source.tenant).await?;
        execute!(
            tx,
            sqlx::query(DISMISS)
                .bind(source.tenant.uuid())
                .bind(source.id.0)
        )?;
        tx.commit().await
    }
}

impl Tx {
    /// Makes a source. Returns whether the organization has fewer than [`MAX_SOURCES`];
    /// otherwise, nothing is made.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the name is taken.
    pub async fn insert_source(
        &mut self,
        actor: &Actor,
        source: &Source,
        token: &str,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let tenant = source.tenant;
        let rows: Vec<Row> = on!(&mut self.connection, |db| sqlx::query_as(SELECT_ALL)
            .bind(tenant.uuid())
            .fetch_all(&mut **db))?;
        if rows.len() >= MAX_SOURCES {
            return Ok(false);
        }
        let inserted = execute!(
            self,
            sqlx::query(INSERT)
                .bind(tenant.uuid())
                .bind(source.id.0)
                .bind(source.kind.as_str())
                .bind(&source.name)
                .bind(source.name.to_lowercase())
                .bind(hash(token))
                .bind(&source.secret)
                .bind(source.settings_json()?)
                .bind(source.created_at.millis())
                .bind(&source.created_by)
        )?;
        if inserted == 0 {
            return Err(StoreError::Conflict);
        }
        let entry = source.entry(Action::Created, Map::new());
        self.record(tenant, actor, entry, now).await?;
        Ok(true)
    }

    /// Replaces the name, the secret, the settings and whether a source takes requests.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when another one has the name.
    pub async fn update_source(
        &mut self,
        actor: &Actor,
        before: &Source,
        after: &Source,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let changes = before.differences(after);
        if changes.is_empty() {
            return Ok(());
        }
        let updated = execute!(
            self,
            sqlx::query(UPDATE)
                .bind(after.tenant.uuid())
                .bind(after.id.0)
                .bind(&after.name)
                .bind(after.name.to_lowercase())
                .bind(&after.secret)
                .bind(after.settings_json()?)
                .bind(after.disabled_at.map(Timestamp::millis))
        );
        if super::engine::error::or_conflict(updated)? == 0 {
            return Err(StoreError::NotFound);
        }
        let entry = after.entry(Action::Updated, super::activity::changed(changes));
        self.record(after.tenant, actor, entry, now).await
    }

    /// Replaces the token of a source: the former address is no longer valid.
    pub async fn renew_source(
        &mut self,
        actor: &Actor,
        source: &Source,
        token: &str,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(RENEW)
                .bind(source.tenant.uuid())
                .bind(source.id.0)
                .bind(hash(token))
        )?;
        let address = json!({ "address": { "from": "***", "to": "***" } });
        let changes = address.as_object().cloned().unwrap_or_default();
        let entry = source.entry(Action::Updated, super::activity::changed(changes));
        self.record(source.tenant, actor, entry, now).await
    }

    /// Deletes a source. Its changes stay; its requests are deleted when they are old.
    pub async fn delete_source(
        &mut self,
        actor: &Actor,
        source: &Source,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(DELETE)
                .bind(source.tenant.uuid())
                .bind(source.id.0)
        )?;
        self.forget_rhythm(source.tenant, Reporter::Source(source.id))
            .await?;
        let entry = source.entry(Action::Deleted, Map::new());
        self.record(source.tenant, actor, entry, now).await
    }
}

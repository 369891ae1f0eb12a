//! Connections to receivers. Where they send is stored encrypted; the store does not
//! know how.

use changelog_core::{Action, ConnectionId, ConnectionKind, EventFilter, ResourceType, Timestamp};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use sqlx::FromRow;
use sqlx::types::{Text, Uuid};

use super::activity::{Entry, changed, difference};
use super::engine::error::or_conflict;
use super::engine::{execute, on, read};
use super::{Actor, Database, StoreError, Tenant, Tx};

/// The most connections of an organization.
pub const MAX_CONNECTIONS: usize = 50;

macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT id, kind, name, address, target, filter, created_at, created_by, disabled_at, \
             disabled_reason, failing_since, hold_until FROM connections WHERE organization_id = $1 ",
            $condition
        )
    };
}

/// The literal limit is [`MAX_CONNECTIONS`], which two requests at once may exceed.
const SELECT_ALL: &str = select!("ORDER BY name_folded LIMIT 100");
const SELECT_ONE: &str = select!("AND id = $2");

/// Locks the row on PostgreSQL between reading and updating it.
const LOCK: &str = "UPDATE connections SET name = name WHERE organization_id = $1 AND id = $2";

/// The organization of a connection, for commands that have only its id.
const SELECT_ORGANIZATION: &str = "SELECT organization_id FROM connections WHERE id = $1";

const INSERT: &str = "
INSERT INTO connections (organization_id, id, kind, name, name_folded, address, target, filter,
                         created_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT DO NOTHING";

const UPDATE: &str = "
UPDATE connections
SET name = $3, name_folded = $4, address = $5, target = $6, filter = $7
WHERE organization_id = $1 AND id = $2";

/// What another receiver calls the messages that it was sent.
const FORGET_MESSAGES: &str =
    "DELETE FROM receiver_messages WHERE organization_id = $1 AND connection_id = $2";

const UPDATE_TARGET: &str = "
UPDATE connections SET target = $3 WHERE organization_id = $1 AND id = $2";

const DISABLE: &str = "
UPDATE connections SET disabled_at = $3, disabled_reason = $4
WHERE organization_id = $1 AND id = $2 AND disabled_at IS NULL";

const ENABLE: &str = "
UPDATE connections
SET disabled_at = NULL, disabled_reason = NULL, failing_since = NULL, hold_until = NULL
WHERE organization_id = $1 AND id = $2";

const DELETE: &str = "DELETE FROM connections WHERE organization_id = $1 AND id = $2";

const HOLD: &str = "
UPDATE connections SET hold_until = $3
WHERE organization_id = $1 AND id = $2 AND (hold_until IS NULL OR hold_until < $3)";

/// Takes the turn to send, if it is nobody else's.
const TAKE_TURN: &str = "
UPDATE connections SET hold_until = $4
WHERE organization_id = $1 AND id = $2 AND disabled_at IS NULL
    AND (hold_until IS NULL OR hold_until <= $3)";

const FAILING: &str = "
UPDATE connections SET failing_since = $3
WHERE organization_id = $1 AND id = $2 AND (failing_since IS NULL OR failing_since < $3)";

const WORKING: &str = "
UPDATE connections SET failing_since = NULL
WHERE organization_id = $1 AND id = $2 AND failing_since IS NOT NULL";

/// A connection to a receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    /// The id.
    pub id: ConnectionId,
    /// What it sends to.
    pub kind: ConnectionKind,
    /// The name, unique in the organization without regard to case.
    pub name: String,
    /// What may be shown of where it sends: no secret.
    pub address: String,
    /// Where it sends, encrypted.
    pub target: Vec<u8>,
    /// Which events it sends.
    pub filter: EventFilter,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who made it.
    pub created_by: String,
    /// Since when and why it sends nothing.
    pub disabled: Option<Disabled>,
    /// The first failure since the last success.
    pub failing_since: Option<Timestamp>,
    /// Nothing is sent before this time.
    pub hold_until: Option<Timestamp>,
}

/// Why a connection sends nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disabled {
    /// Since when.
    pub at: Timestamp,
    /// Why, in a sentence for people.
    pub reason: String,
}

/// How the reason begins if a person has disabled a connection.
const BY_PERSON: &str = "Disabled by ";

impl Disabled {
    pub(super) fn of(at: Option<i64>, reason: Option<String>) -> Option<Self> {
        Some(Self {
            at: Timestamp::from_millis(at?),
            reason: reason.unwrap_or_default(),
        })
    }

    /// Returns the reason if a person disables a connection.
    pub fn reason_of_person(name: &str) -> String {
        format!("{BY_PERSON}{name}.")
    }

    /// Returns whether a person has disabled the connection.
    pub fn is_by_person(&self) -> bool {
        self.reason.starts_with(BY_PERSON)
    }
}

#[derive(FromRow)]
struct Row {
    #[sqlx(try_from = "Uuid")]
    id: ConnectionId,
    kind: Text<ConnectionKind>,
    name: String,
    address: String,
    target: Vec<u8>,
    filter: String,
    created_at: i64,
    created_by: String,
    disabled_at: Option<i64>,
    disabled_reason: Option<String>,
    failing_since: Option<i64>,
    hold_until: Option<i64>,
}

impl TryFrom<Row> for Connection {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let filter = serde_json::from_str(&row.filter);
        Ok(Self {
            id: row.id,
            kind: row.kind.0,
            name: row.name,
            address: row.address,
            target: row.target,
            filter: filter.map_err(|error| super::changes::broken(&error))?,
            created_at: Timestamp::from_millis(row.created_at),
            created_by: row.created_by,
            disabled: Disabled::of(row.disabled_at, row.disabled_reason),
            failing_since: row.failing_since.map(Timestamp::from_millis),
            hold_until: row.hold_until.map(Timestamp::from_millis),
        })
    }
}

impl Connection {
    /// Returns the connection without what is secret of its address, as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "id": self.id,
            "name": self.name,
            "kind": self.kind,
            "address": self.address,
            "filter": self.filter,
            "created_at": self.created_at,
            "created_by": self.created_by,
            "disabled_at": self.disabled.as_ref().map(|disabled| disabled.at),
            "disabled_reason": self.disabled.as_ref().map(|disabled| &disabled.reason),
            "failing_since": self.failing_since,
        })
    }

    fn filter_json(&self) -> Result<String, StoreError> {
        serde_json::to_string(&self.filter).map_err(|error| super::changes::broken(&error))
    }

    /// Returns what the activity log shows of it.
    fn shown(&self) -> Value {
        json!({ "name": self.name, "address": self.address, "filter": self.filter })
    }

    fn entry(&self, action: Action, mut metadata: Map<String, Value>) -> Entry<'_> {
        metadata.insert("kind".to_owned(), self.kind.as_str().into());
        Entry {
            action,
            resource_type: ResourceType::Integration,
            resource_id: self.id.0,
            label: &self.name,
            metadata,
        }
    }
}

impl Database {
    /// Lists the connections of an organization by name.
    pub async fn connections(&self, tenant: Tenant) -> Result<Vec<Connection>, StoreError> {
        let rows: Vec<Row> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_ALL)
                .bind(tenant.uuid())
                .fetch_all(&mut **db)
        })?;
        rows.into_iter().map(Connection::try_from).collect()
    }

    /// Finds a connection.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn connection(
        &self,
        tenant: Tenant,
        id: ConnectionId,
    ) -> Result<Connection, StoreError> {
        let row: Option<Row> = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_ONE)
                .bind(tenant.uuid())
                .bind(id.0)
                .fetch_optional(&mut **db)
        })?;
        row.ok_or(StoreError::NotFound)?.try_into()
    }

    /// Finds the organization of a connection, for the operator.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn organization_of_connection(&self, id: ConnectionId) -> Result<Tenant, StoreError> {
        let row: Option<(Uuid,)> = read!(self.system().await?, |db| {
            sqlx::query_as(SELECT_ORGANIZATION)
                .bind(id.0)
                .fetch_optional(&mut **db)
        })?;
        row.map(|(id,)| Tenant(id.into()))
            .ok_or(StoreError::NotFound)
    }

    /// Makes a connection. Events of changes that are recorded from now on are sent to it.
    /// Returns whether the organization has fewer than [`MAX_CONNECTIONS`]; otherwise,
    /// nothing is made.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the name is taken, or the id.
    pub async fn insert_connection(
        &self,
        tenant: Tenant,
        actor: &Actor,
        connection: &Connection,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        self.require_events(tenant).await?;
        let mut tx = self.begin_for(tenant).await?;
        if tx.connections(tenant).await?.len() >= MAX_CONNECTIONS {
            return Ok(false);
        }
        let inserted = execute!(
            tx,
            sqlx::query(INSERT)
                .bind(tenant.uuid())
                .bind(connection.id.0)
                .bind(connection.kind.as_str())
                .bind(&connection.name)
                .bind(connection.name.to_lowercase())
                .bind(&connection.address)
                .bind(&connection.target)
                .bind(connection.filter_json()?)
                .bind(connection.created_at.millis())
                .bind(&connection.created_by)
        )?;
        if inserted == 0 {
            return Err(StoreError::Conflict);
        }
        let entry = connection.entry(Action::Connected, Map::new());
        tx.record(tenant, actor, entry, now).await?;
        tx.commit().await?;
        Ok(true)
    }
}

impl Tx {
    /// Lists the connections of an organization by name.
    pub async fn connections(&mut self, tenant: Tenant) -> Result<Vec<Connection>, StoreError> {
        let rows: Vec<Row> = on!(&mut self.connection, |db| {
            sqlx::query_as(SELECT_ALL)
                .bind(tenant.uuid())
                .fetch_all(&mut **db)
        })?;
        rows.into_iter().map(Connection::try_from).collect()
    }

    /// Reads a connection, and locks it on PostgreSQL.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn lock_connection(
        &mut self,
        tenant: Tenant,
        id: ConnectionId,
    ) -> Result<Connection, StoreError> {
        execute!(self, sqlx::query(LOCK).bind(tenant.uuid()).bind(id.0))?;
        let row: Option<Row> = on!(&mut self.connection, |db| {
            sqlx::query_as(SELECT_ONE)
                .bind(tenant.uuid())
                .bind(id.0)
                .fetch_optional(&mut **db)
        })?;
        row.ok_or(StoreError::NotFound)?.try_into()
    }

    /// Replaces the name, the target and the filter of a connection, which the caller has
    /// locked before.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when another one has the name.
    pub async fn update_connection(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        before: &Connection,
        after: &Connection,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let updated = execute!(
            self,
            sqlx::query(UPDATE)
                .bind(tenant.uuid())
                .bind(after.id.0)
                .bind(&after.name)
                .bind(after.name.to_lowercase())
                .bind(&after.address)
                .bind(&after.target)
                .bind(after.filter_json()?)
        );
        or_conflict(updated)?;
        if before.address != after.address {
            execute!(
                self,
                sqlx::query(FORGET_MESSAGES)
                    .bind(tenant.uuid())
                    .bind(after.id.0)
            )?;
        }
        let mut changes = difference(&before.shown(), &after.shown());
        if before.target != after.target && !changes.contains_key("address") {
            // What they were and are is not recorded.
            changes.insert("secrets".to_owned(), json!({ "from": "***", "to": "***" }));
        }
        if changes.is_empty() {
            return Ok(());
        }
        let entry = after.entry(Action::Updated, changed(changes));
        self.record(tenant, actor, entry, now).await
    }

    /// Replaces the encrypted target of a connection by the same one, encrypted by another
    /// key.
    pub async fn replace_target(
        &mut self,
        tenant: Tenant,
        id: ConnectionId,
        target: &[u8],
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(UPDATE_TARGET)
                .bind(tenant.uuid())
                .bind(id.0)
                .bind(target)
        )?;
        Ok(())
    }

    /// Lets a connection send nothing until it is enabled again. The events until then are
    /// not sent to it later.
    pub async fn disable_connection(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        connection: &Connection,
        reason: &str,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let disabled = execute!(
            self,
            sqlx::query(DISABLE)
                .bind(tenant.uuid())
                .bind(connection.id.0)
                .bind(now.timestamp_millis())
                .bind(reason)
        )?;
        if disabled == 0 {
            return Ok(());
        }
        let mut metadata = changed(enabled(true, false));
        metadata.insert("reason".to_owned(), reason.into());
        let entry = connection.entry(Action::Updated, metadata);
        self.record(tenant, actor, entry, now).await
    }

    /// Lets a connection send again, also what was queued before it was disabled.
    pub async fn enable_connection(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        connection: &Connection,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(ENABLE)
                .bind(tenant.uuid())
                .bind(connection.id.0)
        )?;
        self.retry_pending(tenant, connection.id, now.into())
            .await?;
        let entry = connection.entry(Action::Updated, changed(enabled(false, true)));
        self.record(tenant, actor, entry, now).await?;
        self.wake_worker(tenant);
        Ok(())
    }

    /// Deletes a connection. What was queued for it is not sent.
    pub async fn delete_connection(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        connection: &Connection,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let deleted = execute!(
            self,
            sqlx::query(DELETE)
                .bind(tenant.uuid())
                .bind(connection.id.0)
        )?;
        if deleted == 0 {
            return Err(StoreError::NotFound);
        }
        let entry = connection.entry(Action::Disconnected, Map::new());
        self.record(tenant, actor, entry, now).await
    }

    /// Sends nothing by a connection before a time.
    pub(super) async fn hold_connection(
        &mut self,
        tenant: Tenant,
        id: ConnectionId,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(HOLD)
                .bind(tenant.uuid())
                .bind(id.0)
                .bind(until.millis())
        )?;
        Ok(())
    }

    /// Takes the turn to send by a connection, and leaves the next one to any server at
    /// `next`. Returns whether nothing is to be sent now.
    pub(super) async fn take_turn(
        &mut self,
        tenant: Tenant,
        id: ConnectionId,
        now: Timestamp,
        next: Timestamp,
    ) -> Result<bool, StoreError> {
        let taken = execute!(
            self,
            sqlx::query(TAKE_TURN)
                .bind(tenant.uuid())
                .bind(id.0)
                .bind(now.millis())
                .bind(next.millis())
        )?;
        Ok(taken > 0)
    }

    /// Records since when a connection fails, or that it works.
    pub(super) async fn set_failing(
        &mut self,
        tenant: Tenant,
        id: ConnectionId,
        since: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        match since {
            Some(at) => execute!(
                self,
                sqlx::query(FAILING)
                    .bind(tenant.uuid())
                    .bind(id.0)
                    .bind(at.millis())
            ),
            None => execute!(self, sqlx::query(WORKING).bind(tenant.uuid()).bind(id.0)),
        }?;
        Ok(())
    }
}

fn enabled(from: bool, to: bool) -> Map<String, Value> {
    difference(&json!({ "enabled": from }), &json!({ "enabled": to }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::explain;

    #[tokio::test]
    async fn connections_are_found_by_their_key() {
        for statement in [
            SELECT_ALL,
            SELECT_ONE,
            SELECT_ORGANIZATION,
            TAKE_TURN,
            HOLD,
            FAILING,
            WORKING,
        ] {
            let plan = explain::of(statement).await;
            assert!(plan[0].starts_with("SEARCH connections"), "{plan:?}");
        }
    }
}

//! What sources have told of: operations, each of which is one change, and the calls that
//! were counted.

use changelog_core::{ChangeId, SourceId, Timestamp};
use changelog_sources::Operation;
use chrono::TimeDelta;
use sha2::{Digest, Sha256};
use sqlx::types::Uuid;
use sqlx::{FromRow, QueryBuilder};

use super::engine::{Dialect, PushValue, Value, execute, on, push_limit, read};
use super::{Database, Source, StoreError, Tenant, Tx};

/// How long operations are kept after their last request.
pub(super) const OPERATIONS_KEPT: TimeDelta = TimeDelta::days(90);
/// How long the ids of calls are kept.
pub(super) const CALLS_KEPT: TimeDelta = TimeDelta::days(14);

/// Deletes 1,000 operations that are older than the time to keep them.
pub(super) const PURGE: &str = "
DELETE FROM source_operations WHERE (organization_id, source_id, key_hash) IN
    (SELECT organization_id, source_id, key_hash FROM source_operations WHERE updated_at < $1
     ORDER BY updated_at LIMIT 1000)";

/// Deletes 1,000 ids of calls that are older than the time to keep them.
pub(super) const PURGE_CALLS: &str = "
DELETE FROM source_calls WHERE (organization_id, source_id, call_hash) IN
    (SELECT organization_id, source_id, call_hash FROM source_calls WHERE seen_at < $1
     ORDER BY seen_at LIMIT 1000)";

const PUT: &str = "
INSERT INTO source_operations (organization_id, source_id, key_hash, change_id, session, document,
                               first_at, last_at, due_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (organization_id, source_id, key_hash) DO UPDATE SET
    document = excluded.document, first_at = excluded.first_at, last_at = excluded.last_at,
    due_at = excluded.due_at, updated_at = excluded.updated_at,
    change_id = excluded.change_id";

/// A change may have taken the place of the one for which the call was counted.
const CALL: &str = "
SELECT coalesce(joined.into_id, counted.change_id) FROM source_calls counted
LEFT JOIN joined_changes joined ON joined.organization_id = counted.organization_id
    AND joined.change_id = counted.change_id
WHERE counted.organization_id = $1 AND counted.source_id = $2 AND counted.call_hash = $3";

const ADD_CALL: &str = "
INSERT INTO source_calls (organization_id, source_id, call_hash, change_id, seen_at)
VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";

const DUE: &str = "
SELECT organization_id, source_id, key_hash, updated_at FROM source_operations
WHERE due_at IS NOT NULL AND due_at < $1 ORDER BY due_at LIMIT 100";

const POSTPONE: &str = "
UPDATE source_operations SET due_at = $4
WHERE organization_id = $1 AND source_id = $2 AND key_hash = $3";

const DELETE: &str = "
DELETE FROM source_operations
WHERE organization_id = $1 AND source_id = $2 AND key_hash = $3";

/// An operation with the change that it is shown as.
#[derive(Clone, Debug)]
pub struct StoredOperation {
    /// The SHA-256 of what it is known by.
    pub key: Vec<u8>,
    /// That of its session, if it is one.
    pub session: Option<Vec<u8>>,
    /// The change.
    pub change: ChangeId,
    /// What is known of it.
    pub operation: Operation,
}

/// A session that something is to be done about.
#[derive(Clone, Debug)]
pub struct DueSession {
    /// Its organization.
    pub tenant: Tenant,
    /// Its source, which may have been deleted.
    pub source: SourceId,
    /// What it is known by.
    pub key: Vec<u8>,
    /// When the last of its calls arrived.
    pub updated_at: Timestamp,
}

#[derive(FromRow)]
struct Row {
    key_hash: Vec<u8>,
    change_id: Uuid,
    session: Option<Vec<u8>>,
    document: String,
}

impl TryFrom<Row> for StoredOperation {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let operation = serde_json::from_str(&row.document);
        Ok(Self {
            key: row.key_hash,
            session: row.session,
            change: row.change_id.into(),
            operation: operation.map_err(|error| super::changes::broken(&error))?,
        })
    }
}

/// Selects the operation that is known by a key.
fn select_by_key<DB: Dialect>(source: &Source, key: &[u8]) -> QueryBuilder<DB> {
    let mut query = select(source);
    query.push_value(" AND key_hash = ", Value::Bytes(key));
    query.push(DB::FOR_UPDATE);
    query
}

/// Selects the sessions that a call may belong to: the one before it and the one after it,
/// because there are three minutes between sessions. One more, as two that people have edited are
/// not joined.
fn select_sessions<DB: Dialect>(
    source: &Source,
    session: &[u8],
    at: Timestamp,
) -> QueryBuilder<DB> {
    let since = at.plus(-changelog_sources::SESSION_PAUSE);
    let mut query = select(source);
    query.push_value(" AND session = ", Value::Bytes(session));
    query.push_value(" AND last_at >= ", since.millis());
    query.push(" ORDER BY last_at");
    push_limit(&mut query, 3, 0);
    query.push(DB::FOR_UPDATE);
    query
}

fn select<DB: Dialect>(source: &Source) -> QueryBuilder<DB> {
    let mut query =
        QueryBuilder::new("SELECT key_hash, change_id, session, document FROM source_operations");
    query.push_value(" WHERE organization_id = ", source.tenant.uuid());
    query.push_value(" AND source_id = ", source.id.0);
    query
}

/// Returns what operations and calls are stored under.
pub fn hash_of(name: impl AsRef<[u8]>) -> Vec<u8> {
    Sha256::digest(name).to_vec()
}

impl Database {
    /// Returns sessions whose pause is over or that a run may explain, a hundred at most.
    pub async fn due_sessions(&self, now: Timestamp) -> Result<Vec<DueSession>, StoreError> {
        let rows: Vec<(Uuid, Uuid, Vec<u8>, i64)> = read!(self.system().await?, |db| {
            sqlx::query_as(DUE).bind(now.millis()).fetch_all(&mut **db)
        })?;
        let due = rows
            .into_iter()
            .map(|(tenant, source, key, updated_at)| DueSession {
                tenant: Tenant(tenant.into()),
                source: source.into(),
                key,
                updated_at: Timestamp::from_millis(updated_at),
            });
        Ok(due.collect())
    }
}

impl Tx {
    /// Finds an operation by its key, and locks it: several servers may attend to one session.
    pub async fn operation(
        &mut self,
        source: &Source,
        key: &[u8],
    ) -> Result<Option<StoredOperation>, StoreError> {
        let row: Option<Row> = on!(&mut self.connection, |db| async {
            let mut query = select_by_key(source, key);
            query.build_query_as().fetch_optional(&mut **db).await
        })?;
        row.map(StoredOperation::try_from).transpose()
    }

    /// Finds the sessions that a call at a time belongs to, the earliest first: two, if it is
    /// between them and nearer to both than a pause. Locks them.
    pub async fn sessions_at(
        &mut self,
        source: &Source,
        session: &[u8],
        at: Timestamp,
    ) -> Result<Vec<StoredOperation>, StoreError> {
        let rows: Vec<Row> = on!(&mut self.connection, |db| async {
            let mut query = select_sessions(source, session, at);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let mut sessions = rows
            .into_iter()
            .map(StoredOperation::try_from)
            .collect::<Result<Vec<_>, _>>()?;
        sessions.retain(|stored| stored.operation.takes_call_at(at));
        Ok(sessions)
    }

    /// Stores an operation. At `due_at` it is one of the [due](Database::due_sessions).
    pub async fn put_operation(
        &mut self,
        source: &Source,
        stored: &StoredOperation,
        due_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let document = serde_json::to_string(&stored.operation);
        let document = document.map_err(|error| super::changes::broken(&error))?;
        let (first, last) = stored.operation.span();
        execute!(
            self,
            sqlx::query(PUT)
                .bind(source.tenant.uuid())
                .bind(source.id.0)
                .bind(&stored.key)
                .bind(stored.change.0)
                .bind(&stored.session)
                .bind(&document)
                .bind(first.millis())
                .bind(last.millis())
                .bind(due_at.map(Timestamp::millis))
                .bind(now.millis())
        )?;
        Ok(())
    }

    /// Returns the change that a call was counted for.
    pub async fn change_of_call(
        &mut self,
        source: &Source,
        call: &[u8],
    ) -> Result<Option<ChangeId>, StoreError> {
        let row: Option<(Uuid,)> = on!(&mut self.connection, |db| sqlx::query_as(CALL)
            .bind(source.tenant.uuid())
            .bind(source.id.0)
            .bind(call)
            .fetch_optional(&mut **db))?;
        Ok(row.map(|(id,)| id.into()))
    }

    /// Records that a call was counted.
    pub async fn add_call(
        &mut self,
        source: &Source,
        call: &[u8],
        change: ChangeId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(ADD_CALL)
                .bind(source.tenant.uuid())
                .bind(source.id.0)
                .bind(call)
                .bind(change.0)
                .bind(now.millis())
        )?;
        Ok(())
    }

    /// Sets when something is to be done about a session; `None` for never.
    pub async fn postpone_session(
        &mut self,
        session: &DueSession,
        due_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(POSTPONE)
                .bind(session.tenant.uuid())
                .bind(session.source.0)
                .bind(&session.key)
                .bind(due_at.map(Timestamp::millis))
        )?;
        Ok(())
    }

    /// Deletes an operation whose calls another one has.
    pub async fn delete_operation(
        &mut self,
        source: &Source,
        key: &[u8],
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(DELETE)
                .bind(source.tenant.uuid())
                .bind(source.id.0)
                .bind(key)
        )?;
        Ok(())
    }
}

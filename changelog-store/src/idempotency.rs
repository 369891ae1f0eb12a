//! Idempotency keys: what the first request with a key created, or that its name
//! was taken, is kept in the transaction of the work itself. Either both are
//! recorded or neither.

use changelog_core::limits::IDEMPOTENCY_TTL;
use changelog_core::{ApiKeyId, ChangeId, Host, Incident, Service, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sqlx::types::Uuid;
use sqlx::{FromRow, QueryBuilder};

use super::engine::{
    Dialect, Engine, PushValue, Script, Value, execute, on, push_organization, push_values,
};
use super::{StoreError, Tenant, Tx};

/// How many bytes of the hash identify a key.
const SCOPE_HASH_BYTES: usize = 16;

/// Claims a key for this transaction. On PostgreSQL a second request waits here
/// until the first has ended; on SQLite it has waited for the write lock.
const CLAIM: &str = "
INSERT INTO idempotency (organization_id, scope, fingerprint, outcome, created_at)
VALUES ($1, $2, $3, '', $4) ON CONFLICT DO NOTHING";

/// Deletes the outcome that was read, and no new one that is in its place since. No index has a
/// sum: PostgreSQL would look for all of that time.
const DELETE: &str = "
DELETE FROM idempotency WHERE organization_id = $1 AND scope = $2 AND created_at + 0 = $3";

/// Before the rows of requests whose outcome is known.
const INSERT: &str = "
INSERT INTO idempotency (organization_id, scope, fingerprint, outcome, created_at) ";

const SET_OUTCOME: &str = "
UPDATE idempotency SET outcome = $3 WHERE organization_id = $1 AND scope = $2";

/// Rows are appended in the order of time, so that the oldest are the first: an
/// index by age would be one more to write for every request with a key. A row
/// whose key was claimed again, or that was written before the clock was set back,
/// may be younger than the rows after it; those wait until it expires only if the
/// first 1,000 rows are all like that.
const DELETE_EXPIRED_SQLITE: &str = "
DELETE FROM idempotency
WHERE rowid IN (SELECT rowid FROM idempotency ORDER BY rowid LIMIT 1000) AND created_at < $1";

const DELETE_EXPIRED_POSTGRES: &str = "
DELETE FROM idempotency WHERE (organization_id, scope) IN
    (SELECT organization_id, scope FROM idempotency WHERE created_at < $1
     ORDER BY created_at LIMIT 1000)";

/// Returns the statement that deletes at most 1,000 rows that are older than a
/// moment.
pub(super) fn delete_expired<S, P>(engine: &Engine<S, P>) -> &'static str {
    match engine {
        Engine::Sqlite(_) => DELETE_EXPIRED_SQLITE,
        Engine::Postgres(_) => DELETE_EXPIRED_POSTGRES,
    }
}

/// A request with an idempotency key.
#[derive(Clone, Debug)]
pub struct KeyedRequest {
    tenant: Tenant,
    /// Identifies the key.
    scope: Vec<u8>,
    /// Identifies the body.
    fingerprint: Vec<u8>,
}

impl KeyedRequest {
    /// Identifies a request by its key. The same key with another API key, method
    /// or path is another key.
    pub fn new(
        tenant: Tenant,
        api_key: ApiKeyId,
        method: &str,
        path: &str,
        key: &str,
        body: &[u8],
    ) -> Self {
        let mut hash = Sha256::new();
        for part in [
            api_key.0.as_bytes().as_slice(),
            method.as_bytes(),
            path.as_bytes(),
        ] {
            hash.update(part);
            hash.update([0]);
        }
        hash.update(key.as_bytes());
        let mut scope = time_prefix(key).to_vec();
        scope.extend_from_slice(&hash.finalize()[..SCOPE_HASH_BYTES]);
        Self {
            tenant,
            scope,
            fingerprint: Sha256::digest(body).to_vec(),
        }
    }

    /// Returns the columns that identify its row.
    fn key(&self) -> [Value<'_>; 2] {
        [self.tenant.uuid().into(), self.scope.as_slice().into()]
    }
}

/// Returns the time in a key that is a UUID version 7, and nothing for other
/// keys. Put before the hash, it keeps keys of one time next to each other in the
/// index: on SQLite a create writes a page less, 11,400 creates/s instead of
/// 9,300 over 32 connections.
fn time_prefix(key: &str) -> Box<[u8]> {
    match Uuid::try_parse(key) {
        Ok(uuid) if uuid.get_version_num() == 7 => uuid.as_bytes()[..6].into(),
        _ => Box::default(),
    }
}

/// What became of the first request with a key. The request itself is not kept,
/// because a repeated request has the same body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Changes were created, in the order of the request.
    Changes(Vec<CreatedChange>),
    /// A host was created.
    Host(Host),
    /// A service was created.
    Service(Service),
    /// An incident was opened.
    Incident(Box<Incident>),
    /// The name was taken.
    NameTaken {
        /// The id of the first request, which its answer contains.
        request_id: String,
    },
}

/// What the body of a request does not say about a change that it created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedChange {
    /// Its id.
    pub id: ChangeId,
    /// When it was created.
    pub created_at: Timestamp,
}

/// The state of an idempotency key when a request claims it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// The key is new: this transaction has claimed it.
    Claimed,
    /// An earlier request with the same body ended so.
    Replayed(Box<Outcome>),
    /// An earlier request with another body used the key.
    Reused,
}

/// The row of a key.
#[derive(Debug, FromRow)]
pub(super) struct IdempotencyRow {
    organization_id: Uuid,
    scope: Vec<u8>,
    fingerprint: Vec<u8>,
    /// An [`Outcome`] as JSON.
    outcome: String,
    created_at: i64,
}

impl IdempotencyRow {
    /// Returns whether it has not expired.
    pub(super) fn is_valid_at(&self, now: Timestamp) -> bool {
        self.created_at >= now.plus(-IDEMPOTENCY_TTL).millis()
    }

    /// Returns whether it is the row of this request's key.
    pub(super) fn is_for(&self, request: &KeyedRequest) -> bool {
        self.organization_id == request.tenant.uuid() && self.scope == request.scope
    }

    /// Returns the state of the key for a later request.
    pub(super) fn state_for(&self, request: &KeyedRequest) -> Result<KeyState, StoreError> {
        if self.fingerprint != request.fingerprint {
            return Ok(KeyState::Reused);
        }
        let outcome = serde_json::from_str(&self.outcome);
        outcome
            .map(Box::new)
            .map(KeyState::Replayed)
            .map_err(|error| {
                let message = format!("a stored outcome cannot be read: {error}");
                sqlx::Error::Decode(message.into()).into()
            })
    }
}

/// Writes the statements that keep the outcomes of requests with new keys, in
/// place of expired ones.
pub(super) fn push<DB: Dialect>(
    script: &mut Script<DB>,
    mut outcomes: Vec<(&KeyedRequest, String, Timestamp)>,
    expired: &[IdempotencyRow],
) {
    for row in expired {
        let query = script.statement("DELETE FROM idempotency WHERE organization_id = ");
        DB::bind(query, row.organization_id.into());
        query.push_value(" AND scope = ", row.scope.as_slice());
        // Another transaction may have put a new one in its place since it was read.
        query.push_value(" AND created_at + 0 = ", row.created_at);
    }
    // In one order, so that no two transactions wait for each other's keys.
    outcomes.sort_by(|(one, ..), (other, ..)| one.scope.cmp(&other.scope));
    let rows: Vec<[Value<'_>; 5]> = outcomes
        .iter()
        .map(|(request, outcome, now)| {
            [
                request.tenant.uuid().into(),
                request.scope.as_slice().into(),
                request.fingerprint.as_slice().into(),
                outcome.as_str().into(),
                now.millis().into(),
            ]
        })
        .collect();
    script.insert(INSERT, &rows, "");
}

impl Outcome {
    /// Writes it as it is kept.
    pub(super) fn to_json(&self) -> String {
        // Strings, numbers and lists of them always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Tx {
    /// Claims the idempotency key of a request for this transaction, or finds what
    /// the first request with it ended with.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when the first request is still running after the
    /// lock timeout.
    pub async fn claim_key(
        &mut self,
        request: &KeyedRequest,
        now: Timestamp,
    ) -> Result<KeyState, StoreError> {
        loop {
            let claimed = execute!(
                self,
                sqlx::query(CLAIM)
                    .bind(request.tenant.uuid())
                    .bind(&request.scope)
                    .bind(&request.fingerprint)
                    .bind(now.millis())
            )?;
            if claimed > 0 {
                return Ok(KeyState::Claimed);
            }
            let rows = self.find_keys([request].into_iter()).await?;
            match rows.first() {
                Some(row) if row.is_valid_at(now) => return row.state_for(request),
                Some(expired) => {
                    execute!(
                        self,
                        sqlx::query(DELETE)
                            .bind(request.tenant.uuid())
                            .bind(&request.scope)
                            .bind(expired.created_at)
                    )?;
                }
                // It had expired, and was deleted meanwhile.
                None => {}
            }
        }
    }

    /// Finds the rows of requests' keys, expired ones included.
    pub(super) async fn find_keys<'r>(
        &mut self,
        requests: impl Iterator<Item = &'r KeyedRequest> + Clone + Send,
    ) -> Result<Vec<IdempotencyRow>, StoreError> {
        if requests.clone().next().is_none() {
            return Ok(Vec::new());
        }
        let rows: Vec<IdempotencyRow> = on!(&mut self.connection, |db| async {
            let mut query = select_keys(requests);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(rows)
    }

    /// Keeps the outcome of a request whose key this transaction has claimed.
    pub async fn keep_outcome(
        &mut self,
        request: &KeyedRequest,
        outcome: &Outcome,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(SET_OUTCOME)
                .bind(request.tenant.uuid())
                .bind(&request.scope)
                .bind(outcome.to_json())
        )?;
        Ok(())
    }
}

/// Selects the rows of requests' keys.
fn select_keys<'r, DB: Dialect>(
    requests: impl Iterator<Item = &'r KeyedRequest> + Clone,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(
        "SELECT i.organization_id, i.scope, i.fingerprint, i.outcome, i.created_at FROM (",
    );
    push_values(&mut query, requests.clone().map(KeyedRequest::key));
    query.push(
        ") AS wanted JOIN idempotency i ON i.organization_id = wanted.column1 \
         AND i.scope = wanted.column2",
    );
    let organization = requests.map(|request| request.tenant.uuid()).next();
    push_organization(&mut query, "i.organization_id", organization);
    query
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn request(key: &str, path: &str, body: &str) -> KeyedRequest {
        let tenant = Tenant(Uuid::nil().into());
        KeyedRequest::new(
            tenant,
            Uuid::nil().into(),
            "POST",
            path,
            key,
            body.as_bytes(),
        )
    }

    #[test]
    fn keys_of_one_time_are_next_to_each_other() {
        let key = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
        let scope = request(key, "/a", "").scope;
        assert_eq!(scope[..6], [0x01, 0x8f, 0x4e, 0x9a, 0x7b, 0x1c]);
        assert_eq!(scope.len(), 6 + SCOPE_HASH_BYTES);
        assert_eq!(request("run-42", "/a", "").scope.len(), SCOPE_HASH_BYTES);
        assert_ne!(scope, request(key, "/b", "").scope);
    }

    #[test]
    fn an_outcome_is_for_the_same_body_and_expires() {
        let first = request("k", "/a", "one");
        let row = IdempotencyRow {
            organization_id: Uuid::nil(),
            scope: first.scope.clone(),
            fingerprint: first.fingerprint.clone(),
            outcome: Outcome::Changes(Vec::new()).to_json(),
            created_at: 0,
        };
        assert!(row.is_for(&first) && !row.is_for(&request("l", "/a", "one")));
        let replayed = KeyState::Replayed(Box::new(Outcome::Changes(Vec::new())));
        assert_eq!(row.state_for(&first).unwrap(), replayed);
        let other = request("k", "/a", "two");
        assert_eq!(row.state_for(&other).unwrap(), KeyState::Reused);
        let end = Timestamp::EPOCH.plus(IDEMPOTENCY_TTL);
        assert!(row.is_valid_at(end));
        assert!(!row.is_valid_at(end.plus(TimeDelta::milliseconds(1))));
    }
}

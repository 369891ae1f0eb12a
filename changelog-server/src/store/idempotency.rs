//! Answers kept for requests that are sent again under one idempotency key,
//! written in the transaction of the work itself: either both are there, or
//! neither.

use changelog_core::{ApiKeyId, Timestamp};
use chrono::TimeDelta;
use sha2::{Digest, Sha256};
use sqlx::types::Uuid;
use sqlx::{FromRow, QueryBuilder};

use super::engine::{Dialect, Script, Value, execute, on, push_values};
use super::{StoreError, Tenant, Tx};

/// How long an answer is kept.
pub(super) const KEPT: TimeDelta = TimeDelta::hours(48);

/// How many bytes of a hash tell keys apart.
const SCOPE: usize = 16;

/// Takes the key for this transaction. On PostgreSQL a second request waits
/// here until the first has ended; on SQLite it has waited for the writer.
const CLAIM: &str = "
INSERT INTO idempotency (organization_id, scope, fingerprint, status, location, body, created_at)
VALUES ($1, $2, $3, 0, NULL, '', $4) ON CONFLICT DO NOTHING";

/// Takes a key whose answer has outlived its time.
const TAKE_OVER: &str = "
UPDATE idempotency SET fingerprint = $3, status = 0, location = NULL, body = '', created_at = $4
WHERE organization_id = $1 AND scope = $2";

/// Before the rows of answers whose work is done.
const INSERT: &str = "
INSERT INTO idempotency (organization_id, scope, fingerprint, status, location, body, created_at) ";

const KEEP: &str = "
UPDATE idempotency SET status = $3, location = $4, body = $5
WHERE organization_id = $1 AND scope = $2";

pub(super) const PURGE: &str = "
DELETE FROM idempotency WHERE (organization_id, scope) IN
    (SELECT organization_id, scope FROM idempotency WHERE created_at < $1
     ORDER BY created_at LIMIT 1000)";

/// What identifies a request and what it asks for.
#[derive(Clone, Debug)]
pub struct Claim {
    tenant: Tenant,
    scope: Vec<u8>,
    fingerprint: Vec<u8>,
}

impl Claim {
    /// Makes the claim of one request: keys of different API keys, methods and
    /// paths have nothing to do with each other.
    pub fn new(
        tenant: Tenant,
        api_key: ApiKeyId,
        method: &str,
        path: &str,
        key: &str,
        body: &[u8],
    ) -> Self {
        let mut scope = Sha256::new();
        for part in [
            api_key.0.as_bytes().as_slice(),
            method.as_bytes(),
            path.as_bytes(),
        ] {
            scope.update(part);
            scope.update([0]);
        }
        scope.update(key.as_bytes());
        let mut ordered = time_of(key).to_vec();
        ordered.extend_from_slice(&scope.finalize()[..SCOPE]);
        Self {
            tenant,
            scope: ordered,
            fingerprint: Sha256::digest(body).to_vec(),
        }
    }
}

/// Returns the time in a key that is a UUID version 7, nothing for others. Put
/// before the hash, it has answers of one time stand side by side in the index:
/// on SQLite a create writes a page less, 11,400 a second instead of 9,300 over
/// 32 connections.
fn time_of(key: &str) -> Box<[u8]> {
    match Uuid::try_parse(key) {
        Ok(uuid) if uuid.get_version_num() == 7 => uuid.as_bytes()[..6].into(),
        _ => Box::default(),
    }
}

/// An answer as it was given the first time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The `Location` header, if it had one.
    pub location: Option<String>,
    /// The body.
    pub body: String,
    /// Whether the request that got it had the same body as this one.
    pub same_request: bool,
}

impl Claim {
    /// Returns what finds its row.
    fn key(&self) -> [Value<'_>; 2] {
        [self.tenant.uuid().into(), self.scope.as_slice().into()]
    }
}

/// An answer as it is kept.
#[derive(Debug, FromRow)]
pub(super) struct Stored {
    organization_id: Uuid,
    scope: Vec<u8>,
    fingerprint: Vec<u8>,
    status: i64,
    location: Option<String>,
    body: String,
    created_at: i64,
}

impl Stored {
    /// Tells whether it has not outlived its time.
    pub(super) fn is_kept_at(&self, now: Timestamp) -> bool {
        self.created_at >= now.plus(-KEPT).millis()
    }

    /// Tells whether it was given for this key.
    pub(super) fn is_for(&self, claim: &Claim) -> bool {
        self.organization_id == claim.tenant.uuid() && self.scope == claim.scope
    }

    /// Returns it as the answer to a request under the same key.
    pub(super) fn answer_to(&self, claim: &Claim) -> StoredAnswer {
        StoredAnswer {
            status: u16::try_from(self.status).unwrap_or(500),
            location: self.location.clone(),
            body: self.body.clone(),
            same_request: self.fingerprint == claim.fingerprint,
        }
    }
}

/// Keeps answers for keys that are not kept yet, in place of some that have
/// outlived their time.
pub(super) fn push<'a, DB: Dialect>(
    script: &mut Script<DB>,
    answers: impl Iterator<Item = (&'a Claim, &'a StoredAnswer, Timestamp)>,
    expired: &[Stored],
) {
    for stored in expired {
        let query = script.statement("DELETE FROM idempotency WHERE organization_id = ");
        DB::bind(query, stored.organization_id.into());
        query.push(" AND scope = ");
        DB::bind(query, stored.scope.as_slice().into());
    }
    let mut answers: Vec<_> = answers.collect();
    // In one order, so that no two transactions wait for each other's keys.
    answers.sort_by(|(one, ..), (other, ..)| one.scope.cmp(&other.scope));
    let rows: Vec<[Value<'_>; 7]> = answers
        .iter()
        .map(|(claim, answer, now)| {
            [
                claim.tenant.uuid().into(),
                claim.scope.as_slice().into(),
                claim.fingerprint.as_slice().into(),
                i64::from(answer.status).into(),
                answer.location.as_deref().into(),
                answer.body.as_str().into(),
                now.millis().into(),
            ]
        })
        .collect();
    script.insert(INSERT, &rows, "");
}

impl Tx {
    /// Claims an idempotency key for this transaction, or finds the answer
    /// that was given for it.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when the first request is still running after
    /// the lock timeout.
    pub async fn claim(
        &mut self,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Option<StoredAnswer>, StoreError> {
        if self.take(CLAIM, claim, now).await? > 0 {
            return Ok(None);
        }
        let stored = self.stored_answers([claim].into_iter()).await?;
        match stored.into_iter().next() {
            Some(stored) if stored.is_kept_at(now) => Ok(Some(stored.answer_to(claim))),
            _ => {
                self.take(TAKE_OVER, claim, now).await?;
                Ok(None)
            }
        }
    }

    async fn take(
        &mut self,
        statement: &'static str,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        execute!(
            self,
            sqlx::query(statement)
                .bind(claim.tenant.uuid())
                .bind(&claim.scope)
                .bind(&claim.fingerprint)
                .bind(now.millis())
        )
    }

    /// Finds the answers that were given for keys, expired ones included.
    pub(super) async fn stored_answers<'c>(
        &mut self,
        claims: impl Iterator<Item = &'c Claim> + Clone + Send,
    ) -> Result<Vec<Stored>, StoreError> {
        if claims.clone().next().is_none() {
            return Ok(Vec::new());
        }
        let rows: Vec<Stored> = on!(&mut self.connection, |db| async {
            let mut query = QueryBuilder::new(
                "SELECT i.organization_id, i.scope, i.fingerprint, i.status, i.location, i.body, \
                 i.created_at FROM (",
            );
            let keys = claims.map(Claim::key).collect::<Vec<_>>();
            push_values(&mut query, keys);
            query.push(
                ") AS wanted JOIN idempotency i ON i.organization_id = wanted.column1 \
                 AND i.scope = wanted.column2",
            );
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(rows)
    }

    /// Keeps the answer for a key that this transaction has claimed.
    pub async fn keep_answer(
        &mut self,
        claim: &Claim,
        answer: &StoredAnswer,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(KEEP)
                .bind(claim.tenant.uuid())
                .bind(&claim.scope)
                .bind(i64::from(answer.status))
                .bind(&answer.location)
                .bind(&answer.body)
        )?;
        Ok(())
    }
}

//! Answers kept for requests that are sent again under one idempotency key,
//! written in the transaction of the work itself: either both are there, or
//! neither.

use changelog_core::{ApiKeyId, Timestamp};
use chrono::TimeDelta;
use sha2::{Digest, Sha256};

use super::engine::{execute, on};
use super::{StoreError, Tenant, Tx};

/// How long an answer is kept.
pub(super) const KEPT: TimeDelta = TimeDelta::hours(48);

/// Takes the key for this transaction. On PostgreSQL a second request waits
/// here until the first has ended; on SQLite it has waited for the writer. An
/// answer that has outlived its time is overwritten.
const CLAIM: &str = "
INSERT INTO idempotency (organization_id, scope, fingerprint, status, location, body, created_at)
VALUES ($1, $2, $3, 0, NULL, '', $4)
ON CONFLICT (organization_id, scope) DO UPDATE
SET fingerprint = excluded.fingerprint, status = 0, location = NULL, body = '',
    created_at = excluded.created_at
WHERE idempotency.created_at < $5";

const STORED: &str = "
SELECT fingerprint, status, location, body FROM idempotency
WHERE organization_id = $1 AND scope = $2";

const KEEP: &str = "
UPDATE idempotency SET status = $3, location = $4, body = $5
WHERE organization_id = $1 AND scope = $2";

pub(super) const PURGE: &str = "DELETE FROM idempotency WHERE created_at < $1";

/// What identifies a request and what it asks for.
#[derive(Clone, Debug)]
pub struct Claim {
    scope: Vec<u8>,
    fingerprint: Vec<u8>,
}

impl Claim {
    /// Makes the claim of one request: keys of different API keys, methods and
    /// paths have nothing to do with each other.
    pub fn new(api_key: ApiKeyId, method: &str, path: &str, key: &str, body: &[u8]) -> Self {
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
        Self {
            scope: scope.finalize().to_vec(),
            fingerprint: Sha256::digest(body).to_vec(),
        }
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

impl Tx {
    /// Claims an idempotency key for this transaction, or finds the answer
    /// that was given for it.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when the first request is still running after
    /// the lock timeout.
    pub async fn claim(
        &mut self,
        tenant: Tenant,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Option<StoredAnswer>, StoreError> {
        let claimed = execute!(
            self,
            sqlx::query(CLAIM)
                .bind(tenant.uuid())
                .bind(&claim.scope)
                .bind(&claim.fingerprint)
                .bind(now.millis())
                .bind(now.plus(-KEPT).millis())
        )?;
        if claimed > 0 {
            return Ok(None);
        }
        let (fingerprint, status, location, body): (Vec<u8>, i64, Option<String>, String) =
            on!(&mut self.connection, |db| {
                sqlx::query_as(STORED)
                    .bind(tenant.uuid())
                    .bind(&claim.scope)
                    .fetch_one(&mut **db)
            })?;
        Ok(Some(StoredAnswer {
            status: u16::try_from(status).unwrap_or(500),
            location,
            body,
            same_request: fingerprint == claim.fingerprint,
        }))
    }

    /// Keeps the answer for a key that this transaction has claimed.
    pub async fn keep_answer(
        &mut self,
        tenant: Tenant,
        claim: &Claim,
        answer: &StoredAnswer,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(KEEP)
                .bind(tenant.uuid())
                .bind(&claim.scope)
                .bind(i64::from(answer.status))
                .bind(&answer.location)
                .bind(&answer.body)
        )?;
        Ok(())
    }
}

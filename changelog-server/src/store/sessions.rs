//! Browser sessions, and the memory of failed sign-ins.

use changelog_core::member::fold_email;
use changelog_core::{OrganizationId, Role, Timestamp, UserId};
use chrono::TimeDelta;
use sha2::{Digest, Sha256};
use sqlx::FromRow;
use sqlx::types::{Text, Uuid};

use super::engine::{execute, on};
use super::{Store, StoreError, Tenant, Tx};

/// A session ends after this long without a request.
pub(super) const IDLE: TimeDelta = TimeDelta::days(7);
/// A session ends after this long whatever happens.
const ABSOLUTE: TimeDelta = TimeDelta::days(30);
/// Failed sign-ins are forgotten after this long without another.
pub(super) const FAILURES_KEPT: TimeDelta = TimeDelta::days(1);
/// How exactly the last use of a session is known.
const TOUCH_AFTER: TimeDelta = TimeDelta::minutes(1);
/// Wrong passwords that cost nothing.
const FREE_FAILURES: i64 = 5;
/// The longest wait between two sign-ins, in seconds.
const LONGEST_WAIT: i64 = 15 * 60;

/// The membership is joined: a person who was removed has no session left.
const BY_TOKEN: &str = "
SELECT s.user_id, s.organization_id, s.created_at, s.last_seen_at, u.name, u.email, m.role,
       o.name AS organization_name
FROM sessions s
JOIN users u ON u.id = s.user_id
JOIN memberships m ON m.organization_id = s.organization_id AND m.user_id = s.user_id
JOIN organizations o ON o.id = s.organization_id
WHERE s.token_hash = $1";

const INSERT: &str = "
INSERT INTO sessions (token_hash, user_id, organization_id, created_at, last_seen_at)
VALUES ($1, $2, $3, $4, $4)";

const TOUCH: &str = "UPDATE sessions SET last_seen_at = $2 WHERE token_hash = $1";
const DELETE: &str = "DELETE FROM sessions WHERE token_hash = $1";
const DELETE_OF_USER: &str = "DELETE FROM sessions WHERE user_id = $1";
pub(super) const PURGE_IDLE: &str = "
DELETE FROM sessions WHERE token_hash IN
    (SELECT token_hash FROM sessions WHERE last_seen_at < $1 ORDER BY last_seen_at LIMIT 1000)";

const FAILURES: &str = "
SELECT failures, last_failed_at FROM sign_in_failures WHERE email_folded = $1";

const FIRST_ATTEMPT: &str = "
INSERT INTO sign_in_failures (email_folded, failures, last_failed_at) VALUES ($1, 0, 0)
ON CONFLICT (email_folded) DO NOTHING";

/// Locks the row on PostgreSQL, so that what was read is what is counted.
const LOCK_ATTEMPTS: &str =
    "UPDATE sign_in_failures SET failures = failures WHERE email_folded = $1";

const COUNT_ATTEMPT: &str = "
UPDATE sign_in_failures SET failures = failures + 1, last_failed_at = $2 WHERE email_folded = $1";

const FORGIVE: &str = "DELETE FROM sign_in_failures WHERE email_folded = $1";
pub(super) const PURGE_FAILURES: &str = "
DELETE FROM sign_in_failures WHERE email_folded IN
    (SELECT email_folded FROM sign_in_failures WHERE last_failed_at < $1
     ORDER BY last_failed_at LIMIT 1000)";

/// A person, acting in one organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Their id.
    pub id: UserId,
    /// Their name.
    pub name: String,
    /// Their address.
    pub email: String,
    /// What they may do.
    pub role: Role,
}

/// A session that is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The organization that it acts in.
    pub tenant: Tenant,
    /// The name of that organization.
    pub organization_name: String,
    /// Who acts.
    pub person: Person,
    /// Whether the last use should be noted anew.
    pub stale: bool,
}

#[derive(FromRow)]
struct Row {
    #[sqlx(try_from = "Uuid")]
    user_id: UserId,
    #[sqlx(try_from = "Uuid")]
    organization_id: OrganizationId,
    created_at: i64,
    last_seen_at: i64,
    name: String,
    email: String,
    role: Text<Role>,
    organization_name: String,
}

fn hash(token: &str) -> Vec<u8> {
    Sha256::digest(token).to_vec()
}

impl Store {
    /// Finds the session of a token, unless it has ended.
    pub async fn session(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<Option<Session>, StoreError> {
        let hash = hash(token);
        let row: Option<Row> = on!(&self.database.pool, |db| sqlx::query_as(BY_TOKEN)
            .bind(&hash)
            .fetch_optional(db))?;
        Ok(row.and_then(|row| {
            let created = Timestamp::from_millis(row.created_at);
            let seen = Timestamp::from_millis(row.last_seen_at);
            let ended = seen.plus(IDLE) <= now || created.plus(ABSOLUTE) <= now;
            (!ended).then(|| Session {
                tenant: Tenant(row.organization_id),
                organization_name: row.organization_name,
                person: Person {
                    id: row.user_id,
                    name: row.name,
                    email: row.email,
                    role: row.role.0,
                },
                stale: seen.plus(TOUCH_AFTER) <= now,
            })
        }))
    }
}

impl Tx {
    /// Starts a session.
    pub async fn insert_session(
        &mut self,
        token: &str,
        user: UserId,
        tenant: Tenant,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(INSERT)
                .bind(hash(token))
                .bind(user.0)
                .bind(tenant.uuid())
                .bind(now.millis())
        )?;
        Ok(())
    }

    /// Notes that a session was used.
    pub async fn touch_session(&mut self, token: &str, now: Timestamp) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(TOUCH).bind(hash(token)).bind(now.millis())
        )?;
        Ok(())
    }

    /// Ends one session.
    pub async fn end_session(&mut self, token: &str) -> Result<(), StoreError> {
        execute!(self, sqlx::query(DELETE).bind(hash(token)))?;
        Ok(())
    }

    /// Ends every session of a person.
    pub async fn end_sessions(&mut self, user: UserId) -> Result<(), StoreError> {
        execute!(self, sqlx::query(DELETE_OF_USER).bind(user.0))?;
        Ok(())
    }

    /// Counts a sign-in under an address, of a known person or not, before the
    /// password is looked at: of many at once, only so many may be tried. When
    /// too many have failed it is not counted, and the answer is until when
    /// nobody may try: the first few are free, then the wait doubles from a
    /// second to a quarter of an hour, and never becomes a lock for good.
    pub async fn count_attempt(
        &mut self,
        email: &str,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let folded = fold_email(email);
        execute!(self, sqlx::query(FIRST_ATTEMPT).bind(&folded))?;
        execute!(self, sqlx::query(LOCK_ATTEMPTS).bind(&folded))?;
        let (failures, last_failed_at): (i64, i64) = on!(&mut self.connection, |db| {
            sqlx::query_as(FAILURES).bind(&folded).fetch_one(&mut **db)
        })?;
        if let Ok(doublings) = u32::try_from(failures - FREE_FAILURES) {
            let wait = 1_i64
                .checked_shl(doublings)
                .filter(|wait| *wait > 0)
                .unwrap_or(LONGEST_WAIT);
            let wait = TimeDelta::seconds(wait.min(LONGEST_WAIT));
            let until = Timestamp::from_millis(last_failed_at).plus(wait);
            if until > now {
                return Ok(Some(until));
            }
        }
        execute!(
            self,
            sqlx::query(COUNT_ATTEMPT).bind(&folded).bind(now.millis())
        )?;
        Ok(None)
    }

    /// Forgets the failed sign-ins of an address.
    pub async fn forget_failures(&mut self, email: &str) -> Result<(), StoreError> {
        execute!(self, sqlx::query(FORGIVE).bind(fold_email(email)))?;
        Ok(())
    }
}

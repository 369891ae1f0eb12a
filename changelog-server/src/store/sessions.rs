//! Browser sessions.

use changelog_core::{OrganizationId, Role, Timestamp, UserId};
use chrono::TimeDelta;
use sha2::{Digest, Sha256};
use sqlx::FromRow;
use sqlx::types::{Text, Uuid};

use super::engine::{execute, on};
use super::{Database, StoreError, Tenant, Tx};

/// A session ends after this long without a request.
pub(super) const IDLE: TimeDelta = TimeDelta::days(7);
/// A session ends after this long whatever happens.
const ABSOLUTE: TimeDelta = TimeDelta::days(30);
/// How exactly the last use of a session is known.
const TOUCH_AFTER: TimeDelta = TimeDelta::minutes(1);
/// How much the clocks of several servers may differ; what lies further in the
/// future was written while a clock was wrong.
pub(crate) const CLOCKS_DIFFER: TimeDelta = TimeDelta::minutes(5);
/// How many characters of what a browser calls itself are kept.
const USER_AGENT: usize = 200;

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
INSERT INTO sessions (token_hash, user_id, organization_id, created_at, last_seen_at, user_agent)
VALUES ($1, $2, $3, $4, $4, $5)";

const OF_USER: &str = "
SELECT s.token_hash, s.created_at, s.last_seen_at, s.user_agent, o.name AS organization_name
FROM sessions s
JOIN memberships m ON m.organization_id = s.organization_id AND m.user_id = s.user_id
JOIN organizations o ON o.id = s.organization_id
WHERE s.user_id = $1 ORDER BY s.last_seen_at DESC, s.token_hash";

const SWITCH: &str = "
UPDATE sessions SET organization_id = $3 WHERE token_hash = $1 AND user_id = $2 AND EXISTS
    (SELECT 1 FROM memberships WHERE organization_id = $3 AND user_id = $2)";

const TOUCH: &str = "UPDATE sessions SET last_seen_at = $2 WHERE token_hash = $1";
const DELETE: &str = "DELETE FROM sessions WHERE token_hash = $1";
const DELETE_OF_USER: &str = "DELETE FROM sessions WHERE user_id = $1";
const DELETE_OTHERS: &str = "DELETE FROM sessions WHERE user_id = $1 AND token_hash <> $2";
const DELETE_IN: &str = "DELETE FROM sessions WHERE user_id = $1 AND organization_id = $2";
pub(super) const PURGE_IDLE: &str = "
DELETE FROM sessions WHERE token_hash IN
    (SELECT token_hash FROM sessions WHERE last_seen_at < $1 ORDER BY last_seen_at LIMIT 1000)";

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

/// Where a person is signed in; nothing that one could sign in with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// When they signed in.
    pub created_at: Timestamp,
    /// When the session was last used, to the minute.
    pub last_seen_at: Timestamp,
    /// What the browser called itself, at most 200 characters.
    pub user_agent: Option<String>,
    /// The name of the organization that the session acts in.
    pub organization_name: String,
    /// Whether it is the session that asks.
    pub is_current: bool,
}

#[derive(FromRow)]
struct InfoRow {
    token_hash: Vec<u8>,
    created_at: i64,
    last_seen_at: i64,
    user_agent: Option<String>,
    organization_name: String,
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

/// Returns all that is kept of a token.
pub(super) fn hash(token: &str) -> Vec<u8> {
    Sha256::digest(token).to_vec()
}

/// Tells whether a session that was begun and used then has ended. One that was
/// begun or used in the future is of a time when the clock was wrong, and would
/// last too long.
fn has_ended(created_at: Timestamp, last_seen_at: Timestamp, now: Timestamp) -> bool {
    last_seen_at.plus(IDLE) <= now
        || created_at.plus(ABSOLUTE) <= now
        || created_at.max(last_seen_at) > now.plus(CLOCKS_DIFFER)
}

impl Database {
    /// Finds the session of a token, unless it has ended.
    pub async fn session(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<Option<Session>, StoreError> {
        let hash = hash(token);
        let row: Option<Row> = on!(&mut self.system().await?, |db| sqlx::query_as(BY_TOKEN)
            .bind(&hash)
            .fetch_optional(&mut **db))?;
        Ok(row.and_then(|row| {
            let created = Timestamp::from_millis(row.created_at);
            let seen = Timestamp::from_millis(row.last_seen_at);
            (!has_ended(created, seen, now)).then(|| Session {
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

    /// Lists where a person is signed in, the session used last first; the token
    /// is that of the session that asks.
    pub async fn sessions(
        &self,
        user: UserId,
        token: &str,
        now: Timestamp,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        let rows: Vec<InfoRow> = on!(&mut self.system().await?, |db| sqlx::query_as(OF_USER)
            .bind(user.0)
            .fetch_all(&mut **db))?;
        let current = hash(token);
        let info = |row: InfoRow| SessionInfo {
            created_at: Timestamp::from_millis(row.created_at),
            last_seen_at: Timestamp::from_millis(row.last_seen_at),
            user_agent: row.user_agent,
            organization_name: row.organization_name,
            is_current: row.token_hash == current,
        };
        Ok(rows
            .into_iter()
            .map(info)
            .filter(|info| !has_ended(info.created_at, info.last_seen_at, now))
            .collect())
    }
}

impl Tx {
    /// Starts a session; of what the browser calls itself the first 200
    /// characters are kept.
    pub async fn insert_session(
        &mut self,
        token: &str,
        user: UserId,
        tenant: Tenant,
        user_agent: Option<&str>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let user_agent = user_agent.map(|text| {
            let visible = text.chars().filter(|c| !c.is_control());
            visible.take(USER_AGENT).collect::<String>()
        });
        execute!(
            self,
            sqlx::query(INSERT)
                .bind(hash(token))
                .bind(user.0)
                .bind(tenant.uuid())
                .bind(now.millis())
                .bind(user_agent)
        )?;
        Ok(())
    }

    /// Lets a person's session act in another organization;
    /// [`StoreError::NotFound`] unless they are a member there.
    pub async fn switch_organization(
        &mut self,
        token: &str,
        user: UserId,
        to: OrganizationId,
    ) -> Result<(), StoreError> {
        let switched = execute!(
            self,
            sqlx::query(SWITCH)
                .bind(hash(token))
                .bind(user.0)
                .bind(to.0)
        )?;
        if switched == 0 {
            Err(StoreError::NotFound)
        } else {
            Ok(())
        }
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

    /// Ends every session of a person but the one with this token.
    pub async fn end_other_sessions(
        &mut self,
        user: UserId,
        token: &str,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(DELETE_OTHERS).bind(user.0).bind(hash(token))
        )?;
        Ok(())
    }

    /// Ends every session of a person that acts in an organization.
    pub(super) async fn end_sessions_in(
        &mut self,
        tenant: Tenant,
        user: UserId,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(DELETE_IN).bind(user.0).bind(tenant.uuid())
        )?;
        Ok(())
    }
}

//! Browser sessions.

use changelog_core::{OrganizationId, Role, Timestamp, UserId};
use chrono::TimeDelta;
use sha2::{Digest, Sha256};
use sqlx::FromRow;
use sqlx::types::{Text, Uuid};

use super::engine::{execute, read};
use super::{Database, StoreError, Tenant, Tx};

/// A session ends after this time without a request.
pub(super) const IDLE_TTL: TimeDelta = TimeDelta::days(7);
/// A session ends after this time in any case.
const ABSOLUTE_TTL: TimeDelta = TimeDelta::days(30);
/// A session ends after this time in any case if the person was signed in by another system,
/// which may have signed them out, or removed them, since.
const DELEGATED_TTL: TimeDelta = TimeDelta::hours(12);
/// The precision to which the last use of a session is recorded.
const LAST_SEEN_PRECISION: TimeDelta = TimeDelta::minutes(1);
/// How much the clocks of several servers may differ. A time further in the future
/// was recorded while a clock was wrong.
pub const MAX_CLOCK_SKEW: TimeDelta = TimeDelta::minutes(5);
/// How many characters of the `User-Agent` header are kept.
const MAX_USER_AGENT_CHARS: usize = 200;

/// Joins the membership, so that a removed member has no session, and the identity provider,
/// so that a session has ended when the provider that began it is disconnected, or when another
/// one is required. The order makes PostgreSQL find unread notifications by their index.
const SELECT_BY_TOKEN: &str = "
SELECT s.user_id, s.organization_id, s.created_at, s.last_seen_at, s.method, u.name, u.email,
       u.password_hash <> '' AS has_password, m.role,
       o.name AS organization_name, o.has_receivers,
       CASE WHEN m.role = 'owner' AND p.emergency_used_at > coalesce(m.emergency_seen_at, 0)
           THEN p.emergency_used_at END AS emergency_used_at,
       p.emergency_used_by,
       (SELECT count(*) FROM (SELECT n.at FROM notifications n
            WHERE n.organization_id = s.organization_id AND n.user_id = s.user_id
                AND n.is_unread = 1 ORDER BY n.at LIMIT 100) AS unread) AS unread
FROM sessions s
JOIN users u ON u.id = s.user_id
JOIN memberships m ON m.organization_id = s.organization_id AND m.user_id = s.user_id
JOIN organizations o ON o.id = s.organization_id
LEFT JOIN sso_providers p ON p.organization_id = s.organization_id
WHERE s.token_hash = $1 AND CASE s.method
    WHEN 'sso' THEN p.organization_id IS NOT NULL
    WHEN 'password' THEN coalesce(p.is_required, 0) = 0 OR p.emergency_user_id = s.user_id
    WHEN 'proxy' THEN coalesce(p.is_required, 0) = 0
    ELSE 1 = 0 END";

const INSERT: &str = "
INSERT INTO sessions (token_hash, user_id, organization_id, created_at, last_seen_at, user_agent,
                      method, provider_sid)
VALUES ($1, $2, $3, $4, $4, $5, $6, $7)";

const SELECT_OF_USER: &str = "
SELECT s.token_hash, s.created_at, s.last_seen_at, s.user_agent, s.method, s.organization_id,
       o.name AS organization_name
FROM sessions s
JOIN memberships m ON m.organization_id = s.organization_id AND m.user_id = s.user_id
JOIN organizations o ON o.id = s.organization_id
WHERE s.user_id = $1 ORDER BY s.last_seen_at DESC, s.token_hash";

const SWITCH_ORGANIZATION: &str = "
UPDATE sessions SET organization_id = $3
WHERE token_hash = $1 AND user_id = $2 AND method <> 'sso' AND EXISTS
    (SELECT 1 FROM memberships WHERE organization_id = $3 AND user_id = $2)";

const DELETE: &str = "DELETE FROM sessions WHERE token_hash = $1";
const DELETE_OF_USER: &str = "DELETE FROM sessions WHERE user_id = $1";
const DELETE_OTHERS: &str = "DELETE FROM sessions WHERE user_id = $1 AND token_hash <> $2";
const DELETE_OTHERS_IN_ORGANIZATION: &str = "
DELETE FROM sessions WHERE user_id = $1 AND token_hash <> $2 AND organization_id = $3";
const DELETE_IN_ORGANIZATION: &str =
    "DELETE FROM sessions WHERE user_id = $1 AND organization_id = $2";
pub(super) const PURGE_IDLE: &str = "
DELETE FROM sessions WHERE token_hash IN
    (SELECT token_hash FROM sessions WHERE last_seen_at < $1 ORDER BY last_seen_at LIMIT 1000)";

/// A person who is signed in, as a member of one organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Their id.
    pub id: UserId,
    /// Their name.
    pub name: String,
    /// Their email address.
    pub email: String,
    /// Their role in the organization.
    pub role: Role,
}

/// How a person signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInMethod {
    /// By the account's password. The session may act in all organizations of the person.
    Password,
    /// By the identity provider of an organization. The session acts in this one only.
    Sso,
    /// By the header of a proxy that the operator trusts.
    Proxy,
}

impl SignInMethod {
    /// Returns the word that is stored.
    fn as_str(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Sso => "sso",
            Self::Proxy => "proxy",
        }
    }

    fn stored(word: &str) -> Option<Self> {
        [Self::Password, Self::Sso, Self::Proxy]
            .into_iter()
            .find(|method| method.as_str() == word)
    }

    /// Returns how long a session lasts at most.
    fn ttl(self) -> TimeDelta {
        match self {
            Self::Password => ABSOLUTE_TTL,
            Self::Sso | Self::Proxy => DELEGATED_TTL,
        }
    }
}

/// What a session is begun with.
#[derive(Clone, Copy, Debug)]
pub struct NewSession<'s> {
    /// Who has signed in.
    pub user: UserId,
    /// The organization that it acts in.
    pub tenant: Tenant,
    /// How they signed in.
    pub method: SignInMethod,
    /// The id that the identity provider has given the session.
    pub provider_sid: Option<&'s str>,
    /// The browser's `User-Agent`, of which the first 200 characters are kept.
    pub user_agent: Option<&'s str>,
}

/// A use of the emergency door that an owner has not marked as seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmergencyUse {
    /// When it was used last.
    pub at: Timestamp,
    /// The name of the person.
    pub by: String,
}

/// A valid session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The hash of its token, by which it is stored.
    pub id: Vec<u8>,
    /// The organization that it acts in.
    pub tenant: Tenant,
    /// The name of that organization.
    pub organization_name: String,
    /// Whether it has receivers of events.
    pub has_receivers: bool,
    /// The person who is signed in.
    pub person: Person,
    /// The number of unread notifications, counted up to 100.
    pub unread: i64,
    /// Whether the recorded last use is outdated.
    pub is_stale: bool,
    /// How the person signed in.
    pub method: SignInMethod,
    /// Whether the account has a password.
    pub has_password: bool,
    /// The last use of the emergency door, for owners who have not seen it.
    pub emergency: Option<EmergencyUse>,
}

/// A session as its person sees it, without its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// When they signed in.
    pub created_at: Timestamp,
    /// When the session was last used, to the minute.
    pub last_seen_at: Timestamp,
    /// The browser's `User-Agent`, at most 200 characters.
    pub user_agent: Option<String>,
    /// The name of the organization that the session acts in.
    pub organization_name: String,
    /// Whether it is the session of this request.
    pub is_current: bool,
}

#[derive(FromRow)]
struct InfoRow {
    token_hash: Vec<u8>,
    created_at: i64,
    last_seen_at: i64,
    user_agent: Option<String>,
    method: String,
    organization_id: Uuid,
    organization_name: String,
}

#[derive(FromRow)]
struct SessionRow {
    #[sqlx(try_from = "Uuid")]
    user_id: UserId,
    #[sqlx(try_from = "Uuid")]
    organization_id: OrganizationId,
    created_at: i64,
    last_seen_at: i64,
    method: String,
    name: String,
    email: String,
    has_password: bool,
    role: Text<Role>,
    organization_name: String,
    has_receivers: i64,
    emergency_used_at: Option<i64>,
    emergency_used_by: Option<String>,
    unread: i64,
}

/// Returns the hash under which a token is kept.
pub(super) fn hash(token: &str) -> Vec<u8> {
    Sha256::digest(token).to_vec()
}

/// Returns whether a session has ended. A session begun or used in the future was
/// recorded while a clock was wrong and would last too long, so it has ended too.
fn has_ended(
    method: SignInMethod,
    created_at: Timestamp,
    last_seen_at: Timestamp,
    now: Timestamp,
) -> bool {
    last_seen_at.plus(IDLE_TTL) <= now
        || created_at.plus(method.ttl()) <= now
        || created_at.max(last_seen_at) > now.plus(MAX_CLOCK_SKEW)
}

impl Database {
    /// Finds the session of a token, unless it has ended.
    pub async fn session(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<Option<Session>, StoreError> {
        let hash = hash(token);
        let row: Option<SessionRow> =
            read!(self.system().await?, |db| sqlx::query_as(SELECT_BY_TOKEN)
                .bind(&hash)
                .fetch_optional(&mut **db))?;
        Ok(row.and_then(|row| {
            let created = Timestamp::from_millis(row.created_at);
            let seen = Timestamp::from_millis(row.last_seen_at);
            let method = SignInMethod::stored(&row.method)?;
            let emergency = row.emergency_used_at.map(|at| EmergencyUse {
                at: Timestamp::from_millis(at),
                by: row.emergency_used_by.unwrap_or_default(),
            });
            (!has_ended(method, created, seen, now)).then(|| Session {
                id: hash,
                tenant: Tenant(row.organization_id),
                organization_name: row.organization_name,
                has_receivers: row.has_receivers != 0,
                person: Person {
                    id: row.user_id,
                    name: row.name,
                    email: row.email,
                    role: row.role.0,
                },
                unread: row.unread,
                is_stale: seen.plus(LAST_SEEN_PRECISION) <= now,
                method,
                has_password: row.has_password,
                emergency,
            })
        }))
    }

    /// Lists the sessions of a person, last used first: all of them, or those within an
    /// organization. The token is that of the current session.
    pub async fn sessions(
        &self,
        user: UserId,
        within: Option<Tenant>,
        token: &str,
        now: Timestamp,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        let rows: Vec<InfoRow> = read!(self.system().await?, |db| sqlx::query_as(SELECT_OF_USER)
            .bind(user.0)
            .fetch_all(&mut **db))?;
        let current = hash(token);
        let is_within = |row: &InfoRow| within.is_none_or(|of| of.uuid() == row.organization_id);
        let is_open = |row: &InfoRow| {
            let created = Timestamp::from_millis(row.created_at);
            let seen = Timestamp::from_millis(row.last_seen_at);
            SignInMethod::stored(&row.method)
                .is_some_and(|method| !has_ended(method, created, seen, now))
        };
        let info = |row: InfoRow| SessionInfo {
            created_at: Timestamp::from_millis(row.created_at),
            last_seen_at: Timestamp::from_millis(row.last_seen_at),
            user_agent: row.user_agent,
            organization_name: row.organization_name,
            is_current: row.token_hash == current,
        };
        Ok(rows
            .into_iter()
            .filter(|row| is_within(row) && is_open(row))
            .map(info)
            .collect())
    }
}

impl Tx {
    /// Starts a session.
    pub async fn insert_session(
        &mut self,
        token: &str,
        new: NewSession<'_>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let user_agent = new.user_agent.map(|text| {
            let visible = text.chars().filter(|c| !c.is_control());
            visible.take(MAX_USER_AGENT_CHARS).collect::<String>()
        });
        execute!(
            self,
            sqlx::query(INSERT)
                .bind(hash(token))
                .bind(new.user.0)
                .bind(new.tenant.uuid())
                .bind(now.millis())
                .bind(user_agent)
                .bind(new.method.as_str())
                .bind(new.provider_sid)
        )?;
        Ok(())
    }

    /// Switches a session to another organization, and returns that.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the person is not a member there, or the session was begun
    /// by the identity provider of an organization.
    pub async fn switch_organization(
        &mut self,
        token: &str,
        user: UserId,
        to: OrganizationId,
    ) -> Result<Tenant, StoreError> {
        let switched = execute!(
            self,
            sqlx::query(SWITCH_ORGANIZATION)
                .bind(hash(token))
                .bind(user.0)
                .bind(to.0)
        )?;
        if switched == 0 {
            Err(StoreError::NotFound)
        } else {
            Ok(Tenant(to))
        }
    }

    /// Ends one session.
    pub async fn end_session(&mut self, token: &str) -> Result<(), StoreError> {
        execute!(self, sqlx::query(DELETE).bind(hash(token)))?;
        Ok(())
    }

    /// Ends all sessions of a person.
    pub async fn end_sessions(&mut self, user: UserId) -> Result<(), StoreError> {
        execute!(self, sqlx::query(DELETE_OF_USER).bind(user.0))?;
        Ok(())
    }

    /// Ends all sessions of a person, or those within an organization, except the one with this
    /// token.
    pub async fn end_other_sessions(
        &mut self,
        user: UserId,
        within: Option<Tenant>,
        token: &str,
    ) -> Result<(), StoreError> {
        let Some(tenant) = within else {
            execute!(
                self,
                sqlx::query(DELETE_OTHERS).bind(user.0).bind(hash(token))
            )?;
            return Ok(());
        };
        execute!(
            self,
            sqlx::query(DELETE_OTHERS_IN_ORGANIZATION)
                .bind(user.0)
                .bind(hash(token))
                .bind(tenant.uuid())
        )?;
        Ok(())
    }

    /// Ends all sessions of a person in an organization.
    pub(super) async fn end_sessions_in(
        &mut self,
        tenant: Tenant,
        user: UserId,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(DELETE_IN_ORGANIZATION)
                .bind(user.0)
                .bind(tenant.uuid())
        )?;
        Ok(())
    }
}

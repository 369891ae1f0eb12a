//! People, the organizations that they belong to, and what they may do there.

use changelog_core::user::fold_email;
use changelog_core::{Action, Member, OrganizationId, ResourceType, Role, Timestamp, User, UserId};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::FromRow;
use sqlx::types::{Text, Uuid};

use super::activity::Entry;
use super::engine::{execute, on};
use super::{Actor, Database, StoreError, Tenant, Tx, new_id};

/// How many accounts an address may have, each vouched for by another
/// organization.
const MAX_ACCOUNTS: usize = 32;

const INSERT_USER: &str = "
INSERT INTO users (id, email, email_folded, name, password_hash, vouched_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (email_folded) WHERE vouched_by IS NULL DO NOTHING";

/// The account of somebody who was removed from the only organization that
/// vouches for them: whoever that organization invites again is that person.
const RENEW_USER: &str = "
UPDATE users SET email = $3, name = $4, password_hash = $5 WHERE id =
    (SELECT u.id FROM users u WHERE u.email_folded = $1 AND u.vouched_by = $2
         AND NOT EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = u.id)
     ORDER BY u.id LIMIT 1)
RETURNING id, email, name, password_hash";

const MEMBER_BY_EMAIL: &str = "
SELECT m.user_id FROM memberships m
WHERE m.organization_id = $1 AND m.user_id IN (SELECT id FROM users WHERE email_folded = $2)
LIMIT 1";

const INSERT_MEMBER: &str = "
INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (organization_id, user_id) DO NOTHING";

const OF_ORGANIZATION: &str = "
SELECT u.id, u.email, u.name, m.role, m.created_at
FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.organization_id = $1 ORDER BY u.name, u.id";

const MEMBER: &str = "
SELECT u.id, u.email, u.name, m.role, m.created_at
FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.organization_id = $1 AND m.user_id = $2";

const OF_USER: &str = "
SELECT m.organization_id, o.name, m.role
FROM memberships m JOIN organizations o ON o.id = m.organization_id
WHERE m.user_id = $1 ORDER BY o.name, o.id";

/// Locks the organization on PostgreSQL, so that of two owners who remove each
/// other one finds that the other is gone.
const LOCK: &str = "UPDATE organizations SET name = name WHERE id = $1";

const ANOTHER_OWNER: &str = "
SELECT user_id FROM memberships
WHERE organization_id = $1 AND role = 'owner' AND user_id <> $2 LIMIT 1";

const SET_ROLE: &str = "
UPDATE memberships SET role = $3 WHERE organization_id = $1 AND user_id = $2";

const REMOVE: &str = "DELETE FROM memberships WHERE organization_id = $1 AND user_id = $2";

/// Who is in no organization has nothing to sign in to.
const BY_EMAIL: &str = "
SELECT u.id, u.email, u.name, u.password_hash FROM users u
WHERE u.email_folded = $1 AND EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = u.id)
ORDER BY u.created_at, u.id LIMIT 32";

const FIRST_MEMBERSHIP: &str = "
SELECT organization_id FROM memberships WHERE user_id = $1
ORDER BY created_at, organization_id LIMIT 1";

const RENAME: &str = "UPDATE users SET name = $2 WHERE id = $1";
const SET_PASSWORD: &str = "UPDATE users SET password_hash = $2 WHERE id = $1";

#[derive(FromRow)]
struct Row {
    #[sqlx(try_from = "Uuid")]
    id: UserId,
    email: String,
    name: String,
    password_hash: String,
}

impl From<Row> for Account {
    fn from(row: Row) -> Self {
        Self {
            user: User {
                id: row.id,
                email: row.email,
                name: row.name,
            },
            password_hash: row.password_hash,
        }
    }
}

/// An account that can be signed in to.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    /// Whose it is.
    pub user: User,
    /// What their password is checked against; not logged, not shown.
    pub password_hash: String,
}

#[derive(FromRow)]
struct MemberRow {
    #[sqlx(try_from = "Uuid")]
    id: UserId,
    email: String,
    name: String,
    role: Text<Role>,
    created_at: i64,
}

impl From<MemberRow> for Member {
    fn from(row: MemberRow) -> Self {
        Self {
            user: User {
                id: row.id,
                email: row.email,
                name: row.name,
            },
            role: row.role.0,
            joined_at: Timestamp::from_millis(row.created_at),
        }
    }
}

impl Database {
    /// Lists the members of an organization, by name.
    pub async fn members(&self, tenant: Tenant) -> Result<Vec<Member>, StoreError> {
        let rows: Vec<MemberRow> = on!(&mut self.reader(tenant).await?, |db| {
            sqlx::query_as(OF_ORGANIZATION)
                .bind(tenant.uuid())
                .fetch_all(&mut **db)
        })?;
        Ok(rows.into_iter().map(Member::from).collect())
    }

    /// Lists the organizations that a person belongs to, by name, with what they
    /// may do there.
    pub async fn memberships(
        &self,
        user: UserId,
    ) -> Result<Vec<(OrganizationId, String, Role)>, StoreError> {
        let rows: Vec<(Uuid, String, Text<Role>)> = on!(&mut self.system().await?, |db| {
            sqlx::query_as(OF_USER).bind(user.0).fetch_all(&mut **db)
        })?;
        Ok(rows
            .into_iter()
            .map(|(id, name, role)| (id.into(), name, role.0))
            .collect())
    }

    /// Finds the accounts of a mail address, the oldest first: at most one for
    /// each organization that vouches for it, and at most 32. Accounts without
    /// an organization are left out.
    pub async fn accounts(&self, email: &str) -> Result<Vec<Account>, StoreError> {
        let folded = fold_email(email);
        let mut lease = self.system().await?;
        let rows: Vec<Row> = on!(&mut lease, |db| sqlx::query_as(BY_EMAIL)
            .bind(&folded)
            .fetch_all(&mut **db))?;
        Ok(rows.into_iter().map(Account::from).collect())
    }

    /// Finds the organization that a person joined first.
    pub async fn first_membership(&self, user: UserId) -> Result<Option<Tenant>, StoreError> {
        let found: Option<(Uuid,)> = on!(&mut self.system().await?, |db| {
            sqlx::query_as(FIRST_MEMBERSHIP)
                .bind(user.0)
                .fetch_optional(&mut **db)
        })?;
        Ok(found.map(|(id,)| Tenant(id.into())))
    }
}

impl Tx {
    /// Makes the account of a person for whom the operator vouches;
    /// [`StoreError::Conflict`] when the address has such an account.
    pub async fn insert_user(
        &mut self,
        email: &str,
        name: &str,
        password_hash: &str,
        now: DateTime<Utc>,
    ) -> Result<User, StoreError> {
        self.insert_account(None, email, name, password_hash, now)
            .await
    }

    /// Makes the account of a person whom an organization has invited and who
    /// has no other account here, or none that they want to use. Whoever was
    /// removed from that organization before gets their account back.
    ///
    /// # Errors
    /// [`StoreError::Forbidden`] when the address has 32 accounts.
    pub async fn insert_invited_user(
        &mut self,
        tenant: Tenant,
        email: &str,
        name: &str,
        password_hash: &str,
        now: DateTime<Utc>,
    ) -> Result<User, StoreError> {
        let folded = fold_email(email);
        let renewed: Option<Row> = on!(&mut self.connection, |db| {
            sqlx::query_as(RENEW_USER)
                .bind(&folded)
                .bind(tenant.uuid())
                .bind(email)
                .bind(name)
                .bind(password_hash)
                .fetch_optional(&mut **db)
        })?;
        if let Some(row) = renewed {
            let user = Account::from(row).user;
            self.end_sessions(user.id).await?;
            self.forget_browsers(user.id).await?;
            return Ok(user);
        }
        let accounts: Vec<Row> = on!(&mut self.connection, |db| {
            sqlx::query_as(BY_EMAIL).bind(&folded).fetch_all(&mut **db)
        })?;
        if accounts.len() >= MAX_ACCOUNTS {
            let detail = format!(
                "this mail address has {MAX_ACCOUNTS} accounts already; use the password of one \
                 of them"
            );
            return Err(StoreError::Forbidden(detail));
        }
        self.insert_account(Some(tenant), email, name, password_hash, now)
            .await
    }

    async fn insert_account(
        &mut self,
        vouched_by: Option<Tenant>,
        email: &str,
        name: &str,
        password_hash: &str,
        now: DateTime<Utc>,
    ) -> Result<User, StoreError> {
        let user = User {
            id: new_id(now).into(),
            email: email.to_owned(),
            name: name.to_owned(),
        };
        let inserted = execute!(
            self,
            sqlx::query(INSERT_USER)
                .bind(user.id.0)
                .bind(&user.email)
                .bind(fold_email(&user.email))
                .bind(&user.name)
                .bind(password_hash)
                .bind(vouched_by.map(Tenant::uuid))
                .bind(now.timestamp_millis())
        )?;
        if inserted == 0 {
            Err(StoreError::Conflict)
        } else {
            Ok(user)
        }
    }

    /// Returns whether a mail address is that of a member. Nobody becomes or
    /// stops being a member before this transaction has ended.
    pub(super) async fn is_member(
        &mut self,
        tenant: Tenant,
        email: &str,
    ) -> Result<bool, StoreError> {
        execute!(self, sqlx::query(LOCK).bind(tenant.uuid()))?;
        let member: Option<(Uuid,)> = on!(&mut self.connection, |db| {
            sqlx::query_as(MEMBER_BY_EMAIL)
                .bind(tenant.uuid())
                .bind(fold_email(email))
                .fetch_optional(&mut **db)
        })?;
        Ok(member.is_some())
    }

    /// Makes a person a member of an organization and records it;
    /// [`StoreError::Conflict`] when they are one already, or another member has
    /// the same mail address.
    pub async fn insert_member(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        user: &User,
        role: &Role,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        if self.is_member(tenant, &user.email).await? {
            return Err(StoreError::Conflict);
        }
        let inserted = execute!(
            self,
            sqlx::query(INSERT_MEMBER)
                .bind(tenant.uuid())
                .bind(user.id.0)
                .bind(role.as_str())
                .bind(now.timestamp_millis())
        )?;
        if inserted == 0 {
            return Err(StoreError::Conflict);
        }
        let entry = entry(Action::Joined, user, &json!({ "role": role }));
        self.record(tenant, actor, entry, now).await
    }

    /// Sets what a member may do and records it; nothing is recorded where they
    /// may do that already.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] for who is no member, [`StoreError::Forbidden`]
    /// when a person of the role `by` may not do that, [`StoreError::LastOwner`]
    /// when no other owner would be left.
    pub async fn set_role(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        by: &Role,
        user: UserId,
        to: &Role,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let member = self.lock_member(tenant, user).await?;
        if !by.may_change(&member.role, to) {
            return Err(forbidden(by, &member.role, Some(to)));
        }
        if member.role == *to {
            return Ok(());
        }
        self.keep_an_owner(tenant, &member).await?;
        execute!(
            self,
            sqlx::query(SET_ROLE)
                .bind(tenant.uuid())
                .bind(user.0)
                .bind(to.as_str())
        )?;
        let change = json!({ "changes": { "role": { "from": member.role, "to": to } } });
        let entry = entry(Action::RoleChanged, &member.user, &change);
        self.record(tenant, actor, entry, now).await
    }

    /// Removes a member, ends their sessions that act in this organization, and
    /// records it. The person stays, with their other organizations.
    ///
    /// # Errors
    /// As [`Self::set_role`].
    pub async fn remove_member(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        by: &Role,
        user: UserId,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let member = self.lock_member(tenant, user).await?;
        if !by.may_give(&member.role) {
            return Err(forbidden(by, &member.role, None));
        }
        self.keep_an_owner(tenant, &member).await?;
        execute!(self, sqlx::query(REMOVE).bind(tenant.uuid()).bind(user.0))?;
        self.end_sessions_in(tenant, user).await?;
        let role = json!({ "role": member.role });
        let entry = entry(Action::Removed, &member.user, &role);
        self.record(tenant, actor, entry, now).await
    }

    /// Reads a member, so that nobody else changes any of the organization
    /// before this transaction has ended.
    async fn lock_member(&mut self, tenant: Tenant, user: UserId) -> Result<Member, StoreError> {
        execute!(self, sqlx::query(LOCK).bind(tenant.uuid()))?;
        let row: MemberRow = on!(&mut self.connection, |db| {
            sqlx::query_as(MEMBER)
                .bind(tenant.uuid())
                .bind(user.0)
                .fetch_one(&mut **db)
        })?;
        Ok(row.into())
    }

    /// Makes sure that there is an owner besides this member.
    async fn keep_an_owner(&mut self, tenant: Tenant, member: &Member) -> Result<(), StoreError> {
        if member.role != Role::Owner {
            return Ok(());
        }
        let another: Option<(Uuid,)> = on!(&mut self.connection, |db| {
            sqlx::query_as(ANOTHER_OWNER)
                .bind(tenant.uuid())
                .bind(member.user.id.0)
                .fetch_optional(&mut **db)
        })?;
        another.map(drop).ok_or(StoreError::LastOwner)
    }

    /// Records that a person signed in.
    pub async fn record_sign_in(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        user: &User,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let entry = entry(Action::SignedIn, user, &json!({}));
        self.record(tenant, actor, entry, now).await
    }

    /// Changes the name of a person; the activity log, which is an
    /// organization's, is told nothing.
    pub async fn rename_user(&mut self, user: UserId, name: &str) -> Result<(), StoreError> {
        execute!(self, sqlx::query(RENAME).bind(user.0).bind(name))?;
        Ok(())
    }

    /// Sets a person's password, ends their sessions, and forgets the browsers
    /// that they have signed in with.
    pub async fn set_password(
        &mut self,
        user: UserId,
        password_hash: &str,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(SET_PASSWORD).bind(user.0).bind(password_hash)
        )?;
        self.forget_browsers(user).await?;
        self.end_sessions(user).await
    }
}

/// Returns what the activity log says of a person.
fn entry<'a>(action: Action, user: &'a User, metadata: &Value) -> Entry<'a> {
    Entry {
        action,
        resource_type: ResourceType::Member,
        resource_id: user.id.0,
        label: &user.name,
        metadata: metadata.as_object().cloned().unwrap_or_default(),
    }
}

/// Says that a role does not allow to give somebody another, or to remove them.
fn forbidden(by: &Role, from: &Role, to: Option<&Role>) -> StoreError {
    StoreError::Forbidden(match to {
        Some(to) => format!("the role {by} does not allow to change a role from {from} to {to}"),
        None => format!("the role {by} does not allow to remove a member of the role {from}"),
    })
}

//! Memberships: which person belongs to which organization, and in which role.

use changelog_core::user::fold_email;
use changelog_core::{Action, Member, OrganizationId, ResourceType, Role, Timestamp, User, UserId};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::FromRow;
use sqlx::types::{Text, Uuid};

use super::activity::Entry;
use super::engine::{execute, on, read};
use super::{Actor, Database, StoreError, Tenant, Tx};

const MEMBER_BY_EMAIL: &str = "
SELECT m.user_id FROM memberships m
WHERE m.organization_id = $1 AND m.user_id IN (SELECT id FROM users WHERE email_folded = $2)
LIMIT 1";

const INSERT_MEMBER: &str = "
INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (organization_id, user_id) DO NOTHING";

const MEMBERS_OF_ORGANIZATION: &str = "
SELECT u.id, u.email, u.name, m.role, m.created_at
FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.organization_id = $1 ORDER BY u.name, u.id";

const SELECT_MEMBER: &str = "
SELECT u.id, u.email, u.name, m.role, m.created_at
FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.organization_id = $1 AND m.user_id = $2";

const MEMBERSHIPS_OF_USER: &str = "
SELECT m.organization_id, o.name, m.role
FROM memberships m JOIN organizations o ON o.id = m.organization_id
WHERE m.user_id = $1 ORDER BY o.name, o.id";

/// Locks the organization on PostgreSQL, so that two owners cannot remove each
/// other at the same time.
const LOCK_ORGANIZATION: &str = "UPDATE organizations SET name = name WHERE id = $1";

const OTHER_OWNER: &str = "
SELECT user_id FROM memberships
WHERE organization_id = $1 AND role = 'owner' AND user_id <> $2 LIMIT 1";

const SET_ROLE: &str = "
UPDATE memberships SET role = $3 WHERE organization_id = $1 AND user_id = $2";

const DELETE_MEMBER: &str = "DELETE FROM memberships WHERE organization_id = $1 AND user_id = $2";

/// The memberships of a person, the first one first, with whether the password works there.
const PASSWORD_MEMBERSHIPS: &str = "
SELECT m.organization_id,
       CASE WHEN p.is_required = 1 AND (p.emergency_user_id IS NULL OR p.emergency_user_id <> m.user_id)
            THEN 0 ELSE 1 END
FROM memberships m LEFT JOIN sso_providers p ON p.organization_id = m.organization_id
WHERE m.user_id = $1 ORDER BY 2 DESC, m.created_at, m.organization_id LIMIT 1";

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

/// Where a person who has entered their password may sign in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordMembership {
    /// In this organization.
    In(Tenant),
    /// Nowhere: all organizations of the person require their identity provider. This is one
    /// of them.
    ProviderRequired(OrganizationId),
    /// The person is a member of no organization.
    None,
}

impl Database {
    /// Lists the members of an organization, by name.
    pub async fn members(&self, tenant: Tenant) -> Result<Vec<Member>, StoreError> {
        let rows: Vec<MemberRow> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(MEMBERS_OF_ORGANIZATION)
                .bind(tenant.uuid())
                .fetch_all(&mut **db)
        })?;
        Ok(rows.into_iter().map(Member::from).collect())
    }

    /// Lists the organizations of a person, by name, with the person's role.
    pub async fn memberships(
        &self,
        user: UserId,
    ) -> Result<Vec<(OrganizationId, String, Role)>, StoreError> {
        let rows: Vec<(Uuid, String, Text<Role>)> = read!(self.system().await?, |db| {
            sqlx::query_as(MEMBERSHIPS_OF_USER)
                .bind(user.0)
                .fetch_all(&mut **db)
        })?;
        Ok(rows
            .into_iter()
            .map(|(id, name, role)| (id.into(), name, role.0))
            .collect())
    }

    /// Returns where a person who has entered their password may sign in: the organization
    /// that they joined first, of those that do not require their identity provider.
    pub async fn membership_by_password(
        &self,
        user: UserId,
    ) -> Result<PasswordMembership, StoreError> {
        let found: Option<(Uuid, i32)> = read!(self.system().await?, |db| {
            sqlx::query_as(PASSWORD_MEMBERSHIPS)
                .bind(user.0)
                .fetch_optional(&mut **db)
        })?;
        Ok(match found {
            None => PasswordMembership::None,
            Some((id, 0)) => PasswordMembership::ProviderRequired(id.into()),
            Some((id, _)) => PasswordMembership::In(Tenant(id.into())),
        })
    }
}

impl Tx {
    /// Keeps the members of an organization, and what their roles follow from, as they are
    /// until this transaction ends.
    pub(super) async fn lock_members(&mut self, tenant: Tenant) -> Result<(), StoreError> {
        execute!(self, sqlx::query(LOCK_ORGANIZATION).bind(tenant.uuid()))?;
        Ok(())
    }

    /// Returns whether a member has this email address. The members do not change
    /// until this transaction ends.
    pub(super) async fn is_member(
        &mut self,
        tenant: Tenant,
        email: &str,
    ) -> Result<bool, StoreError> {
        self.lock_members(tenant).await?;
        let member: Option<(Uuid,)> = on!(&mut self.connection, |db| {
            sqlx::query_as(MEMBER_BY_EMAIL)
                .bind(tenant.uuid())
                .bind(fold_email(email))
                .fetch_optional(&mut **db)
        })?;
        Ok(member.is_some())
    }

    /// Makes a person a member of an organization and records it.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when a member has the same email address.
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
        self.record_pending(tenant, actor, entry, now).await
    }

    /// Sets the role of a member and records it, unless the member has it already.
    /// `by` is the role of the person who sets it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the person is not a member,
    /// [`StoreError::Forbidden`] when `by` does not allow it,
    /// [`StoreError::LastOwner`] when no other owner would be left.
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
        if !by.can_change(&member.role, to) {
            return Err(forbidden(by, &member.role, Some(to)));
        }
        if member.role == *to {
            return Ok(());
        }
        self.check_other_owner(tenant, &member).await?;
        self.check_not_emergency_owner(tenant, user).await?;
        self.replace_role(tenant, actor, &member, to, now).await
    }

    /// Sets the role of a member and records it.
    pub(super) async fn replace_role(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        member: &Member,
        to: &Role,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(SET_ROLE)
                .bind(tenant.uuid())
                .bind(member.user.id.0)
                .bind(to.as_str())
        )?;
        self.withdraw_invitations_of(tenant, actor, member.user.id, Some(to), now)
            .await?;
        let change = json!({ "changes": { "role": { "from": member.role, "to": to } } });
        let entry = entry(Action::RoleChanged, &member.user, &change);
        self.record_pending(tenant, actor, entry, now).await
    }

    /// Removes a member, ends their sessions in this organization, revokes their feed, withdraws
    /// their invitations, deletes their subscriptions and notifications, and records it.
    /// The person keeps the account and their other organizations.
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
        if !by.can_grant(&member.role) {
            return Err(forbidden(by, &member.role, None));
        }
        self.check_other_owner(tenant, &member).await?;
        self.check_not_emergency_owner(tenant, user).await?;
        self.delete_member(tenant, actor, &member, now).await
    }

    /// Removes a member, as [`Self::remove_member`] does.
    pub(super) async fn delete_member(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        member: &Member,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let user = member.user.id;
        execute!(
            self,
            sqlx::query(DELETE_MEMBER).bind(tenant.uuid()).bind(user.0)
        )?;
        self.end_sessions_in(tenant, user).await?;
        self.revoke_feed(tenant, user).await?;
        self.delete_subscriptions(tenant, user).await?;
        self.withdraw_invitations_of(tenant, actor, user, None, now)
            .await?;
        let role = json!({ "role": member.role });
        let entry = entry(Action::Removed, &member.user, &role);
        self.record_pending(tenant, actor, entry, now).await
    }

    /// Reads a member. The members of the organization do not change until this
    /// transaction ends.
    async fn lock_member(&mut self, tenant: Tenant, user: UserId) -> Result<Member, StoreError> {
        self.lock_members(tenant).await?;
        self.member(tenant, user).await?.ok_or(StoreError::NotFound)
    }

    /// Reads a member in this transaction.
    pub(super) async fn member(
        &mut self,
        tenant: Tenant,
        user: UserId,
    ) -> Result<Option<Member>, StoreError> {
        let row: Option<MemberRow> = on!(&mut self.connection, |db| {
            sqlx::query_as(SELECT_MEMBER)
                .bind(tenant.uuid())
                .bind(user.0)
                .fetch_optional(&mut **db)
        })?;
        Ok(row.map(Member::from))
    }

    /// Fails if this member is the last owner.
    pub(super) async fn check_other_owner(
        &mut self,
        tenant: Tenant,
        member: &Member,
    ) -> Result<(), StoreError> {
        if member.role != Role::Owner {
            return Ok(());
        }
        let another: Option<(Uuid,)> = on!(&mut self.connection, |db| {
            sqlx::query_as(OTHER_OWNER)
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
        self.record_pending(tenant, actor, entry, now).await
    }
}

/// Returns an entry of the activity log about a person.
fn entry<'a>(action: Action, user: &'a User, metadata: &Value) -> Entry<'a> {
    Entry {
        action,
        resource_type: ResourceType::Member,
        resource_id: user.id.0,
        label: &user.name,
        metadata: metadata.as_object().cloned().unwrap_or_default(),
    }
}

/// Returns the error for a role that may not change a role, or without `to` may
/// not remove a member.
fn forbidden(by: &Role, from: &Role, to: Option<&Role>) -> StoreError {
    StoreError::Forbidden(match to {
        Some(to) if *from == Role::Owner || *to == Role::Owner => {
            "only owners can change an owner's role or make someone an owner".to_owned()
        }
        None if *from == Role::Owner => "only owners can remove an owner".to_owned(),
        _ => format!("the role {by} may not change members"),
    })
}

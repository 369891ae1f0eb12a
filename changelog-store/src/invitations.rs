//! Invitations to an organization. Anyone with the link can accept an invitation,
//! once, until it expires or is withdrawn.

use changelog_core::user::fold_email;
use changelog_core::{
    Action, Invitation, InvitationId, NewInvitation, OrganizationId, ResourceType, Role, Timestamp,
    UserId,
};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use sqlx::FromRow;
use sqlx::types::{Text, Uuid};

use super::activity::Entry;
use super::engine::{execute, on, read};
use super::sessions::hash;
use super::{Actor, Database, Quota, StoreError, Tenant, Tx, new_id};

/// How long an invitation can be accepted.
const INVITATION_TTL: TimeDelta = TimeDelta::hours(72);

/// Replaces an older invitation of the same address, whose link becomes invalid.
const INSERT: &str = "
INSERT INTO invitations (organization_id, id, email, email_folded, role, token_hash, invited_by,
                         inviter_id, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (organization_id, email_folded) DO UPDATE SET
    id = excluded.id, email = excluded.email, role = excluded.role,
    token_hash = excluded.token_hash, invited_by = excluded.invited_by,
    inviter_id = excluded.inviter_id, created_at = excluded.created_at, expires_at = excluded.expires_at";

const SELECT_ALL: &str = "
SELECT organization_id, id, email, role, invited_by, created_at, expires_at
FROM invitations WHERE organization_id = $1 ORDER BY id DESC";

/// There are few in an organization.
const SELECT_BY_INVITER: &str = "
SELECT id, role FROM invitations WHERE organization_id = $1 AND inviter_id = $2";

const SELECT_BY_TOKEN: &str = "
SELECT i.organization_id, i.id, i.email, i.role, i.invited_by, i.created_at, i.expires_at, o.name
FROM invitations i JOIN organizations o ON o.id = i.organization_id
WHERE i.token_hash = $1 AND i.expires_at > $2";

/// Locks the organization on PostgreSQL before the invitation, in the same order as
/// creating an invitation.
const LOCK_ORGANIZATION: &str = "
UPDATE organizations SET name = name WHERE id =
    (SELECT organization_id FROM invitations WHERE token_hash = $1)";

/// Of two concurrent requests, the second waits on PostgreSQL and finds no row.
const TAKE: &str = "
DELETE FROM invitations WHERE token_hash = $1 AND expires_at > $2
RETURNING organization_id, id, email, role, invited_by, created_at, expires_at";

const WITHDRAW: &str = "
DELETE FROM invitations WHERE organization_id = $1 AND id = $2
RETURNING organization_id, id, email, role, invited_by, created_at, expires_at";

/// How long an invitation is kept after it has expired.
pub(super) const EXPIRED_TTL: TimeDelta = TimeDelta::zero();
pub(super) const PURGE: &str = "
DELETE FROM invitations WHERE (organization_id, id) IN
    (SELECT organization_id, id FROM invitations WHERE expires_at < $1
     ORDER BY expires_at LIMIT 1000)";

#[derive(FromRow)]
struct InvitationRow {
    #[sqlx(try_from = "Uuid")]
    organization_id: OrganizationId,
    #[sqlx(try_from = "Uuid")]
    id: InvitationId,
    email: String,
    role: Text<Role>,
    invited_by: String,
    created_at: i64,
    expires_at: i64,
}

#[derive(FromRow)]
struct NamedRow {
    #[sqlx(flatten)]
    row: InvitationRow,
    /// The name of the organization.
    name: String,
}

impl From<InvitationRow> for (Tenant, Invitation) {
    fn from(row: InvitationRow) -> Self {
        let invitation = Invitation {
            id: row.id,
            email: row.email,
            role: row.role.0,
            invited_by: row.invited_by,
            created_at: Timestamp::from_millis(row.created_at),
            expires_at: Timestamp::from_millis(row.expires_at),
        };
        (Tenant(row.organization_id), invitation)
    }
}

impl Database {
    /// Lists the open invitations of an organization, newest first. Expired ones are
    /// included until they are deleted.
    pub async fn invitations(&self, tenant: Tenant) -> Result<Vec<Invitation>, StoreError> {
        let rows: Vec<InvitationRow> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_ALL)
                .bind(tenant.uuid())
                .fetch_all(&mut **db)
        })?;
        Ok(rows
            .into_iter()
            .map(|row| <(Tenant, Invitation)>::from(row).1)
            .collect())
    }

    /// Finds the invitation of a link, with the name of its organization.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no valid invitation.
    pub async fn invitation(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<(Tenant, String, Invitation), StoreError> {
        let found: NamedRow = read!(self.system().await?, |db| sqlx::query_as(SELECT_BY_TOKEN)
            .bind(hash(token))
            .bind(now.millis())
            .fetch_one(&mut **db))?;
        let (tenant, invitation) = found.row.into();
        Ok((tenant, found.name, invitation))
    }
}

impl Tx {
    /// Invites an address and records it. An older invitation of the address is
    /// replaced. The caller checks [`Role::can_grant`].
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when a member has the address,
    /// [`StoreError::QuotaExceeded`] when the organization has too many members.
    pub async fn invite(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        new: &NewInvitation,
        token: &str,
        now: DateTime<Utc>,
    ) -> Result<Invitation, StoreError> {
        let id = new_id(now).into();
        self.invite_with_id(tenant, actor, id, new, token, now)
            .await
    }

    /// Invites an address as [`Self::invite`] does, with an id that the caller has chosen.
    pub async fn invite_with_id(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        id: InvitationId,
        new: &NewInvitation,
        token: &str,
        now: DateTime<Utc>,
    ) -> Result<Invitation, StoreError> {
        if self.is_member(tenant, &new.email).await? {
            return Err(StoreError::Conflict);
        }
        let created_at = Timestamp::from(now);
        let invitation = Invitation {
            id,
            email: new.email.clone(),
            role: new.role.clone(),
            invited_by: actor.name.clone(),
            created_at,
            expires_at: created_at.plus(INVITATION_TTL),
        };
        execute!(
            self,
            sqlx::query(INSERT)
                .bind(tenant.uuid())
                .bind(invitation.id.0)
                .bind(&invitation.email)
                .bind(fold_email(&new.email))
                .bind(invitation.role.as_str())
                .bind(hash(token))
                .bind(&invitation.invited_by)
                .bind(actor.person.map(|person| person.0))
                .bind(created_at.millis())
                .bind(invitation.expires_at.millis())
        )?;
        self.check_quota(tenant, Quota::Members).await?;
        let role = json!({ "role": invitation.role });
        let entry = entry(Action::Invited, &invitation, &role);
        self.record_pending(tenant, actor, entry, now).await?;
        Ok(invitation)
    }

    /// Withdraws an invitation and records it with the action [`Action::Removed`].
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the invitation does not exist, for example because
    /// it was just accepted.
    pub async fn withdraw_invitation(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        id: InvitationId,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let row: InvitationRow = on!(&mut self.connection, |db| {
            sqlx::query_as(WITHDRAW)
                .bind(tenant.uuid())
                .bind(id.0)
                .fetch_one(&mut **db)
        })?;
        let (tenant, invitation) = row.into();
        let metadata = json!({ "role": invitation.role, "invitation": "withdrawn" });
        let entry = entry(Action::Removed, &invitation, &metadata);
        self.record_pending(tenant, actor, entry, now).await
    }

    /// Withdraws the invitations by a person to roles that the person may no longer grant, and
    /// records it. `role` is the present role of the person, who has left without one.
    pub(super) async fn withdraw_invitations_of(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        person: UserId,
        role: Option<&Role>,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let open: Vec<(Uuid, Text<Role>)> = on!(&mut self.connection, |db| {
            sqlx::query_as(SELECT_BY_INVITER)
                .bind(tenant.uuid())
                .bind(person.0)
                .fetch_all(&mut **db)
        })?;
        for (id, Text(granted)) in open {
            if !role.is_some_and(|role| role.can_grant(&granted)) {
                self.withdraw_invitation(tenant, actor, id.into(), now)
                    .await?;
            }
        }
        Ok(())
    }

    /// Deletes the invitation of a link and returns it. The caller creates the account
    /// and the membership, which is recorded.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no valid invitation.
    pub async fn take_invitation(
        &mut self,
        token: &str,
        now: Timestamp,
    ) -> Result<(Tenant, Invitation), StoreError> {
        execute!(self, sqlx::query(LOCK_ORGANIZATION).bind(hash(token)))?;
        let row: InvitationRow = on!(&mut self.connection, |db| {
            sqlx::query_as(TAKE)
                .bind(hash(token))
                .bind(now.millis())
                .fetch_one(&mut **db)
        })?;
        Ok(row.into())
    }
}

/// Returns an entry of the activity log about an invitation.
fn entry<'a>(action: Action, invitation: &'a Invitation, metadata: &Value) -> Entry<'a> {
    Entry {
        action,
        resource_type: ResourceType::Member,
        resource_id: invitation.id.0,
        label: &invitation.email,
        metadata: metadata.as_object().cloned().unwrap_or_default(),
    }
}

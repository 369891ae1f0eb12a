//! The identity provider of an organization, and the emergency door beside it.

use changelog_core::user::fold_email;
use changelog_core::{
    Action, OrganizationId, Plan, ResourceType, Role, SsoRedirect, SsoRoles, Timestamp, User,
    UserId,
};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use sqlx::FromRow;
use sqlx::types::{Text, Uuid};

use super::activity::{Entry, changed};
use super::engine::{execute, on, read};
use super::{Actor, Database, StoreError, Tenant, Tx};

/// The method of a sign-in through the emergency door, in the activity log.
pub const EMERGENCY: &str = "emergency password";

macro_rules! columns {
    () => {
        "p.issuer, p.client_id, p.client_secret, p.default_role, p.groups_claim, p.group_roles, \
         p.is_required, p.emergency_user_id, p.has_own_redirect, p.allows_insecure, p.created_at, \
         p.updated_at"
    };
}

const SELECT: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM sso_providers p WHERE p.organization_id = $1"
);

/// The provider of an organization that may not exist.
const SELECT_ORGANIZATION: &str =
    "SELECT o.id, o.name, o.plan FROM organizations o WHERE o.id = $1";

const UPSERT: &str = "
INSERT INTO sso_providers (organization_id, issuer, client_id, client_secret, default_role,
    groups_claim, group_roles, is_required, emergency_user_id, has_own_redirect, allows_insecure,
    created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12)
ON CONFLICT (organization_id) DO UPDATE SET
    issuer = excluded.issuer, client_id = excluded.client_id,
    client_secret = excluded.client_secret, default_role = excluded.default_role,
    groups_claim = excluded.groups_claim, group_roles = excluded.group_roles,
    is_required = excluded.is_required, emergency_user_id = excluded.emergency_user_id,
    has_own_redirect = excluded.has_own_redirect, allows_insecure = excluded.allows_insecure,
    updated_at = excluded.updated_at";

const DELETE: &str = "DELETE FROM sso_providers WHERE organization_id = $1";

const REPLACE_SECRET: &str = "
UPDATE sso_providers SET client_secret = $2 WHERE organization_id = $1 AND client_secret = $3";

const WITH_PROVIDERS: &str = "SELECT organization_id FROM sso_providers";

/// Owners who have a password, those that joined first first.
const OWNERS_WITH_PASSWORD: &str = "
SELECT u.id, u.email, u.name FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.organization_id = $1 AND m.role = 'owner' AND u.password_hash <> ''
ORDER BY m.created_at, u.id LIMIT 1000";

/// Sessions that were begun by the provider.
const END_SSO_SESSIONS: &str = "
DELETE FROM sessions WHERE organization_id = $1 AND method = 'sso'";

/// Sessions that are no longer valid once the provider is required.
const END_OTHER_SESSIONS: &str = "
DELETE FROM sessions WHERE organization_id = $1 AND method <> 'sso'
    AND NOT (method = 'password' AND user_id = $2)";

const USE_EMERGENCY: &str = "
UPDATE sso_providers SET emergency_used_at = $3, emergency_used_by = $4
WHERE organization_id = $1 AND is_required = 1 AND emergency_user_id = $2";

const SEE_EMERGENCY: &str = "
UPDATE memberships SET emergency_seen_at = $3 WHERE organization_id = $1 AND user_id = $2";

const IS_EMERGENCY_OWNER: &str = "
SELECT 1 FROM sso_providers
WHERE organization_id = $1 AND is_required = 1 AND emergency_user_id = $2";

/// The identity provider of an organization.
#[derive(Clone, PartialEq, Eq)]
pub struct SsoProvider {
    /// The organization.
    pub tenant: Tenant,
    /// The issuer, compared exactly.
    pub issuer: String,
    /// The id of the service at the provider.
    pub client_id: String,
    /// The secret of the service at the provider, encrypted.
    pub client_secret: Vec<u8>,
    /// Who gets which role.
    pub roles: SsoRoles,
    /// Whether passwords do not work in the organization.
    pub is_required: bool,
    /// The owner whose password works although the provider is required.
    pub emergency_owner: Option<UserId>,
    /// At which address the provider returns people.
    pub redirect: SsoRedirect,
    /// Whether the issuer may be http, and in networks that only the server reaches.
    pub allows_insecure: bool,
    /// When it was connected.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
}

/// An organization that people want to sign in to by its provider.
#[derive(Clone)]
pub struct SsoOrganization {
    /// The organization.
    pub tenant: Tenant,
    /// Its name.
    pub name: String,
    /// Its plan.
    pub plan: Plan,
    /// Its provider, if it has connected one.
    pub provider: Option<SsoProvider>,
}

#[derive(FromRow)]
struct Row {
    issuer: String,
    client_id: String,
    client_secret: Vec<u8>,
    default_role: Option<Text<Role>>,
    groups_claim: String,
    group_roles: String,
    is_required: i64,
    emergency_user_id: Option<Uuid>,
    has_own_redirect: i64,
    allows_insecure: i64,
    created_at: i64,
    updated_at: i64,
}

#[derive(FromRow)]
struct OrganizationRow {
    id: Uuid,
    name: String,
    plan: Text<Plan>,
}

impl SsoProvider {
    /// Returns the provider without its secret, as a JSON object.
    pub fn to_json(&self) -> Value {
        let groups = self.roles.groups.iter();
        let groups: Map<String, Value> = groups
            .map(|one| (one.group.clone(), json!(one.role)))
            .collect();
        json!({
            "issuer": self.issuer,
            "client_id": self.client_id,
            "default_role": self.roles.default_role,
            "groups_claim": self.roles.groups_claim,
            "groups": groups,
            "required": self.is_required,
            "emergency_owner": self.emergency_owner,
            "redirect": self.redirect.as_str(),
            "allow_insecure_issuer": self.allows_insecure,
            "updated_at": self.updated_at,
        })
    }

    fn of(tenant: Tenant, row: Row) -> Result<Self, StoreError> {
        let groups = serde_json::from_str(&row.group_roles);
        Ok(Self {
            tenant,
            issuer: row.issuer,
            client_id: row.client_id,
            client_secret: row.client_secret,
            roles: SsoRoles {
                default_role: row.default_role.map(|role| role.0),
                groups_claim: row.groups_claim,
                groups: groups.map_err(|error| super::changes::broken(&error))?,
            },
            is_required: row.is_required != 0,
            emergency_owner: row.emergency_user_id.map(UserId::from),
            redirect: if row.has_own_redirect != 0 {
                SsoRedirect::Own
            } else {
                SsoRedirect::Shared
            },
            allows_insecure: row.allows_insecure != 0,
            created_at: Timestamp::from_millis(row.created_at),
            updated_at: Timestamp::from_millis(row.updated_at),
        })
    }

    /// Returns whether a person's password works in the organization.
    pub fn permits_password(&self, user: UserId) -> bool {
        !self.is_required || self.emergency_owner == Some(user)
    }

    /// Returns whether people are known by the same subjects, so that their sessions may go on.
    fn has_same_client(&self, other: &Self) -> bool {
        self.issuer == other.issuer && self.client_id == other.client_id
    }

    pub(super) fn entry(&self, action: Action, metadata: Map<String, Value>) -> Entry<'_> {
        Entry {
            action,
            resource_type: ResourceType::Sso,
            resource_id: self.tenant.uuid(),
            label: &self.issuer,
            metadata,
        }
    }

    /// Returns what the activity log shows of it: groups in the words of `--group`, and the name
    /// of the emergency owner.
    fn shown(&self, owners: &[User]) -> Map<String, Value> {
        let emergency = self.emergency_owner.and_then(|id| {
            let owner = owners.iter().find(|owner| owner.id == id)?;
            Some(owner.name.clone())
        });
        let groups: Vec<String> = self.roles.groups.iter().map(ToString::to_string).collect();
        let mut shown = self.to_json().as_object().cloned().unwrap_or_default();
        shown.remove("updated_at");
        shown.insert("groups".to_owned(), json!(groups));
        shown.insert("emergency_owner".to_owned(), json!(emergency));
        shown
    }

    fn differences(&self, after: &Self, owners: &[User]) -> Map<String, Value> {
        let before = self.shown(owners);
        let differ = after
            .shown(owners)
            .into_iter()
            .filter(|(name, value)| before.get(name) != Some(value));
        let mut changes: Map<String, Value> = differ
            .map(|(name, to)| {
                let from = before.get(&name).cloned();
                (name, json!({ "from": from, "to": to }))
            })
            .collect();
        if self.client_secret != after.client_secret {
            // Never the secret itself.
            changes.insert(
                "client_secret".to_owned(),
                json!({ "from": "***", "to": "***" }),
            );
        }
        changes
    }
}

impl Database {
    /// Returns the provider of an organization, if it has connected one.
    pub async fn sso_provider(&self, tenant: Tenant) -> Result<Option<SsoProvider>, StoreError> {
        let row: Option<Row> = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT)
                .bind(tenant.uuid())
                .fetch_optional(&mut **db)
        })?;
        row.map(|row| SsoProvider::of(tenant, row)).transpose()
    }

    /// Finds an organization that people want to sign in to, with its provider.
    pub async fn sso_organization(
        &self,
        id: OrganizationId,
    ) -> Result<Option<SsoOrganization>, StoreError> {
        let row: Option<OrganizationRow> = read!(self.system().await?, |db| {
            sqlx::query_as(SELECT_ORGANIZATION)
                .bind(id.0)
                .fetch_optional(&mut **db)
        })?;
        let Some(row) = row else { return Ok(None) };
        let tenant = Tenant(row.id.into());
        Ok(Some(SsoOrganization {
            tenant,
            name: row.name,
            plan: row.plan.0,
            provider: self.sso_provider(tenant).await?,
        }))
    }

    /// Returns the organizations that have connected a provider.
    pub async fn tenants_with_sso(&self) -> Result<Vec<Tenant>, StoreError> {
        let rows: Vec<(Uuid,)> = read!(self.system().await?, |db| {
            sqlx::query_as(WITH_PROVIDERS).fetch_all(&mut **db)
        })?;
        Ok(rows.into_iter().map(|(id,)| Tenant(id.into())).collect())
    }

    /// Replaces the encrypted secret of a provider by the same one, encrypted by another key.
    /// Returns `false` if it was changed meanwhile.
    pub async fn replace_sso_secret(
        &self,
        provider: &SsoProvider,
        encrypted: &[u8],
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let replaced = execute!(
            tx,
            sqlx::query(REPLACE_SECRET)
                .bind(provider.tenant.uuid())
                .bind(encrypted)
                .bind(&provider.client_secret)
        )?;
        tx.commit().await?;
        Ok(replaced > 0)
    }

    /// Lists the owners of an organization who have a password, those that joined first first.
    pub async fn owners_with_password(&self, tenant: Tenant) -> Result<Vec<User>, StoreError> {
        let rows: Vec<OwnerRow> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(OWNERS_WITH_PASSWORD)
                .bind(tenant.uuid())
                .fetch_all(&mut **db)
        })?;
        Ok(rows.into_iter().map(User::from).collect())
    }
}

#[derive(FromRow)]
struct OwnerRow {
    #[sqlx(try_from = "Uuid")]
    id: UserId,
    email: String,
    name: String,
}

impl From<OwnerRow> for User {
    fn from(row: OwnerRow) -> Self {
        Self {
            id: row.id,
            email: row.email,
            name: row.name,
        }
    }
}

/// Chooses the owner whose password works although the provider is required: the one with the
/// address that was given, or the one who was chosen before, or the first.
fn emergency_owner(
    owners: &[User],
    email: Option<&str>,
    before: Option<UserId>,
) -> Result<UserId, StoreError> {
    let refused = |message: String| {
        let code = changelog_core::ViolationCode::NotFound;
        let invalid = changelog_core::Invalid::one("/emergency_owner", code, message);
        Err(StoreError::Invalid(invalid))
    };
    if let Some(email) = email {
        let folded = fold_email(email);
        let owner = owners
            .iter()
            .find(|owner| fold_email(&owner.email) == folded);
        return match owner {
            Some(owner) => Ok(owner.id),
            None => refused(format!(
                "must be the email address of an owner of the organization who has a password, got \
                 {email:?}"
            )),
        };
    }
    let former = owners.iter().find(|owner| Some(owner.id) == before);
    match former.or(owners.first()) {
        Some(owner) => Ok(owner.id),
        None => refused(
            "no owner of the organization has a password: without one, nobody could sign in when \
             the provider does not work; set one by `changelog-server user set-password`"
                .to_owned(),
        ),
    }
}

impl Tx {
    /// Connects or changes the provider of an organization, and records it. `emergency` is the
    /// email address of the owner whose password works although the provider is required;
    /// [`SsoProvider::emergency_owner`] and the times of `provider` are set by this. Sessions that are not
    /// valid by the new settings end.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the provider is to be required and there is no such owner.
    pub async fn set_sso_provider(
        &mut self,
        actor: &Actor,
        provider: &mut SsoProvider,
        emergency: Option<&str>,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let tenant = provider.tenant;
        self.lock_members(tenant).await?;
        let before = self.sso_provider_now(tenant).await?;
        let owners: Vec<OwnerRow> = on!(&mut self.connection, |db| {
            sqlx::query_as(OWNERS_WITH_PASSWORD)
                .bind(tenant.uuid())
                .fetch_all(&mut **db)
        })?;
        let owners: Vec<User> = owners.into_iter().map(User::from).collect();
        let chosen = before.as_ref().and_then(|before| before.emergency_owner);
        provider.emergency_owner = match emergency_owner(&owners, emergency, chosen) {
            Ok(owner) => Some(owner),
            Err(error) if provider.is_required || emergency.is_some() => return Err(error),
            Err(_) => None,
        };
        provider.updated_at = now.into();
        let roles = &provider.roles;
        execute!(
            self,
            sqlx::query(UPSERT)
                .bind(tenant.uuid())
                .bind(&provider.issuer)
                .bind(&provider.client_id)
                .bind(&provider.client_secret)
                .bind(roles.default_role.as_ref().map(Role::as_str))
                .bind(&roles.groups_claim)
                .bind(json!(roles.groups).to_string())
                .bind(i64::from(provider.is_required))
                .bind(provider.emergency_owner.map(|owner| owner.0))
                .bind(i64::from(provider.redirect == SsoRedirect::Own))
                .bind(i64::from(provider.allows_insecure))
                .bind(now.timestamp_millis())
        )?;
        if before
            .as_ref()
            .is_some_and(|before| !before.has_same_client(provider))
        {
            execute!(self, sqlx::query(END_SSO_SESSIONS).bind(tenant.uuid()))?;
        }
        if let (true, Some(owner)) = (provider.is_required, provider.emergency_owner) {
            execute!(
                self,
                sqlx::query(END_OTHER_SESSIONS)
                    .bind(tenant.uuid())
                    .bind(owner.0)
            )?;
        }
        let entry = match &before {
            None => provider.entry(Action::Connected, provider.shown(&owners)),
            Some(before) => {
                let differences = before.differences(provider, &owners);
                if differences.is_empty() {
                    return Ok(());
                }
                provider.entry(Action::Updated, changed(differences))
            }
        };
        self.record_pending(tenant, actor, entry, now).await
    }

    /// Disconnects the provider of an organization, ends the sessions that were begun by it,
    /// and records it. Returns `false` if there is none. Passwords work again.
    pub async fn remove_sso_provider(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        self.lock_members(tenant).await?;
        let Some(provider) = self.sso_provider_now(tenant).await? else {
            return Ok(false);
        };
        execute!(self, sqlx::query(DELETE).bind(tenant.uuid()))?;
        execute!(self, sqlx::query(END_SSO_SESSIONS).bind(tenant.uuid()))?;
        let entry = provider.entry(Action::Disconnected, Map::new());
        self.record_pending(tenant, actor, entry, now).await?;
        Ok(true)
    }

    /// Reads the provider in this transaction.
    pub(super) async fn sso_provider_now(
        &mut self,
        tenant: Tenant,
    ) -> Result<Option<SsoProvider>, StoreError> {
        let row: Option<Row> = on!(&mut self.connection, |db| {
            sqlx::query_as(SELECT)
                .bind(tenant.uuid())
                .fetch_optional(&mut **db)
        })?;
        row.map(|row| SsoProvider::of(tenant, row)).transpose()
    }

    /// Records that a person uses their password in an organization, if that is the emergency
    /// door. All owners are shown it.
    pub async fn record_emergency_use(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        user: &User,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let recorded = execute!(
            self,
            sqlx::query(USE_EMERGENCY)
                .bind(tenant.uuid())
                .bind(user.id.0)
                .bind(now.timestamp_millis())
                .bind(&user.name)
        )?;
        if recorded == 0 {
            return Ok(());
        }
        let metadata = json!({ "method": EMERGENCY });
        let entry = Entry {
            action: Action::SignedIn,
            resource_type: ResourceType::Sso,
            resource_id: user.id.0,
            label: &user.name,
            metadata: metadata.as_object().cloned().unwrap_or_default(),
        };
        self.record_pending(tenant, actor, entry, now).await
    }

    /// Records that an owner has seen the uses of the emergency door until now.
    pub async fn see_emergency_uses(
        &mut self,
        tenant: Tenant,
        user: UserId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(SEE_EMERGENCY)
                .bind(tenant.uuid())
                .bind(user.0)
                .bind(now.millis())
        )?;
        Ok(())
    }

    /// Fails if a member is the owner whose password works although the provider is required:
    /// without that owner, nobody could sign in when the provider does not work.
    pub(super) async fn check_not_emergency_owner(
        &mut self,
        tenant: Tenant,
        user: UserId,
    ) -> Result<(), StoreError> {
        if self.is_emergency_owner(tenant, user).await? {
            let detail = "this owner's password is the emergency access while sign-in by the \
                          provider is required; choose another owner for it on the page Sign-in \
                          of the settings first";
            return Err(StoreError::Forbidden(detail.to_owned()));
        }
        Ok(())
    }

    pub(super) async fn is_emergency_owner(
        &mut self,
        tenant: Tenant,
        user: UserId,
    ) -> Result<bool, StoreError> {
        let found: Option<(i32,)> = on!(&mut self.connection, |db| {
            sqlx::query_as(IS_EMERGENCY_OWNER)
                .bind(tenant.uuid())
                .bind(user.0)
                .fetch_optional(&mut **db)
        })?;
        Ok(found.is_some())
    }
}

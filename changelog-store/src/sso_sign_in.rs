//! People who sign in by the identity provider of an organization: which account is theirs,
//! and which role they have.
//!
//! A person is the subject that the issuer calls them by, never an address. The provider of
//! an organization speaks for this organization only: what is found, made and changed here is
//! an account that the organization vouches for, or a membership in it.

use changelog_core::user::fold_email;
use changelog_core::{Action, ResourceType, Role, Timestamp, User, UserId};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use sqlx::FromRow;
use sqlx::types::Uuid;

use super::activity::Entry;
use super::engine::{execute, on};
use super::sessions::hash;
use super::sso::SsoProvider;
use super::{Actor, Quota, StoreError, Tenant, Tx};

/// The method of a sign-in by a proxy, in the activity log.
pub const BY_PROXY: &str = "proxy";

/// How long it is known what works only once. What is older has expired.
pub(super) const USED_TTL: TimeDelta = TimeDelta::hours(2);

const SELECT_IDENTITY: &str = "
SELECT user_id FROM sso_identities
WHERE organization_id = $1 AND issuer = $2 AND subject = $3";

const INSERT_IDENTITY: &str = "
INSERT INTO sso_identities (organization_id, issuer, subject, user_id, created_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING";

const SELECT_USER: &str = "SELECT id, email, name, password_hash FROM users WHERE id = $1";

const MEMBER_BY_EMAIL: &str = "
SELECT u.id, u.email, u.name, u.password_hash FROM users u
WHERE u.email_folded = $2 AND EXISTS
    (SELECT 1 FROM memberships m WHERE m.organization_id = $1 AND m.user_id = u.id)
ORDER BY u.created_at, u.id LIMIT 1";

const UPDATE_USER: &str = "
UPDATE users SET name = $2, email = $3, email_folded = $4 WHERE id = $1 AND password_hash = ''";

const USE_ONCE: &str = "
INSERT INTO sso_used (organization_id, token_hash, used_at) VALUES ($1, $2, $3)
ON CONFLICT DO NOTHING";

pub(super) const PURGE_USED: &str = "
DELETE FROM sso_used WHERE (organization_id, token_hash) IN
    (SELECT organization_id, token_hash FROM sso_used WHERE used_at < $1
     ORDER BY used_at LIMIT 1000)";

/// Sessions of a person that the provider may mean: without the id of the session, or in one
/// that did not get an id, all of them.
const END_SESSIONS_OF_PERSON: &str = "
DELETE FROM sessions WHERE user_id = $2 AND organization_id = $1 AND method = 'sso'
    AND (provider_sid = $3 OR provider_sid IS NULL OR $3 IS NULL)";

const END_SESSION_BY_SID: &str = "
DELETE FROM sessions WHERE organization_id = $1 AND method = 'sso' AND provider_sid = $2";

/// A person, as the provider of an organization has told in a token that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsoPerson {
    /// The subject that the issuer calls the person by.
    pub subject: String,
    /// The email address, if the provider has told one.
    pub email: Option<String>,
    /// Whether the provider says that the address is the person's.
    pub is_verified: bool,
    /// The name.
    pub name: String,
    /// The role that the person's groups give, or the default role; `None` if neither does.
    pub role: Option<Role>,
}

/// What became of a sign-in by a provider. It is to be committed in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SsoOutcome {
    /// The person may have a session.
    SignedIn {
        /// The account.
        user: User,
        /// Whether the name of the account was changed to that of the provider.
        is_renamed: bool,
    },
    /// The address is that of a member, who has to enter their password once.
    Confirm(User),
    /// The person may not sign in.
    Refused(SsoRefusal),
}

/// Why a person may not sign in by the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SsoRefusal {
    /// The provider was changed or disconnected meanwhile.
    Changed,
    /// Neither a group nor the default gives a new person a role.
    NoRole,
    /// The groups of a member give no role any more; they are no longer a member.
    LostRole,
    /// The provider has told no email address of a new person.
    NoEmail,
    /// A member has the address, and the provider does not say that it is verified.
    UnverifiedEmail,
    /// A member has the address, whose account has no password to confirm with.
    NoPassword,
    /// Another member has the address of a person who would become a member again.
    AddressTaken,
}

#[derive(FromRow)]
struct AccountRow {
    #[sqlx(try_from = "Uuid")]
    id: UserId,
    email: String,
    name: String,
    password_hash: String,
}

impl AccountRow {
    fn user(&self) -> User {
        User {
            id: self.id,
            email: self.email.clone(),
            name: self.name.clone(),
        }
    }
}

impl Tx {
    /// Finds or makes the account of a person who has signed in by the provider, and gives it
    /// the role that follows. `confirmed` is the member who has just entered their password
    /// for this. The session is begun by the caller.
    ///
    /// # Errors
    /// [`StoreError::QuotaExceeded`] when the organization has too many members,
    /// [`StoreError::Forbidden`] when the address has too many accounts.
    pub async fn sign_in_by_provider(
        &mut self,
        provider: &SsoProvider,
        person: &SsoPerson,
        confirmed: Option<UserId>,
        now: DateTime<Utc>,
    ) -> Result<SsoOutcome, StoreError> {
        let tenant = provider.tenant;
        self.lock_members(tenant).await?;
        // The token was checked by these settings; they may have changed since.
        let current = self.sso_provider_now(tenant).await?;
        let Some(provider) = current.filter(|current| {
            current.issuer == provider.issuer && current.client_id == provider.client_id
        }) else {
            return Ok(SsoOutcome::Refused(SsoRefusal::Changed));
        };
        let account = match self.account_of(&provider, person).await? {
            Some(account) => account,
            None => match self
                .first_sign_in(&provider, person, confirmed, now)
                .await?
            {
                Ok(account) => account,
                Err(outcome) => return Ok(outcome),
            },
        };
        if let Some(refusal) = self.follow_role(&provider, &account, person, now).await? {
            return Ok(SsoOutcome::Refused(refusal));
        }
        let (user, is_renamed) = self.follow_profile(tenant, account, person).await?;
        Ok(SsoOutcome::SignedIn { user, is_renamed })
    }

    /// Returns the account that is known to be the person's.
    async fn account_of(
        &mut self,
        provider: &SsoProvider,
        person: &SsoPerson,
    ) -> Result<Option<AccountRow>, StoreError> {
        let Some(user) = self
            .sso_identity(provider.tenant, &provider.issuer, &person.subject)
            .await?
        else {
            return Ok(None);
        };
        on!(&mut self.connection, |db| {
            sqlx::query_as(SELECT_USER)
                .bind(user.0)
                .fetch_optional(&mut **db)
        })
    }

    async fn sso_identity(
        &mut self,
        tenant: Tenant,
        issuer: &str,
        subject: &str,
    ) -> Result<Option<UserId>, StoreError> {
        let row: Option<(Uuid,)> = on!(&mut self.connection, |db| {
            sqlx::query_as(SELECT_IDENTITY)
                .bind(tenant.uuid())
                .bind(issuer)
                .bind(subject)
                .fetch_optional(&mut **db)
        })?;
        Ok(row.map(|(id,)| id.into()))
    }

    /// Links a person who is not known yet to the account of a member, if that was confirmed,
    /// or makes an account without a password. The inner error is what else became of the
    /// sign-in.
    async fn first_sign_in(
        &mut self,
        provider: &SsoProvider,
        person: &SsoPerson,
        confirmed: Option<UserId>,
        now: DateTime<Utc>,
    ) -> Result<Result<AccountRow, SsoOutcome>, StoreError> {
        let refused = |refusal| Ok(Err(SsoOutcome::Refused(refusal)));
        let Some(email) = &person.email else {
            return refused(SsoRefusal::NoEmail);
        };
        let member: Option<AccountRow> = on!(&mut self.connection, |db| {
            sqlx::query_as(MEMBER_BY_EMAIL)
                .bind(provider.tenant.uuid())
                .bind(fold_email(email))
                .fetch_optional(&mut **db)
        })?;
        let account = match member {
            Some(_) if !person.is_verified => return refused(SsoRefusal::UnverifiedEmail),
            Some(member) if member.password_hash.is_empty() => {
                return refused(SsoRefusal::NoPassword);
            }
            Some(member) if confirmed != Some(member.id) => {
                return Ok(Err(SsoOutcome::Confirm(member.user())));
            }
            Some(member) => member,
            None if person.role.is_none() => return refused(SsoRefusal::NoRole),
            None => {
                let name = &person.name;
                let user = self
                    .insert_provided_user(provider.tenant, email, name, now)
                    .await?;
                AccountRow {
                    id: user.id,
                    email: user.email,
                    name: user.name,
                    password_hash: String::new(),
                }
            }
        };
        execute!(
            self,
            sqlx::query(INSERT_IDENTITY)
                .bind(provider.tenant.uuid())
                .bind(&provider.issuer)
                .bind(&person.subject)
                .bind(account.id.0)
                .bind(now.timestamp_millis())
        )?;
        let entry = Entry {
            action: Action::Connected,
            resource_type: ResourceType::Sso,
            resource_id: account.id.0,
            label: &account.name,
            metadata: json!({ "subject": person.subject })
                .as_object()
                .cloned()
                .unwrap_or_default(),
        };
        self.record_pending(provider.tenant, &Actor::service(), entry, now)
            .await?;
        Ok(Ok(account))
    }

    /// Gives a person the role that follows from their groups. The owner of the emergency door
    /// and the last owner stay what they are.
    async fn follow_role(
        &mut self,
        provider: &SsoProvider,
        account: &AccountRow,
        person: &SsoPerson,
        now: DateTime<Utc>,
    ) -> Result<Option<SsoRefusal>, StoreError> {
        let (tenant, actor) = (provider.tenant, Actor::service());
        let Some(member) = self.member(tenant, account.id).await? else {
            let Some(role) = &person.role else {
                return Ok(Some(SsoRefusal::NoRole));
            };
            let inserted = self
                .insert_member(tenant, &actor, &account.user(), role, now)
                .await;
            return match inserted {
                Err(StoreError::Conflict) => Ok(Some(SsoRefusal::AddressTaken)),
                Err(error) => Err(error),
                Ok(()) => {
                    self.check_quota(tenant, Quota::Members).await?;
                    Ok(None)
                }
            };
        };
        if !provider.roles.follow_groups() || person.role.as_ref() == Some(&member.role) {
            return Ok(None);
        }
        if member.role == Role::Owner {
            let stays = self.is_emergency_owner(tenant, member.user.id).await?
                || match self.check_other_owner(tenant, &member).await {
                    Err(StoreError::LastOwner) => true,
                    checked => checked.map(|()| false)?,
                };
            if stays {
                return Ok(None);
            }
        }
        if let Some(role) = &person.role {
            self.replace_role(tenant, &actor, &member, role, now)
                .await?;
            Ok(None)
        } else {
            self.delete_member(tenant, &actor, &member, now).await?;
            Ok(Some(SsoRefusal::LostRole))
        }
    }

    /// Gives an account without a password, which is of this organization only, the name and
    /// the address that the provider tells.
    async fn follow_profile(
        &mut self,
        tenant: Tenant,
        account: AccountRow,
        person: &SsoPerson,
    ) -> Result<(User, bool), StoreError> {
        let mut user = account.user();
        if !account.password_hash.is_empty() {
            return Ok((user, false));
        }
        if let Some(email) = &person.email
            && fold_email(email) != fold_email(&user.email)
            && !self.is_member(tenant, email).await?
        {
            user.email.clone_from(email);
        }
        user.name.clone_from(&person.name);
        let is_renamed = user.name != account.name;
        if is_renamed || user.email != account.email {
            execute!(
                self,
                sqlx::query(UPDATE_USER)
                    .bind(user.id.0)
                    .bind(&user.name)
                    .bind(&user.email)
                    .bind(fold_email(&user.email))
            )?;
        }
        Ok((user, is_renamed))
    }

    /// Records that a person has signed in by the provider.
    pub async fn record_sso_sign_in(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        user: &User,
        method: &str,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let entry = entry(Action::SignedIn, user, "method", method);
        self.record_pending(tenant, actor, entry, now).await
    }

    /// Uses what works only once, such as the state of a sign-in; returns `false` if it was
    /// used before.
    pub async fn use_once(
        &mut self,
        tenant: Tenant,
        token: &str,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let used = execute!(
            self,
            sqlx::query(USE_ONCE)
                .bind(tenant.uuid())
                .bind(hash(token))
                .bind(now.millis())
        )?;
        Ok(used > 0)
    }

    /// Ends sessions because the provider says that a person has signed out of it: those of a
    /// subject, or one by the id that the provider has given it, or both. Returns how many.
    pub async fn end_provider_sessions(
        &mut self,
        provider: &SsoProvider,
        subject: Option<&str>,
        sid: Option<&str>,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let tenant = provider.tenant;
        let Some(subject) = subject else {
            let ended = execute!(
                self,
                sqlx::query(END_SESSION_BY_SID)
                    .bind(tenant.uuid())
                    .bind(sid)
            )?;
            if ended > 0 {
                let metadata = json!({ "sessions": ended });
                let entry = provider.entry(
                    Action::Stopped,
                    metadata.as_object().cloned().unwrap_or_default(),
                );
                self.record_pending(tenant, &Actor::service(), entry, now)
                    .await?;
            }
            return Ok(ended);
        };
        let issuer = &provider.issuer;
        let Some(id) = self.sso_identity(tenant, issuer, subject).await? else {
            return Ok(0);
        };
        let ended = execute!(
            self,
            sqlx::query(END_SESSIONS_OF_PERSON)
                .bind(tenant.uuid())
                .bind(id.0)
                .bind(sid)
        )?;
        if ended > 0
            && let Some(member) = self.member(tenant, id).await?
        {
            let entry = entry(Action::Stopped, &member.user, "by", "the identity provider");
            self.record_pending(tenant, &Actor::service(), entry, now)
                .await?;
        }
        Ok(ended)
    }

    /// Ends all sessions of a member in an organization, and records it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the person is not a member.
    pub async fn end_sessions_of_member(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        user: UserId,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let member = self
            .member(tenant, user)
            .await?
            .ok_or(StoreError::NotFound)?;
        self.end_sessions_in(tenant, user).await?;
        let entry = entry(Action::Stopped, &member.user, "by", "an owner");
        self.record_pending(tenant, actor, entry, now).await
    }
}

/// Returns an entry of the activity log about the sessions of a person.
fn entry<'a>(action: Action, user: &'a User, name: &str, value: &str) -> Entry<'a> {
    Entry {
        action,
        resource_type: ResourceType::Sso,
        resource_id: user.id.0,
        label: &user.name,
        metadata: [(name.to_owned(), value.into())].into_iter().collect(),
    }
}

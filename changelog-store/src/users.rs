//! User accounts. A person may have several, each vouched for by another organization.

use changelog_core::user::fold_email;
use changelog_core::{User, UserId};
use chrono::{DateTime, Utc};
use sqlx::FromRow;
use sqlx::types::Uuid;

use super::engine::{execute, on, read};
use super::{Database, StoreError, Tenant, Tx, new_id};

/// The limit on accounts of one email address.
const MAX_ACCOUNTS_PER_EMAIL: usize = 32;

const INSERT_USER: &str = "
INSERT INTO users (id, email, email_folded, name, password_hash, vouched_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (email_folded) WHERE vouched_by IS NULL DO NOTHING";

/// Reuses the account of a person whom the organization that vouches for it
/// removed and invites again.
const RENEW_USER: &str = "
UPDATE users SET email = $3, name = $4, password_hash = $5 WHERE id =
    (SELECT u.id FROM users u WHERE u.email_folded = $1 AND u.vouched_by = $2
         AND NOT EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = u.id)
     ORDER BY u.id LIMIT 1)
RETURNING id, email, name, password_hash";

/// Skips accounts without an organization: they have nothing to sign in to.
const BY_EMAIL: &str = "
SELECT u.id, u.email, u.name, u.password_hash FROM users u
WHERE u.email_folded = $1 AND EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = u.id)
ORDER BY u.created_at, u.id LIMIT 32";

const RENAME_USER: &str = "UPDATE users SET name = $2 WHERE id = $1";
const SET_TIME_ZONE: &str = "UPDATE users SET time_zone = $2 WHERE id = $1";
const SET_PASSWORD: &str = "UPDATE users SET password_hash = $2 WHERE id = $1";
/// Locks the row until the transaction ends.
const KEEP_PASSWORD: &str = "
UPDATE users SET password_hash = password_hash WHERE id = $1 AND password_hash = $2";

#[derive(FromRow)]
struct AccountRow {
    #[sqlx(try_from = "Uuid")]
    id: UserId,
    email: String,
    name: String,
    password_hash: String,
}

impl From<AccountRow> for Account {
    fn from(row: AccountRow) -> Self {
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
    /// The person.
    pub user: User,
    /// The hash of the password, empty for an account without a password; never logged or
    /// shown.
    pub password_hash: String,
}

impl Account {
    /// Returns whether the account has a password. Those that were made by a sign-in of an
    /// identity provider have none.
    pub fn has_password(&self) -> bool {
        !self.password_hash.is_empty()
    }
}

impl Database {
    /// Returns the accounts of an email address, oldest first, at most 32. Accounts
    /// without an organization are left out.
    pub async fn accounts(&self, email: &str) -> Result<Vec<Account>, StoreError> {
        let folded = fold_email(email);
        let rows: Vec<AccountRow> = read!(self.system().await?, |db| sqlx::query_as(BY_EMAIL)
            .bind(&folded)
            .fetch_all(&mut **db))?;
        Ok(rows.into_iter().map(Account::from).collect())
    }
}

impl Tx {
    /// Creates an account that the operator vouches for.
    ///
    /// # Errors
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

    /// Creates an account for a person whom an organization has invited. If the
    /// organization removed the person earlier, the old account is used again.
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
        let renewed: Option<AccountRow> = on!(&mut self.connection, |db| {
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
        self.check_account_limit(email).await?;
        self.insert_account(Some(tenant), email, name, password_hash, now)
            .await
    }

    /// Creates an account without a password for a person whom the identity provider of an
    /// organization knows.
    ///
    /// # Errors
    /// [`StoreError::Forbidden`] when the address has 32 accounts.
    pub(super) async fn insert_provided_user(
        &mut self,
        tenant: Tenant,
        email: &str,
        name: &str,
        now: DateTime<Utc>,
    ) -> Result<User, StoreError> {
        self.check_account_limit(email).await?;
        self.insert_account(Some(tenant), email, name, "", now)
            .await
    }

    async fn check_account_limit(&mut self, email: &str) -> Result<(), StoreError> {
        let accounts: Vec<AccountRow> = on!(&mut self.connection, |db| {
            sqlx::query_as(BY_EMAIL)
                .bind(fold_email(email))
                .fetch_all(&mut **db)
        })?;
        if accounts.len() >= MAX_ACCOUNTS_PER_EMAIL {
            let detail = format!(
                "this email address has {MAX_ACCOUNTS_PER_EMAIL} accounts already; use the password of one \
                 of them"
            );
            return Err(StoreError::Forbidden(detail));
        }
        Ok(())
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

    /// Renames a person. No activity log records it, because each belongs to an
    /// organization and a person does not. Changes that the person recorded show the new
    /// name after [`rename_author`](super::Database::rename_author).
    pub async fn rename_user(&mut self, user: UserId, name: &str) -> Result<(), StoreError> {
        execute!(self, sqlx::query(RENAME_USER).bind(user.0).bind(name))?;
        Ok(())
    }

    /// Sets the time zone that mails to a person are written for, by its name in the IANA
    /// database.
    pub async fn set_time_zone(&mut self, user: UserId, zone: &str) -> Result<(), StoreError> {
        execute!(self, sqlx::query(SET_TIME_ZONE).bind(user.0).bind(zone))?;
        Ok(())
    }

    /// Returns whether a person's password is still the one that was checked, and keeps it until
    /// the transaction ends, so that no session begins by one that was replaced meanwhile.
    pub async fn keep_password(
        &mut self,
        user: UserId,
        password_hash: &str,
    ) -> Result<bool, StoreError> {
        let kept = execute!(
            self,
            sqlx::query(KEEP_PASSWORD).bind(user.0).bind(password_hash)
        )?;
        Ok(kept > 0)
    }

    /// Sets a person's password, ends their sessions, revokes their feeds and forgets their
    /// known browsers.
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
        self.revoke_feeds(user).await?;
        self.end_sessions(user).await
    }
}

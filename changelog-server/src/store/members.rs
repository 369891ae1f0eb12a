//! People, and the organizations that they belong to.

use changelog_core::member::fold_email;
use changelog_core::{Action, ResourceType, Role, User, UserId};
use chrono::{DateTime, Utc};
use serde_json::{Map, json};
use sqlx::FromRow;
use sqlx::types::Uuid;

use super::activity::Entry;
use super::engine::{execute, on};
use super::{Actor, Store, StoreError, Tenant, Tx, new_id};

const INSERT_USER: &str = "
INSERT INTO users (id, email, email_folded, name, password_hash, created_at)
VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (email_folded) DO NOTHING";

const INSERT_MEMBER: &str = "
INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)";

const BY_EMAIL: &str = "
SELECT id, email, name, password_hash FROM users WHERE email_folded = $1";

const FIRST_MEMBERSHIP: &str = "
SELECT organization_id FROM memberships WHERE user_id = $1
ORDER BY created_at, organization_id LIMIT 1";

const SET_PASSWORD: &str = "UPDATE users SET password_hash = $2 WHERE id = $1";

#[derive(FromRow)]
struct Row {
    #[sqlx(try_from = "Uuid")]
    id: UserId,
    email: String,
    name: String,
    password_hash: String,
}

impl Store {
    /// Finds a person by their address, with the hash of their password.
    pub async fn user_by_email(&self, email: &str) -> Result<Option<(User, String)>, StoreError> {
        let folded = fold_email(email);
        let row: Option<Row> = on!(&self.database.pool, |db| sqlx::query_as(BY_EMAIL)
            .bind(&folded)
            .fetch_optional(db))?;
        Ok(row.map(|row| {
            (
                User {
                    id: row.id,
                    email: row.email,
                    name: row.name,
                },
                row.password_hash,
            )
        }))
    }

    /// Finds the organization that a person joined first.
    pub async fn first_membership(&self, user: UserId) -> Result<Option<Tenant>, StoreError> {
        let found: Option<(Uuid,)> = on!(&self.database.pool, |db| {
            sqlx::query_as(FIRST_MEMBERSHIP)
                .bind(user.0)
                .fetch_optional(db)
        })?;
        Ok(found.map(|(id,)| Tenant(id.into())))
    }
}

impl Tx {
    /// Makes a person; [`StoreError::Conflict`] when the address is taken.
    pub async fn insert_user(
        &mut self,
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
                .bind(now.timestamp_millis())
        )?;
        if inserted == 0 {
            Err(StoreError::Conflict)
        } else {
            Ok(user)
        }
    }

    /// Makes a person a member of an organization and records it.
    pub async fn insert_member(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        user: &User,
        role: &Role,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(INSERT_MEMBER)
                .bind(tenant.uuid())
                .bind(user.id.0)
                .bind(role.as_str())
                .bind(now.timestamp_millis())
        )?;
        let entry = Entry {
            action: Action::Joined,
            resource_type: ResourceType::Member,
            resource_id: user.id.0,
            label: &user.name,
            metadata: json!({ "role": role })
                .as_object()
                .cloned()
                .unwrap_or_default(),
        };
        self.record(tenant, actor, entry, now).await
    }

    /// Records that a person signed in.
    pub async fn record_sign_in(
        &mut self,
        tenant: Tenant,
        user: &User,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let entry = Entry {
            action: Action::SignedIn,
            resource_type: ResourceType::Member,
            resource_id: user.id.0,
            label: &user.name,
            metadata: Map::new(),
        };
        let actor = Actor {
            person: Some(user.id),
            name: user.name.clone(),
        };
        self.record(tenant, &actor, entry, now).await
    }

    /// Sets a person's password and ends their sessions.
    pub async fn set_password(
        &mut self,
        user: UserId,
        password_hash: &str,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(SET_PASSWORD).bind(user.0).bind(password_hash)
        )?;
        self.end_sessions(user).await
    }
}

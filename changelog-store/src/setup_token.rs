//! The setup token, whose holder may create the first organization, once.
//!
//! All servers of an empty database print the link with the same token. A transaction
//! that creates an organization deletes the token, so that of two that use it one fails.

use sha2::{Digest, Sha256};
use sqlx::types::Uuid;

use super::engine::{execute, on, read};
use super::organizations::SELECT_ANY;
use super::{Database, StoreError, Tx};

const INSERT: &str = "
INSERT INTO setup_token (id, token) VALUES (1, $1) ON CONFLICT (id) DO NOTHING";

const SELECT: &str = "SELECT token FROM setup_token WHERE id = 1";

const DELETE: &str = "DELETE FROM setup_token WHERE id = 1";

impl Database {
    /// Returns the setup token: `new`, unless a server has stored another one before;
    /// `None` when there is an organization.
    pub async fn setup_token(&self, new: &str) -> Result<Option<String>, StoreError> {
        if self.has_organizations().await? {
            return Ok(None);
        }
        let mut tx = self.begin().await?;
        execute!(tx, sqlx::query(INSERT).bind(new))?;
        let (token,): (String,) = on!(&mut tx.connection, |db| sqlx::query_as(SELECT)
            .fetch_one(&mut **db))?;
        tx.commit().await?;
        Ok(Some(token))
    }

    /// Returns whether the service waits for the setup.
    pub async fn awaits_setup(&self) -> Result<bool, StoreError> {
        Ok(!self.has_organizations().await?)
    }

    /// Returns whether a token allows creating the first organization.
    pub async fn is_setup_token(&self, token: &str) -> Result<bool, StoreError> {
        let stored: Option<(String,)> = read!(self.system().await?, |db| {
            sqlx::query_as(SELECT).fetch_optional(&mut **db)
        })?;
        let hash = |token: &str| Sha256::digest(token);
        // Comparing hashes keeps the timing from revealing the token.
        Ok(stored.is_some_and(|(stored,)| hash(&stored) == hash(token))
            && !self.has_organizations().await?)
    }
}

impl Tx {
    /// Deletes the setup token, because this transaction creates an organization.
    /// Returns whether there was one. A transaction that deletes it at the same time
    /// is waited for.
    pub(super) async fn delete_setup_token(&mut self) -> Result<bool, StoreError> {
        Ok(execute!(self, sqlx::query(DELETE))? > 0)
    }

    /// Uses the setup token up; the caller creates the first organization in this
    /// transaction. Returns whether that is allowed: there is the token, and no
    /// organization.
    pub async fn use_setup_token(&mut self) -> Result<bool, StoreError> {
        let existed = self.delete_setup_token().await?;
        let any: Option<(Uuid,)> = on!(&mut self.connection, |db| {
            sqlx::query_as(SELECT_ANY).fetch_optional(&mut **db)
        })?;
        Ok(existed && any.is_none())
    }
}

//! Filters of the list of changes that were saved under a name: personal ones, and those
//! that an organization shares. Those of a person who leaves stay for their return: members
//! and views are not in one transaction, because they may be on two servers.

use changelog_core::UserId;
use chrono::{DateTime, Utc};
use sqlx::FromRow;
use sqlx::types::Uuid;

use super::engine::error::or_conflict;
use super::engine::{execute, on, read};
use super::{Database, StoreError, Tenant, Tx, new_id};

/// The most views of a person, and the most that an organization shares.
pub const MAX_VIEWS: usize = 50;

/// The owner of the views that an organization shares; that of others is a user's id.
const SHARED: &str = "";

const SELECT: &str = "
SELECT id, owner, name, query FROM saved_views
WHERE organization_id = $1 AND owner IN ('', $2) ORDER BY owner, name_folded";

const COUNT: &str = "SELECT count(*) FROM saved_views WHERE organization_id = $1 AND owner = $2";

const INSERT: &str = "
INSERT INTO saved_views (organization_id, id, owner, name, name_folded, query, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (organization_id, owner, name_folded) DO NOTHING";

const RENAME: &str = "
UPDATE saved_views SET name = $4, name_folded = $5
WHERE organization_id = $1 AND id = $2 AND owner = $3";

const DELETE: &str =
    "DELETE FROM saved_views WHERE organization_id = $1 AND id = $2 AND owner = $3";

/// Who sees a view, and who may change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewOwner {
    /// One person.
    Person(UserId),
    /// The members of the organization.
    Organization,
}

impl ViewOwner {
    fn key(self) -> String {
        match self {
            Self::Person(id) => id.to_string(),
            Self::Organization => SHARED.to_owned(),
        }
    }
}

/// A saved filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedView {
    /// The id.
    pub id: Uuid,
    /// Whether the organization shares it.
    pub is_shared: bool,
    /// The name.
    pub name: String,
    /// The query string of the list.
    pub query: String,
}

#[derive(FromRow)]
struct Row {
    id: Uuid,
    owner: String,
    name: String,
    query: String,
}

impl Database {
    /// Lists the shared views, then those of a person, by name.
    pub async fn saved_views(
        &self,
        tenant: Tenant,
        person: UserId,
    ) -> Result<Vec<SavedView>, StoreError> {
        let rows: Vec<Row> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SELECT)
                .bind(tenant.uuid())
                .bind(person.to_string())
                .fetch_all(&mut **db)
        })?;
        let view = |row: Row| SavedView {
            id: row.id,
            is_shared: row.owner == SHARED,
            name: row.name,
            query: row.query,
        };
        Ok(rows.into_iter().map(view).collect())
    }
}

impl Tx {
    /// Saves a view. Returns whether the owner has fewer than [`MAX_VIEWS`]; otherwise,
    /// nothing is saved.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the owner has a view of this name.
    pub async fn insert_view(
        &mut self,
        tenant: Tenant,
        owner: ViewOwner,
        name: &str,
        query: &str,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let owner = owner.key();
        // Two requests at once may exceed the limit by one, which harms nobody.
        let (count,): (i64,) = on!(&mut self.connection, |db| {
            sqlx::query_as(COUNT)
                .bind(tenant.uuid())
                .bind(&owner)
                .fetch_one(&mut **db)
        })?;
        if usize::try_from(count).unwrap_or(usize::MAX) >= MAX_VIEWS {
            return Ok(false);
        }
        let inserted = execute!(
            self,
            sqlx::query(INSERT)
                .bind(tenant.uuid())
                .bind(new_id(now))
                .bind(&owner)
                .bind(name)
                .bind(name.to_lowercase())
                .bind(query)
                .bind(now.timestamp_millis())
        )?;
        match inserted {
            0 => Err(StoreError::Conflict),
            _ => Ok(true),
        }
    }

    /// Renames a view.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the owner has no such view, [`StoreError::Conflict`]
    /// when the owner has another view of this name.
    pub async fn rename_view(
        &mut self,
        tenant: Tenant,
        owner: ViewOwner,
        id: Uuid,
        name: &str,
    ) -> Result<(), StoreError> {
        let renamed = execute!(
            self,
            sqlx::query(RENAME)
                .bind(tenant.uuid())
                .bind(id)
                .bind(owner.key())
                .bind(name)
                .bind(name.to_lowercase())
        );
        match or_conflict(renamed)? {
            0 => Err(StoreError::NotFound),
            _ => Ok(()),
        }
    }

    /// Deletes a view.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the owner has no such view.
    pub async fn delete_view(
        &mut self,
        tenant: Tenant,
        owner: ViewOwner,
        id: Uuid,
    ) -> Result<(), StoreError> {
        let deleted = execute!(
            self,
            sqlx::query(DELETE)
                .bind(tenant.uuid())
                .bind(id)
                .bind(owner.key())
        )?;
        match deleted {
            0 => Err(StoreError::NotFound),
            _ => Ok(()),
        }
    }
}

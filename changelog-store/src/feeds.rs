//! The addresses of feeds: a token lets a feed reader see what a member may see.

use changelog_core::{OrganizationId, Timestamp, UserId};
use sqlx::FromRow;
use sqlx::types::Uuid;

use super::engine::{execute, read};
use super::sessions::hash;
use super::{Database, StoreError, Tenant, Tx};

/// Joins the membership, so that a removed member has no feed.
const SELECT_BY_TOKEN: &str = "
SELECT f.organization_id, o.name AS organization_name
FROM feeds f
JOIN memberships m ON m.organization_id = f.organization_id AND m.user_id = f.user_id
JOIN organizations o ON o.id = f.organization_id
WHERE f.token_hash = $1";

const SELECT_CREATED_AT: &str =
    "SELECT created_at FROM feeds WHERE organization_id = $1 AND user_id = $2";

/// Replaces the former token.
const INSERT: &str = "
INSERT INTO feeds (organization_id, user_id, token_hash, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (organization_id, user_id)
DO UPDATE SET token_hash = excluded.token_hash, created_at = excluded.created_at";

const DELETE: &str = "DELETE FROM feeds WHERE organization_id = $1 AND user_id = $2";
const DELETE_OF_USER: &str = "
DELETE FROM feeds WHERE user_id = $1 AND organization_id IN
    (SELECT organization_id FROM memberships WHERE user_id = $1)";

/// The organization of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feed {
    /// The organization.
    pub tenant: Tenant,
    /// Its name.
    pub organization_name: String,
}

#[derive(FromRow)]
struct FeedRow {
    #[sqlx(try_from = "Uuid")]
    organization_id: OrganizationId,
    organization_name: String,
}

impl Database {
    /// Finds the feed of a token, if its person is still a member.
    pub async fn feed(&self, token: &str) -> Result<Option<Feed>, StoreError> {
        let row: Option<FeedRow> = read!(self.system().await?, |db| {
            sqlx::query_as(SELECT_BY_TOKEN)
                .bind(hash(token))
                .fetch_optional(&mut **db)
        })?;
        Ok(row.map(|row| Feed {
            tenant: Tenant(row.organization_id),
            organization_name: row.organization_name,
        }))
    }

    /// Returns when a member created the address of their feed, if there is one.
    pub async fn feed_created_at(
        &self,
        tenant: Tenant,
        user: UserId,
    ) -> Result<Option<Timestamp>, StoreError> {
        let row: Option<(i64,)> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_CREATED_AT)
                .bind(tenant.uuid())
                .bind(user.0)
                .fetch_optional(&mut **db)
        })?;
        Ok(row.map(|(at,)| Timestamp::from_millis(at)))
    }
}

impl Tx {
    /// Creates the address of a member's feed; the former one is no longer valid.
    pub async fn create_feed(
        &mut self,
        tenant: Tenant,
        user: UserId,
        token: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(INSERT)
                .bind(tenant.uuid())
                .bind(user.0)
                .bind(hash(token))
                .bind(now.millis())
        )?;
        Ok(())
    }

    /// Revokes the address of a member's feed.
    pub async fn revoke_feed(&mut self, tenant: Tenant, user: UserId) -> Result<(), StoreError> {
        execute!(self, sqlx::query(DELETE).bind(tenant.uuid()).bind(user.0))?;
        Ok(())
    }

    /// Revokes the addresses of all feeds of a person.
    pub(super) async fn revoke_feeds(&mut self, user: UserId) -> Result<(), StoreError> {
        execute!(self, sqlx::query(DELETE_OF_USER).bind(user.0))?;
        Ok(())
    }
}

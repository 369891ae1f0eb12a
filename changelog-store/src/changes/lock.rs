//! Locks a change between reading and updating it, and finds a place for one that moves.

use changelog_core::{Change, ChangeId, Timestamp};
use sqlx::QueryBuilder;

use super::ChangeJson;
use super::by_id::select_one;
use crate::engine::{Dialect, PushValue, execute, on};
use crate::index::sort_key;
use crate::{StoreError, Tenant, Tx};

/// Locks the row on PostgreSQL between reading and updating it.
const LOCK: &str = "
UPDATE changes SET document = document
WHERE organization_id = $1 AND sort_key = $2 AND id = $3";

/// The same for a change whose sort key does not follow from its id.
const LOCK_MOVED: &str = "
UPDATE changes SET document = document
WHERE organization_id = $1 AND moved_id = $2 RETURNING sort_key";

/// The limit on attempts to lock a change that other requests move meanwhile.
const MAX_LOCK_ATTEMPTS: usize = 3;

impl Tx {
    /// Reads a change, and locks it on PostgreSQL; `None` if there is none.
    pub async fn change_for_update(
        &mut self,
        tenant: Tenant,
        id: ChangeId,
    ) -> Result<Option<Change>, StoreError> {
        match self.lock_change(tenant, id).await {
            Err(StoreError::NotFound) => Ok(None),
            locked => Ok(Some(locked?.1)),
        }
    }

    /// Reads a change and its sort key, and locks it on PostgreSQL.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the change does not exist.
    pub(crate) async fn lock_change(
        &mut self,
        tenant: Tenant,
        id: ChangeId,
    ) -> Result<(i64, Change), StoreError> {
        let mut sort_key = None;
        // Another request may move the change between the two statements.
        for _ in 0..MAX_LOCK_ATTEMPTS {
            sort_key = self.lock_place(tenant, id).await?;
            if sort_key.is_some() {
                break;
            }
        }
        let sort_key = sort_key.ok_or(StoreError::NotFound)?;
        let (json,): (String,) = on!(&mut self.connection, |db| async {
            let mut query = select_one(tenant, sort_key);
            query.build_query_as().fetch_one(&mut **db).await
        })?;
        Ok((sort_key, ChangeJson(json).parse()?))
    }

    /// Locks a change and returns its sort key; `None` if it was not found.
    async fn lock_place(
        &mut self,
        tenant: Tenant,
        id: ChangeId,
    ) -> Result<Option<i64>, StoreError> {
        let sort_key = sort_key::to_look_up(id.0);
        let locked = execute!(
            self,
            sqlx::query(LOCK)
                .bind(tenant.uuid())
                .bind(sort_key)
                .bind(id.0)
        )?;
        if locked > 0 {
            return Ok(Some(sort_key));
        }
        let moved: Option<(i64,)> = on!(&mut self.connection, |db| {
            sqlx::query_as(LOCK_MOVED)
                .bind(tenant.uuid())
                .bind(id.0)
                .fetch_optional(&mut **db)
        })?;
        Ok(moved.map(|(sort_key,)| sort_key))
    }

    /// Returns a sort key for a change at an effective time: that of its id, or another
    /// one of the same millisecond if a change has it.
    pub(super) async fn free_place(
        &mut self,
        tenant: Tenant,
        id: ChangeId,
        at: Timestamp,
    ) -> Result<i64, StoreError> {
        let mut sort_key = sort_key::at(at.millis(), id.0).ok_or_else(|| {
            StoreError::Unavailable("the time is beyond what a sort key can hold".into())
        })?;
        loop {
            let taken: Option<(i64,)> = on!(&mut self.connection, |db| async {
                let mut query = select_sort_key(tenant, sort_key);
                query.build_query_as().fetch_optional(&mut **db).await
            })?;
            if taken.is_none() {
                return Ok(sort_key);
            }
            sort_key = sort_key::with_random_rest(sort_key, rand::random());
        }
    }
}

/// Selects a sort key that a change has.
fn select_sort_key<DB: Dialect>(tenant: Tenant, sort_key: i64) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT sort_key FROM changes WHERE sort_key = ");
    DB::bind(&mut query, sort_key.into());
    if !DB::SORT_KEYS_ARE_GLOBAL {
        query.push_value(" AND organization_id = ", tenant.uuid());
    }
    query
}

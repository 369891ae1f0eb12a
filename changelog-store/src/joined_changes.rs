//! The changes of sources that another change has taken the place of: two sessions that a late
//! call has joined, or a run that explains the calls of a session.

use std::collections::HashMap;

use changelog_core::{ChangeId, Timestamp};
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::engine::{Dialect, execute, read};
use super::{Database, StoreError, Tenant, Tx};

/// Deletes 1,000 that are older than the time to keep them.
pub(super) const PURGE: &str = "
DELETE FROM joined_changes WHERE (organization_id, change_id) IN
    (SELECT organization_id, change_id FROM joined_changes WHERE joined_at < $1
     ORDER BY joined_at LIMIT 1000)";

/// Those that were joined into a change which is joined itself.
const FOLLOW: &str = "
UPDATE joined_changes SET into_id = $3 WHERE organization_id = $1 AND change_id IN
    (SELECT change_id FROM joined_changes WHERE organization_id = $1 AND into_id = $2)";

const INSERT: &str = "
INSERT INTO joined_changes (organization_id, change_id, into_id, joined_at)
VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";

impl Tx {
    /// Records that a change has taken the place of another one.
    pub async fn note_joined(
        &mut self,
        tenant: Tenant,
        change: ChangeId,
        into: ChangeId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(FOLLOW)
                .bind(tenant.uuid())
                .bind(change.0)
                .bind(into.0)
        )?;
        execute!(
            self,
            sqlx::query(INSERT)
                .bind(tenant.uuid())
                .bind(change.0)
                .bind(into.0)
                .bind(now.millis())
        )?;
        Ok(())
    }
}

impl Database {
    /// Returns the changes that have taken the place of others. Those that nothing has taken
    /// the place of are left out.
    pub async fn joined_into(
        &self,
        tenant: Tenant,
        changes: impl IntoIterator<Item = ChangeId>,
    ) -> Result<HashMap<ChangeId, ChangeId>, StoreError> {
        let ids: Vec<Uuid> = changes.into_iter().map(|id| id.0).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let rows: Vec<(Uuid, Uuid)> = read!(self.point_reader(tenant).await?, |db| async {
            let mut query = select(tenant, ids);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let pairs = rows.into_iter();
        Ok(pairs.map(|(id, into)| (id.into(), into.into())).collect())
    }
}

fn select<DB: Dialect>(tenant: Tenant, ids: Vec<Uuid>) -> QueryBuilder<DB> {
    let mut query =
        QueryBuilder::new("SELECT change_id, into_id FROM joined_changes WHERE organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND change_id");
    DB::push_in_ids(&mut query, ids);
    query
}

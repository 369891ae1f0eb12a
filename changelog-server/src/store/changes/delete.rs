//! Deleting a change.

use changelog_core::{Change, ChangeId};
use sqlx::{Postgres, Sqlite};

use super::ChangeRow;
use crate::store::engine::{Engine, Script};
use crate::store::index::counts;
use crate::store::index::search::SearchDialect;
use crate::store::{StoreError, Tenant, Tx};

impl Tx {
    /// Deletes a change, with all that finds and counts it, and returns it as
    /// it was. The caller records it.
    ///
    /// An answer that is kept for the request that made it stays: the same
    /// request again does not bring the change back.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] without such a change.
    pub async fn delete_change(
        &mut self,
        tenant: Tenant,
        id: ChangeId,
    ) -> Result<Change, StoreError> {
        let (sort_key, change) = self.lock_change(tenant, id).await?;
        let row = ChangeRow::new(tenant, sort_key, &change);
        let slot = self.slot;
        match &mut self.connection {
            Engine::Sqlite(db) => gone::<Sqlite>(&row, slot).run(&mut **db).await?,
            Engine::Postgres(db) => gone::<Postgres>(&row, slot).run(&mut **db).await?,
        }
        Ok(change)
    }
}

/// Writes the statements that take a change out of where it is read and found.
fn gone<DB: SearchDialect>(change: &ChangeRow<'_>, slot: i64) -> Script<DB> {
    let (tenant, sort_key) = (change.tenant, change.sort_key);
    let mut script = Script::new();
    let query = script.statement("DELETE FROM changes WHERE organization_id = ");
    DB::bind(query, tenant.uuid().into());
    query.push(" AND sort_key = ");
    DB::bind(query, sort_key.into());
    for tag in change.tags {
        let query = script.statement("DELETE FROM change_tags WHERE organization_id = ");
        DB::bind(query, tenant.uuid().into());
        query.push(" AND tag = ");
        DB::bind(query, tag.as_str().into());
        query.push(" AND sort_key = ");
        DB::bind(query, sort_key.into());
    }
    DB::remove(&mut script, tenant, sort_key);
    counts::push(&mut script, slot, [(-1, change.count_delta())].into_iter());
    script
}

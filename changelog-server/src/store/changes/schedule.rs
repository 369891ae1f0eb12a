//! Scheduled changes.

use sqlx::QueryBuilder;

use super::{ChangesJson, SERVICE_AND_HOST, push_json};
use crate::store::engine::{Dialect, on, push_limit};
use crate::store::{Database, StoreError, Tenant};

impl Database {
    /// Lists the planned changes that have a scheduled time, earliest first: those whose
    /// time has passed, then those to come.
    pub async fn upcoming_changes(
        &self,
        tenant: Tenant,
        limit: u64,
    ) -> Result<ChangesJson, StoreError> {
        let rows: Vec<(String,)> = on!(&mut self.reader(tenant).await?, |db| async {
            let mut query = select(tenant, limit);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let changes: Vec<String> = rows.into_iter().map(|(json,)| json).collect();
        Ok(ChangesJson(changes.join(",")))
    }
}

/// Selects planned changes. The conditions match those of the partial index, so that
/// it is used.
fn select<DB: Dialect>(tenant: Tenant, limit: u64) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT ");
    push_json(&mut query, tenant);
    query.push(" FROM (SELECT sort_key, scheduled_for FROM changes WHERE organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(
        " AND status = 'planned' AND scheduled_for IS NOT NULL \
         ORDER BY scheduled_for, sort_key",
    );
    push_limit(&mut query, limit, 0);
    query.push(") AS page JOIN changes c ON c.sort_key = page.sort_key AND c.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(SERVICE_AND_HOST);
    query.push(" ORDER BY page.scheduled_for, page.sort_key");
    query
}

#[cfg(test)]
mod tests {
    use changelog_core::Timestamp;
    use changelog_core::ids::uuid_v7;
    use sqlx::Sqlite;

    use super::*;
    use crate::store::engine::explain;

    #[tokio::test]
    async fn scheduled_changes_are_found_by_their_index() {
        let tenant = Tenant(uuid_v7(Timestamp::EPOCH, None, [0; 10]).into());
        let query = select::<Sqlite>(tenant, 5);
        let plan = explain::of(&query.into_string()).await;
        let steps = plan
            .iter()
            .filter(|step| step.starts_with("SEARCH changes "));
        assert_eq!(
            steps.collect::<Vec<_>>(),
            ["SEARCH changes USING COVERING INDEX changes_by_schedule \
              (organization_id=? AND scheduled_for>?)"]
        );
        // Only the page is sorted, after the join.
        let sorts = plan.iter().filter(|step| step.contains("TEMP B-TREE"));
        assert!(sorts.count() <= 1, "{plan:?}");
    }
}

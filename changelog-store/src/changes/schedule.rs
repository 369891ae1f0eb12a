//! The changes to come, and those in progress.

use std::ops::Range;

use sqlx::QueryBuilder;

use super::{ChangesJson, SERVICE_AND_HOST, push_json};
use crate::engine::{Dialect, PushValue, push_limit, read};
use crate::{Database, StoreError, Tenant};

impl Database {
    /// Lists the planned changes that have a scheduled time, earliest first: those whose
    /// time has passed, then those to come.
    pub async fn upcoming_changes(
        &self,
        tenant: Tenant,
        limit: u64,
    ) -> Result<ChangesJson, StoreError> {
        self.scheduled_changes(tenant, i64::MIN..i64::MAX, limit)
            .await
    }

    /// Lists the planned changes that are scheduled within a range of milliseconds since
    /// 1970, earliest first.
    pub async fn scheduled_changes(
        &self,
        tenant: Tenant,
        millis: Range<i64>,
        limit: u64,
    ) -> Result<ChangesJson, StoreError> {
        let rows: Vec<(String,)> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select(tenant, millis, limit);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(joined(rows))
    }

    /// Lists the changes in progress, the longest running first.
    pub async fn running_changes(
        &self,
        tenant: Tenant,
        limit: u64,
    ) -> Result<ChangesJson, StoreError> {
        let rows: Vec<(String,)> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select_running(tenant, limit);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(joined(rows))
    }
}

fn joined(rows: Vec<(String,)>) -> ChangesJson {
    let changes: Vec<String> = rows.into_iter().map(|(json,)| json).collect();
    ChangesJson(changes.join(","))
}

/// Selects planned changes. The conditions match those of the partial index, so that
/// it is used.
fn select<DB: Dialect>(tenant: Tenant, millis: Range<i64>, limit: u64) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT ");
    push_json(&mut query, Some(tenant));
    query.push(" FROM (SELECT sort_key, scheduled_for FROM changes WHERE organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND status = 'planned' AND scheduled_for IS NOT NULL");
    for (condition, limit, is_open) in [
        (
            " AND scheduled_for >= ",
            millis.start,
            millis.start == i64::MIN,
        ),
        (" AND scheduled_for < ", millis.end, millis.end == i64::MAX),
    ] {
        if !is_open {
            query.push_value(condition, limit);
        }
    }
    query.push(" ORDER BY scheduled_for, sort_key");
    push_limit(&mut query, limit, 0);
    query.push(") AS page JOIN changes c ON c.sort_key = page.sort_key AND c.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(SERVICE_AND_HOST);
    query.push(" ORDER BY page.scheduled_for, page.sort_key");
    query
}

/// Selects the changes in progress by the index of the status.
fn select_running<DB: Dialect>(tenant: Tenant, limit: u64) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT ");
    push_json(&mut query, Some(tenant));
    query.push(" FROM (SELECT sort_key FROM changes WHERE organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND status = 'in_progress' ORDER BY sort_key");
    push_limit(&mut query, limit, 0);
    query.push(") AS page JOIN changes c ON c.sort_key = page.sort_key AND c.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(SERVICE_AND_HOST);
    query.push(" ORDER BY page.sort_key");
    query
}

#[cfg(test)]
mod tests {
    use changelog_core::Timestamp;
    use changelog_core::ids::uuid_v7;
    use sqlx_sqlite::Sqlite;

    use super::*;
    use crate::engine::explain;

    #[tokio::test]
    async fn scheduled_changes_are_found_by_their_index() {
        let tenant = Tenant(uuid_v7(Timestamp::EPOCH, None, [0; 10]).into());
        let query = select::<Sqlite>(tenant, i64::MIN..i64::MAX, 5);
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
        let query = select::<Sqlite>(tenant, 1_000..2_000, 5);
        let plan = explain::of(&query.into_string()).await;
        let step = "SEARCH changes USING COVERING INDEX changes_by_schedule \
            (organization_id=? AND scheduled_for>? AND scheduled_for<?)";
        assert!(plan.iter().any(|found| found == step), "{plan:?}");
    }

    #[tokio::test]
    async fn running_changes_are_found_by_their_status() {
        let tenant = Tenant(uuid_v7(Timestamp::EPOCH, None, [0; 10]).into());
        let query = select_running::<Sqlite>(tenant, 5);
        let plan = explain::of(&query.into_string()).await;
        let step = "SEARCH changes USING COVERING INDEX changes_by_status \
            (organization_id=? AND status=?)";
        assert!(plan.iter().any(|found| found == step), "{plan:?}");
    }
}

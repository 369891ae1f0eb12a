//! The number of changes and the newest change of services or hosts, for a page of
//! them at once.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use changelog_core::{ChangeId, Named, Status, Timestamp};
use sqlx::types::Uuid;
use sqlx::{FromRow, QueryBuilder};

use super::catalog::StoredItem;
use super::engine::{Dialect, PushValue, Value, push_limit, push_values, read};
use super::index::counts::{DAY_OF_OTHERS, Scope, unsigned};
use super::index::sort_key;
use super::{Database, StoreError, Tenant};

/// A service or a host, with a summary of its changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary<T> {
    /// The service or the host.
    pub item: T,
    /// The number of its changes.
    pub changes: u64,
    /// The number of its changes on some days, without planned ones.
    pub recent: u64,
    /// The last of its changes that happened, and when.
    pub last: Option<(ChangeId, Timestamp)>,
}

#[derive(Debug, Default, FromRow)]
struct SummaryRow {
    item: Uuid,
    total: i64,
    recent: i64,
    /// The sort key of the last change.
    last: Option<i64>,
    id: Option<Uuid>,
}

/// The latest changes that are searched for the items that were changed last.
const LATEST_CHANGES: u64 = 1_000;

impl Database {
    /// Returns the ids of the services or hosts of the latest 1,000 changes, the last
    /// changed first, without planned changes. Of several services of a change, the first
    /// counts.
    pub(super) async fn last_changed<T: StoredItem>(
        &self,
        tenant: Tenant,
    ) -> Result<Vec<T::Id>, StoreError> {
        let rows: Vec<(Option<Uuid>, String)> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select_latest(T::COLUMN, tenant);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let happened = rows
            .into_iter()
            .filter(|(_, status)| status != Status::Planned.as_str());
        let mut seen = HashSet::new();
        let ids = happened.filter_map(|(id, _)| id.map(T::Id::from));
        Ok(ids.filter(|id| seen.insert(*id)).collect())
    }

    /// Adds the summaries of their changes to services or hosts, keeping the order.
    pub(super) async fn summarize<T: StoredItem>(
        &self,
        tenant: Tenant,
        items: Vec<T>,
        days: Range<i64>,
    ) -> Result<Vec<Summary<T>>, StoreError> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<T::Id> = items.iter().map(Named::id).collect();
        let rows: Vec<SummaryRow> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select::<T, _>(tenant, &ids, &days);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let mut found: HashMap<Uuid, SummaryRow> =
            rows.into_iter().map(|row| (row.item, row)).collect();
        let summary = |item: T| {
            let id: Uuid = item.id().into();
            let row = found.remove(&id).unwrap_or_default();
            let at = row.last.map(sort_key::millis).map(Timestamp::from_millis);
            Summary {
                item,
                changes: unsigned(row.total),
                recent: unsigned(row.recent),
                last: row.id.map(ChangeId::from).zip(at),
            }
        };
        Ok(items.into_iter().map(summary).collect())
    }
}

/// Selects the items of the latest changes of an organization.
fn select_latest<DB: Dialect>(column: &'static str, tenant: Tenant) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT ");
    query.push(column);
    query.push(", status FROM changes WHERE organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" ORDER BY sort_key DESC");
    push_limit(&mut query, LATEST_CHANGES, 0);
    query
}

/// Selects for each id its counts, and the last change that happened.
fn select<T: StoredItem, DB: Dialect>(
    tenant: Tenant,
    ids: &[T::Id],
    days: &Range<i64>,
) -> QueryBuilder<DB> {
    let scope = |id: &T::Id| Scope::from(T::chart_scope(*id)).key();
    let scopes: Vec<_> = ids.iter().map(scope).collect();
    let mut query = QueryBuilder::new(
        "SELECT found.item, found.total, found.recent, found.last, c.id FROM (\
         SELECT wanted.column1 AS item, \
         (SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM change_counts k \
         WHERE k.organization_id = ",
    );
    DB::bind(&mut query, tenant.uuid().into());
    query.push(
        " AND k.scope = wanted.column2 AND k.span = 0 AND k.start = 0) AS total, \
         (SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM change_counts d \
         WHERE d.organization_id = ",
    );
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND d.scope = wanted.column2 AND d.span = ");
    query.push(DAY_OF_OTHERS);
    query.push_value(" AND d.start >= ", days.start);
    query.push_value(" AND d.start < ", days.end);
    query.push(
        " AND d.status <> 'planned') AS recent, \
         (SELECT MAX(newest.sort_key) FROM (\
         SELECT sort_key FROM (SELECT o.sort_key FROM changes o WHERE o.organization_id = ",
    );
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND o.").push(T::COLUMN).push(
        " = wanted.column1 AND o.status <> 'planned' ORDER BY o.sort_key DESC LIMIT 1) AS first",
    );
    if T::HAS_FURTHER {
        query.push(
            " UNION ALL SELECT sort_key FROM (SELECT m.sort_key FROM change_services m \
             JOIN changes o ON o.organization_id = m.organization_id AND o.sort_key = m.sort_key \
             WHERE m.organization_id = ",
        );
        DB::bind(&mut query, tenant.uuid().into());
        query.push(
            " AND m.service_id = wanted.column1 AND o.status <> 'planned' \
             ORDER BY m.sort_key DESC LIMIT 1) AS other",
        );
    }
    query.push(") AS newest) AS last FROM (");
    let rows = ids.iter().zip(&scopes);
    push_values(
        &mut query,
        rows.map(|(id, scope)| [Value::Uuid((*id).into()), scope.as_ref().into()]),
    );
    query.push(
        ") AS wanted) AS found LEFT JOIN changes c \
         ON c.sort_key = found.last AND c.organization_id = ",
    );
    DB::bind(&mut query, tenant.uuid().into());
    query
}

#[cfg(test)]
mod tests {
    use changelog_core::ids::uuid_v7;
    use changelog_core::{Host, Service};
    use sqlx_sqlite::Sqlite;

    use super::*;
    use crate::engine::explain;

    async fn requires_indexes<T: StoredItem>(index: &str) {
        let id = uuid_v7(Timestamp::EPOCH, None, [0; 10]);
        let days = 20_000..20_007;
        let query = select::<T, Sqlite>(Tenant(id.into()), &[id.into(); 2], &days);
        let plan = explain::of(&query.into_string()).await;
        for step in [
            "SEARCH k USING PRIMARY KEY \
             (organization_id=? AND scope=? AND span=? AND start=?)",
            "SEARCH d USING PRIMARY KEY \
             (organization_id=? AND scope=? AND span=? AND start>? AND start<?)",
            &format!("SEARCH o USING INDEX {index}"),
        ] {
            assert!(plan.iter().any(|found| found == step), "{step}: {plan:?}");
        }
        let sorts = plan.iter().filter(|step| step.contains("TEMP B-TREE"));
        assert_eq!(sorts.count(), 0, "{plan:?}");
    }

    #[tokio::test]
    async fn each_is_looked_up_by_indexes() {
        let index = "changes_by_service (organization_id=? AND service_id=?)";
        requires_indexes::<Service>(index).await;
        requires_indexes::<Host>("changes_by_host (organization_id=? AND host_id=?)").await;
    }
}

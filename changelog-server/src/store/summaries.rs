//! The number of changes and the newest change of services or hosts, for a page of
//! them at once.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use changelog_core::{ChangeId, Status, Timestamp};
use sqlx::types::Uuid;
use sqlx::{FromRow, QueryBuilder};

use super::activity::clamped;
use super::engine::{Dialect, push_limit, push_values, read};
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

/// What is summarized.
#[derive(Clone, Copy, Debug)]
pub(super) enum Summarized {
    Service,
    Host,
}

impl Summarized {
    /// Returns the column of `changes` that refers to it.
    fn column(self) -> &'static str {
        match self {
            Self::Service => "service_id",
            Self::Host => "host_id",
        }
    }

    fn scope(self, id: Uuid) -> Scope<'static> {
        match self {
            Self::Service => Scope::Service(id.into()),
            Self::Host => Scope::Host(id.into()),
        }
    }
}

/// The latest changes that are searched for the items that were changed last.
const LATEST_CHANGES: i64 = 1_000;

impl Database {
    /// Returns the ids of the services or hosts of the latest 1,000 changes, the last
    /// changed first, without planned changes. Of several services of a change, the first
    /// counts.
    pub(super) async fn last_changed(
        &self,
        tenant: Tenant,
        by: Summarized,
    ) -> Result<Vec<Uuid>, StoreError> {
        let rows: Vec<(Option<Uuid>, String)> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(select_latest(by))
                .bind(tenant.uuid())
                .bind(LATEST_CHANGES)
                .fetch_all(&mut **db)
        })?;
        let happened = rows
            .into_iter()
            .filter(|(_, status)| status != Status::Planned.as_str());
        let mut seen = HashSet::new();
        let ids = happened.filter_map(|(id, _)| id);
        Ok(ids.filter(|id| seen.insert(*id)).collect())
    }

    /// Adds the summaries of their changes to services or hosts, keeping the order.
    pub(super) async fn summarize<T>(
        &self,
        tenant: Tenant,
        by: Summarized,
        items: Vec<(Uuid, T)>,
        days: Range<i64>,
    ) -> Result<Vec<Summary<T>>, StoreError> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Uuid> = items.iter().map(|(id, _)| *id).collect();
        let rows: Vec<SummaryRow> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select(tenant, by, &ids, &days);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let mut found: HashMap<Uuid, SummaryRow> =
            rows.into_iter().map(|row| (row.item, row)).collect();
        let summary = |(id, item)| {
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

/// Completes the statement that reads a page of services or hosts.
pub(super) fn page<DB: Dialect>(
    select: &str,
    tenant: Tenant,
    order: &str,
    limit: u64,
    offset: u64,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(select);
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" ORDER BY ").push(order);
    push_limit(&mut query, limit, clamped(offset));
    query
}

/// Completes the statement that reads the services or hosts whose names come after a
/// name.
pub(super) fn page_after<DB: Dialect>(
    select: &str,
    tenant: Tenant,
    order: &str,
    after: &str,
    limit: u64,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(select);
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND ").push(order).push(" > ");
    let after = after.to_ascii_lowercase();
    DB::bind(&mut query, after.as_str().into());
    query.push(" ORDER BY ").push(order);
    push_limit(&mut query, limit, 0);
    query
}

/// Completes a statement that reads services by their ids.
pub(super) fn by_ids<DB: Dialect>(
    select: &str,
    tenant: Tenant,
    ids: impl Iterator<Item = Uuid>,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(select);
    DB::bind(&mut query, tenant.uuid().into());
    // In a join with VALUES, SQLite may read all rows of the organization.
    for (number, id) in ids.enumerate() {
        query.push(if number == 0 { " AND id IN (" } else { ", " });
        DB::bind(&mut query, id.into());
    }
    query.push(")");
    query
}

/// The items of the latest changes of an organization.
fn select_latest(by: Summarized) -> &'static str {
    match by {
        Summarized::Service => {
            "SELECT service_id, status FROM changes WHERE organization_id = $1 \
             ORDER BY sort_key DESC LIMIT $2"
        }
        Summarized::Host => {
            "SELECT host_id, status FROM changes WHERE organization_id = $1 \
             ORDER BY sort_key DESC LIMIT $2"
        }
    }
}

/// Selects for each id its counts, and the last change that happened.
fn select<DB: Dialect>(
    tenant: Tenant,
    by: Summarized,
    ids: &[Uuid],
    days: &Range<i64>,
) -> QueryBuilder<DB> {
    let scopes: Vec<_> = ids.iter().map(|id| by.scope(*id).key()).collect();
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
    query.push(" AND d.start >= ");
    DB::bind(&mut query, days.start.into());
    query.push(" AND d.start < ");
    DB::bind(&mut query, days.end.into());
    query.push(
        " AND d.status <> 'planned') AS recent, \
         (SELECT MAX(newest.sort_key) FROM (\
         SELECT sort_key FROM (SELECT o.sort_key FROM changes o WHERE o.organization_id = ",
    );
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND o.").push(by.column()).push(
        " = wanted.column1 AND o.status <> 'planned' ORDER BY o.sort_key DESC LIMIT 1) AS first",
    );
    if matches!(by, Summarized::Service) {
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
        rows.map(|(id, scope)| [(*id).into(), scope.as_ref().into()]),
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
    use sqlx::Sqlite;

    use super::*;
    use crate::store::engine::explain;

    #[tokio::test]
    async fn each_is_looked_up_by_indexes() {
        let id = uuid_v7(Timestamp::EPOCH, None, [0; 10]);
        for (by, index) in [
            (
                Summarized::Service,
                "changes_by_service (organization_id=? AND service_id=?)",
            ),
            (
                Summarized::Host,
                "changes_by_host (organization_id=? AND host_id=?)",
            ),
        ] {
            let query = select::<Sqlite>(Tenant(id.into()), by, &[id, id], &(20_000..20_007));
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
        for (table, order) in [("services", "name_folded"), ("hosts", "hostname_folded")] {
            let select = format!("SELECT * FROM {table} WHERE organization_id = ");
            let query = page::<Sqlite>(&select, Tenant(id.into()), order, 26, 50);
            let plan = explain::of(&query.into_string()).await;
            let expected = format!(
                "SEARCH {table} USING INDEX sqlite_autoindex_{table}_2 (organization_id=?)"
            );
            assert_eq!(plan, [expected]);
        }
    }
}

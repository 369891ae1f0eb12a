//! Counts by day, for charts.

use std::ops::Range;

use changelog_core::{RiskLevel, Service, ServiceId, Status};
use sqlx::types::Text;
use sqlx::{FromRow, QueryBuilder};

use super::{KindFilter, Scope, push_spans, unsigned};
use crate::store::engine::{Dialect, on};
use crate::store::{Database, StoreError, Tenant};

/// How many changes of one risk and status there were on one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayCount {
    /// The day, as days since 1970 in UTC.
    pub day: i64,
    /// Their risk level.
    pub risk_level: RiskLevel,
    /// Their status.
    pub status: Status,
    /// How many there are, at least one.
    pub count: u64,
}

#[derive(FromRow)]
struct DayRow {
    start: i64,
    risk_level: Text<RiskLevel>,
    status: Text<Status>,
    n: i64,
}

/// The services with the most changes, without the limit. The conditions on span
/// and scope are spelled as in the index of these rows. If the rows were grouped
/// by `scope` itself, SQLite would choose the primary key, which has that order,
/// and read the days of all years.
const BUSIEST: &str = "
SELECT scope || '', CAST(SUM(n) AS BIGINT) AS total FROM change_counts
WHERE organization_id = $1 AND span = -86400000 AND substr(scope, 1, 8) = 'service/'
    AND start >= $2 AND start < $3 AND status <> 'planned'
GROUP BY scope || '' HAVING SUM(n) > 0 ORDER BY total DESC, scope || '' LIMIT ";

impl Database {
    /// Counts the changes of some days, given as numbers since 1970 in UTC, by
    /// risk and status: oldest first, without planned changes and without days that have
    /// none. Tags are not counted by day.
    pub async fn daily_counts(
        &self,
        tenant: Tenant,
        scope: Scope<'_>,
        days: Range<i64>,
    ) -> Result<Vec<DayCount>, StoreError> {
        let rows: Vec<DayRow> = on!(&mut self.reader(tenant).await?, |db| async {
            let mut query = daily(tenant, &scope, days);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let count = |row: DayRow| DayCount {
            day: row.start,
            risk_level: row.risk_level.0,
            status: row.status.0,
            count: unsigned(row.n),
        };
        Ok(rows.into_iter().map(count).collect())
    }

    /// Counts all changes of a scope.
    pub async fn total(&self, tenant: Tenant, scope: Scope<'_>) -> Result<u64, StoreError> {
        let filter = KindFilter::all(tenant);
        let (total,): (i64,) = on!(&mut self.reader(tenant).await?, |db| async {
            let mut query = QueryBuilder::new("SELECT ");
            filter.push_total(&mut query, &scope);
            query.build_query_as().fetch_one(&mut **db).await
        })?;
        Ok(unsigned(total))
    }

    /// Finds the services with the most changes on some days, given as numbers
    /// since 1970 in UTC: busiest first, without planned changes and without services that
    /// had none.
    pub async fn busiest_services(
        &self,
        tenant: Tenant,
        days: Range<i64>,
        limit: u64,
    ) -> Result<Vec<(Service, u64)>, StoreError> {
        let rows: Vec<(String, i64)> = on!(&mut self.reader(tenant).await?, |db| async {
            let mut query = QueryBuilder::new(BUSIEST);
            query.push(limit);
            query
                .build_query_as()
                .bind(tenant.uuid())
                .bind(days.start)
                .bind(days.end)
                .fetch_all(&mut **db)
                .await
        })?;
        let counts: Vec<(ServiceId, u64)> = rows
            .iter()
            .filter_map(|(scope, n)| Some((Scope::service(scope)?, unsigned(*n))))
            .collect();
        let ids = counts.iter().map(|(id, _)| *id);
        let mut services = self.services_by_id(tenant, ids).await?;
        Ok(counts
            .into_iter()
            .filter_map(|(id, n)| Some((services.remove(&id)?, n)))
            .collect())
    }
}

/// Builds the statement that reads counts by day. A slot can be negative, a sum
/// of slots cannot.
fn daily<DB: Dialect>(tenant: Tenant, scope: &Scope<'_>, days: Range<i64>) -> QueryBuilder<DB> {
    let span = scope.day();
    let mut query = QueryBuilder::new(
        "SELECT start, risk_level, status, CAST(SUM(n) AS BIGINT) AS n FROM change_counts WHERE ",
    );
    KindFilter::happened(tenant).push(&mut query);
    push_spans(&mut query, scope, span, days);
    query.push(
        " GROUP BY start, risk_level, status HAVING SUM(n) > 0 ORDER BY start, risk_level, status",
    );
    query
}

#[cfg(test)]
mod tests {
    use changelog_core::Timestamp;
    use changelog_core::ids::uuid_v7;
    use sqlx::Sqlite;

    use super::*;
    use crate::store::engine::explain::of as plan_of;

    #[tokio::test]
    async fn days_are_found_by_indexes() {
        let plan = plan_of(&format!("{BUSIEST} 5")).await;
        assert_eq!(
            plan[0],
            "SEARCH change_counts USING INDEX change_counts_by_day \
             (organization_id=? AND span=? AND start>? AND start<?)"
        );
        let tenant = Tenant(uuid_v7(Timestamp::EPOCH, None, [0; 10]).into());
        let service = ServiceId(uuid_v7(Timestamp::EPOCH, None, [0; 10]));
        for scope in [Scope::Organization, Scope::Service(service)] {
            let plan = plan_of(&daily::<Sqlite>(tenant, &scope, 0..7).into_string()).await;
            assert_eq!(
                plan,
                ["SEARCH change_counts USING PRIMARY KEY \
                  (organization_id=? AND scope=? AND span=? AND start>? AND start<?)"]
            );
        }
    }
}

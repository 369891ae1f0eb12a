//! Totals and the busiest services, for pages.

use std::ops::Range;

use changelog_core::{Service, ServiceId};
use sqlx::QueryBuilder;

use super::{KindFilter, Scope, unsigned};
use crate::store::engine::read;
use crate::store::{Database, StoreError, Tenant};

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
    /// Counts all changes of a scope.
    pub async fn total(&self, tenant: Tenant, scope: Scope<'_>) -> Result<u64, StoreError> {
        let filter = KindFilter::all(tenant);
        let (total,): (i64,) = read!(self.reader(tenant).await?, |db| async {
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
        let rows: Vec<(String, i64)> = read!(self.reader(tenant).await?, |db| async {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::explain::of as plan_of;

    #[tokio::test]
    async fn busy_services_are_found_by_an_index() {
        let plan = plan_of(&format!("{BUSIEST} 5")).await;
        assert_eq!(
            plan[0],
            "SEARCH change_counts USING INDEX change_counts_by_day \
             (organization_id=? AND span=? AND start>? AND start<?)"
        );
    }
}

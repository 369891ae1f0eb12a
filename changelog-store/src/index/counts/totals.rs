//! Totals and the busiest services, for pages.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use changelog_core::{Service, ServiceId};
use sqlx::QueryBuilder;

use super::memory::{Busiest, BusiestKey};
use super::{KindFilter, Scope, unsigned};
use crate::engine::read;
use crate::{Database, StoreError, Tenant};

/// The services with changes on some days. The conditions on span
/// and scope are spelled as in the index of these rows. If the rows were grouped
/// by `scope` itself, SQLite would choose the primary key, which has that order,
/// and read the days of all years.
const BUSY: &str = "
SELECT scope || '', CAST(SUM(n) AS BIGINT) FROM change_counts
WHERE organization_id = $1 AND span = -86400000 AND substr(scope, 1, 8) = 'service/'
    AND start >= $2 AND start < $3 AND status <> 'planned'
GROUP BY scope || '' HAVING SUM(n) > 0";

/// The busiest services are remembered from so many changes on: about 1 ms of reading.
const MIN_CHANGES_TO_REMEMBER: u64 = 1_000;

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
    /// had none. If services had a thousand changes, the numbers may be a minute old.
    pub async fn busiest_services(
        &self,
        tenant: Tenant,
        days: Range<i64>,
        limit: u64,
    ) -> Result<Vec<(Service, u64)>, StoreError> {
        let key = (tenant, days, limit);
        let counts = match self.count_memory.busiest(&key) {
            Some(counts) => counts,
            None => self.count_busiest(key).await?,
        };
        let ids: Vec<ServiceId> = counts.iter().map(|(id, _)| *id).collect();
        let mut services = self.items_by_id::<Service>(tenant, &ids).await?;
        Ok(counts
            .iter()
            .filter_map(|(id, n)| Some((services.remove(id)?, *n)))
            .collect())
    }

    async fn count_busiest(&self, key: BusiestKey) -> Result<Busiest, StoreError> {
        let (tenant, days, limit) = &key;
        let rows: Vec<(String, i64)> = read!(self.reader(*tenant).await?, |db| async {
            sqlx::query_as(BUSY)
                .bind(tenant.uuid())
                .bind(days.start)
                .bind(days.end)
                .fetch_all(&mut **db)
                .await
        })?;
        let counts = rows
            .iter()
            .filter_map(|(scope, n)| Some((Scope::service(scope)?, unsigned(*n))));
        let mut counts: Vec<(ServiceId, u64)> = counts.collect();
        let all: u64 = counts.iter().map(|(_, n)| n).sum();
        counts.sort_by_key(|(id, n)| (Reverse(*n), *id));
        counts.truncate(usize::try_from(*limit).unwrap_or(usize::MAX));
        let counts: Busiest = counts.into();
        if all >= MIN_CHANGES_TO_REMEMBER {
            self.count_memory.remember_busiest(key, Arc::clone(&counts));
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::explain::of as plan_of;

    #[tokio::test]
    async fn busy_services_are_found_by_an_index() {
        let plan = plan_of(BUSY).await;
        assert_eq!(
            plan[0],
            "SEARCH change_counts USING INDEX change_counts_by_day \
             (organization_id=? AND span=? AND start>? AND start<?)"
        );
    }
}

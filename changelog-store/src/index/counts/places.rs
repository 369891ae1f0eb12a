//! Counts of a time range by service and environment.

use std::collections::HashMap;
use std::ops::Range;

use changelog_core::{
    AroundFacets, Environment, EnvironmentCount, Service, ServiceCount, ServiceId, ServiceRef,
    Timestamp,
};
use futures_util::future::{try_join, try_join_all};
use sqlx::QueryBuilder;
use sqlx::types::{Text, Uuid};

use super::Scope;
use super::spans::{DayAtEnd, NearestDays, nearest_days};
use crate::changes::candidates::parse_ids;
use crate::engine::{Dialect, PushValue, push_limit, read};
use crate::index::sort_key;
use crate::{Database, StoreError, Tenant};

/// The changes of whole days by environment, without planned ones.
const DAYS_BY_ENVIRONMENT: &str = "
SELECT environment, CAST(SUM(n) AS BIGINT) FROM change_counts
WHERE organization_id = $1 AND scope = 'organization' AND span = 86400000
    AND start >= $2 AND start < $3 AND status <> 'planned'
GROUP BY environment";

/// The limit on changes of a part of a day that are read before the rest of the day is
/// tried: three times those of half a day where a million are recorded in a year.
const MAX_OF_PART: u64 = 4_000;

/// The services and the environment of a change.
type PlaceRow = (Option<Uuid>, Option<String>, Option<Text<Environment>>);

/// Sums by service and environment.
#[derive(Default)]
struct Sums {
    services: HashMap<ServiceId, i64>,
    environments: HashMap<Environment, i64>,
}

impl Database {
    /// Counts the changes of a range of milliseconds since 1970 in each of some services
    /// and by environment, without planned ones: most changes first. Whole days are added
    /// up; the changes of the other parts are read.
    pub async fn counts_by_place(
        &self,
        tenant: Tenant,
        millis: Range<i64>,
        now: Timestamp,
        services: &[ServiceId],
    ) -> Result<AroundFacets, StoreError> {
        let NearestDays { days, ends } = nearest_days(&millis, now.millis());
        let ends = (ends.iter()).map(|end| self.sums_of_end(tenant, services, end));
        let days = self.sums_of_days(tenant, services, days);
        let (mut sums, ends) = try_join(days, try_join_all(ends)).await?;
        for end in ends {
            sums.add_all(end, 1);
        }
        let counted = services
            .iter()
            .filter_map(|id| Some((*id, positive(*sums.services.get(id)?)?)));
        let mut services: Vec<(ServiceId, u64)> = counted.collect();
        services.sort_by_key(|(id, count)| (std::cmp::Reverse(*count), *id));
        let ids: Vec<ServiceId> = services.iter().map(|(id, _)| *id).collect();
        let mut known = self.items_by_id::<Service>(tenant, &ids).await?;
        let services = services.into_iter().filter_map(|(id, count)| {
            let service = ServiceRef::from(&known.remove(&id)?);
            Some(ServiceCount { service, count })
        });
        let mut environments: Vec<EnvironmentCount> = sums
            .environments
            .into_iter()
            .filter_map(|(environment, count)| {
                let count = positive(count)?;
                Some(EnvironmentCount { environment, count })
            })
            .collect();
        environments.sort_by_key(|one| (std::cmp::Reverse(one.count), one.environment.clone()));
        Ok(AroundFacets {
            services: services.collect(),
            environments,
        })
    }

    /// Returns the sums of whole days, given as numbers since 1970.
    async fn sums_of_days(
        &self,
        tenant: Tenant,
        services: &[ServiceId],
        days: Range<i64>,
    ) -> Result<Sums, StoreError> {
        let mut sums = Sums::default();
        if days.is_empty() {
            return Ok(sums);
        }
        let (by_service, environments) = read!(self.reader(tenant).await?, |db| async {
            let mut by_service: Vec<(String, i64)> = Vec::new();
            if !services.is_empty() {
                let mut query = select_days_by_service(tenant, services, &days);
                by_service = query.build_query_as().fetch_all(&mut **db).await?;
            }
            let environments: Vec<(String, i64)> = sqlx::query_as(DAYS_BY_ENVIRONMENT)
                .bind(tenant.uuid())
                .bind(days.start)
                .bind(days.end)
                .fetch_all(&mut **db)
                .await?;
            Ok::<_, sqlx::Error>((by_service, environments))
        })?;
        for (scope, count) in by_service {
            if let Some(id) = Scope::service(&scope) {
                *sums.services.entry(id).or_default() += count;
            }
        }
        for (name, count) in environments {
            // The empty name is that of changes without an environment.
            if let Ok(environment) = name.parse() {
                *sums.environments.entry(environment).or_default() += count;
            }
        }
        Ok(sums)
    }

    /// Returns what a day at an end of a range adds to the sums of the whole days: negative
    /// numbers if it is one of them. The part of the day that is shorter is read, unless
    /// it has a burst of changes and the other one has not.
    async fn sums_of_end(
        &self,
        tenant: Tenant,
        services: &[ServiceId],
        end: &DayAtEnd,
    ) -> Result<Sums, StoreError> {
        let within = (std::slice::from_ref(&end.within), 1);
        let outside = (end.outside.as_slice(), -1);
        let (shorter, longer) = if end.is_whole {
            (outside, within)
        } else {
            (within, outside)
        };
        if let Some(sums) = self
            .sums_of_parts(tenant, shorter, Some(MAX_OF_PART))
            .await?
        {
            return Ok(sums);
        }
        if let Some(mut sums) = self
            .sums_of_parts(tenant, longer, Some(MAX_OF_PART))
            .await?
        {
            let day = self.sums_of_days(tenant, services, end.day..end.day + 1);
            sums.add_all(day.await?, if end.is_whole { -1 } else { 1 });
            return Ok(sums);
        }
        let sums = self.sums_of_parts(tenant, shorter, None).await?;
        Ok(sums.unwrap_or_default())
    }

    /// Reads the changes of parts of a day, each so many times; `None` if a part has as many
    /// as the limit.
    async fn sums_of_parts(
        &self,
        tenant: Tenant,
        (parts, times): (&[Range<i64>], i64),
        limit: Option<u64>,
    ) -> Result<Option<Sums>, StoreError> {
        let mut sums = Sums::default();
        for part in parts {
            let rows: Vec<PlaceRow> = read!(self.reader(tenant).await?, |db| async {
                let mut query = select_places(tenant, part, limit);
                query.build_query_as().fetch_all(&mut **db).await
            })?;
            if limit.is_some_and(|limit| rows.len() as u64 >= limit) {
                return Ok(None);
            }
            for row in rows {
                sums.add(row, times);
            }
        }
        Ok(Some(sums))
    }
}

impl Sums {
    /// Adds a change so many times.
    fn add(&mut self, (first, more, environment): PlaceRow, times: i64) {
        let more = parse_ids(more.as_deref());
        for id in first.map(ServiceId::from).into_iter().chain(more) {
            *self.services.entry(id).or_default() += times;
        }
        if let Some(Text(environment)) = environment {
            *self.environments.entry(environment).or_default() += times;
        }
    }

    /// Adds other sums so many times.
    fn add_all(&mut self, other: Self, times: i64) {
        for (id, count) in other.services {
            *self.services.entry(id).or_default() += count * times;
        }
        for (environment, count) in other.environments {
            *self.environments.entry(environment).or_default() += count * times;
        }
    }
}

/// Returns a count, unless it is nothing. The days and the changes are read by
/// several statements, so that a count may be off by the changes that are recorded meanwhile.
fn positive(count: i64) -> Option<u64> {
    u64::try_from(count).ok().filter(|count| *count > 0)
}

/// Selects the changes of whole days in each of some services, without planned ones.
fn select_days_by_service<DB: Dialect>(
    tenant: Tenant,
    services: &[ServiceId],
    days: &Range<i64>,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(
        "SELECT scope, CAST(SUM(n) AS BIGINT) FROM change_counts WHERE organization_id = ",
    );
    DB::bind(&mut query, tenant.uuid().into());
    for (number, id) in services.iter().enumerate() {
        query.push(if number == 0 { " AND scope IN (" } else { ", " });
        DB::bind(&mut query, Scope::Service(*id).key().as_ref().into());
    }
    query.push_value(") AND span = -86400000 AND start >= ", days.start);
    query.push_value(" AND start < ", days.end);
    query.push(" AND status <> 'planned' GROUP BY scope");
    query
}

fn select_places<DB: Dialect>(
    tenant: Tenant,
    millis: &Range<i64>,
    limit: Option<u64>,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(
        "SELECT service_id, more_service_ids, environment FROM changes WHERE organization_id = ",
    );
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND status <> 'planned'");
    sort_key::push_range(&mut query, "sort_key", sort_key::of_millis(millis.clone()));
    if let Some(limit) = limit {
        // With a limit alone, PostgreSQL may read the whole table.
        query.push(" ORDER BY sort_key");
        push_limit(&mut query, limit, 0);
    }
    query
}

#[cfg(test)]
mod tests {
    use sqlx_sqlite::Sqlite;

    use super::*;
    use crate::engine::explain;

    #[tokio::test]
    async fn days_and_changes_are_found_by_indexes() {
        let tenant = Tenant(Uuid::from_u128(1).into());
        let limited = select_places::<Sqlite>(tenant, &(1_000..2_000), Some(10)).into_string();
        let rows = select_places::<Sqlite>(tenant, &(1_000..2_000), None).into_string();
        let services = [2, 3].map(|number| ServiceId(Uuid::from_u128(number)));
        let by_service = select_days_by_service::<Sqlite>(tenant, &services, &(1..7)).into_string();
        for (statement, step) in [
            (
                by_service.as_str(),
                "SEARCH change_counts USING PRIMARY KEY \
                 (organization_id=? AND scope=? AND span=? AND start>? AND start<?)",
            ),
            (
                DAYS_BY_ENVIRONMENT,
                "SEARCH change_counts USING PRIMARY KEY \
                 (organization_id=? AND scope=? AND span=? AND start>? AND start<?)",
            ),
            (
                rows.as_str(),
                "SEARCH changes USING INDEX changes_by_organization \
                 (organization_id=? AND rowid>? AND rowid<?)",
            ),
            (
                limited.as_str(),
                "SEARCH changes USING INDEX changes_by_organization \
                 (organization_id=? AND rowid>? AND rowid<?)",
            ),
        ] {
            let plan = explain::of(statement).await;
            assert_eq!(plan[0], step, "{plan:#?}");
            assert!(
                !plan.iter().any(|step| step.contains("ORDER BY")),
                "{plan:#?}"
            );
        }
    }
}

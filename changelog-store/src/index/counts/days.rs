//! Counts by day in any time zone, for charts.
//!
//! The kept counts are of days in UTC. The part of such a day before a day of another zone
//! starts is counted by indexes. What is over is remembered, which is nearly all of a chart.

use std::ops::Range;
use std::sync::Arc;

use changelog_core::{RiskLevel, Status, Timestamp};
use sqlx::types::Text;
use sqlx::{FromRow, QueryBuilder};

use super::kinds::{ChartScope, KINDS, KindCounts};
use super::memory::OldDays;
use super::spans::DAY;
use super::{ALL_TIME, HAPPENED, KindFilter, Scope, push_spans, unsigned};
use crate::engine::{Dialect, Lease, PushValue, end_lease, on, read};
use crate::index::sort_key;
use crate::{Database, StoreError, Tenant};

/// The days at the end of a chart that are always read: nearly all changes are recorded or
/// updated on the day on which they happen, which is one of them in each time zone.
const NEWEST_DAYS: i64 = 3;
/// The days of fewer rows are not remembered: reading them takes less than 2 ms.
const MIN_ROWS_TO_REMEMBER: usize = 1_000;

#[derive(FromRow)]
struct DayRow {
    /// The number of the day; `None` for all time.
    start: Option<i64>,
    risk_level: Text<RiskLevel>,
    status: Text<Status>,
    n: i64,
}

/// The kept counts of consecutive days.
struct Days {
    counts: Vec<KindCounts>,
    /// The counts of all time, read at the same moment.
    total: KindCounts,
    /// The number of rows that were read.
    rows: usize,
}

impl Days {
    /// Returns the counts of all other days than these from a number on.
    fn others(&self, from: usize) -> KindCounts {
        let mut others = self.total;
        for day in self.counts.iter().skip(from) {
            others -= *day;
        }
        others
    }
}

impl Database {
    /// Counts the changes between each two of some times, which are the starts of
    /// consecutive days in any time zone: one element less than there are times, without
    /// planned changes. The days must be at least 12 hours long for this to be fast.
    pub async fn counts_between(
        &self,
        tenant: Tenant,
        scope: ChartScope,
        starts: &[Timestamp],
    ) -> Result<Vec<KindCounts>, StoreError> {
        let starts: Vec<i64> = starts.iter().map(|start| start.millis()).collect();
        let (Some(first), Some(last)) = (starts.first(), starts.last()) else {
            return Ok(Vec::new());
        };
        let first_day = first.div_euclid(DAY);
        let days = first_day..last.div_euclid(DAY) + 1;
        let kept = self.kept_days(tenant, scope, days).await?;
        let number = |start: i64| usize::try_from(start.div_euclid(DAY) - first_day);
        let kept_on = |start| number(start).ok().and_then(|day| kept.get(day).copied());
        let mut parts = Vec::with_capacity(starts.len());
        let mut lease = None;
        for start in &starts {
            let day = kept_on(*start).unwrap_or_default();
            let key = (tenant, scope, *start);
            let is_whole = start.rem_euclid(DAY) == 0 || day.sum() == 0;
            parts.push(if is_whole {
                KindCounts::default()
            } else if let Some(part) = self.count_memory.part(&key, day) {
                part
            } else {
                let lease = match &mut lease {
                    Some(lease) => lease,
                    none => none.insert(self.reader(tenant).await?),
                };
                let part = part_before(lease, tenant, scope, *start, day).await?;
                self.count_memory.remember_part(key, day, part);
                part
            });
        }
        if let Some(lease) = lease {
            end_lease(lease);
        }
        let between = starts.windows(2).zip(parts.windows(2));
        let between = between.map(|(starts, parts)| {
            let mut counts = parts[1];
            for day in starts[0].div_euclid(DAY)..starts[1].div_euclid(DAY) {
                counts += kept_on(day * DAY).unwrap_or_default();
            }
            counts -= parts[0];
            counts
        });
        Ok(between.collect())
    }

    /// Returns the kept counts of consecutive days, given as numbers since 1970 in UTC. All
    /// but the newest ones are remembered, and valid while the counts of all time without the
    /// newest days are the same.
    async fn kept_days(
        &self,
        tenant: Tenant,
        scope: ChartScope,
        days: Range<i64>,
    ) -> Result<Vec<KindCounts>, StoreError> {
        let old = days.start..(days.end - NEWEST_DAYS).max(days.start);
        let key = (tenant, scope, old.clone());
        if let Some(known) = self.count_memory.old_days(&key) {
            let newest = self.read_days(tenant, scope, old.end..days.end).await?;
            if newest.others(0) == known.sum {
                return Ok([&*known.days, &*newest.counts].concat());
            }
        }
        let all = self.read_days(tenant, scope, days).await?;
        if all.rows >= MIN_ROWS_TO_REMEMBER {
            let length = usize::try_from(old.end - old.start).unwrap_or_default();
            let known = OldDays {
                days: all.counts.iter().take(length).copied().collect(),
                sum: all.others(length),
            };
            self.count_memory.remember_old_days(key, Arc::new(known));
        }
        Ok(all.counts)
    }

    /// Reads the kept counts of consecutive days, given as numbers since 1970 in UTC.
    async fn read_days(
        &self,
        tenant: Tenant,
        scope: ChartScope,
        days: Range<i64>,
    ) -> Result<Days, StoreError> {
        let rows: Vec<DayRow> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select_days(tenant, &scope.into(), &days);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let length = usize::try_from(days.end - days.start).unwrap_or_default();
        let mut read = Days {
            counts: vec![KindCounts::default(); length],
            total: KindCounts::default(),
            rows: rows.len(),
        };
        for row in rows {
            let counts = match row.start.map(|start| usize::try_from(start - days.start)) {
                None => Some(&mut read.total),
                Some(day) => day.ok().and_then(|day| read.counts.get_mut(day)),
            };
            if let Some(counts) = counts {
                counts.add(&row.risk_level, &row.status, unsigned(row.n));
            }
        }
        Ok(read)
    }
}

/// Counts the changes of a day in UTC before a time of it, in milliseconds since 1970. Of the
/// two parts of the day, the shorter one is counted.
async fn part_before(
    lease: &mut Lease,
    tenant: Tenant,
    scope: ChartScope,
    time: i64,
    mut day: KindCounts,
) -> Result<KindCounts, StoreError> {
    let midnight = time.div_euclid(DAY) * DAY;
    let is_early = time - midnight <= DAY / 2;
    let range = if is_early {
        midnight..time
    } else {
        time..midnight + DAY
    };
    let rows: Vec<[i64; KINDS]> = on!(lease, |db| async {
        let mut query = select_part(tenant, scope, range);
        let rows: Vec<KindRow> = query.build_query_as().fetch_all(&mut **db).await?;
        Ok::<_, sqlx::Error>(rows.into_iter().map(<[i64; KINDS]>::from).collect())
    })?;
    let mut counted = KindCounts::default();
    for row in rows {
        counted += KindCounts(row.map(unsigned));
    }
    if is_early {
        return Ok(counted);
    }
    day -= counted;
    Ok(day)
}

/// A count for each kind, in the order of [`KindCounts`].
type KindRow = (i64, i64, i64, i64, i64, i64, i64, i64, i64);

/// Selects kept counts by day, and those of all time. A slot can be negative, a sum of
/// slots cannot.
fn select_days<DB: Dialect>(
    tenant: Tenant,
    scope: &Scope<'_>,
    days: &Range<i64>,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::default();
    let mut push = |select, span, starts| {
        query.push(select);
        query.push(", risk_level, status, CAST(SUM(n) AS BIGINT) AS n FROM change_counts WHERE ");
        KindFilter::happened(tenant).push(&mut query);
        push_spans(&mut query, &scope.key(), span, starts);
        query.push(" GROUP BY start, risk_level, status HAVING SUM(n) > 0");
    };
    push("SELECT start", scope.day(), days.clone());
    push(" UNION ALL SELECT CAST(NULL AS BIGINT)", ALL_TIME, 0..1);
    query
}

/// Selects the number of changes of each kind in a range of milliseconds, in one row or more.
fn select_part<DB: Dialect>(
    tenant: Tenant,
    scope: ChartScope,
    millis: Range<i64>,
) -> QueryBuilder<DB> {
    let sort_keys = sort_key::of_millis(millis);
    let mut query = QueryBuilder::new("SELECT ");
    let tenant_is = |query: &mut QueryBuilder<DB>, column: &str| {
        query.push(" WHERE ").push(column).push(" = ");
        DB::bind(query, tenant.uuid().into());
    };
    match scope {
        // An index has exactly the changes of a kind.
        ChartScope::Organization => push_kinds(&mut query, |query, risk_level, status| {
            query.push("(SELECT COUNT(*) FROM changes");
            tenant_is(query, "organization_id");
            query.push(" AND risk_level = '").push(risk_level);
            query.push("' AND status = '").push(status).push("'");
            sort_key::push_range(query, "sort_key", sort_keys.clone());
            query.push(")");
        }),
        ChartScope::Host(id) => {
            push_kinds(&mut query, push_filtered);
            query.push(" FROM changes c");
            tenant_is(&mut query, "c.organization_id");
            query.push_value(" AND c.host_id = ", id.0);
            sort_key::push_range(&mut query, "c.sort_key", sort_keys);
        }
        ChartScope::Service(id) => {
            push_kinds(&mut query, push_filtered);
            query.push(" FROM changes c");
            tenant_is(&mut query, "c.organization_id");
            query.push_value(" AND c.service_id = ", id.0);
            sort_key::push_range(&mut query, "c.sort_key", sort_keys.clone());
            query.push(" UNION ALL SELECT ");
            push_kinds(&mut query, push_filtered);
            query.push(
                " FROM change_services m JOIN changes c \
                 ON c.organization_id = m.organization_id AND c.sort_key = m.sort_key",
            );
            tenant_is(&mut query, "m.organization_id");
            query.push_value(" AND m.service_id = ", id.0);
            sort_key::push_range(&mut query, "m.sort_key", sort_keys);
        }
    }
    query
}

/// Appends an expression for each kind, in the order of [`KindCounts`].
fn push_kinds<DB: Dialect>(
    query: &mut QueryBuilder<DB>,
    mut push: impl FnMut(&mut QueryBuilder<DB>, &'static str, &'static str),
) {
    let kinds = RiskLevel::ALL.iter().flat_map(|risk_level| {
        let statuses = HAPPENED.iter();
        statuses.map(|status| (risk_level.as_str(), status.as_str()))
    });
    for (number, (risk_level, status)) in kinds.enumerate() {
        query.push(if number == 0 { "" } else { ", " });
        push(query, risk_level, status);
    }
}

/// Appends the number of changes of a kind among the selected ones.
fn push_filtered<DB: Dialect>(query: &mut QueryBuilder<DB>, risk_level: &str, status: &str) {
    query
        .push("COUNT(CASE WHEN c.risk_level = '")
        .push(risk_level);
    query
        .push("' AND c.status = '")
        .push(status)
        .push("' THEN 1 END)");
}

#[cfg(test)]
mod tests {
    use changelog_core::ids::uuid_v7;
    use changelog_core::{HostId, ServiceId};
    use sqlx::types::Uuid;
    use sqlx_sqlite::Sqlite;

    use super::*;
    use crate::engine::explain::of as plan_of;

    fn tenant() -> Tenant {
        Tenant(uuid_v7(Timestamp::EPOCH, None, [0; 10]).into())
    }

    #[tokio::test]
    async fn kept_days_are_found_by_the_primary_key() {
        let service = Scope::Service(ServiceId(Uuid::from_u128(1)));
        for scope in [Scope::Organization, service] {
            let statement = select_days::<Sqlite>(tenant(), &scope, &(0..7)).into_string();
            let mut plan = plan_of(&statement).await;
            plan.retain(|step| step.starts_with("SEARCH") || step.starts_with("USE TEMP"));
            assert_eq!(
                plan,
                ["SEARCH change_counts USING PRIMARY KEY \
                  (organization_id=? AND scope=? AND span=? AND start>? AND start<?)";
                    2]
            );
        }
    }

    #[tokio::test]
    async fn parts_of_days_are_found_by_indexes() {
        let id = Uuid::from_u128(1);
        for (scope, expected) in [
            (
                ChartScope::Organization,
                vec![
                    "SEARCH changes USING COVERING INDEX changes_by_risk_and_status \
                     (organization_id=? AND risk_level=? AND status=? AND rowid>? AND rowid<?)";
                    KINDS
                ],
            ),
            (
                ChartScope::Host(HostId(id)),
                vec![
                    "SEARCH c USING INDEX changes_by_host \
                     (organization_id=? AND host_id=? AND rowid>? AND rowid<?)",
                ],
            ),
            (
                ChartScope::Service(ServiceId(id)),
                vec![
                    "SEARCH c USING INDEX changes_by_service \
                     (organization_id=? AND service_id=? AND rowid>? AND rowid<?)",
                    "SEARCH m USING PRIMARY KEY \
                     (organization_id=? AND service_id=? AND sort_key>? AND sort_key<?)",
                    "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)",
                ],
            ),
        ] {
            let mut plan =
                plan_of(&select_part::<Sqlite>(tenant(), scope, 1_000..2_000).into_string()).await;
            plan.retain(|step| step.starts_with("SEARCH") || step.starts_with("USE TEMP"));
            assert_eq!(plan, expected, "{scope:?}");
        }
    }
}

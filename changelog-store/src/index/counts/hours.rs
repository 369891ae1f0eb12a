//! Counts by hour and service, for timelines of more changes than can be drawn.
//!
//! A change is counted once, in its hour and for its first service, so that a create adds to
//! one row more, however many services it has.

use std::collections::BTreeMap;
use std::ops::Range;

use changelog_core::{ServiceId, Status};
use sqlx::types::Uuid;
use sqlx::{FromRow, QueryBuilder};

use super::{CountDelta, unsigned};
use crate::engine::{Dialect, PushValue, Script, Value, push_limit, read};
use crate::index::sort_key;
use crate::{Database, StoreError, Tenant};

/// An hour, in milliseconds.
pub const HOUR: i64 = 3_600_000;
/// The service of changes without one.
const NO_SERVICE: Uuid = Uuid::nil();
/// The limit on the rows by which busy services are chosen: two days of 400 services on
/// SQLite, which reads them in about 4 ms.
const MAX_ROWS: u64 = 20_000;
/// The limit on changes that are counted by parts: the newest. A range should have fewer.
const MAX_COUNTED_BY_PART: u64 = 10_000;
/// The number of services that a statement names, so that it is prepared once.
const SERVICES_PER_STATEMENT: usize = 16;

/// The changes of a part of a time range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HourCount {
    /// When the part begins, in milliseconds since 1970.
    pub start: i64,
    /// The first service of the changes; `None` if they are those of all services and
    /// those without one.
    pub service: Option<ServiceId>,
    /// The number of changes, without planned ones.
    pub changes: u64,
    /// How many of them were rolled back, or failed.
    pub undone: u64,
}

/// The services of a time range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusyServices {
    /// Those with the most undone changes, and of those with as many, the ones with the most
    /// changes.
    pub services: Vec<ServiceId>,
    /// The number of all services with changes; `None` if there are too many to count them.
    pub number: Option<u64>,
}

/// The number of an hour since 1970, and the first service of changes in it; the nil UUID for
/// those without one.
pub(crate) type HourKey = (i64, Uuid);

impl CountDelta<'_> {
    /// Returns where a change is counted, and whether it was undone; `None` if it has not
    /// happened.
    pub(crate) fn in_hour(&self) -> Option<(HourKey, bool)> {
        let status = self.facets.status;
        let service = self.facets.services.first();
        let service = service.map_or(NO_SERVICE, |service| service.0);
        let key = (self.millis.div_euclid(HOUR), service);
        (*status != Status::Planned).then_some((key, *status == Status::RolledBack))
    }
}

/// What a script adds to the counts: numbers of changes and of undone ones by organization,
/// hour and service.
#[derive(Default)]
pub(super) struct Sums(BTreeMap<(Uuid, i64, Uuid), (i64, i64)>);

impl Sums {
    /// Adds a change (1) or removes it (-1).
    pub(super) fn add(&mut self, step: i64, delta: &CountDelta<'_>) {
        let Some(((hour, service), is_undone)) = delta.in_hour() else {
            return;
        };
        let key = (delta.tenant.uuid(), hour, service);
        let (changes, undone) = self.0.entry(key).or_default();
        *changes += step;
        *undone += step * i64::from(is_undone);
    }

    /// Appends the statement that adds them.
    pub(super) fn push<DB: Dialect>(&self, script: &mut Script<DB>, slot: i64) {
        let rows: Vec<[Value<'_>; 6]> = (self.0.iter())
            .filter(|(_, sums)| **sums != (0, 0))
            .map(|((organization, hour, service), (changes, undone))| {
                [
                    (*organization).into(),
                    (*hour).into(),
                    (*service).into(),
                    slot.into(),
                    (*changes).into(),
                    (*undone).into(),
                ]
            })
            .collect();
        script.insert(
            "INSERT INTO change_hours (organization_id, hour, service_id, slot, n, undone) ",
            &rows,
            " ON CONFLICT (organization_id, hour, service_id, slot) DO UPDATE \
             SET n = change_hours.n + excluded.n, undone = change_hours.undone + excluded.undone",
        );
    }
}

/// The sums of an hour, or of a service of some hours.
#[derive(FromRow)]
struct SumRow {
    part: i64,
    service_id: Option<Uuid>,
    changes: i64,
    undone: i64,
}

#[derive(FromRow)]
struct BusyRow {
    service_id: Uuid,
    /// The number of services.
    services: i64,
    /// The number of rows that were added up.
    read: i64,
}

impl Database {
    /// Counts the changes of each of some hours, given as numbers since 1970; hours without
    /// changes are left out.
    pub async fn changes_by_hour(
        &self,
        tenant: Tenant,
        hours: &Range<i64>,
    ) -> Result<Vec<HourCount>, StoreError> {
        let rows: Vec<SumRow> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select_hours(tenant, hours);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(rows.iter().map(|row| row.counted_by(HOUR)).collect())
    }

    /// Counts the changes of each of some services in each part of some hours. A part is as
    /// many hours long, and begins at a multiple of them since 1970.
    pub async fn changes_by_hour_and_service(
        &self,
        tenant: Tenant,
        hours: &Range<i64>,
        hours_of_part: i64,
        services: &[ServiceId],
    ) -> Result<Vec<HourCount>, StoreError> {
        let mut counts = Vec::new();
        for services in services.chunks(SERVICES_PER_STATEMENT) {
            let rows: Vec<SumRow> = read!(self.reader(tenant).await?, |db| async {
                let mut query = select_services(tenant, hours, hours_of_part, services);
                query.build_query_as().fetch_all(&mut **db).await
            })?;
            let rows = rows.iter();
            counts.extend(rows.map(|row| row.counted_by(HOUR * hours_of_part)));
        }
        Ok(counts)
    }

    /// Counts changes of a range of milliseconds since 1970 by first service and by part, of
    /// so many milliseconds from its start on. Every change is read: the range should have
    /// some thousands at most.
    pub async fn changes_by_part_and_service(
        &self,
        tenant: Tenant,
        millis: Range<i64>,
        length: i64,
    ) -> Result<Vec<HourCount>, StoreError> {
        let rows: Vec<SumRow> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select_parts(tenant, &millis, length);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let mut totals: BTreeMap<i64, HourCount> = BTreeMap::new();
        let mut counts = Vec::new();
        for row in rows {
            let count = row.counted_by(length);
            let start = count.start + millis.start;
            let count = HourCount { start, ..count };
            let total = totals.entry(start).or_insert(HourCount {
                service: None,
                changes: 0,
                undone: 0,
                ..count
            });
            total.changes += count.changes;
            total.undone += count.undone;
            counts.extend(count.service.is_some().then_some(count));
        }
        counts.extend(totals.into_values());
        Ok(counts)
    }

    /// Finds the services in which most happened in some hours, given as numbers since 1970:
    /// at most so many. If the hours have very many services, their last ones count.
    pub async fn busy_services(
        &self,
        tenant: Tenant,
        hours: &Range<i64>,
        limit: u64,
    ) -> Result<BusyServices, StoreError> {
        let rows: Vec<BusyRow> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select_busy(tenant, hours, limit);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let first = rows.first();
        let number = match first {
            Some(row) if unsigned(row.read) >= MAX_ROWS => None,
            first => Some(first.map_or(0, |row| unsigned(row.services))),
        };
        let services = rows.iter().map(|row| ServiceId(row.service_id)).collect();
        Ok(BusyServices { services, number })
    }
}

impl SumRow {
    /// Returns the counts, of parts of so many milliseconds since 1970.
    fn counted_by(&self, length: i64) -> HourCount {
        HourCount {
            start: self.part * length,
            service: self.service_id.map(ServiceId),
            changes: unsigned(self.changes),
            undone: unsigned(self.undone),
        }
    }
}

/// Appends the condition on the hours.
fn push_hours<DB: Dialect>(query: &mut QueryBuilder<DB>, tenant: Tenant, hours: &Range<i64>) {
    query.push_value(" FROM change_hours WHERE organization_id = ", tenant.uuid());
    query.push_value(" AND hour >= ", hours.start);
    query.push_value(" AND hour < ", hours.end);
}

/// A slot can be negative, a sum of slots cannot.
const SUMS: &str = "CAST(SUM(n) AS BIGINT) AS changes, CAST(SUM(undone) AS BIGINT) AS undone";

fn select_hours<DB: Dialect>(tenant: Tenant, hours: &Range<i64>) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT hour AS part, NULL AS service_id, ");
    query.push(SUMS);
    push_hours(&mut query, tenant, hours);
    query.push(" GROUP BY hour HAVING SUM(n) > 0");
    query
}

/// Selects the counts of at most [`SERVICES_PER_STATEMENT`] services.
fn select_services<DB: Dialect>(
    tenant: Tenant,
    hours: &Range<i64>,
    hours_of_part: i64,
    services: &[ServiceId],
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT part, service_id, ");
    query.push(SUMS);
    query.push_value(" FROM (SELECT hour / ", hours_of_part);
    query.push(" AS part, service_id, n, undone");
    push_hours(&mut query, tenant, hours);
    // The last one again, so that the number of services is always the same.
    let padding = services.last().into_iter().cycle();
    let named = services.iter().chain(padding).take(SERVICES_PER_STATEMENT);
    for (number, service) in named.enumerate() {
        query.push_value(
            if number == 0 {
                " AND service_id IN ("
            } else {
                ", "
            },
            service.0,
        );
    }
    query.push(")) AS of_hours GROUP BY part, service_id HAVING SUM(n) > 0");
    query
}

fn select_parts<DB: Dialect>(tenant: Tenant, millis: &Range<i64>, length: i64) -> QueryBuilder<DB> {
    let sort_keys = sort_key::of_millis(millis.clone());
    let per_part = sort_key::of_millis(0..length).end;
    let mut query = QueryBuilder::new(
        "SELECT part, service_id, COUNT(*) AS changes, \
         COUNT(CASE WHEN status = 'rolled_back' THEN 1 END) AS undone FROM (SELECT (sort_key - ",
    );
    DB::bind(&mut query, sort_keys.start.into());
    query.push_value(") / ", per_part);
    query.push_value(
        " AS part, service_id, status FROM changes WHERE organization_id = ",
        tenant.uuid(),
    );
    query.push(" AND status <> 'planned'");
    sort_key::push_range(&mut query, "sort_key", sort_keys);
    query.push(" ORDER BY sort_key DESC");
    push_limit(&mut query, MAX_COUNTED_BY_PART, 0);
    query.push(") AS of_range GROUP BY part, service_id");
    query
}

fn select_busy<DB: Dialect>(tenant: Tenant, hours: &Range<i64>, limit: u64) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(
        "SELECT service_id, services, read FROM (SELECT service_id, COUNT(*) OVER () AS services, \
         CAST(SUM(COUNT(*)) OVER () AS BIGINT) AS read, SUM(undone) AS undone, SUM(n) AS changes \
         FROM (SELECT service_id, n, undone",
    );
    push_hours(&mut query, tenant, hours);
    query.push_value(" AND service_id <> ", NO_SERVICE);
    query.push(" ORDER BY hour DESC");
    push_limit(&mut query, MAX_ROWS, 0);
    query.push(
        ") AS newest GROUP BY service_id HAVING SUM(n) > 0) AS busy \
         ORDER BY undone DESC, changes DESC, service_id",
    );
    push_limit(&mut query, limit, 0);
    query
}

#[cfg(test)]
mod tests {
    use sqlx_sqlite::Sqlite;

    use super::*;
    use crate::engine::explain;

    #[tokio::test]
    async fn hours_and_changes_are_found_by_indexes() {
        let tenant = Tenant(Uuid::from_u128(1).into());
        let services = [2, 3].map(|number| ServiceId(Uuid::from_u128(number)));
        let hours =
            "SEARCH change_hours USING PRIMARY KEY (organization_id=? AND hour>? AND hour<?)";
        for (query, expected) in [
            (select_hours::<Sqlite>(tenant, &(1..9)), hours),
            (select_services(tenant, &(1..9), 1, &services), hours),
            (select_busy(tenant, &(1..9), 9), hours),
            (
                select_parts(tenant, &(1_000..9_000), 500),
                "SEARCH changes USING INDEX changes_by_organization \
                 (organization_id=? AND rowid>? AND rowid<?)",
            ),
        ] {
            let plan = explain::of(&query.into_string()).await;
            assert!(plan.iter().any(|step| step == expected), "{plan:#?}");
        }
    }
}

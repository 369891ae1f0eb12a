//! Kept counts: how many changes there are by service, host or tag, by span of
//! time, by risk and status, so that an exact total costs the same at ten
//! changes and at ten million, and so that the page that begins at the
//! 500,000th change is found without walking there.
//!
//! A count is spread over slots, rows that are added up on reading: on
//! PostgreSQL a transaction keeps the row that it adds to until it commits, and
//! the writers of one organization would otherwise wait for each other.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use changelog_core::{HostId, RiskLevel, Service, ServiceId, Status};
use sqlx::types::{Text, Uuid};
use sqlx::{FromRow, QueryBuilder};

use super::search::Marks;
use super::sort_key;
use crate::store::engine::{Dialect, Script, Value, on};
use crate::store::{Database, StoreError, Tenant};

/// All time.
const ALWAYS: i64 = 0;
/// A day of UTC.
const DAY: i64 = 86_400_000;
/// What stands for the span of a day that a service or a host is counted in. Were
/// it that of the organization's days, PostgreSQL, which takes a scope and a span
/// for independent of each other, would expect hundreds of thousands of those.
const DAY_OF_THING: i64 = -DAY;
/// The spans of time that the changes of an organization are counted in, in
/// milliseconds, longest first: days, hours and seconds; each is a whole number
/// of the next.
const SPANS: [i64; 3] = [DAY, 3_600_000, 1_000];

/// What changes are counted by, besides risk and status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'c> {
    /// All of the organization.
    Organization,
    /// Those of a service.
    Service(ServiceId),
    /// Those on a host.
    Host(HostId),
    /// Those with a tag, which are counted over all time only.
    Tag(&'c str),
}

impl<'c> Scope<'c> {
    /// Returns how the database calls it.
    pub(crate) fn key(&self) -> Cow<'c, str> {
        match self {
            Self::Organization => "organization".into(),
            Self::Service(id) => format!("service/{}", id.0.simple()).into(),
            Self::Host(id) => format!("host/{}", id.0.simple()).into(),
            Self::Tag(tag) => format!("tag/{tag}").into(),
        }
    }

    /// Reads the id of a service out of what the database calls its scope.
    fn service(key: &str) -> Option<ServiceId> {
        let id = Uuid::try_parse(key.strip_prefix("service/")?).ok()?;
        Some(ServiceId(id))
    }
}

/// How many changes of one risk and status there were on one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayCount {
    /// The day, as days since 1970 in UTC.
    pub day: i64,
    /// How dangerous they are.
    pub risk_level: RiskLevel,
    /// Where they stand.
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

/// What a change is counted by.
#[derive(Debug)]
pub(crate) struct Counted<'c> {
    pub(crate) tenant: Tenant,
    pub(crate) marks: Marks<'c>,
    /// When it happened, in milliseconds since 1970.
    pub(crate) millis: i64,
}

impl<'c> Counted<'c> {
    /// Returns the rows that it adds to: scope, span and start.
    fn rows(&self) -> impl Iterator<Item = (Cow<'c, str>, i64, i64)> {
        let millis = self.millis;
        let always = [Scope::Organization]
            .into_iter()
            .chain(self.marks.service_id.map(Scope::Service))
            .chain(self.marks.host_id.map(Scope::Host))
            .chain(self.marks.tags.iter().map(|tag| Scope::Tag(tag)))
            .map(|scope| (scope.key(), ALWAYS, 0));
        let spans = SPANS
            .into_iter()
            .map(move |span| (Scope::Organization.key(), span, millis / span));
        let days = (self.marks.service_id.map(Scope::Service).into_iter())
            .chain(self.marks.host_id.map(Scope::Host))
            .map(move |scope| (scope.key(), DAY_OF_THING, millis / DAY));
        always.chain(spans).chain(days)
    }
}

/// Slots may hold less than nothing; their sums do not. Spans of which every
/// change was taken away are left out.
const DAILY: &str = "
SELECT start, risk_level, status, CAST(SUM(n) AS BIGINT) AS n FROM change_counts
WHERE organization_id = $1 AND scope = $2 AND span = $3 AND start >= $4 AND start < $5
GROUP BY start, risk_level, status HAVING SUM(n) > 0 ORDER BY start, risk_level, status";

/// The conditions on span and scope are spelled as in the index of these rows.
/// Were they grouped by the scope as it is, SQLite would take the primary key,
/// which has that order, and walk the days of all years. Before the limit, which
/// is written out.
const BUSIEST: &str = "
SELECT scope || '', CAST(SUM(n) AS BIGINT) AS total FROM change_counts
WHERE organization_id = $1 AND span = -86400000 AND substr(scope, 1, 8) = 'service/'
    AND start >= $2 AND start < $3
GROUP BY scope || '' HAVING SUM(n) > 0 ORDER BY total DESC, scope || '' LIMIT ";

/// What tells a row of the counts from the others: organization, scope, span,
/// start, risk and status.
type Row<'c> = (Uuid, Cow<'c, str>, i64, i64, &'c str, &'c str);

/// Adds changes to the counts, or takes them away.
pub(crate) fn push<'c, DB: Dialect>(
    script: &mut Script<DB>,
    slot: i64,
    steps: impl Iterator<Item = (i64, Counted<'c>)>,
) {
    // In one order, so that no two transactions wait for each other's rows.
    let mut sums: BTreeMap<Row<'c>, i64> = BTreeMap::new();
    for (step, counted) in steps {
        for (scope, span, start) in counted.rows() {
            let (risk, status) = (
                counted.marks.risk_level.as_str(),
                counted.marks.status.as_str(),
            );
            let key = (counted.tenant.uuid(), scope, span, start, risk, status);
            *sums.entry(key).or_default() += step;
        }
    }
    let rows: Vec<[Value<'_>; 8]> = sums
        .iter()
        .filter(|(_, sum)| **sum != 0)
        .map(|((organization, scope, span, start, risk, status), sum)| {
            [
                (*organization).into(),
                scope.as_ref().into(),
                (*span).into(),
                (*start).into(),
                (*risk).into(),
                (*status).into(),
                slot.into(),
                (*sum).into(),
            ]
        })
        .collect();
    script.insert(
        "INSERT INTO change_counts \
         (organization_id, scope, span, start, risk_level, status, slot, n) ",
        &rows,
        " ON CONFLICT (organization_id, scope, span, start, risk_level, status, slot) \
         DO UPDATE SET n = change_counts.n + excluded.n",
    );
}

/// Which changes are added up.
#[derive(Clone, Copy)]
pub(crate) struct Kind<'c> {
    pub(crate) tenant: Tenant,
    pub(crate) risk_level: Option<&'c RiskLevel>,
    pub(crate) status: Option<&'c Status>,
}

impl Kind<'_> {
    /// Writes the condition on organization, risk and status.
    pub(crate) fn push<DB: Dialect>(&self, query: &mut QueryBuilder<DB>) {
        query.push("organization_id = ");
        DB::bind(query, self.tenant.uuid().into());
        if let Some(risk) = self.risk_level {
            query.push(" AND risk_level = ");
            DB::bind(query, risk.as_str().into());
        }
        if let Some(status) = self.status {
            query.push(" AND status = ");
            DB::bind(query, status.as_str().into());
        }
    }

    /// Writes the sum of the counts of some spans, numbered from one to before
    /// another. PostgreSQL's sum of bigints is numeric, hence the cast.
    fn push_sum<DB: Dialect>(
        &self,
        query: &mut QueryBuilder<DB>,
        scope: &Scope<'_>,
        span: i64,
        numbers: Range<i64>,
    ) {
        query.push("(SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM change_counts WHERE ");
        self.push(query);
        push_spans(query, scope, span, numbers);
        query.push(")");
    }

    /// Writes the count of all changes of a scope.
    pub(crate) fn push_all<DB: Dialect>(&self, query: &mut QueryBuilder<DB>, scope: &Scope<'_>) {
        self.push_sum(query, scope, ALWAYS, 0..1);
    }

    /// Writes the count of the organization's changes within a range of
    /// milliseconds: whole spans are added up, what lies at the ends, less than
    /// a second each, is walked.
    pub(crate) fn push_within<DB: Dialect>(&self, query: &mut QueryBuilder<DB>, range: Range<i64>) {
        let Cut { spans, ends } = cut(range);
        query.push("CAST(0 AS BIGINT)");
        for (span, numbers) in spans {
            query.push(" + ");
            self.push_sum(query, &Scope::Organization, span, numbers);
        }
        for end in ends {
            query.push(" + (SELECT count(*) FROM changes WHERE ");
            self.push(query);
            sort_key::push_range(query, "sort_key", sort_key::of_millis(end));
            query.push(")");
        }
    }
}

fn push_spans<DB: Dialect>(
    query: &mut QueryBuilder<DB>,
    scope: &Scope<'_>,
    span: i64,
    numbers: Range<i64>,
) {
    query.push(" AND scope = ");
    DB::bind(query, scope.key().as_ref().into());
    query.push(" AND span = ");
    DB::bind(query, span.into());
    query.push(" AND start >= ");
    DB::bind(query, numbers.start.into());
    query.push(" AND start < ");
    DB::bind(query, numbers.end.into());
}

/// Brings a count out of the range of the database's integers.
pub(crate) fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

/// A range of milliseconds, cut into whole spans and what is left of it.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    /// Lengths of spans and their numbers.
    spans: Vec<(i64, Range<i64>)>,
    /// What is left at the ends.
    ends: Vec<Range<i64>>,
}

/// Cuts a range into few pieces: the longest spans in the middle, shorter ones
/// around them.
fn cut(range: Range<i64>) -> Cut {
    let mut cut = Cut {
        spans: Vec::new(),
        ends: Vec::new(),
    };
    let mut rest = range;
    for (number, span) in SPANS.into_iter().enumerate().rev() {
        // What lies between the whole spans of this length and the ends of what
        // is left belongs to the shorter ones, which were here before.
        let first = rest.start.div_euclid(span) + i64::from(rest.start.rem_euclid(span) > 0);
        let whole = first..rest.end.div_euclid(span);
        if whole.is_empty() {
            break;
        }
        let shorter = SPANS.get(number + 1).copied();
        cut.keep(shorter, rest.start..whole.start * span);
        cut.keep(shorter, whole.end * span..rest.end);
        rest = whole.start * span..whole.end * span;
        if number == 0 {
            cut.keep(Some(span), rest.clone());
            rest = 0..0;
        }
    }
    let shorter = SPANS
        .into_iter()
        .find(|span| rest.start % span == 0 && rest.end % span == 0);
    cut.keep(shorter, rest);
    cut
}

impl Cut {
    /// Keeps a piece, in spans of a length that it is a whole number of.
    fn keep(&mut self, span: Option<i64>, piece: Range<i64>) {
        match span {
            _ if piece.is_empty() => {}
            Some(span) => self
                .spans
                .push((span, piece.start / span..piece.end / span)),
            None => self.ends.push(piece),
        }
    }
}

/// Where a page begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// Every change of the page is at a sort key before this one.
    pub(crate) before: i64,
    /// How many changes before that are still to be left out.
    pub(crate) rest: i64,
}

impl Database {
    /// Counts the changes of some days, numbered from one to before another
    /// since 1970 in UTC, by risk and status: oldest first, without days that
    /// have none. Tags are not counted by day.
    pub async fn daily_counts(
        &self,
        tenant: Tenant,
        scope: Scope<'_>,
        days: Range<i64>,
    ) -> Result<Vec<DayCount>, StoreError> {
        let span = match scope {
            Scope::Organization => DAY,
            Scope::Service(_) | Scope::Host(_) | Scope::Tag(_) => DAY_OF_THING,
        };
        let rows: Vec<DayRow> = on!(&mut self.reader(tenant).await?, |db| {
            sqlx::query_as(DAILY)
                .bind(tenant.uuid())
                .bind(scope.key())
                .bind(span)
                .bind(days.start)
                .bind(days.end)
                .fetch_all(&mut **db)
        })?;
        let count = |row: DayRow| DayCount {
            day: row.start,
            risk_level: row.risk_level.0,
            status: row.status.0,
            count: unsigned(row.n),
        };
        Ok(rows.into_iter().map(count).collect())
    }

    /// Counts the changes of all time.
    pub async fn total(&self, tenant: Tenant, scope: Scope<'_>) -> Result<u64, StoreError> {
        let kind = Kind {
            tenant,
            risk_level: None,
            status: None,
        };
        let (total,): (i64,) = on!(&mut self.reader(tenant).await?, |db| async {
            let mut query = QueryBuilder::new("SELECT ");
            kind.push_all(&mut query, &scope);
            query.build_query_as().fetch_one(&mut **db).await
        })?;
        Ok(unsigned(total))
    }

    /// Finds the services with the most changes on some days, numbered from one
    /// to before another since 1970 in UTC: busiest first, without those that
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

    /// Finds where a page begins that leaves out so many of the newest changes.
    /// Spans are left out as a whole, from a day to a second; only what
    /// is left of that is walked.
    pub(crate) async fn start_of_page(
        &self,
        kind: Kind<'_>,
        start: Start,
    ) -> Result<Start, StoreError> {
        let mut rest = start.rest;
        let mut within = 0..i64::MAX / SPANS[0] * SPANS[0];
        for span in SPANS {
            let numbers = within.start / span..within.end / span;
            let spans: Vec<(i64, i64)> = on!(&mut self.reader(kind.tenant).await?, |db| async {
                let mut query = QueryBuilder::new(
                    "SELECT start, CAST(SUM(n) AS BIGINT) FROM change_counts WHERE ",
                );
                kind.push(&mut query);
                push_spans(&mut query, &Scope::Organization, span, numbers);
                query.push(" GROUP BY start ORDER BY start DESC");
                query.build_query_as().fetch_all(&mut **db).await
            })?;
            for (number, n) in spans {
                if rest < n {
                    within = number * span..(number + 1) * span;
                    break;
                }
                rest -= n;
                within.end = number * span;
            }
        }
        let before = sort_key::of_millis(within).end;
        Ok(Start { before, rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::explain::of as plan_of;

    /// Every piece of a cut, in milliseconds.
    fn pieces(cut: &Cut) -> Vec<Range<i64>> {
        let spans = cut
            .spans
            .iter()
            .map(|(span, n)| n.start * span..n.end * span);
        let mut pieces: Vec<_> = spans.chain(cut.ends.iter().cloned()).collect();
        pieces.sort_by_key(|piece| piece.start);
        pieces
    }

    #[tokio::test]
    async fn days_are_found_by_indexes() {
        let plan = plan_of(&format!("{BUSIEST} 5")).await;
        assert_eq!(
            plan[0],
            "SEARCH change_counts USING INDEX change_counts_by_day \
             (organization_id=? AND span=? AND start>? AND start<?)"
        );
        let plan = plan_of(DAILY).await;
        assert_eq!(
            plan,
            ["SEARCH change_counts USING PRIMARY KEY \
              (organization_id=? AND scope=? AND span=? AND start>? AND start<?)"]
        );
    }

    #[test]
    fn a_range_is_cut_into_few_pieces_without_gaps() {
        let day = 86_400_000;
        for (from, to, most) in [
            (0, 0, 0),
            (5, 5, 0),
            (5, 9, 1),
            (999, 1_001, 2),
            (0, 1_000, 1),
            (1, 2_000, 2),
            (0, 365 * day, 1),
            (1_700_000_000_123, 1_763_713_800_456, 7),
            (1_763_713_800_000, 1_763_713_860_000, 1),
            (0, i64::MAX / SPANS[0] * SPANS[0], 1),
        ] {
            let pieces = pieces(&cut(from..to));
            assert!(pieces.len() <= most, "{from}..{to}: {pieces:?}");
            let mut at = from;
            for piece in &pieces {
                assert_eq!(piece.start, at, "{from}..{to}: {pieces:?}");
                at = piece.end;
            }
            assert_eq!(at, to.max(from), "{from}..{to}: {pieces:?}");
            let walked: i64 = cut(from..to)
                .ends
                .iter()
                .map(|end| end.end - end.start)
                .sum();
            assert!(walked < 2_000, "{from}..{to} walks {walked} ms");
        }
    }
}

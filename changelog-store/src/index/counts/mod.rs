//! Stored counts: how many changes there are by service, host, tag or author, by day,
//! by risk, status and environment. With them an exact total costs the same for ten changes as
//! for ten million, and a page far down a list is found without walking there.
//!
//! A count is spread over slots, rows that are added up on reading: on PostgreSQL
//! a transaction locks the row that it adds to until it commits, and the writers
//! of one organization would otherwise wait for each other.

mod days;
mod hours;
mod kinds;
mod memory;
mod paging;
mod places;
mod slots;
mod spans;
mod totals;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use changelog_core::change::BY_HAND;
use changelog_core::{Environment, HostId, RiskLevel, ServiceId, Status};
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

pub(crate) use hours::HourKey;
pub use hours::{BusyServices, HOUR, HourCount};
pub use kinds::{ChartScope, KindCounts};
pub(crate) use memory::CountMemory;
pub(crate) use paging::Start;
pub(crate) use slots::{CountSlot, CountSlots};

use super::search::Facets;
use crate::Tenant;
use crate::engine::{Dialect, PushValue, Script, Value};
use spans::{DAY, END, SpanCover, cover};

/// The span of all time.
const ALL_TIME: i64 = 0;
/// The span of a day of a service, a host, an author or a tag. If it were that of the
/// organization's days, PostgreSQL, which takes scope and span for independent, would expect
/// hundreds of thousands of the latter.
pub(crate) const DAY_OF_OTHERS: i64 = -DAY;

/// The scope of all changes of an organization, of every risk, status and environment together:
/// its rows have '' for these. A list without a filter, and the days that are skipped to find a
/// page of it, need one row each instead of one for each combination.
const EVERY_KIND: &str = "all";

/// What changes are counted by, in addition to risk, status and environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'c> {
    /// All changes of the organization.
    Organization,
    /// The changes of a service.
    Service(ServiceId),
    /// The changes on a host.
    Host(HostId),
    /// The changes with a tag. Of all tags only [`BY_HAND`] is counted by day, too.
    Tag(&'c str),
    /// The changes that an API key or a person recorded.
    Author(Uuid),
}

impl<'c> Scope<'c> {
    /// Returns the scope as it is stored.
    pub(crate) fn key(&self) -> Cow<'c, str> {
        match self {
            Self::Organization => "organization".into(),
            Self::Service(id) => format!("service/{}", id.0.simple()).into(),
            Self::Host(id) => format!("host/{}", id.0.simple()).into(),
            Self::Tag(tag) => format!("tag/{tag}").into(),
            Self::Author(id) => format!("author/{}", id.simple()).into(),
        }
    }

    /// Returns the span of its days.
    fn day(&self) -> i64 {
        match self {
            Self::Organization => DAY,
            _ => DAY_OF_OTHERS,
        }
    }

    /// Returns whether its changes are counted by day.
    pub(crate) fn has_days(&self) -> bool {
        !matches!(self, Self::Tag(tag) if *tag != BY_HAND)
    }

    /// Returns the id of the service of a stored scope.
    fn service(key: &str) -> Option<ServiceId> {
        let id = Uuid::try_parse(key.strip_prefix("service/")?).ok()?;
        Some(ServiceId(id))
    }
}

/// What a change adds to the counts.
#[derive(Debug)]
pub(crate) struct CountDelta<'c> {
    pub(crate) tenant: Tenant,
    pub(crate) facets: Facets<'c>,
    /// When the change happened, in milliseconds since 1970.
    pub(crate) millis: i64,
}

/// The key of a count of an organization.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CountKey {
    pub(crate) scope: String,
    pub(crate) span: i64,
    pub(crate) start: i64,
    pub(crate) risk_level: String,
    pub(crate) status: String,
    pub(crate) environment: String,
}

impl<'c> CountDelta<'c> {
    /// Returns the keys of the counts that the change adds one to.
    pub(crate) fn keys(&self) -> impl Iterator<Item = CountKey> {
        self.rows().map(|row| {
            let (_, scope, span, start, risk_level, status, environment) = row;
            CountKey {
                scope: scope.into_owned(),
                span,
                start,
                risk_level: risk_level.to_owned(),
                status: status.to_owned(),
                environment: environment.to_owned(),
            }
        })
    }

    /// Returns the rows that the change adds to.
    fn rows(&self) -> impl Iterator<Item = Row<'c>> {
        let organization = self.tenant.uuid();
        let (risk_level, status) = (self.facets.risk_level.as_str(), self.facets.status.as_str());
        let environment = self.facets.environment.map_or("", Environment::as_str);
        let day = self.millis / DAY;
        let things = || {
            let services = self.facets.services.iter().copied().map(Scope::Service);
            let things = services.chain(self.facets.host_id.map(Scope::Host));
            things.chain(self.facets.author.map(Scope::Author))
        };
        let tags = || self.facets.tags.iter().map(|tag| Scope::Tag(tag));
        let totals = [Scope::Organization]
            .into_iter()
            .chain(things())
            .chain(tags())
            .map(|scope| (scope.key(), ALL_TIME, 0));
        let days = things()
            .chain(tags().filter(Scope::has_days))
            .map(move |scope| (scope.key(), DAY_OF_OTHERS, day));
        let of_kind = totals
            .chain([(Scope::Organization.key(), DAY, day)])
            .chain(days)
            .map(move |(scope, span, start)| {
                (
                    organization,
                    scope,
                    span,
                    start,
                    risk_level,
                    status,
                    environment,
                )
            });
        let of_every_kind = [(ALL_TIME, 0), (DAY, day)].into_iter();
        of_kind.chain(
            of_every_kind.map(move |(span, start)| {
                (organization, EVERY_KIND.into(), span, start, "", "", "")
            }),
        )
    }
}

/// The key of a row of the counts without its slot: organization, scope, span,
/// start, risk, status and environment.
type Row<'c> = (Uuid, Cow<'c, str>, i64, i64, &'c str, &'c str, &'c str);

/// Appends the statements that add changes to the counts, or remove them: each
/// step is 1 or -1 and a change. They are always in the same order, as their rows are, so that
/// two transactions cannot deadlock.
pub(crate) fn push<'c, DB: Dialect>(
    script: &mut Script<DB>,
    slot: i64,
    steps: impl Iterator<Item = (i64, CountDelta<'c>)>,
) {
    let mut sums: BTreeMap<Row<'c>, i64> = BTreeMap::new();
    let mut hours = hours::Sums::default();
    for (step, delta) in steps {
        for row in delta.rows() {
            *sums.entry(row).or_default() += step;
        }
        hours.add(step, &delta);
    }
    let rows: Vec<[Value<'_>; 9]> = sums
        .iter()
        .filter(|(_, sum)| **sum != 0)
        .map(|(row, sum)| {
            let (organization, scope, span, start, risk, status, environment) = row;
            [
                (*organization).into(),
                scope.as_ref().into(),
                (*span).into(),
                (*start).into(),
                (*risk).into(),
                (*status).into(),
                (*environment).into(),
                slot.into(),
                (*sum).into(),
            ]
        })
        .collect();
    script.insert(
        "INSERT INTO change_counts \
         (organization_id, scope, span, start, risk_level, status, environment, slot, n) ",
        &rows,
        " ON CONFLICT \
         (organization_id, scope, span, start, risk_level, status, environment, slot) DO UPDATE SET n = change_counts.n + excluded.n",
    );
    hours.push(script, slot);
}

/// Selects changes of an organization, or their counts, by risk, status and environment:
/// one of each list, or any if the list is empty.
#[derive(Clone, Copy)]
pub(crate) struct KindFilter<'c> {
    pub(crate) tenant: Tenant,
    pub(crate) risk_levels: &'c [RiskLevel],
    pub(crate) statuses: &'c [Status],
    pub(crate) environments: &'c [Environment],
}

/// The statuses of changes that have happened or are happening.
pub const HAPPENED: &[Status] = &[Status::InProgress, Status::Completed, Status::RolledBack];

impl KindFilter<'_> {
    /// Selects all changes.
    fn all(tenant: Tenant) -> Self {
        Self {
            tenant,
            risk_levels: &[],
            statuses: &[],
            environments: &[],
        }
    }

    /// Selects all changes but the planned ones, which have not happened.
    fn happened(tenant: Tenant) -> Self {
        Self {
            statuses: HAPPENED,
            ..Self::all(tenant)
        }
    }

    /// Appends the condition on organization, risk, status and environment.
    pub(crate) fn push<DB: Dialect>(&self, query: &mut QueryBuilder<DB>) {
        query.push_value("organization_id = ", self.tenant.uuid());
        push_one_of(
            query,
            "risk_level",
            self.risk_levels.iter().map(RiskLevel::as_str),
        );
        push_one_of(query, "status", self.statuses.iter().map(Status::as_str));
        push_one_of(
            query,
            "environment",
            self.environments.iter().map(Environment::as_str),
        );
    }

    /// Returns the stored scope with what it selects of a scope.
    fn key_of<'s>(&self, scope: &Scope<'s>) -> Cow<'s, str> {
        let is_every_kind =
            self.risk_levels.is_empty() && self.statuses.is_empty() && self.environments.is_empty();
        match scope {
            Scope::Organization if is_every_kind => EVERY_KIND.into(),
            _ => scope.key(),
        }
    }

    /// Appends the sum of the counts of a scope's spans. PostgreSQL's sum of
    /// bigints is numeric, hence the cast.
    fn push_sum<DB: Dialect>(
        &self,
        query: &mut QueryBuilder<DB>,
        scope: &Scope<'_>,
        span: i64,
        starts: Range<i64>,
    ) {
        query.push("(SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM change_counts WHERE ");
        self.push(query);
        push_spans(query, &self.key_of(scope), span, starts);
        query.push(")");
    }

    /// Appends the count of all changes of a scope.
    pub(crate) fn push_total<DB: Dialect>(&self, query: &mut QueryBuilder<DB>, scope: &Scope<'_>) {
        self.push_sum(query, scope, ALL_TIME, 0..1);
    }

    /// Appends the number of changes of a scope within a range of milliseconds: whole
    /// days are added up; `push_rest` appends the number of changes in each of the two
    /// incomplete days at its ends.
    pub(crate) fn push_within<DB: Dialect>(
        &self,
        query: &mut QueryBuilder<DB>,
        scope: &Scope<'_>,
        range: &Range<i64>,
        push_rest: impl Fn(&mut QueryBuilder<DB>, Range<i64>),
    ) {
        let SpanCover { days, remainders } = cover(range);
        query.push("CAST(0 AS BIGINT)");
        if !days.is_empty() {
            query.push(" + ");
            self.push_sum(query, scope, scope.day(), days);
        }
        for remainder in remainders {
            query.push(" + ");
            push_rest(query, remainder);
        }
    }
}

/// Appends the condition that a column has one of some values, if there are any.
fn push_one_of<'v, DB: Dialect>(
    query: &mut QueryBuilder<DB>,
    column: &str,
    values: impl Iterator<Item = &'v str>,
) {
    let mut values = values.peekable();
    let Some(first) = values.next() else {
        return;
    };
    let is_only = values.peek().is_none();
    query.push(" AND ").push(column);
    query.push(if is_only { " = " } else { " IN (" });
    DB::bind(query, first.into());
    for value in values {
        query.push_value(", ", value);
    }
    query.push(if is_only { "" } else { ")" });
}

/// Appends the condition on scope, span and start. The span is a literal, because
/// a partial index is chosen by its value.
fn push_spans<DB: Dialect>(
    query: &mut QueryBuilder<DB>,
    scope: &str,
    span: i64,
    starts: Range<i64>,
) {
    query.push_value(" AND scope = ", scope);
    query.push(" AND span = ").push(span).push(" AND start >= ");
    DB::bind(query, starts.start.into());
    query.push_value(" AND start < ", starts.end);
}

/// Converts a count of the database.
pub(crate) fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

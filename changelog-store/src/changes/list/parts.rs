//! What a list is read from: the filter determines the index.

use std::ops::Range;

use changelog_core::{ChangeFilter, Environment, HostId, RiskLevel, ServiceId, Status, Timestamp};
use chrono::Utc;
use sqlx::QueryBuilder;

use crate::engine::{PushValue, Value};
use crate::index::search::{self, ChangeMatcher, SearchDialect};
use crate::{Database, StoreError, Tenant};

/// What changes are read from, in the order of lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The changes themselves, by their indexes of risk and status, or, on PostgreSQL, of
    /// environment and risk.
    Changes {
        risk_level: Option<RiskLevel>,
        status: Option<Status>,
        environment: Option<Environment>,
    },
    /// The changes whose first service this is.
    Service(ServiceId),
    /// The changes that have this service after the first.
    FurtherService(ServiceId),
    /// The changes of this host.
    Host(HostId),
    /// The changes of one tag.
    Tag(String),
    /// The search index, with this query.
    Search(String),
}

/// A part of a list: the changes of a source in a range of effective times, in
/// milliseconds since 1970. No change is in two parts of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) source: Source,
    pub(super) time: Range<i64>,
    /// Whether these are the changes in progress that were started before the list's
    /// range of times.
    pub(super) is_running: bool,
}

impl Source {
    /// Returns the column of the sort key.
    pub(super) fn sort_key<DB: SearchDialect>(&self) -> &'static str {
        match self {
            Self::Search(_) => DB::SORT_KEY,
            _ => "sort_key",
        }
    }

    /// Writes FROM and WHERE.
    pub(super) fn push<DB: SearchDialect>(&self, query: &mut QueryBuilder<DB>, tenant: Tenant) {
        let table = match self {
            Self::Search(terms) => return DB::push_matches(query, tenant, terms),
            Self::Changes { .. } | Self::Service(_) | Self::Host(_) => "changes",
            Self::FurtherService(_) => "change_services",
            Self::Tag(_) => "change_tags",
        };
        query
            .push(" FROM ")
            .push(table)
            .push(" WHERE organization_id = ");
        DB::bind(query, tenant.uuid().into());
        let mut push = |column: &str, value: Value<'_>| {
            query.push(" AND ").push(column).push_value(" = ", value);
        };
        match self {
            Self::Changes {
                risk_level,
                status,
                environment,
            } => {
                if let Some(environment) = environment {
                    push("environment", environment.as_str().into());
                }
                if let Some(risk_level) = risk_level {
                    push("risk_level", risk_level.as_str().into());
                }
                if let Some(status) = status {
                    push("status", status.as_str().into());
                }
            }
            Self::Service(id) | Self::FurtherService(id) => push("service_id", id.0.into()),
            Self::Host(id) => push("host_id", id.0.into()),
            Self::Tag(tag) => push("tag", tag.as_str().into()),
            Self::Search(_) => {}
        }
    }
}

/// Returns the range of effective times of a filter, in milliseconds since 1970.
pub(in crate::changes) fn time_of(filter: &ChangeFilter) -> Range<i64> {
    filter.since.map_or(0, Timestamp::millis)..filter.until.map_or(i64::MAX, Timestamp::millis)
}

/// Returns the times before a range; none if the range is empty.
fn earlier_than(time: &Range<i64>) -> Range<i64> {
    if time.is_empty() { 0..0 } else { 0..time.start }
}

/// Returns the parts that a list consists of.
///
/// What is in progress happens now: if the range of times begins before now and does not
/// end before now, changes in progress that were started before it are a further part.
pub(super) async fn of(
    database: &Database,
    tenant: Tenant,
    filter: &ChangeFilter,
    matcher: ChangeMatcher,
) -> Result<Vec<Part>, StoreError> {
    let time = time_of(filter);
    let is_running_included = filter.since.is_some()
        && time.contains(&Utc::now().timestamp_millis())
        && (filter.statuses.is_empty() || filter.statuses.contains(&Status::InProgress));
    let earlier = earlier_than(&time);
    let has_environments = database.indexes_environments();
    let mut parts: Vec<Part> = match indexed(filter, &matcher, has_environments) {
        Some(sources) => {
            let part = |source| Part {
                source,
                time: time.clone(),
                is_running: false,
            };
            sources.into_iter().map(part).collect()
        }
        None => vec![Part {
            source: Source::Search(search::match_query(database, tenant, &matcher).await?),
            time,
            is_running: false,
        }],
    };
    if is_running_included && !earlier.is_empty() {
        let running = ChangeFilter {
            statuses: vec![Status::InProgress],
            ..filter.clone()
        };
        let matcher = ChangeMatcher::new(&running);
        let sources = match indexed(&running, &matcher, has_environments) {
            Some(sources) => sources,
            None => vec![Source::Search(
                search::match_query(database, tenant, &matcher).await?,
            )],
        };
        let part = |source| Part {
            source,
            time: earlier.clone(),
            is_running: true,
        };
        parts.extend(sources.into_iter().map(part));
    }
    Ok(parts)
}

/// Returns the sources whose indexes have exactly the changes of a filter, each change
/// once; `None` if only the search index has them.
fn indexed(
    filter: &ChangeFilter,
    matcher: &ChangeMatcher,
    has_environments: bool,
) -> Option<Vec<Source>> {
    if !matcher.is_without_words() || filter.created_by.is_some() || filter.has_origin() {
        return None;
    }
    let by_environment = !filter.environments.is_empty();
    if by_environment && (!has_environments || !filter.statuses.is_empty()) {
        return None;
    }
    let has_kinds = by_environment || !filter.risk_levels.is_empty() || !filter.statuses.is_empty();
    let references = usize::from(filter.service_id.is_some())
        + usize::from(filter.host_id.is_some())
        + filter.tags.len();
    if references > 1 || (references == 1 && has_kinds) {
        return None;
    }
    if let Some(id) = filter.service_id {
        return Some(vec![Source::Service(id), Source::FurtherService(id)]);
    }
    if let Some(id) = filter.host_id {
        return Some(vec![Source::Host(id)]);
    }
    if let Some(tag) = filter.tags.first() {
        return Some(vec![Source::Tag(tag.clone())]);
    }
    let environments = alternatives(&filter.environments);
    // Their index has an order for each risk.
    let risk_levels = match filter.risk_levels.as_slice() {
        [] if by_environment => alternatives(RiskLevel::ALL),
        risk_levels => alternatives(risk_levels),
    };
    let statuses = alternatives(&filter.statuses);
    let mut sources = Vec::new();
    for environment in &environments {
        for risk_level in &risk_levels {
            let sources_of = statuses.iter().map(|status| Source::Changes {
                risk_level: risk_level.clone(),
                status: status.clone(),
                environment: environment.clone(),
            });
            sources.extend(sources_of);
        }
    }
    Some(sources)
}

/// Returns each of some values, or `None` for any value if there are none.
fn alternatives<T: Clone>(values: &[T]) -> Vec<Option<T>> {
    match values {
        [] => vec![None],
        values => values.iter().cloned().map(Some).collect(),
    }
}

//! The changes that are ranked around a moment, and those on a timeline, read from their columns: documents
//! may be large, and only a few of them are returned.

use std::ops::Range;

use changelog_core::change::BY_HAND;
use changelog_core::change::around::Candidate;
use changelog_core::{
    ChangeFilter, Environment, HostId, HostRef, Outcome, RiskLevel, ServiceId, ServiceRef, Status,
    Timestamp,
};
use sqlx::types::{Text, Uuid};
use sqlx::{FromRow, QueryBuilder};

use super::{SERVICE_AND_HOST, broken};
use crate::engine::{Planning, PushValue, Value, push_limit, push_merged, read};
use crate::index::search::{self, ChangeMatcher, SearchDialect};
use crate::index::sort_key;
use crate::{Database, HAPPENED, StoreError, Tenant};

/// Which changes are candidates.
#[derive(Clone, Debug)]
pub enum CandidateSource {
    /// All of the organization.
    All,
    /// Those of these services, each with a limit on the changes of which it is the
    /// first service, and on those of which it is another one.
    Services(Vec<(ServiceId, u64)>),
    /// Those on this host.
    Host(HostId),
    /// Those in this environment.
    Environment(Environment),
    /// Those in progress.
    Running,
    /// Those that were undone after this time.
    UndoneAfter(Timestamp),
    /// Those whose titles have any of these words, or one that begins with it. The words
    /// are folded.
    Words(Vec<String>),
}

/// The newest changes of a source in a time range.
#[derive(Clone, Debug)]
pub struct NewestOf {
    /// Which changes.
    pub source: CandidateSource,
    /// The time range, in milliseconds since 1970.
    pub millis: Range<i64>,
    /// Whether planned changes are included.
    pub planned: bool,
    /// The limit on changes; services have their own.
    pub limit: u64,
}

#[derive(FromRow)]
struct CandidateRow {
    id: Uuid,
    sort_key: i64,
    title: String,
    risk_level: Text<RiskLevel>,
    status: Text<Status>,
    environment: Option<Text<Environment>>,
    ended_at: Option<i64>,
    outcome: Option<Text<Outcome>>,
    undone_at: Option<i64>,
    more_service_ids: Option<String>,
    agent: Option<String>,
    service: Option<String>,
    host: Option<String>,
    /// Its sort key if it has the tag [`BY_HAND`].
    by_hand: Option<i64>,
}

impl Database {
    /// Reads the newest changes of a source in a time range.
    pub async fn candidates(
        &self,
        tenant: Tenant,
        newest: NewestOf,
    ) -> Result<Vec<Candidate>, StoreError> {
        let mut filter = ChangeFilter::default();
        if !newest.planned {
            filter.statuses = HAPPENED.to_vec();
        }
        let search = match &newest.source {
            CandidateSource::Words(words) => {
                let matcher = ChangeMatcher::new(&filter);
                Some(search::match_any(self, tenant, words, &matcher).await?)
            }
            CandidateSource::Environment(environment) if !self.indexes_environments() => {
                filter.environments = vec![environment.clone()];
                let matcher = ChangeMatcher::new(&filter);
                Some(search::match_query(self, tenant, &matcher).await?)
            }
            _ => None,
        };
        // Which index serves a search better depends on its words.
        let planning = match &search {
            Some(_) => Planning::ForValues,
            None => Planning::Automatic,
        };
        let lease = self.reader_with(tenant, planning).await?;
        let rows: Vec<CandidateRow> = read!(lease, |db| async {
            let mut query = select(tenant, &newest, search.as_deref());
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let candidates = rows.into_iter().map(CandidateRow::into_candidate);
        let candidates: Result<Vec<Candidate>, StoreError> = candidates.collect();
        let mut candidates = candidates?;
        candidates.retain(|change| newest.planned || change.status != Status::Planned);
        Ok(candidates)
    }
}

impl CandidateRow {
    fn into_candidate(self) -> Result<Candidate, StoreError> {
        let service: Option<ServiceRef> = parse(self.service)?;
        let host_ref: Option<HostRef> = parse(self.host)?;
        Ok(Candidate {
            id: self.id.into(),
            title: self.title,
            started_at: Timestamp::from_millis(sort_key::millis(self.sort_key)),
            ended_at: self.ended_at.map(Timestamp::from_millis),
            outcome: self.outcome.map(|outcome| outcome.0),
            undone_at: self.undone_at.map(Timestamp::from_millis),
            risk_level: self.risk_level.0,
            status: self.status.0,
            environment: self.environment.map(|environment| environment.0),
            service,
            more_services: parse_ids(self.more_service_ids.as_deref()),
            host_ref,
            agent: self.agent,
            by_hand: self.by_hand.is_some(),
        })
    }
}

/// Returns the ids in the column `more_service_ids`.
pub(crate) fn parse_ids(ids: Option<&str>) -> Vec<ServiceId> {
    let ids = ids.unwrap_or_default().split(',');
    ids.filter_map(|id| Uuid::try_parse(id).ok())
        .map(ServiceId::from)
        .collect()
}

fn parse<T: serde::de::DeserializeOwned>(json: Option<String>) -> Result<Option<T>, StoreError> {
    json.map(|json| serde_json::from_str(&json))
        .transpose()
        .map_err(|error| broken(&error))
}

fn select<DB: SearchDialect>(
    tenant: Tenant,
    newest: &NewestOf,
    search: Option<&str>,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(
        "SELECT c.id, c.sort_key, c.title, c.risk_level, c.status, c.environment, c.ended_at, \
         c.outcome, c.undone_at, c.more_service_ids, c.agent, s.reference AS service, h.reference AS host, (SELECT t.sort_key \
         FROM change_tags t WHERE t.sort_key = c.sort_key",
    );
    // Not EXISTS, for which PostgreSQL might read all changes with the tag.
    query.push_value(" AND t.tag = ", BY_HAND);
    query.push_value(" AND t.organization_id = ", tenant.uuid());
    query.push(") AS by_hand FROM (");
    push_sort_keys(&mut query, tenant, newest, search);
    // A cross join keeps SQLite from reading all changes of the organization first.
    query.push(") AS newest CROSS JOIN changes c");
    query.push(SERVICE_AND_HOST);
    query.push(" WHERE c.sort_key = newest.sort_key AND c.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query
}

/// Appends the select of the sort keys.
fn push_sort_keys<DB: SearchDialect>(
    query: &mut QueryBuilder<DB>,
    tenant: Tenant,
    newest: &NewestOf,
    search: Option<&str>,
) {
    if let Some(search) = search {
        query
            .push("SELECT ")
            .push(DB::SORT_KEY)
            .push(" AS sort_key");
        DB::push_matches(query, tenant, search);
        push_end(query, newest, DB::SORT_KEY, newest.limit);
        return;
    }
    let by = match &newest.source {
        CandidateSource::Services(services) => {
            push_services(query, tenant, newest, services);
            return;
        }
        CandidateSource::All if !newest.planned => {
            push_not_planned(query, tenant, newest);
            return;
        }
        CandidateSource::Environment(environment) => {
            push_of_environment(query, tenant, newest, environment);
            return;
        }
        CandidateSource::Host(id) => Some((" AND host_id = ", Value::from(id.0))),
        CandidateSource::Running => {
            let status = Status::InProgress.as_str();
            Some((" AND status = ", status.into()))
        }
        CandidateSource::UndoneAfter(at) => Some((" AND undone_at > ", at.millis().into())),
        CandidateSource::All | CandidateSource::Words(_) => None,
    };
    query.push("SELECT sort_key FROM changes WHERE organization_id = ");
    DB::bind(query, tenant.uuid().into());
    if let Some((condition, value)) = by {
        query.push_value(condition, value);
    }
    let may_be_planned = !matches!(
        newest.source,
        CandidateSource::UndoneAfter(_) | CandidateSource::Running
    );
    if may_be_planned && !newest.planned {
        query.push(" AND status <> 'planned'");
    }
    push_end(query, newest, "sort_key", newest.limit);
}

/// Appends the select of the newest changes that are not planned: an organization may have
/// many planned ones, which the index by status leaves out.
fn push_not_planned<DB: SearchDialect>(
    query: &mut QueryBuilder<DB>,
    tenant: Tenant,
    newest: &NewestOf,
) {
    let statuses = Status::ALL
        .iter()
        .filter(|status| **status != Status::Planned);
    push_parts(query, tenant, newest, statuses, |query, status| {
        query.push_value(" AND status = ", status.as_str());
    });
}

/// Appends the select of the newest changes of an environment, whose index has an order for each
/// risk.
fn push_of_environment<DB: SearchDialect>(
    query: &mut QueryBuilder<DB>,
    tenant: Tenant,
    newest: &NewestOf,
    environment: &Environment,
) {
    push_parts(
        query,
        tenant,
        newest,
        RiskLevel::ALL,
        |query, risk_level| {
            query.push_value(" AND environment = ", environment.as_str());
            query.push_value(" AND risk_level = ", risk_level.as_str());
            if !newest.planned {
                query.push(" AND status <> 'planned'");
            }
        },
    );
}

/// Appends the select of the newest changes of some parts, each of which has an index in the order
/// of lists.
fn push_parts<DB: SearchDialect, T>(
    query: &mut QueryBuilder<DB>,
    tenant: Tenant,
    newest: &NewestOf,
    parts: impl IntoIterator<Item = T>,
    push_condition: impl Fn(&mut QueryBuilder<DB>, T),
) {
    let push = |query: &mut QueryBuilder<DB>, part: T| {
        query.push("SELECT sort_key FROM changes WHERE organization_id = ");
        DB::bind(query, tenant.uuid().into());
        push_condition(query, part);
        let sort_keys = sort_key::of_millis(newest.millis.clone());
        sort_key::push_range(query, "sort_key", sort_keys);
    };
    let columns = ("sort_key", "sort_key");
    push_merged(query, columns, parts, push, (newest.limit, 0));
}

/// The condition that the change of a row of `change_services` is not planned: planned
/// changes would use up the limit.
const OF_CHANGE_IS_NOT_PLANNED: &str = " AND EXISTS (SELECT 1 FROM changes \
    WHERE changes.organization_id = change_services.organization_id \
    AND changes.sort_key = change_services.sort_key AND changes.status <> 'planned')";

/// Appends the selects of the changes of each service, which together may have a change
/// more than once.
fn push_services<DB: SearchDialect>(
    query: &mut QueryBuilder<DB>,
    tenant: Tenant,
    newest: &NewestOf,
    services: &[(ServiceId, u64)],
) {
    let mut number = 0;
    for (id, limit) in services {
        for (table, condition) in [
            ("changes", " AND status <> 'planned'"),
            ("change_services", OF_CHANGE_IS_NOT_PLANNED),
        ] {
            query.push(if number > 0 { " UNION ALL " } else { "" });
            query
                .push("SELECT * FROM (SELECT sort_key FROM ")
                .push(table);
            query.push_value(" WHERE organization_id = ", tenant.uuid());
            query.push_value(" AND service_id = ", id.0);
            if !newest.planned {
                query.push(condition);
            }
            push_end(query, newest, "sort_key", *limit);
            query.push(") AS of_service_").push(number);
            number += 1;
        }
    }
}

/// Appends the condition on the time, the order and the limit.
fn push_end<DB: SearchDialect>(
    query: &mut QueryBuilder<DB>,
    newest: &NewestOf,
    column: &str,
    limit: u64,
) {
    sort_key::push_range(query, column, sort_key::of_millis(newest.millis.clone()));
    query.push(" ORDER BY ").push(column).push(" DESC");
    push_limit(query, limit, 0);
}

#[cfg(test)]
mod tests {
    use sqlx_sqlite::Sqlite;

    use super::*;
    use crate::engine::explain;

    #[tokio::test]
    async fn candidates_are_found_by_indexes() {
        let tenant = Tenant(Uuid::from_u128(1).into());
        let service = ServiceId(Uuid::from_u128(2));
        let changes = |index: &str| format!("SEARCH changes USING {index}");
        let range = "AND rowid>? AND rowid<?)";
        for (source, search, expected) in [
            (
                CandidateSource::All,
                None,
                vec![
                    "MERGE (UNION ALL)".to_owned(),
                    changes(&format!(
                        "COVERING INDEX changes_by_status (organization_id=? AND status=? {range}"
                    )),
                ],
            ),
            (
                CandidateSource::Host(HostId(Uuid::from_u128(3))),
                None,
                vec![changes(&format!(
                    "INDEX changes_by_host (organization_id=? AND host_id=? {range}"
                ))],
            ),
            (
                CandidateSource::Running,
                None,
                vec![changes(&format!(
                    "COVERING INDEX changes_by_status (organization_id=? AND status=? {range}"
                ))],
            ),
            (
                CandidateSource::UndoneAfter(Timestamp::EPOCH),
                None,
                vec![changes(
                    "COVERING INDEX changes_undone \
                     (organization_id=? AND sort_key>? AND sort_key<?)",
                )],
            ),
            (
                CandidateSource::Services(vec![(service, 250)]),
                None,
                vec![
                    changes(&format!(
                        "INDEX changes_by_service (organization_id=? AND service_id=? {range}"
                    )),
                    "SEARCH change_services USING PRIMARY KEY \
                     (organization_id=? AND service_id=? AND sort_key>? AND sort_key<?)"
                        .to_owned(),
                ],
            ),
            (
                CandidateSource::Words(vec!["deploy".to_owned()]),
                Some("\"deploy\""),
                vec![],
            ),
        ] {
            let newest = NewestOf {
                source,
                millis: 1_000..2_000,
                planned: false,
                limit: 500,
            };
            let query = select::<Sqlite>(tenant, &newest, search);
            let plan = explain::of(&query.into_string()).await;
            for step in expected {
                assert!(plan.contains(&step), "{step}: {plan:#?}");
            }
            let is_slow =
                |step: &String| step.contains("TEMP B-TREE") || step.starts_with("SCAN changes");
            assert!(!plan.iter().any(is_slow), "{plan:#?}");
        }
    }
}

//! Lists of changes: one statement returns the page, as JSON, and the exact number of
//! matches.
//!
//! A list is read from an index that has exactly its rows in its order. The filter
//! determines the index ([`Source`]): with optional conditions (`$1 IS NULL OR …`) the
//! databases would not use one.

use std::ops::Range;

use changelog_core::{Change, ChangeFilter, HostId, RiskLevel, ServiceId, Status, Timestamp};
use chrono::Utc;
use sqlx::types::Uuid;
use sqlx::{Postgres, QueryBuilder, Sqlite};

use super::{REFERENCES, broken, push_json};
use crate::store::activity::clamped;
use crate::store::engine::{
    BatchLimits, Batcher, Engine, Planning, Results, Script, Value, bounded, end_lease,
    groups_of_equal, on, push_limit,
};
use crate::store::index::counts::{KindFilter, Scope, Start, unsigned};
use crate::store::index::search::{self, AuthorFilter, ChangeMatcher, SearchDialect};
use crate::store::index::sort_key;
use crate::store::{Database, StoreError, Tenant};

/// From this offset on, it is faster to find the start of a page by the stored counts
/// of days, with one more query, than to skip rows.
const MIN_OFFSET_TO_SKIP_DAYS: i64 = 2_000;

/// The limit on pages that are read together.
const MAX_BATCH: usize = 8;

/// A page of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeList {
    /// The changes of the page.
    pub json: ChangesJson,
    /// The number of all changes that match.
    pub count: u64,
}

/// Changes in their detail shape, as JSON objects separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangesJson(pub String);

impl ChangesJson {
    /// Parses the changes.
    pub fn parse(&self) -> Result<Vec<Change>, StoreError> {
        serde_json::from_str(&format!("[{}]", self.0)).map_err(|error| broken(&error))
    }
}

/// A row of the result of [`Page::query`]: the count, and the changes as JSON.
type Row = (i64, Option<String>);

impl ChangeList {
    fn from_row((count, json): Row) -> Self {
        Self {
            json: ChangesJson(json.unwrap_or_default()),
            count: u64::try_from(count).unwrap_or(0),
        }
    }
}

/// What changes are read from, in the order of lists.
#[derive(Clone, Debug)]
enum Source {
    /// The changes themselves, by their indexes of risk and status.
    Changes {
        risk_level: Option<RiskLevel>,
        status: Option<Status>,
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
#[derive(Clone, Debug)]
struct Part {
    source: Source,
    time: Range<i64>,
    /// Whether these are the changes in progress that were started before the list's
    /// range of times.
    is_running: bool,
}

/// Reads lists of changes.
#[derive(Clone, Debug)]
pub(in crate::store) struct Lists {
    database: Database,
    pages: Batcher<Tenant, Page, ChangeList>,
}

impl Lists {
    /// Creates a reader of lists; must be called within a tokio runtime.
    pub(in crate::store) fn new(database: &Database) -> Self {
        let work = database.clone();
        let limits = BatchLimits {
            batches: usize::MAX,
            batches_per_lane: database.connections.readers.lists.share(),
            weight: MAX_BATCH,
            mixes_lanes: false,
        };
        let weigh = match database.connections.writes {
            Engine::Sqlite(_) => Page::weight::<Sqlite>,
            Engine::Postgres(_) => Page::weight::<Postgres>,
        };
        Self {
            database: database.clone(),
            pages: Batcher::new(limits, weigh, move |pages| read_pages(work.clone(), pages)),
        }
    }

    /// Reads a page of the matching changes, newest first, and counts all matches if
    /// `counted`.
    pub(in crate::store) async fn page(
        &self,
        tenant: Tenant,
        filter: &ChangeFilter,
        counted: bool,
    ) -> Result<ChangeList, StoreError> {
        let matcher = ChangeMatcher::new(filter);
        if let Some(digits) = &matcher.id_prefix {
            let named = self.database.changes_named(tenant, digits).await?;
            if !named.is_empty() {
                return self
                    .database
                    .select_among(tenant, filter, &matcher, named)
                    .await;
            }
        }
        let parts = parts(&self.database, tenant, filter, matcher).await?;
        let authors = match filter.created_by.as_deref().map(AuthorFilter::new) {
            Some(author) => self.database.author_ids(tenant, &author).await?,
            None => Vec::new(),
        };
        let mut page = Page::new(tenant, filter, parts, authors, counted);
        if let Some(cursor) = filter.before {
            page.start.before = self.database.sort_key_of(tenant, cursor).await?;
        }
        if page.is_far() {
            if filter.since.is_some() {
                // Changes in progress come after those that the days count.
                let count = self.database.count(&page).await?;
                if clamped(count) <= page.start.offset {
                    return Ok(ChangeList {
                        json: ChangesJson::default(),
                        count,
                    });
                }
            }
            let since = time_of(filter).start;
            page.start = self
                .database
                .start_of_page(page.kind(), page.start, since)
                .await?;
        }
        self.pages.read(tenant, page).await
    }
}

impl Database {
    /// Counts all changes of the list of a page.
    async fn count(&self, page: &Page) -> Result<u64, StoreError> {
        let (count,): (i64,) = on!(&mut self.reader(page.tenant).await?, |db| async {
            let mut query = QueryBuilder::new("SELECT ");
            page.push_count(&mut query);
            query.build_query_as().fetch_one(&mut **db).await
        })?;
        Ok(unsigned(count))
    }
}

/// Returns the range of effective times of a filter, in milliseconds since 1970.
pub(super) fn time_of(filter: &ChangeFilter) -> Range<i64> {
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
async fn parts(
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
    let mut parts: Vec<Part> = match indexed(filter, &matcher) {
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
        let sources = match indexed(&running, &matcher) {
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
fn indexed(filter: &ChangeFilter, matcher: &ChangeMatcher) -> Option<Vec<Source>> {
    if !matcher.is_without_words() || filter.created_by.is_some() {
        return None;
    }
    let has_kinds = !filter.risk_levels.is_empty() || !filter.statuses.is_empty();
    let references = usize::from(filter.service_id.is_some())
        + usize::from(filter.host_id.is_some())
        + filter.tags.len();
    if !filter.environments.is_empty() || references > 1 || (references == 1 && has_kinds) {
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
    let risk_levels = alternatives(&filter.risk_levels);
    let statuses = alternatives(&filter.statuses);
    let each = risk_levels.iter().flat_map(|risk_level| {
        statuses.iter().map(|status| Source::Changes {
            risk_level: risk_level.clone(),
            status: status.clone(),
        })
    });
    Some(each.collect())
}

/// Returns each of some values, or `None` for any value if there are none.
fn alternatives<T: Clone>(values: &[T]) -> Vec<Option<T>> {
    match values {
        [] => vec![None],
        values => values.iter().cloned().map(Some).collect(),
    }
}

/// Reads pages of one organization. Pages whose statements differ only in their
/// values are read together: on SQLite a list takes the thread of its connection
/// 55 µs, and switching to that thread and back takes as long, as does a round trip to
/// PostgreSQL.
async fn read_pages(database: Database, pages: Vec<Page>) -> Results<ChangeList> {
    let texts = pages.iter().map(|page| match &database.connections.writes {
        Engine::Sqlite(_) => page.query::<Sqlite>().into_string(),
        Engine::Postgres(_) => page.query::<Postgres>().into_string(),
    });
    let mut results = vec![Err(StoreError::NotFound); pages.len()];
    for numbers in groups_of_equal(texts) {
        let alike: Vec<&Page> = numbers.iter().map(|number| &pages[*number]).collect();
        let rows = read_alike(&database, &alike).await;
        for (row, number) in numbers.into_iter().enumerate() {
            results[number] = match &rows {
                Ok(rows) => rows.get(row).cloned().ok_or(StoreError::NotFound),
                Err(error) => Err(error.clone()),
            };
        }
    }
    Ok(results)
}

/// Reads pages of one organization whose statements differ only in their values.
async fn read_alike(database: &Database, pages: &[&Page]) -> Result<Vec<ChangeList>, StoreError> {
    let Some(first) = pages.first() else {
        return Ok(Vec::new());
    };
    // Whether an index of words or the order of the list serves better depends on
    // the words; a statement that is planned without knowing them reads a million
    // rows for a rare one.
    let planning = if first.searches().next().is_some() {
        Planning::ForValues
    } else {
        Planning::Automatic
    };
    let mut lease = database.reader_with(first.tenant, planning).await?;
    let rows: Vec<Row> = match &mut lease {
        Engine::Sqlite(connection) => {
            let mut script = Script::new();
            for page in pages {
                page.push(script.statement(""));
            }
            script.fetch_all(connection).await?
        }
        Engine::Postgres(connection) => {
            let mut query = union_of(pages);
            bounded(query.build_query_as().fetch_all(&mut **connection)).await?
        }
    };
    end_lease(lease);
    Ok(rows.into_iter().map(ChangeList::from_row).collect())
}

/// Writes the statement of several pages on PostgreSQL, with a row for each, in
/// their order.
fn union_of(pages: &[&Page]) -> QueryBuilder<Postgres> {
    let mut query = QueryBuilder::default();
    if let [page] = pages {
        page.push(&mut query);
        return query;
    }
    query.push("SELECT count, json FROM (");
    for (number, page) in pages.iter().enumerate() {
        query.push(if number > 0 { " UNION ALL " } else { "" });
        query
            .push("SELECT ")
            .push(number)
            .push(" AS number, page.* FROM (");
        page.push(&mut query);
        query.push(") AS page (count, json)");
    }
    query.push(") AS pages ORDER BY number");
    query
}

/// A page to be read.
#[derive(Debug)]
pub(in crate::store) struct Page {
    tenant: Tenant,
    filter: ChangeFilter,
    parts: Vec<Part>,
    /// The API keys and people that the filter names.
    authors: Vec<Uuid>,
    start: Start,
    /// Whether all matches are counted too.
    counted: bool,
}

impl Page {
    fn new(
        tenant: Tenant,
        filter: &ChangeFilter,
        parts: Vec<Part>,
        authors: Vec<Uuid>,
        counted: bool,
    ) -> Self {
        let offset = (filter.page - 1).saturating_mul(filter.per_page);
        Self {
            tenant,
            filter: filter.clone(),
            parts,
            authors,
            start: Start {
                before: i64::MAX,
                offset: clamped(offset),
            },
            counted,
        }
    }

    /// Returns the queries of the search index.
    fn searches(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match &part.source {
            Source::Search(terms) => Some(terms.as_str()),
            _ => None,
        })
    }

    /// Returns its share of [`MAX_BATCH`]: all of it if reading the page may take much
    /// of the time limit of a statement.
    fn weight<DB: SearchDialect>(&self) -> usize {
        if self.searches().any(DB::may_be_slow) {
            MAX_BATCH
        } else {
            1
        }
    }

    /// Whether the start of the page is found by the stored counts of days.
    fn is_far(&self) -> bool {
        self.start.offset >= MIN_OFFSET_TO_SKIP_DAYS
            && self.filter.before.is_none()
            && self.filter.until.is_none()
            && self.has_kinds_only()
    }

    fn has_time(&self) -> bool {
        self.filter.since.is_some() || self.filter.until.is_some()
    }

    /// Whether the list is filtered by nothing but risk, status, environment and time.
    fn has_kinds_only(&self) -> bool {
        let filter = &self.filter;
        filter.service_id.is_none()
            && filter.host_id.is_none()
            && filter.tags.is_empty()
            && filter.created_by.is_none()
            && !self.has_words()
    }

    fn has_words(&self) -> bool {
        !self.filter.words().is_empty() || !self.filter.text_words().is_empty()
    }

    fn kind(&self) -> KindFilter<'_> {
        KindFilter {
            tenant: self.tenant,
            risk_levels: &self.filter.risk_levels,
            statuses: &self.filter.statuses,
            environments: &self.filter.environments,
        }
    }

    /// Returns the scopes whose stored counts add up to the number of matches; `None` for
    /// searches and combinations of service, host, tags and author.
    fn counted_scopes(&self) -> Option<Vec<Scope<'_>>> {
        let filter = &self.filter;
        if self.has_words() {
            return None;
        }
        let author = filter.created_by.is_some();
        match (
            filter.service_id,
            filter.host_id,
            filter.tags.as_slice(),
            author,
        ) {
            (None, None, [], false) => Some(vec![Scope::Organization]),
            (Some(service), None, [], false) => Some(vec![Scope::Service(service)]),
            (None, Some(host), [], false) => Some(vec![Scope::Host(host)]),
            (None, None, [tag], false) => Some(vec![Scope::Tag(tag)]),
            (None, None, [], true) => {
                Some(self.authors.iter().map(|id| Scope::Author(*id)).collect())
            }
            _ => None,
        }
    }

    /// Returns the statement that selects the count and the changes of the page.
    fn query<DB: SearchDialect>(&self) -> QueryBuilder<DB> {
        let mut query = QueryBuilder::default();
        self.push(&mut query);
        query
    }

    fn push<DB: SearchDialect>(&self, query: &mut QueryBuilder<DB>) {
        query.push("SELECT ");
        if self.counted {
            self.push_count(query);
        } else {
            query.push("CAST(0 AS BIGINT)");
        }
        // LEFT, so that SQLite begins with the page.
        query.push(", (SELECT string_agg(json, ',') FROM (SELECT ");
        push_json(query, self.tenant);
        query.push(" AS json FROM (");
        self.push_sort_keys(query);
        query.push(
            ") AS page LEFT JOIN changes c ON c.sort_key = page.sort_key AND c.organization_id = ",
        );
        DB::bind(query, self.tenant.uuid().into());
        query.push(REFERENCES);
        query.push(" ORDER BY page.sort_key DESC) AS changes_of_page)");
    }

    /// Writes the number of all matches.
    fn push_count<DB: SearchDialect>(&self, query: &mut QueryBuilder<DB>) {
        query.push("CAST(0 AS BIGINT)");
        match self.counted_scopes() {
            Some(scopes) if !self.has_time() => {
                for scope in scopes {
                    query.push(" + ");
                    self.kind().push_total(query, &scope);
                }
            }
            Some(scopes) if scopes.iter().all(Scope::has_days) => {
                self.push_counts_within(query, &scopes, false);
                if self.parts.iter().any(|part| part.is_running) {
                    self.push_counts_within(query, &scopes, true);
                }
            }
            _ => {
                for part in &self.parts {
                    self.push_count_of(query, part, part.time.clone());
                }
            }
        }
    }

    /// Writes the number of matches of some scopes in the list's range of times, or the
    /// number of those in progress that were started before.
    fn push_counts_within<DB: SearchDialect>(
        &self,
        query: &mut QueryBuilder<DB>,
        scopes: &[Scope<'_>],
        running: bool,
    ) {
        let time = time_of(&self.filter);
        let (kind, time) = if running {
            let running = KindFilter {
                statuses: &[Status::InProgress],
                ..self.kind()
            };
            (running, earlier_than(&time))
        } else {
            (self.kind(), time)
        };
        for (number, scope) in scopes.iter().enumerate() {
            query.push(" + ");
            kind.push_within(query, scope, &time, |query, rest| {
                // Of less than a day: the planner of PostgreSQL would rather read all
                // changes of an environment from the search index.
                if matches!(scope, Scope::Organization) {
                    query.push("(SELECT count(*) FROM changes WHERE ");
                    kind.push(query);
                    sort_key::push_range(query, "sort_key", sort_key::of_millis(rest));
                    query.push(")");
                    return;
                }
                query.push("CAST(0 AS BIGINT)");
                // The parts have the changes of all scopes.
                if number == 0 {
                    let parts = self.parts.iter().filter(|part| part.is_running == running);
                    for part in parts {
                        self.push_count_of(query, part, rest.clone());
                    }
                }
            });
        }
    }

    /// Writes the number of changes of a part in a range of times.
    fn push_count_of<DB: SearchDialect>(
        &self,
        query: &mut QueryBuilder<DB>,
        part: &Part,
        time: Range<i64>,
    ) {
        query.push(" + (SELECT count(*)");
        part.source.push(query, self.tenant);
        sort_key::push_range(
            query,
            part.source.sort_key::<DB>(),
            sort_key::of_millis(time),
        );
        query.push(")");
    }

    /// Writes the statement that selects the sort keys of the page. Several parts are
    /// merged: SQLite reads each only as far as the page needs; PostgreSQL needs a limit
    /// for each.
    fn push_sort_keys<DB: SearchDialect>(&self, query: &mut QueryBuilder<DB>) {
        if let [part] = self.parts.as_slice() {
            query.push("SELECT ").push(part.source.sort_key::<DB>());
            query.push(" AS sort_key");
            self.push_part(query, part, self.start.before);
            query.push(" ORDER BY ").push(part.source.sort_key::<DB>());
        } else {
            let first = self
                .start
                .offset
                .saturating_add(clamped(self.filter.per_page));
            for (number, part) in self.parts.iter().enumerate() {
                query.push(if number == 0 { "" } else { " UNION ALL " });
                query.push("SELECT sort_key FROM (SELECT ");
                query
                    .push(part.source.sort_key::<DB>())
                    .push(" AS sort_key");
                self.push_part(query, part, self.start.before);
                if !DB::MERGES_LAZILY {
                    query.push(" ORDER BY ").push(part.source.sort_key::<DB>());
                    query.push(" DESC LIMIT ");
                    DB::bind(query, first.into());
                }
                query.push(") AS part").push(number);
            }
            query.push(" ORDER BY sort_key");
        }
        query.push(" DESC");
        push_limit(query, self.filter.per_page, self.start.offset);
    }

    /// Writes FROM and WHERE of a part, for sort keys below `before`.
    fn push_part<DB: SearchDialect>(&self, query: &mut QueryBuilder<DB>, part: &Part, before: i64) {
        part.source.push(query, self.tenant);
        let mut sort_keys = sort_key::of_millis(part.time.clone());
        sort_keys.end = sort_keys.end.min(before);
        sort_key::push_range(query, part.source.sort_key::<DB>(), sort_keys);
    }
}

impl Source {
    /// Returns the column of the sort key.
    fn sort_key<DB: SearchDialect>(&self) -> &'static str {
        match self {
            Self::Search(_) => DB::SORT_KEY,
            _ => "sort_key",
        }
    }

    /// Writes FROM and WHERE.
    fn push<DB: SearchDialect>(&self, query: &mut QueryBuilder<DB>, tenant: Tenant) {
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
            query.push(" AND ").push(column).push(" = ");
            DB::bind(query, value);
        };
        match self {
            Self::Changes { risk_level, status } => {
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

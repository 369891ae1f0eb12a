//! Lists of changes: one statement returns the page, as JSON, and the exact number of
//! matches.
//!
//! A list is read from an index that has exactly its rows in its order. The filter
//! determines the index ([`Source`]): with optional conditions (`$1 IS NULL OR …`) the
//! databases would not use one.

use std::ops::Range;

use changelog_core::{Change, ChangeFilter, Timestamp};
use sqlx::{Postgres, QueryBuilder, Sqlite};

use super::{JSON, REFERENCES, broken};
use crate::store::activity::clamped;
use crate::store::engine::{
    BatchLimits, Batcher, Dialect, Engine, Planning, Results, Script, bounded, end_lease,
    groups_of_equal, push_limit,
};
use crate::store::index::counts::{RiskStatusFilter, Scope, Start};
use crate::store::index::search::{self, ChangeMatcher, SearchDialect};
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

/// What a list is read from.
#[derive(Debug)]
enum Source {
    /// The changes themselves, by their indexes.
    Changes,
    /// The changes of one tag.
    Tag(String),
    /// The search index, with this query.
    Search(String),
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
        let source = source(&self.database, tenant, filter).await?;
        let mut page = Page::new(tenant, filter, source, counted);
        if let Some(id) = filter.before {
            page.start.before = sort_key::of(id.0).unwrap_or(i64::MAX);
        }
        if page.is_far() {
            page.start = self.database.start_of_page(page.kind(), page.start).await?;
        }
        self.pages.read(tenant, page).await
    }
}

/// Chooses what a list is read from.
async fn source(
    database: &Database,
    tenant: Tenant,
    filter: &ChangeFilter,
) -> Result<Source, StoreError> {
    let matcher = ChangeMatcher::new(filter);
    let references = usize::from(filter.service_id.is_some())
        + usize::from(filter.host_id.is_some())
        + filter.tags.len();
    let kinds = usize::from(filter.risk_level.is_some()) + usize::from(filter.status.is_some());
    // Risk and status share an index; every other filter has its own.
    let indexed = references == 0 || (references == 1 && kinds == 0);
    if matcher.is_without_words() && indexed {
        return Ok(match filter.tags.first() {
            Some(tag) => Source::Tag(tag.clone()),
            None => Source::Changes,
        });
    }
    let terms = search::match_query(database, tenant, &matcher).await?;
    Ok(Source::Search(terms))
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
    let planning = match first.source {
        Source::Search(_) => Planning::ForValues,
        Source::Changes | Source::Tag(_) => Planning::Automatic,
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
    source: Source,
    /// The range of `occurred_at`, in milliseconds since 1970.
    time: Range<i64>,
    start: Start,
    /// Whether all matches are counted too.
    counted: bool,
}

impl Page {
    fn new(tenant: Tenant, filter: &ChangeFilter, source: Source, counted: bool) -> Self {
        let offset = (filter.page - 1).saturating_mul(filter.per_page);
        Self {
            tenant,
            filter: filter.clone(),
            source,
            time: filter.since.map_or(0, Timestamp::millis)
                ..filter.until.map_or(i64::MAX, Timestamp::millis),
            start: Start {
                before: i64::MAX,
                offset: clamped(offset),
            },
            counted,
        }
    }

    /// Returns its share of [`MAX_BATCH`]: all of it if reading the page may take much
    /// of the time limit of a statement.
    fn weight<DB: SearchDialect>(&self) -> usize {
        match &self.source {
            Source::Search(terms) if DB::may_be_slow(terms) => MAX_BATCH,
            _ => 1,
        }
    }

    /// Whether the start of the page is found by the stored counts of days, which are
    /// by risk and status.
    fn is_far(&self) -> bool {
        self.start.offset >= MIN_OFFSET_TO_SKIP_DAYS
            && self.filter.before.is_none()
            && self.filter.until.is_none()
            && self.has_kinds_only()
    }

    /// Whether the list is filtered by nothing but risk, status and time.
    fn has_kinds_only(&self) -> bool {
        matches!(self.source, Source::Changes)
            && self.filter.service_id.is_none()
            && self.filter.host_id.is_none()
    }

    fn kind(&self) -> RiskStatusFilter<'_> {
        RiskStatusFilter {
            tenant: self.tenant,
            risk_level: self.filter.risk_level.as_ref(),
            status: self.filter.status.as_ref(),
        }
    }

    /// Returns the scope whose stored count is the number of matches; `None` for
    /// searches, time ranges and combinations of service, host and tags.
    fn counted_scope(&self) -> Option<Scope<'_>> {
        let filter = &self.filter;
        if !filter.words().is_empty() || filter.since.is_some() || filter.until.is_some() {
            return None;
        }
        match (filter.service_id, filter.host_id, filter.tags.as_slice()) {
            (None, None, []) => Some(Scope::Organization),
            (Some(service), None, []) => Some(Scope::Service(service)),
            (None, Some(host), []) => Some(Scope::Host(host)),
            (None, None, [tag]) => Some(Scope::Tag(tag)),
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
        if !self.counted {
            query.push("CAST(0 AS BIGINT)");
        } else if let Some(scope) = self.counted_scope() {
            self.kind().push_total(query, &scope);
        } else if self.has_kinds_only() {
            self.kind().push_within(query, &self.time);
        } else {
            query.push("(SELECT count(*)");
            self.push_source(query, i64::MAX);
            query.push(")");
        }
        query.push(", (SELECT string_agg(json, ',') FROM (SELECT ");
        query.push(JSON).push(" AS json FROM (SELECT ");
        query.push(self.sort_key::<DB>()).push(" AS sort_key");
        self.push_source(query, self.start.before);
        query.push(" ORDER BY ").push(self.sort_key::<DB>());
        query.push(" DESC");
        push_limit(query, self.filter.per_page, self.start.offset);
        query.push(
            ") AS page JOIN changes c ON c.sort_key = page.sort_key AND c.organization_id = ",
        );
        DB::bind(query, self.tenant.uuid().into());
        query.push(REFERENCES);
        query.push(" ORDER BY page.sort_key DESC) AS changes_of_page)");
    }

    /// Returns the column of the sort key in the source.
    fn sort_key<DB: SearchDialect>(&self) -> &'static str {
        match &self.source {
            Source::Changes | Source::Tag(_) => "sort_key",
            Source::Search(_) => DB::SORT_KEY,
        }
    }

    /// Writes FROM and WHERE of the source, for sort keys below `before`.
    fn push_source<DB: SearchDialect>(&self, query: &mut QueryBuilder<DB>, before: i64) {
        match &self.source {
            Source::Changes => {
                query.push(" FROM changes WHERE ");
                self.push_columns(query);
            }
            Source::Tag(tag) => {
                query.push(" FROM change_tags WHERE organization_id = ");
                DB::bind(query, self.tenant.uuid().into());
                query.push(" AND tag = ");
                DB::bind(query, tag.as_str().into());
            }
            Source::Search(terms) => DB::push_matches(query, self.tenant, terms),
        }
        let mut sort_keys = sort_key::of_millis(self.time.clone());
        sort_keys.end = sort_keys.end.min(before);
        sort_key::push_range(query, self.sort_key::<DB>(), sort_keys);
    }

    /// Writes the conditions on columns of `changes`.
    fn push_columns<DB: Dialect>(&self, query: &mut QueryBuilder<DB>) {
        self.kind().push(query);
        if let Some(service) = self.filter.service_id {
            query.push(" AND service_id = ");
            DB::bind(query, service.0.into());
        }
        if let Some(host) = self.filter.host_id {
            query.push(" AND host_id = ");
            DB::bind(query, host.0.into());
        }
    }
}

//! Lists of changes: one statement returns the page, as JSON, and the exact number of
//! matches.
//!
//! A list is read from an index that has exactly its rows in its order. The filter
//! determines the index ([`Source`]): with optional conditions (`$1 IS NULL OR …`) the
//! databases would not use one.

mod page;
mod parts;

use std::borrow::Cow;

use changelog_core::change::BY_HAND;
use changelog_core::{Change, ChangeFilter, MadeBy};
use sqlx::QueryBuilder;
use sqlx_postgres::Postgres;
use sqlx_sqlite::Sqlite;

use super::broken;
use crate::activity::clamped;
use crate::engine::{
    BatchLimits, Batcher, Engine, Planning, Results, Script, bounded, end_lease, groups_of_equal,
    read,
};
use crate::index::counts::unsigned;
use crate::index::search::{AuthorFilter, ChangeMatcher};
use crate::{Database, StoreError, Tenant};

pub(crate) use page::Page;
pub(super) use parts::time_of;

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

    /// Formats changes.
    pub fn of(changes: &[Change]) -> Self {
        // Keys are strings, and no number is NaN or infinite.
        let changes = changes.iter().map(serde_json::to_string);
        let changes: Vec<String> = changes.map(Result::unwrap_or_default).collect();
        Self(changes.join(","))
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

/// Reads lists of changes.
#[derive(Clone, Debug)]
pub(crate) struct Lists {
    database: Database,
    pages: Batcher<Tenant, Page, ChangeList>,
}

impl Lists {
    /// Creates a reader of lists; must be called within a tokio runtime.
    pub(crate) fn new(database: &Database) -> Self {
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
    pub(crate) async fn page(
        &self,
        tenant: Tenant,
        filter: &ChangeFilter,
        counted: bool,
    ) -> Result<ChangeList, StoreError> {
        let filter = &*by_hand_as_tag(filter);
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
        let mut page = self.planned(tenant, filter, matcher, counted).await?;
        if let Some(cursor) = filter.before {
            page.start.before = self.database.sort_key_of(tenant, cursor).await?;
        }
        if let Some(scope) = page.far_scope() {
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
                .start_of_page(page.kind(), &scope, page.start, since)
                .await?;
        }
        self.pages.read(tenant, page).await
    }

    /// Counts all matches of a filter without `text`, which may name a change by its id.
    pub(crate) async fn count(
        &self,
        tenant: Tenant,
        filter: &ChangeFilter,
    ) -> Result<u64, StoreError> {
        let filter = &*by_hand_as_tag(filter);
        let matcher = ChangeMatcher::new(filter);
        let page = self.planned(tenant, filter, matcher, true).await?;
        self.database.count(&page).await
    }

    /// Returns the page of a filter, with what it is read from.
    async fn planned(
        &self,
        tenant: Tenant,
        filter: &ChangeFilter,
        matcher: ChangeMatcher,
        counted: bool,
    ) -> Result<Page, StoreError> {
        let parts = parts::of(&self.database, tenant, filter, matcher).await?;
        let authors = match filter.created_by.as_deref().map(AuthorFilter::new) {
            Some(author) => self.database.author_ids(tenant, &author).await?,
            None => Vec::new(),
        };
        Ok(Page::new(tenant, filter, parts, authors, counted))
    }
}

/// Returns a filter by what was made by hand as one by the tag, which has an index and stored
/// counts.
fn by_hand_as_tag(filter: &ChangeFilter) -> Cow<'_, ChangeFilter> {
    let mut filter = Cow::Borrowed(filter);
    if filter.made_by == [MadeBy::Hand] {
        let by_tag = filter.to_mut();
        by_tag.made_by.clear();
        by_tag.tags.push(BY_HAND.to_owned());
    }
    filter
}

impl Database {
    /// Counts all changes of the list of a page.
    async fn count(&self, page: &Page) -> Result<u64, StoreError> {
        let (count,): (i64,) = read!(self.reader(page.tenant).await?, |db| async {
            let mut query = QueryBuilder::new("SELECT ");
            page.push_count(&mut query);
            query.build_query_as().fetch_one(&mut **db).await
        })?;
        Ok(unsigned(count))
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
        match rows {
            Ok(rows) => {
                for (row, number) in rows.into_iter().zip(numbers) {
                    results[number] = Ok(row);
                }
            }
            Err(error) => {
                for number in numbers {
                    results[number] = Err(error.clone());
                }
            }
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

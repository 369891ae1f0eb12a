//! A page of a list, and the statement that reads it.

use std::ops::Range;

use changelog_core::{ChangeFilter, Status};
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::MAX_BATCH;
use super::parts::{Part, Source, time_of};
use crate::Tenant;
use crate::activity::clamped;
use crate::changes::{SERVICE_AND_HOST, push_json};
use crate::engine::{push_limit, push_merged};
use crate::index::counts::{KindFilter, Scope, Start};
use crate::index::search::SearchDialect;
use crate::index::sort_key;

/// From this offset on, it is faster to find the start of a page by the stored counts
/// of days, with one more query, than to skip rows.
const MIN_OFFSET_TO_SKIP_DAYS: i64 = 2_000;

/// PostgreSQL: from so many matches on, the newest of them are found soon by reading back
/// from the newest change; fewer are all read from the index of words and sorted, in about
/// the time in which they were counted.
const MIN_MATCHES_TO_READ_BACK: i64 = 10_000;

/// A page to be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(super) tenant: Tenant,
    filter: ChangeFilter,
    parts: Vec<Part>,
    /// The API keys and people that the filter names.
    authors: Vec<Uuid>,
    pub(super) start: Start,
    /// Whether all matches are counted too.
    counted: bool,
}

impl Page {
    pub(super) fn new(
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
    pub(super) fn searches(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match &part.source {
            Source::Search(terms) => Some(terms.as_str()),
            _ => None,
        })
    }

    /// Returns its share of [`MAX_BATCH`]: all of it if reading the page may take much
    /// of the time limit of a statement.
    pub(super) fn weight<DB: SearchDialect>(&self) -> usize {
        if self.searches().any(DB::may_be_slow) {
            MAX_BATCH
        } else {
            1
        }
    }

    /// Returns the scope by whose stored counts of days the start of the page is found, if the
    /// page is far down the list.
    pub(super) fn far_scope(&self) -> Option<Scope<'_>> {
        let is_far = self.start.offset >= MIN_OFFSET_TO_SKIP_DAYS
            && self.filter.before.is_none()
            && self.filter.until.is_none();
        let scopes = self.counted_scopes().filter(|_| is_far)?;
        match scopes.as_slice() {
            [scope] if scope.has_days() => Some(*scope),
            _ => None,
        }
    }

    fn has_time(&self) -> bool {
        self.filter.since.is_some() || self.filter.until.is_some()
    }

    /// Whether the number of matches decides how the page is found. The planner of PostgreSQL
    /// knows how often a word occurs only if it is one of the most frequent, takes a term of
    /// which there are alternatives for more frequent than it is, and multiplies the shares of
    /// several as if they were independent.
    fn chooses_by_count<DB: SearchDialect>(&self) -> bool {
        let filter = &self.filter;
        let is_combination =
            filter.words().is_empty() && !filter.has_origin() && self.counted_scopes().is_none();
        DB::MISJUDGES_WORDS
            && self.counted
            && self.parts.len() == 1
            && (is_combination || !filter.text_words().is_empty())
    }

    fn has_words(&self) -> bool {
        !self.filter.words().is_empty() || !self.filter.text_words().is_empty()
    }

    pub(super) fn kind(&self) -> KindFilter<'_> {
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
        if self.has_words() || filter.has_origin() {
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
    pub(super) fn query<DB: SearchDialect>(&self) -> QueryBuilder<DB> {
        let mut query = QueryBuilder::default();
        self.push(&mut query);
        query
    }

    pub(super) fn push<DB: SearchDialect>(&self, query: &mut QueryBuilder<DB>) {
        query.push("SELECT ");
        if self.chooses_by_count::<DB>() {
            query.push("matches.n");
        } else if self.counted {
            self.push_count(query);
        } else {
            query.push("CAST(0 AS BIGINT)");
        }
        // LEFT, so that SQLite begins with the page.
        query.push(", (SELECT string_agg(json, ',') FROM (SELECT ");
        push_json(query, Some(self.tenant));
        query.push(" AS json FROM (");
        self.push_sort_keys(query);
        query.push(
            ") AS page LEFT JOIN changes c ON c.sort_key = page.sort_key AND c.organization_id = ",
        );
        DB::bind(query, self.tenant.uuid().into());
        query.push(SERVICE_AND_HOST);
        query.push(" ORDER BY page.sort_key DESC) AS changes_of_page)");
        if self.chooses_by_count::<DB>() {
            query.push(" FROM (SELECT ");
            self.push_count(query);
            // Without OFFSET, the planner would repeat the count wherever it is used.
            query.push(" AS n OFFSET 0) AS matches");
        }
    }

    /// Writes the number of all matches.
    pub(super) fn push_count<DB: SearchDialect>(&self, query: &mut QueryBuilder<DB>) {
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
        let mut kind = self.kind();
        let mut time = time_of(&self.filter);
        if running {
            kind.statuses = &[Status::InProgress];
            // All but the later ones: of the days since then the list itself is counted, too,
            // and those before may be many more.
            time.end = i64::MAX;
        }
        for (number, scope) in scopes.iter().enumerate() {
            query.push(" + ");
            if running {
                kind.push_total(query, scope);
                query.push(" - (");
            }
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
            query.push(if running { ")" } else { "" });
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
    /// merged.
    fn push_sort_keys<DB: SearchDialect>(&self, query: &mut QueryBuilder<DB>) {
        let page = (self.filter.per_page, self.start.offset);
        let push = |query: &mut QueryBuilder<DB>, part: &Part| {
            query.push("SELECT ").push(part.source.sort_key::<DB>());
            query.push(" AS sort_key");
            self.push_part(query, part, self.start.before);
        };
        if let [part] = self.parts.as_slice()
            && self.chooses_by_count::<DB>()
        {
            query.push("SELECT * FROM (");
            push(query, part);
            query.push(" AND matches.n >= ");
            query
                .push(MIN_MATCHES_TO_READ_BACK)
                .push(" ORDER BY sort_key DESC");
            push_limit(query, page.0, page.1);
            query.push(") AS of_many UNION ALL SELECT * FROM (");
            push(query, part);
            query.push(" AND matches.n < ");
            // No index has the order of a sum.
            query
                .push(MIN_MATCHES_TO_READ_BACK)
                .push(" ORDER BY sort_key + 0 DESC");
            push_limit(query, page.0, page.1);
            query.push(") AS of_few");
        } else if let [part] = self.parts.as_slice() {
            push(query, part);
            query.push(" ORDER BY ").push(part.source.sort_key::<DB>());
            query.push(" DESC");
            push_limit(query, page.0, page.1);
        } else {
            push_merged(query, ("sort_key", "sort_key"), &self.parts, push, page);
        }
    }

    /// Writes FROM and WHERE of a part, for sort keys below `before`.
    fn push_part<DB: SearchDialect>(&self, query: &mut QueryBuilder<DB>, part: &Part, before: i64) {
        part.source.push(query, self.tenant);
        let mut sort_keys = sort_key::of_millis(part.time.clone());
        sort_keys.end = sort_keys.end.min(before);
        sort_key::push_range(query, part.source.sort_key::<DB>(), sort_keys);
    }
}

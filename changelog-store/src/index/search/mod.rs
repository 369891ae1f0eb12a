//! The search index: words of titles and tags, together with everything that changes are
//! filtered by. It is the one place where the two databases need different SQL.
//!
//! A change is indexed under its [`facets`] and the words of its title, so that
//! the index alone answers, and counts, a search with filters. Each term is
//! prefixed with its organization, so that a search reads only the organization's
//! own changes. SQLite has an FTS5 table, PostgreSQL a tsvector with a GIN index.

pub(super) mod facets;
pub(super) mod matcher;

use std::fmt::Write;

use changelog_core::{ViolationCode, Violations};
use sqlx::QueryBuilder;
use sqlx_postgres::Postgres;
use sqlx_sqlite::Sqlite;

pub(crate) use facets::{Facets, indexed_text};
pub(crate) use matcher::AuthorFilter;
pub use matcher::{ChangeMatcher, IndexTerms};

use crate::engine::{Dialect, Engine, Script, Value, read};
use crate::{Database, StoreError, Tenant};

/// SQLite: a prefix of fewer words than this is replaced by the words; the
/// statement below contains the number too. FTS5 merges the words of a prefix in
/// memory before it returns the first row (115 ms for 500,000 rows), but streams
/// whole words (0.1 ms for a page).
const MAX_WORDS_OF_PREFIX: usize = 64;

/// The indexed words in a range. SQLite counts the changes of each word that it returns, hence
/// the word that is searched for, which may be in half of all titles, is left out.
const WORDS_OF_PREFIX: &str = "
SELECT term FROM change_search_words WHERE term >= $1 AND term < $2 LIMIT 64";

/// How a database searches.
pub(crate) trait SearchDialect: Dialect {
    /// The name of the index's column of sort keys.
    const SORT_KEY: &'static str;
    /// Whether the database may choose a slow way for lack of knowledge of words.
    const MISJUDGES_WORDS: bool;
    /// Whether changes have an index by environment and risk, because the search index returns
    /// all changes of an environment before the first.
    const INDEXES_ENVIRONMENTS: bool;

    /// Appends FROM and WHERE for the changes that match a [`match_query`].
    fn push_matches(query: &mut QueryBuilder<Self>, tenant: Tenant, match_query: &str);

    /// Returns whether a [`match_query`] may take much longer than a list.
    fn may_be_slow(match_query: &str) -> bool;

    /// Adds changes that are not in the index.
    fn index_new(script: &mut Script<Self>, rows: &[(Tenant, i64, &str)]);

    /// Replaces the terms of a change in the index. For a new change this would look for
    /// the old terms in vain.
    fn replace(script: &mut Script<Self>, row: (Tenant, i64, &str));

    /// Removes changes from the index.
    fn remove(script: &mut Script<Self>, tenant: Tenant, sort_keys: Vec<i64>);
}

impl SearchDialect for Sqlite {
    const SORT_KEY: &'static str = "rowid";
    const MISJUDGES_WORDS: bool = false;
    const INDEXES_ENVIRONMENTS: bool = false;

    fn push_matches(query: &mut QueryBuilder<Self>, _: Tenant, match_query: &str) {
        query.push(" FROM change_search WHERE change_search MATCH ");
        query.push_bind(match_query.to_owned());
    }

    /// A prefix is expanded to all words of the index that begin with it.
    fn may_be_slow(match_query: &str) -> bool {
        match_query.contains("\" *")
    }

    fn index_new(script: &mut Script<Self>, rows: &[(Tenant, i64, &str)]) {
        let rows: Vec<[Value<'_>; 2]> = rows
            .iter()
            .map(|(_, sort_key, words)| [(*sort_key).into(), Value::Words(words)])
            .collect();
        script.insert("INSERT INTO change_search (rowid, words) ", &rows, "");
    }

    fn replace(script: &mut Script<Self>, (_, sort_key, words): (Tenant, i64, &str)) {
        script.insert(
            "INSERT OR REPLACE INTO change_search (rowid, words) ",
            &[[sort_key.into(), Value::Words(words)]],
            "",
        );
    }

    fn remove(script: &mut Script<Self>, _: Tenant, sort_keys: Vec<i64>) {
        let query = script.statement("DELETE FROM change_search WHERE rowid");
        Self::push_in(query, sort_keys);
    }
}

impl SearchDialect for Postgres {
    const SORT_KEY: &'static str = "sort_key";
    const MISJUDGES_WORDS: bool = true;
    const INDEXES_ENVIRONMENTS: bool = true;

    fn push_matches(query: &mut QueryBuilder<Self>, tenant: Tenant, match_query: &str) {
        query.push(" FROM change_search WHERE organization_id = ");
        query.push_bind(tenant.uuid());
        query
            .push(" AND words @@ CAST(")
            .push_bind(match_query.to_owned());
        query.push(" AS tsquery)");
    }

    /// Each word is a prefix, and the index returns all its matches before the first.
    fn may_be_slow(_: &str) -> bool {
        true
    }

    fn index_new(script: &mut Script<Self>, rows: &[(Tenant, i64, &str)]) {
        let rows: Vec<[Value<'_>; 3]> = rows
            .iter()
            .map(|(tenant, sort_key, words)| {
                [
                    tenant.uuid().into(),
                    (*sort_key).into(),
                    Value::Words(words),
                ]
            })
            .collect();
        script.insert(
            "INSERT INTO change_search (organization_id, sort_key, words) ",
            &rows,
            "",
        );
    }

    fn replace(script: &mut Script<Self>, (tenant, sort_key, words): (Tenant, i64, &str)) {
        let query = script.statement("UPDATE change_search SET words = ");
        Self::bind(query, Value::Words(words));
        query
            .push(" WHERE organization_id = ")
            .push_bind(tenant.uuid());
        query.push(" AND sort_key = ").push_bind(sort_key);
    }

    fn remove(script: &mut Script<Self>, tenant: Tenant, sort_keys: Vec<i64>) {
        let query = script.statement("DELETE FROM change_search WHERE organization_id = ");
        query.push_bind(tenant.uuid()).push(" AND sort_key");
        Self::push_in(query, sort_keys);
    }
}

/// The limit on services, and on hosts, that a word of `text` finds by their names, and on
/// all that the words find. PostgreSQL takes a query of at most 1 MiB.
const MAX_NAMED: u64 = 4_000;
const MAX_ALL_NAMED: usize = 10_000;

/// A term that a change must have.
#[derive(Debug)]
enum Term {
    Whole(String),
    /// The beginning of a term.
    Prefix(String),
}

/// The terms of the changes that are searched for.
#[derive(Debug)]
struct Required {
    /// A change has one of each list.
    any_of: Vec<Vec<Term>>,
    /// A change has none of these.
    none_of: Vec<String>,
}

impl Database {
    /// Returns [`SearchDialect::INDEXES_ENVIRONMENTS`].
    pub(crate) fn indexes_environments(&self) -> bool {
        match &self.connections.writes {
            Engine::Sqlite(_) => Sqlite::INDEXES_ENVIRONMENTS,
            Engine::Postgres(_) => Postgres::INDEXES_ENVIRONMENTS,
        }
    }
}

/// Returns the search index's query, in the syntax of the database, for the
/// changes that a matcher selects.
pub(crate) async fn match_query(
    database: &Database,
    tenant: Tenant,
    matcher: &ChangeMatcher,
) -> Result<String, StoreError> {
    let required = required_terms(database, tenant, Vec::new(), matcher).await?;
    in_syntax(database, tenant, &required).await
}

/// Returns the search index's query, in the syntax of the database, for the changes that a
/// matcher selects and whose titles have any of some words, or a word that begins with one
/// of them.
pub(crate) async fn match_any(
    database: &Database,
    tenant: Tenant,
    words: &[String],
    matcher: &ChangeMatcher,
) -> Result<String, StoreError> {
    let words = words.iter().cloned().map(Term::Prefix).collect();
    let required = required_terms(database, tenant, vec![words], matcher).await?;
    in_syntax(database, tenant, &required).await
}

/// Writes the query for the changes that have the required terms.
async fn in_syntax(
    database: &Database,
    tenant: Tenant,
    required: &Required,
) -> Result<String, StoreError> {
    let prefix = facets::prefix(tenant);
    match &database.connections.writes {
        Engine::Sqlite(_) => sqlite_query(database, tenant, &prefix, required).await,
        Engine::Postgres(_) => Ok(postgres_query(&prefix, required)),
    }
}

/// Returns the terms of the changes that have one of each list of terms, and that a matcher
/// selects.
async fn required_terms(
    database: &Database,
    tenant: Tenant,
    mut any_of: Vec<Vec<Term>>,
    matcher: &ChangeMatcher,
) -> Result<Required, StoreError> {
    let words = matcher.words.iter().cloned();
    any_of.extend(words.map(|word| vec![Term::Prefix(word)]));
    let mut all_named = 0;
    for word in &matcher.text {
        let (services, hosts) = database.catalog_matches(tenant, word, MAX_NAMED).await?;
        all_named += services.len() + hosts.len();
        let most = services.len().max(hosts.len());
        if most as u64 >= MAX_NAMED || all_named > MAX_ALL_NAMED {
            return Err(too_many_named(word));
        }
        let named = (services.into_iter().map(facets::service))
            .chain(hosts.into_iter().map(facets::host))
            .map(Term::Whole);
        let words = [word.clone(), facets::tag_word(word)].map(Term::Prefix);
        any_of.push(words.into_iter().chain(named).collect());
    }
    if let Some(author) = &matcher.author {
        let ids = database.author_ids(tenant, author).await?;
        any_of.push(whole(ids.into_iter().map(facets::author)));
    }
    let mut none_of = Vec::new();
    // From the facet that selects fewest. Changes are found by what they have; with that,
    // a term that few of them have costs less than those that most of them have.
    for facets in matcher.facets.iter().rev() {
        match facets::fewer_others(facets) {
            Some(others) if !any_of.is_empty() => none_of.extend(others),
            _ => any_of.push(whole(facets.iter().cloned())),
        }
    }
    Ok(Required { any_of, none_of })
}

/// Returns whole terms.
fn whole(terms: impl Iterator<Item = String>) -> Vec<Term> {
    terms.map(Term::Whole).collect()
}

/// Returns the error for a word that begins too many names.
fn too_many_named(word: &str) -> StoreError {
    let mut problems = Violations::default();
    let message = format!(
        "must have words that begin fewer names of services and hosts; {word:?} and the words \
         before it begin more than {MAX_NAMED}"
    );
    problems.add("?text", ViolationCode::TooMany, message);
    problems
        .into_result(())
        .map_or_else(StoreError::from, |()| StoreError::NotFound)
}

/// Writes the query of FTS5. The beginning of a word is replaced by the words that have
/// it, unless there are many.
async fn sqlite_query(
    database: &Database,
    tenant: Tenant,
    prefix: &str,
    required: &Required,
) -> Result<String, StoreError> {
    let mut query = String::new();
    for any_of in &required.any_of {
        let mut terms = Vec::new();
        for term in any_of {
            let word = match term {
                Term::Whole(word) => {
                    terms.push(format!("\"{prefix}{word}\""));
                    continue;
                }
                Term::Prefix(word) => format!("{prefix}{word}"),
            };
            // Words consist of letters and digits of any script, all of which
            // sort between these characters.
            let (longer, end) = (format!("{word}\u{1}"), format!("{word}{}", char::MAX));
            let found: Vec<(String,)> = read!(database.reader(tenant).await?, |db| {
                sqlx::query_as(WORDS_OF_PREFIX)
                    .bind(longer)
                    .bind(end)
                    .fetch_all(&mut **db)
            })?;
            if found.len() < MAX_WORDS_OF_PREFIX {
                terms.push(format!("\"{word}\""));
                terms.extend(found.iter().map(|(found,)| format!("\"{found}\"")));
            } else {
                terms.push(format!("\"{word}\" *"));
            }
        }
        if terms.is_empty() {
            // Matches nothing: no term consists of the prefix of an organization only.
            return Ok(format!("\"{prefix}\""));
        }
        let and = if query.is_empty() { "" } else { " AND " };
        let _ = write!(query, "{and}({})", terms.join(" OR "));
    }
    for term in &required.none_of {
        query = format!("({query}) NOT \"{prefix}{term}\"");
    }
    Ok(query)
}

/// Writes the query of PostgreSQL.
fn postgres_query(prefix: &str, required: &Required) -> String {
    let mut query = String::new();
    for any_of in &required.any_of {
        let mut terms: Vec<String> = any_of
            .iter()
            .map(|term| match term {
                Term::Whole(word) => format!("'{prefix}{word}'"),
                Term::Prefix(word) => format!("'{prefix}{word}':*"),
            })
            .collect();
        if terms.is_empty() {
            terms.push(format!("'{prefix}'"));
        }
        let and = if query.is_empty() { "" } else { " & " };
        let _ = write!(query, "{and}({})", terms.join(" | "));
    }
    for term in &required.none_of {
        let _ = write!(query, " & !'{prefix}{term}'");
    }
    query
}

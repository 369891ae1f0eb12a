//! The search index: words of titles, together with everything that changes are
//! filtered by. It is the one place where the two databases need different SQL.
//!
//! A change is indexed under its [`facets`] and the words of its title, so that
//! the index alone answers, and counts, a search with filters. Each term is
//! prefixed with its organization, so that a search reads only the organization's
//! own changes. SQLite has an FTS5 table, PostgreSQL a tsvector with a GIN index.

pub(super) mod facets;
pub(super) mod matcher;

use std::fmt::Write;

use sqlx::{Postgres, QueryBuilder, Sqlite};

pub(in crate::store) use facets::{Facets, indexed_text};
pub use matcher::{ChangeMatcher, IndexTerms};

use crate::store::engine::{Dialect, Engine, Script, Value, on};
use crate::store::{Database, StoreError, Tenant};

/// SQLite: a prefix of fewer words than this is replaced by the words; the
/// statement below contains the number too. FTS5 merges the words of a prefix in
/// memory before it returns the first row (115 ms for 500,000 rows), but streams
/// whole words (0.1 ms for a page).
const MAX_WORDS_OF_PREFIX: usize = 64;

/// The indexed words with a prefix.
const WORDS_OF_PREFIX: &str = "
SELECT term FROM change_search_words WHERE term >= $1 AND term < $2 LIMIT 64";

/// How a database searches.
pub(in crate::store) trait SearchDialect: Dialect {
    /// The name of the index's column of sort keys.
    const SORT_KEY: &'static str;

    /// Appends FROM and WHERE for the changes that match a [`match_query`].
    fn push_matches(query: &mut QueryBuilder<Self>, tenant: Tenant, match_query: &str);

    /// Returns whether a [`match_query`] may take much longer than a list.
    fn may_be_slow(match_query: &str) -> bool;

    /// Adds changes to the index, or replaces their terms.
    fn index(script: &mut Script<Self>, rows: &[(Tenant, i64, &str)]);

    /// Removes a change from the index.
    fn remove(script: &mut Script<Self>, tenant: Tenant, sort_key: i64);
}

impl SearchDialect for Sqlite {
    const SORT_KEY: &'static str = "rowid";

    fn push_matches(query: &mut QueryBuilder<Self>, _: Tenant, match_query: &str) {
        query.push(" FROM change_search WHERE change_search MATCH ");
        query.push_bind(match_query.to_owned());
    }

    /// A prefix is expanded to all words of the index that begin with it.
    fn may_be_slow(match_query: &str) -> bool {
        match_query.contains("\" *")
    }

    fn index(script: &mut Script<Self>, rows: &[(Tenant, i64, &str)]) {
        let rows: Vec<[Value<'_>; 2]> = rows
            .iter()
            .map(|(_, sort_key, words)| [(*sort_key).into(), Value::Words(words)])
            .collect();
        script.insert(
            "INSERT OR REPLACE INTO change_search (rowid, words) ",
            &rows,
            "",
        );
    }

    fn remove(script: &mut Script<Self>, _: Tenant, sort_key: i64) {
        let query = script.statement("DELETE FROM change_search WHERE rowid = ");
        query.push_bind(sort_key);
    }
}

impl SearchDialect for Postgres {
    const SORT_KEY: &'static str = "sort_key";

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

    fn index(script: &mut Script<Self>, rows: &[(Tenant, i64, &str)]) {
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
            " ON CONFLICT (organization_id, sort_key) DO UPDATE SET words = excluded.words",
        );
    }

    fn remove(script: &mut Script<Self>, tenant: Tenant, sort_key: i64) {
        let query = script.statement("DELETE FROM change_search WHERE organization_id = ");
        query.push_bind(tenant.uuid());
        query.push(" AND sort_key = ").push_bind(sort_key);
    }
}

/// Returns the search index's query, in the syntax of the database, for the
/// changes that a matcher selects.
pub(in crate::store) async fn match_query(
    database: &Database,
    tenant: Tenant,
    ChangeMatcher { words, facets }: &ChangeMatcher,
) -> Result<String, StoreError> {
    let prefix = facets::prefix(tenant);
    let mut query = String::new();
    match &database.connections.writes {
        Engine::Sqlite(_) => {
            for word in words {
                let word = format!("{prefix}{word}");
                // Words consist of letters and digits of any script, all of which
                // sort before the last character of Unicode.
                let end = format!("{word}{}", char::MAX);
                let found: Vec<(String,)> = on!(&mut database.reader(tenant).await?, |db| {
                    sqlx::query_as(WORDS_OF_PREFIX)
                        .bind(&word)
                        .bind(end)
                        .fetch_all(&mut **db)
                })?;
                query.push_str(if query.is_empty() { "(" } else { " AND (" });
                match found.len() {
                    // Matches nothing: there is no such word.
                    0 => return Ok(format!("\"{word}\"")),
                    1..MAX_WORDS_OF_PREFIX => {
                        for (number, (found,)) in found.iter().enumerate() {
                            let or = if number > 0 { " OR " } else { "" };
                            let _ = write!(query, "{or}\"{found}\"");
                        }
                    }
                    _ => {
                        let _ = write!(query, "\"{word}\" *");
                    }
                }
                query.push(')');
            }
            for facet in facets {
                let and = if query.is_empty() { "" } else { " AND " };
                let _ = write!(query, "{and}\"{prefix}{facet}\"");
            }
        }
        Engine::Postgres(_) => {
            for word in words {
                let and = if query.is_empty() { "" } else { " & " };
                let _ = write!(query, "{and}'{prefix}{word}':*");
            }
            for facet in facets {
                let and = if query.is_empty() { "" } else { " & " };
                let _ = write!(query, "{and}'{prefix}{facet}'");
            }
        }
    }
    Ok(query)
}

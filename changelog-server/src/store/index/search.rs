//! Full-text search on titles, together with everything that changes are
//! filtered by: the one place where the two databases need two texts.
//!
//! A change is indexed under the words of its title that
//! [`changelog_core::text::words`] finds, and under a mark for its risk, its
//! status, its service, its host and each of its tags, so that a search with
//! filters is answered, and counted, by the index alone. Each has its
//! organization in front, so that it is looked up among the organization's own
//! changes. SQLite keeps them in an FTS5 table, PostgreSQL in a tsvector with a
//! GIN index. Words hold letters and digits only, marks begin with a colon;
//! nothing in them is syntax to either.

use std::fmt::Write;

use changelog_core::text::words;
use changelog_core::{Change, ChangeFilter, HostId, RiskLevel, ServiceId, Status};
use sha2::{Digest, Sha256};
use sqlx::{Postgres, QueryBuilder, Sqlite};

use crate::store::engine::{Dialect, Engine, Script, Value, on};
use crate::store::{Database, StoreError, Tenant};

/// How many words that begin like the one that is searched are looked up one by
/// one; the statement below has the number too. FTS5 merges what begins alike in memory before it gives the first row,
/// 115 ms for 500,000; whole words it reads as it goes, 0.1 ms for a page.
const ALIKE: usize = 64;

/// The words of the title that begin like one that is searched.
const WORDS_SQLITE: &str = "
SELECT term FROM change_search_words WHERE term >= $1 AND term < $2 LIMIT 64";

/// What a change is filtered by besides the words of its title.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks<'c> {
    pub(crate) risk_level: &'c RiskLevel,
    pub(crate) status: &'c Status,
    pub(crate) service_id: Option<ServiceId>,
    pub(crate) host_id: Option<HostId>,
    pub(crate) tags: &'c [String],
}

/// Returns what a change is indexed under, with spaces between.
pub(crate) fn document(tenant: Tenant, title: &str, marks: &Marks<'_>) -> String {
    let prefix = prefix(tenant);
    let mut document = String::new();
    each_term(title, marks, |term| {
        if !document.is_empty() {
            document.push(' ');
        }
        document.push_str(&prefix);
        document.push_str(term);
    });
    document
}

/// Names the words and marks of a change one by one.
fn each_term(title: &str, marks: &Marks<'_>, mut add: impl FnMut(&str)) {
    for word in words(title) {
        add(&word);
    }
    add(&risk(marks.risk_level));
    add(&status(marks.status));
    if let Some(id) = marks.service_id {
        add(&service(id));
    }
    if let Some(id) = marks.host_id {
        add(&host(id));
    }
    for name in marks.tags {
        add(&tag(name));
    }
}

/// The words and marks of one change, for a look at it without the index.
#[derive(Clone, Debug)]
pub struct Terms(Vec<String>);

impl Terms {
    /// Returns what a change is found by.
    pub(crate) fn of(change: &Change) -> Self {
        let marks = Marks {
            risk_level: &change.risk_level,
            status: &change.status,
            service_id: change.service.as_ref().map(|service| service.id),
            host_id: change.host_ref.as_ref().map(|host| host.id),
            tags: &change.tags,
        };
        let mut terms = Vec::new();
        each_term(&change.title, &marks, |term| terms.push(term.to_owned()));
        Self(terms)
    }
}

/// What a filter asks of the words and marks of a change, whatever it asks of
/// its time and sort key: for a list, which looks into the index, and for a
/// stream, which has the change at hand.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// For each of these the title has a word that begins so.
    pub(crate) words: Vec<String>,
    /// The change has all of these.
    pub(crate) marks: Vec<String>,
}

impl Wanted {
    /// Reads a filter.
    pub fn of(filter: &ChangeFilter) -> Self {
        let marks = (filter.risk_level.as_ref().map(risk).into_iter())
            .chain(filter.status.as_ref().map(status))
            .chain(filter.service_id.map(service))
            .chain(filter.host_id.map(host))
            .chain(filter.tags.iter().map(|name| tag(name)))
            .collect();
        Self {
            words: filter.words(),
            marks,
        }
    }

    /// Tells whether a change is asked for, as the index would.
    pub fn is_met_by(&self, Terms(terms): &Terms) -> bool {
        // No word begins like a mark, see `each_term`.
        let begins = |word: &String| terms.iter().any(|term| term.starts_with(word));
        self.words.iter().all(begins) && self.marks.iter().all(|mark| terms.contains(mark))
    }
}

/// Returns the mark of a risk.
pub(crate) fn risk(risk: &RiskLevel) -> String {
    format!(":r{risk}")
}

/// Returns the mark of a status. An underscore would end the word.
pub(crate) fn status(status: &Status) -> String {
    format!(":s{}", status.as_str().replace('_', ""))
}

/// Returns the mark of a service.
pub(crate) fn service(id: ServiceId) -> String {
    format!(":v{}", id.0.simple())
}

/// Returns the mark of a host.
pub(crate) fn host(id: HostId) -> String {
    format!(":h{}", id.0.simple())
}

/// Returns the mark of a tag: a hash, because a tag may hold anything.
pub(crate) fn tag(name: &str) -> String {
    format!(":t{}", hex::encode(&Sha256::digest(name)[..16]))
}

/// What stands in front of each word and mark of an organization: the random
/// half of its id.
fn prefix(tenant: Tenant) -> String {
    let (_, random) = tenant.uuid().as_u64_pair();
    format!("{random:016x}")
}

/// How a database searches.
pub(crate) trait SearchDialect: Dialect {
    /// What the sort key of a row of the index is called.
    const SORT_KEY: &'static str;

    /// Writes FROM and WHERE for what matches a query.
    fn push_matches(query: &mut QueryBuilder<Self>, tenant: Tenant, terms: &str);

    /// Puts changes into the index, in place of what they were found by before.
    fn index(script: &mut Script<Self>, rows: &[(Tenant, i64, &str)]);

    /// Takes a change out of the index.
    fn forget(script: &mut Script<Self>, tenant: Tenant, sort_key: i64);
}

impl SearchDialect for Sqlite {
    const SORT_KEY: &'static str = "rowid";

    fn push_matches(query: &mut QueryBuilder<Self>, _: Tenant, terms: &str) {
        query.push(" FROM change_search WHERE change_search MATCH ");
        query.push_bind(terms.to_owned());
    }

    fn index(script: &mut Script<Self>, rows: &[(Tenant, i64, &str)]) {
        let rows: Vec<[Value<'_>; 2]> = rows
            .iter()
            .map(|(_, sort_key, words)| [(*sort_key).into(), (*words).into()])
            .collect();
        script.insert(
            "INSERT OR REPLACE INTO change_search (rowid, words) ",
            &rows,
            "",
        );
    }

    fn forget(script: &mut Script<Self>, _: Tenant, sort_key: i64) {
        let query = script.statement("DELETE FROM change_search WHERE rowid = ");
        query.push_bind(sort_key);
    }
}

impl SearchDialect for Postgres {
    const SORT_KEY: &'static str = "sort_key";

    fn push_matches(query: &mut QueryBuilder<Self>, tenant: Tenant, terms: &str) {
        query.push(" FROM change_search WHERE organization_id = ");
        query.push_bind(tenant.uuid());
        query
            .push(" AND words @@ CAST(")
            .push_bind(terms.to_owned());
        query.push(" AS tsquery)");
    }

    fn index(script: &mut Script<Self>, rows: &[(Tenant, i64, &str)]) {
        let rows: Vec<[Value<'_>; 3]> = rows
            .iter()
            .map(|(tenant, sort_key, words)| {
                [tenant.uuid().into(), (*sort_key).into(), (*words).into()]
            })
            .collect();
        script.insert(
            "INSERT INTO change_search (organization_id, sort_key, words) \
             SELECT column1, column2, array_to_tsvector(string_to_array(column3, ' ')) FROM (",
            &rows,
            ") AS v ON CONFLICT (organization_id, sort_key) DO UPDATE SET words = excluded.words",
        );
    }

    fn forget(script: &mut Script<Self>, tenant: Tenant, sort_key: i64) {
        let query = script.statement("DELETE FROM change_search WHERE organization_id = ");
        query.push_bind(tenant.uuid());
        query.push(" AND sort_key = ").push_bind(sort_key);
    }
}

/// Writes the query for changes that have, for each of the words, a word that
/// begins so, and all of the marks; in the syntax of the database.
pub(crate) async fn terms(
    database: &Database,
    tenant: Tenant,
    Wanted { words, marks }: &Wanted,
) -> Result<String, StoreError> {
    let prefix = prefix(tenant);
    let mut query = String::new();
    match &database.connections.writes {
        Engine::Sqlite(_) => {
            for word in words {
                let word = format!("{prefix}{word}");
                // Words are letters and digits of any script; the last character
                // that there is sorts after all of them.
                let after = format!("{word}{}", char::MAX);
                let alike: Vec<(String,)> = on!(&mut database.reader(tenant).await?, |db| {
                    sqlx::query_as(WORDS_SQLITE)
                        .bind(&word)
                        .bind(after)
                        .fetch_all(&mut **db)
                })?;
                query.push_str(if query.is_empty() { "(" } else { " AND (" });
                match alike.len() {
                    0 => return Ok(nothing(&word)),
                    1..ALIKE => {
                        for (number, (alike,)) in alike.iter().enumerate() {
                            let or = if number > 0 { " OR " } else { "" };
                            let _ = write!(query, "{or}\"{alike}\"");
                        }
                    }
                    _ => {
                        let _ = write!(query, "\"{word}\" *");
                    }
                }
                query.push(')');
            }
            for mark in marks {
                let and = if query.is_empty() { "" } else { " AND " };
                let _ = write!(query, "{and}\"{prefix}{mark}\"");
            }
        }
        Engine::Postgres(_) => {
            for word in words {
                let and = if query.is_empty() { "" } else { " & " };
                let _ = write!(query, "{and}'{prefix}{word}':*");
            }
            for mark in marks {
                let and = if query.is_empty() { "" } else { " & " };
                let _ = write!(query, "{and}'{prefix}{mark}'");
            }
        }
    }
    Ok(query)
}

/// Returns whether a query of SQLite looks for more words than are listed in it:
/// for all that begin like one of its words.
pub(crate) fn expands_words(terms: &str) -> bool {
    terms.contains("\" *")
}

/// Writes a query that nothing matches: no word begins like this one.
fn nothing(word: &str) -> String {
    format!("\"{word}\"")
}

//! Full-text search on titles: the one place where the two databases need two
//! texts.
//!
//! Both index the words that [`changelog_core::text::words`] finds, each with
//! its organization in front, so that a word is looked up among the
//! organization's own changes: SQLite in an FTS5 table, PostgreSQL in a
//! tsvector with a GIN index. Words hold letters and digits only; nothing in
//! them is syntax to either.

use changelog_core::ChangeId;
use sqlx::{Database, Postgres, Sqlite};

use super::engine::{Engine, bounded};
use super::{StoreError, Tenant, Tx};

const INDEX_SQLITE: &str = "
INSERT OR REPLACE INTO change_search (rowid, words)
SELECT docid, $3 FROM changes WHERE organization_id = $1 AND id = $2";

const INDEX_POSTGRES: &str = "
INSERT INTO change_search (organization_id, change_id, words)
VALUES ($1, $2, array_to_tsvector(string_to_array($3, ' ')))
ON CONFLICT (organization_id, change_id) DO UPDATE SET words = excluded.words";

/// How a database says "the title of change `c` matches"; the query stands
/// between the two halves.
pub(super) trait SearchSyntax: Database {
    const BEFORE: &'static str;
    const AFTER: &'static str;

    /// Writes the query: every word is the beginning of some word.
    fn query(tenant: Tenant, words: &[String]) -> String;
}

impl SearchSyntax for Sqlite {
    const BEFORE: &'static str =
        " AND c.docid IN (SELECT rowid FROM change_search WHERE change_search MATCH ";
    const AFTER: &'static str = ")";

    fn query(tenant: Tenant, words: &[String]) -> String {
        join(words, " AND ", |word| {
            format!("\"{}\" *", scoped(tenant, word))
        })
    }
}

impl SearchSyntax for Postgres {
    const BEFORE: &'static str = " AND EXISTS (SELECT 1 FROM change_search s \
         WHERE s.organization_id = c.organization_id AND s.change_id = c.id AND s.words @@ CAST(";
    const AFTER: &'static str = " AS tsquery))";

    fn query(tenant: Tenant, words: &[String]) -> String {
        join(words, " & ", |word| format!("'{}':*", scoped(tenant, word)))
    }
}

/// Puts the organization in front of a word: the random half of its id.
fn scoped(tenant: Tenant, word: &str) -> String {
    let (_, random) = tenant.uuid().as_u64_pair();
    format!("{random:016x}{word}")
}

fn join(words: &[String], between: &str, term: impl Fn(&String) -> String) -> String {
    words.iter().map(term).collect::<Vec<_>>().join(between)
}

impl Tx {
    /// Makes a change findable by its title, in place of what it was findable
    /// by before.
    pub(super) async fn index_title(
        &mut self,
        tenant: Tenant,
        id: ChangeId,
        title: &str,
    ) -> Result<(), StoreError> {
        let words = changelog_core::text::words(title);
        let document = join(&words, " ", |word| scoped(tenant, word));
        match &mut self.connection {
            Engine::Sqlite(db) => {
                let query = sqlx::query(INDEX_SQLITE)
                    .bind(tenant.uuid())
                    .bind(id.0)
                    .bind(document);
                bounded(query.execute(&mut **db)).await?;
            }
            Engine::Postgres(db) => {
                let query = sqlx::query(INDEX_POSTGRES)
                    .bind(tenant.uuid())
                    .bind(id.0)
                    .bind(document);
                bounded(query.execute(&mut **db)).await?;
            }
        }
        Ok(())
    }
}

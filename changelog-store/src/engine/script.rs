//! Several statements that are sent together.
//!
//! SQLite gets them as one string: its connection is another thread, and each
//! statement by itself costs two switches of thread, as much as a dozen rows.
//! PostgreSQL gets them one after the other, or joined into a single statement.

use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, Database, Execute, FromRow, QueryBuilder};
use sqlx_postgres::PgConnection;
use sqlx_postgres::Postgres;
use sqlx_sqlite::Sqlite;
use sqlx_sqlite::{SqliteConnection, SqliteRow};

use super::backend::{bounded, committed};
use super::dialect::{Dialect, PushValue, Value, push_values};
use super::error::StoreError;

/// The most rows that one statement inserts: SQLite takes 32,766 values.
const MAX_ROWS_PER_STATEMENT: usize = 1_000;
/// Of scripts that insert more rows than this the prepared statements are not
/// kept: their lengths hardly ever repeat, and one of 500 changes takes megabytes.
const MAX_ROWS_PREPARED: usize = 24;

/// The limit on rows of a joined statement: of more, it is not worth keeping prepared.
const MAX_ROWS_JOINED: usize = 256;

/// Statements that run one after the other.
pub(crate) struct Script<DB: Database> {
    statements: Vec<QueryBuilder<DB>>,
    /// Where each statement of a [`Script::joined`] one begins in the only builder.
    starts: Option<Vec<usize>>,
    /// The number of rows that are inserted.
    rows: usize,
}

impl<DB: Dialect> Script<DB> {
    pub(crate) fn new() -> Self {
        Self {
            statements: Vec::new(),
            starts: None,
            rows: 0,
        }
    }

    /// Adds a statement, which the caller may continue.
    pub(crate) fn statement(&mut self, sql: &str) -> &mut QueryBuilder<DB> {
        if let Some(starts) = &mut self.starts
            && let Some(query) = self.statements.first_mut()
        {
            starts.push(query.sql().as_str().len());
            query.push(sql);
        } else if DB::SCRIPTS
            && let Some(query) = self.statements.first_mut()
        {
            query.push("; ").push(sql);
        } else {
            self.statements.push(QueryBuilder::new(sql));
        }
        self.statements
            .last_mut()
            .expect("a statement was just added")
    }

    /// Adds an insertion of rows: the text before VALUES, the rows, the text after
    /// them.
    pub(crate) fn insert<const N: usize>(
        &mut self,
        before: &str,
        rows: &[[Value<'_>; N]],
        after: &str,
    ) {
        let is_joined = self.starts.is_some();
        for rows in rows.chunks(MAX_ROWS_PER_STATEMENT) {
            let query = self.statement(before);
            if is_joined {
                push_rounded_values(query, rows);
            } else {
                push_values(query, rows.iter().copied());
            }
            query.push(after);
            self.rows += rows.len();
        }
    }
}

impl Script<Sqlite> {
    /// Runs statements that select, and returns the rows of all of them.
    pub(crate) async fn fetch_all<R>(
        self,
        connection: &mut SqliteConnection,
    ) -> Result<Vec<R>, StoreError>
    where
        R: for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
    {
        let Some(mut query) = self.statements.into_iter().next() else {
            return Ok(Vec::new());
        };
        bounded(query.build_query_as().fetch_all(connection)).await
    }
}

impl Script<Postgres> {
    /// Starts a script whose statements are joined into one, for
    /// [`Script::run_joined`]: none may need what another one writes.
    pub(crate) fn joined() -> Self {
        Self {
            statements: Vec::new(),
            starts: Some(Vec::new()),
            rows: 0,
        }
    }

    /// Returns whether a [`Script::joined`] one has so few rows that it should be run as one
    /// statement.
    pub(crate) fn is_kept_joined(&self) -> bool {
        self.rows <= MAX_ROWS_JOINED
    }

    /// Runs the statements of a [`Script::joined`] one as a transaction of its own,
    /// in one round trip instead of one for each, for BEGIN and for COMMIT.
    ///
    /// # Errors
    /// [`StoreError::Uncertain`] when it is not known whether it took place.
    pub(crate) async fn run_joined(
        mut self,
        connection: &mut PgConnection,
    ) -> Result<(), StoreError> {
        let Some(query) = self.statements.first_mut() else {
            return Ok(());
        };
        let text = joined(query.sql().as_str(), &self.starts.unwrap_or_default());
        let arguments = query.build().take_arguments();
        let arguments = arguments.map_err(sqlx::Error::Encode)?.unwrap_or_default();
        let statement = sqlx::query_with(AssertSqlSafe(text), arguments).execute(connection);
        committed(async { statement.await.map(drop) }).await
    }
}

/// Writes rows as VALUES, whose number is rounded up to a power of two: the last row is
/// repeated, and a limit leaves the repetitions out. A joined statement has several such lists,
/// and without this nearly every one would be another text, which is prepared and kept.
pub(crate) fn push_rounded_values<DB: Dialect, const N: usize>(
    query: &mut QueryBuilder<DB>,
    rows: &[[Value<'_>; N]],
) {
    let missing = rows.len().next_power_of_two() - rows.len();
    let repeated = rows.last().into_iter().cycle().take(missing);
    push_values(query, rows.iter().chain(repeated).copied());
    if let [_, _, ..] = rows {
        let limit = i64::try_from(rows.len()).unwrap_or(i64::MAX);
        query.push_value(" LIMIT ", limit);
    }
}

/// Joins statements, of which all but the first begin at `starts`, into one.
/// PostgreSQL runs the main statement first and then those of its WITH clause from
/// the last to the first, so they are written from the last to the first. Nothing
/// but the order in which rows are locked depends on it.
fn joined(statements: &str, starts: &[usize]) -> String {
    let mut text = String::with_capacity(statements.len() + 16 * starts.len() + 8);
    let mut end = statements.len();
    for (number, start) in starts.iter().enumerate().rev() {
        text.push_str(if text.is_empty() { "WITH s" } else { ", s" });
        text.push_str(&number.to_string());
        text.push_str(" AS (");
        text.push_str(&statements[*start..end]);
        text.push(')');
        end = *start;
    }
    if !starts.is_empty() {
        text.push(' ');
    }
    text.push_str(&statements[..end]);
    text
}

impl<DB: Dialect> Script<DB> {
    /// Runs the statements without a time limit.
    pub(crate) async fn execute(
        &mut self,
        connection: &mut DB::Connection,
    ) -> Result<(), sqlx::Error> {
        let keep = self.rows <= MAX_ROWS_PREPARED;
        for query in &mut self.statements {
            DB::execute(query, keep, connection).await?;
        }
        Ok(())
    }

    /// Runs the statements within the time limit of one statement.
    pub(crate) async fn run(mut self, connection: &mut DB::Connection) -> Result<(), StoreError> {
        bounded(self.execute(connection)).await
    }
}

/// Groups the numbers of equal texts. The sizes of groups are powers of two, so
/// that few different scripts of equal statements are prepared.
pub(crate) fn groups_of_equal(texts: impl Iterator<Item = String>) -> Vec<Vec<usize>> {
    let mut equal: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (number, text) in texts.enumerate() {
        equal.entry(text).or_default().push(number);
    }
    let mut groups = Vec::new();
    for mut numbers in equal.into_values() {
        while !numbers.is_empty() {
            let rest = numbers.split_off(1 << numbers.len().ilog2());
            groups.push(std::mem::replace(&mut numbers, rest));
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use sqlx_postgres::Postgres;

    use super::*;

    fn example<DB: Dialect>(rows: i64) -> Script<DB> {
        let mut script = Script::new();
        script.statement("DELETE FROM a");
        let rows: Vec<_> = (0..rows).map(|row| [row.into()]).collect();
        script.insert("INSERT INTO b (c) ", &rows, " ON CONFLICT DO NOTHING");
        script
    }

    #[test]
    fn sqlite_gets_one_text_and_postgres_single_statements() {
        assert_eq!(example::<Sqlite>(2).statements.len(), 1);
        let script = example::<Sqlite>(2).statements.remove(0).into_string();
        assert_eq!(
            script,
            "DELETE FROM a; INSERT INTO b (c) VALUES (?), (?) ON CONFLICT DO NOTHING"
        );
        let statements = example::<Postgres>(1).statements;
        let texts: Vec<_> = statements
            .into_iter()
            .map(QueryBuilder::into_string)
            .collect();
        assert_eq!(
            texts,
            [
                "DELETE FROM a",
                "INSERT INTO b (c) VALUES ($1) ON CONFLICT DO NOTHING"
            ]
        );
    }

    #[test]
    fn joined_statements_keep_their_parameters() {
        let mut script = Script::joined();
        for (table, rows) in [("a", 1), ("b", 3), ("c", 1)] {
            let rows = vec![[1.into()]; rows];
            script.insert(&format!("INSERT INTO {table} (d) "), &rows, "");
        }
        let text = joined(
            script.statements[0].sql().as_str(),
            script.starts.as_deref().unwrap_or_default(),
        );
        assert_eq!(
            text,
            "WITH s1 AS (INSERT INTO c (d) VALUES ($7)), \
             s0 AS (INSERT INTO b (d) VALUES ($2), ($3), ($4), ($5) LIMIT $6) \
             INSERT INTO a (d) VALUES ($1)"
        );
    }

    #[test]
    fn many_rows_are_inserted_by_several_statements() {
        assert_eq!(example::<Postgres>(2_500).statements.len(), 4);
        assert_eq!(example::<Postgres>(0).statements.len(), 1);
    }

    #[test]
    fn equal_texts_are_grouped_in_powers_of_two() {
        let groups = |texts: &str| groups_of_equal(texts.chars().map(String::from));
        assert_eq!(groups(""), Vec::<Vec<usize>>::new());
        assert_eq!(groups("aba"), [vec![0, 2], vec![1]]);
        assert_eq!(groups("aaaaaaa"), [vec![0, 1, 2, 3], vec![4, 5], vec![6]]);
    }
}

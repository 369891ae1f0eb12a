//! Several statements that are sent together.
//!
//! SQLite gets them as one text: its connection is another thread, and each
//! statement by itself costs two switches of thread, as much as a dozen rows.

use std::collections::BTreeMap;

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Database, FromRow, QueryBuilder, Sqlite};

use super::backend::bounded;
use super::dialect::{Dialect, Value, push_values};
use super::error::StoreError;

/// The most rows that one statement inserts: SQLite takes 32,766 values.
const MAX_ROWS_PER_STATEMENT: usize = 1_000;
/// Of scripts that insert more rows than this the prepared statements are not
/// kept: their lengths hardly ever repeat, and one of 500 changes takes megabytes.
const MAX_ROWS_PREPARED: usize = 24;

/// Statements that run one after the other.
pub(crate) struct Script<DB: Database> {
    statements: Vec<QueryBuilder<DB>>,
    /// The number of rows that are inserted.
    rows: usize,
}

impl<DB: Dialect> Script<DB> {
    pub(crate) fn new() -> Self {
        Self {
            statements: Vec::new(),
            rows: 0,
        }
    }

    /// Adds a statement, which the caller may continue.
    pub(crate) fn statement(&mut self, sql: &str) -> &mut QueryBuilder<DB> {
        if DB::SCRIPTS
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
        for rows in rows.chunks(MAX_ROWS_PER_STATEMENT) {
            let query = self.statement(before);
            push_values(query, rows.iter().copied());
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
    use sqlx::Postgres;

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

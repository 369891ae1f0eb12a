//! Several statements that are sent together.

use sqlx::{Database, QueryBuilder, Sqlite};

use super::backend::bounded;
use super::dialect::{Dialect, Value, push_values};
use super::error::StoreError;

/// How many rows one statement inserts at most: SQLite takes 32,766 values.
const ROWS: usize = 1_000;

/// Statements that run one after the other. SQLite gets them as one text:
/// its connection is another thread, and each way there and back costs two
/// switches of thread, as much as a dozen rows.
pub(crate) struct Script<DB: Database> {
    statements: Vec<QueryBuilder<DB>>,
    /// How many rows it inserts.
    rows: usize,
}

impl<DB: Dialect> Script<DB> {
    pub(crate) fn new() -> Self {
        Self {
            statements: Vec::new(),
            rows: 0,
        }
    }

    /// Begins a statement.
    pub(crate) fn statement(&mut self, sql: &str) -> &mut QueryBuilder<DB> {
        if DB::SCRIPTS
            && let Some(query) = self.statements.first_mut()
        {
            query.push("; ").push(sql);
        } else {
            self.statements.push(QueryBuilder::new(sql));
        }
        // There is one now.
        self.statements
            .last_mut()
            .expect("a statement was just begun")
    }

    /// Inserts rows, between what stands before VALUES and what stands after.
    pub(crate) fn insert<const N: usize>(
        &mut self,
        before: &str,
        rows: &[[Value<'_>; N]],
        after: &str,
    ) {
        for rows in rows.chunks(ROWS) {
            let query = self.statement(before);
            push_values(query, rows.iter().copied());
            query.push(after);
            self.rows += rows.len();
        }
    }
}

impl Script<Sqlite> {
    /// Returns the statements as the one query that they are.
    pub(crate) fn into_query(mut self) -> QueryBuilder<Sqlite> {
        self.statements.pop().unwrap_or_default()
    }
}

/// Of scripts that insert more rows than this the prepared statements are not
/// kept: they come in as many lengths as there are, and one of 500 changes takes
/// megabytes.
const KEPT_ROWS: usize = 24;

impl<DB: Dialect> Script<DB> {
    /// Runs the statements, for as long as they take.
    pub(crate) async fn execute(
        &mut self,
        connection: &mut DB::Connection,
    ) -> Result<(), sqlx::Error> {
        let keep = self.rows <= KEPT_ROWS;
        for query in &mut self.statements {
            DB::execute(query, keep, connection).await?;
        }
        Ok(())
    }

    /// Runs the statements, but not for ever.
    pub(crate) async fn run(mut self, connection: &mut DB::Connection) -> Result<(), StoreError> {
        bounded(self.execute(connection)).await
    }
}

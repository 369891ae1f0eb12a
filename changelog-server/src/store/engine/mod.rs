//! One SQL text, two databases: the enum that tells them apart, and the macro
//! that runs one piece of code on either.

pub(crate) mod backup;
pub(crate) mod batcher;
pub(crate) mod checkpoint;
pub(crate) mod error;
#[cfg(test)]
pub(crate) mod explain;
pub(crate) mod fair_share;
pub(crate) mod file;
pub(crate) mod open;
pub(crate) mod readers;
pub(crate) mod version;
pub(crate) mod writer;

use std::time::Duration;

use serde_json::Map;
use sqlx::types::{Json, Uuid};
use sqlx::{Database, Postgres, QueryBuilder, Sqlite};

use error::StoreError;
use writer::SqliteTx;

/// Something that exists once for each database.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Engine<S, P> {
    /// The embedded database.
    Sqlite(S),
    /// PostgreSQL.
    Postgres(P),
}

/// The connection that one transaction runs on.
pub(crate) type Connection = Engine<SqliteTx, sqlx::Transaction<'static, Postgres>>;

/// How long one statement may take. A stopped PostgreSQL never answers, and
/// sqlx bounds only the wait for a connection. Together with that wait it
/// stays below the five seconds after which a caller must have an answer.
pub(crate) const STATEMENT_TIMEOUT: Duration = Duration::from_millis(2_500);

/// Runs the same piece of code on either database: the body is a future that
/// sqlx makes, written once.
macro_rules! on {
    ($target:expr, |$db:ident| $body:expr) => {
        match $target {
            $crate::store::engine::Engine::Sqlite($db) => {
                $crate::store::engine::bounded($body).await
            }
            $crate::store::engine::Engine::Postgres($db) => {
                $crate::store::engine::bounded($body).await
            }
        }
    };
}
pub(crate) use on;

/// Executes a query within a transaction on either database, and returns how
/// many rows it touched.
macro_rules! execute {
    ($tx:expr, $query:expr) => {
        match &mut $tx.connection {
            $crate::store::engine::Engine::Sqlite(db) => {
                $crate::store::engine::bounded($query.execute(&mut **db))
                    .await
                    .map(|done| done.rows_affected())
            }
            $crate::store::engine::Engine::Postgres(db) => {
                $crate::store::engine::bounded($query.execute(&mut **db))
                    .await
                    .map(|done| done.rows_affected())
            }
        }
    };
}
pub(crate) use execute;

/// Waits for a statement, but not for ever.
pub(crate) async fn bounded<T>(
    statement: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(STATEMENT_TIMEOUT, statement).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(StoreError::Unavailable(
            "the database did not answer in time".into(),
        )),
    }
}

/// Waits for a COMMIT, but not for ever. The outcome of one that does not
/// return is not known.
pub(crate) async fn committed(
    commit: impl Future<Output = Result<(), sqlx::Error>>,
) -> Result<(), StoreError> {
    match tokio::time::timeout(STATEMENT_TIMEOUT, commit).await {
        Ok(result) => result.map_err(StoreError::of_commit),
        Err(_) => Err(StoreError::Uncertain(
            "the database did not answer in time".into(),
        )),
    }
}

/// What the two databases call differently, for queries that are put together.
pub(crate) trait Dialect: Database {
    /// Whether several statements can be sent as one text.
    const SCRIPTS: bool;
    /// Whether the changes of all organizations share one list of places,
    /// because a place is the number of the row.
    const ONE_LIST: bool;

    /// Adds a value to a query.
    fn bind(query: &mut QueryBuilder<Self>, value: Value<'_>);

    /// Runs a query, and keeps what it was prepared to, or not.
    fn execute(
        query: &mut QueryBuilder<Self>,
        keep: bool,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// A value of a query that is put together for either database.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'v> {
    Uuid(Uuid),
    MaybeUuid(Option<Uuid>),
    Text(&'v str),
    MaybeText(Option<&'v str>),
    Number(i64),
    MaybeNumber(Option<i64>),
    Bytes(&'v [u8]),
    Json(&'v Map<String, serde_json::Value>),
}

macro_rules! dialect {
    ($database:ty, scripts: $scripts:literal, one_list: $one_list:literal) => {
        impl Dialect for $database {
            const SCRIPTS: bool = $scripts;
            const ONE_LIST: bool = $one_list;

            fn bind(query: &mut QueryBuilder<Self>, value: Value<'_>) {
                match value {
                    Value::Uuid(value) => query.push_bind(value),
                    Value::MaybeUuid(value) => query.push_bind(value),
                    Value::Text(value) => query.push_bind(value),
                    Value::MaybeText(value) => query.push_bind(value),
                    Value::Number(value) => query.push_bind(value),
                    Value::MaybeNumber(value) => query.push_bind(value),
                    Value::Bytes(value) => query.push_bind(value),
                    Value::Json(value) => query.push_bind(Json(value)),
                };
            }

            async fn execute(
                query: &mut QueryBuilder<Self>,
                keep: bool,
                connection: &mut Self::Connection,
            ) -> Result<(), sqlx::Error> {
                query.build().persistent(keep).execute(connection).await?;
                Ok(())
            }
        }
    };
}
dialect!(Sqlite, scripts: true, one_list: true);
dialect!(Postgres, scripts: false, one_list: false);

impl From<Uuid> for Value<'_> {
    fn from(value: Uuid) -> Self {
        Self::Uuid(value)
    }
}

impl From<Option<Uuid>> for Value<'_> {
    fn from(value: Option<Uuid>) -> Self {
        Self::MaybeUuid(value)
    }
}

impl<'v> From<&'v str> for Value<'v> {
    fn from(value: &'v str) -> Self {
        Self::Text(value)
    }
}

impl<'v> From<Option<&'v str>> for Value<'v> {
    fn from(value: Option<&'v str>) -> Self {
        Self::MaybeText(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Number(value)
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::MaybeNumber(value)
    }
}

impl<'v> From<&'v [u8]> for Value<'v> {
    fn from(value: &'v [u8]) -> Self {
        Self::Bytes(value)
    }
}

impl<'v> From<&'v Map<String, serde_json::Value>> for Value<'v> {
    fn from(value: &'v Map<String, serde_json::Value>) -> Self {
        Self::Json(value)
    }
}

/// Writes `VALUES (…), (…)`; both databases name the columns `column1`,
/// `column2` and so on.
pub(crate) fn push_values<'v, DB: Dialect, const N: usize>(
    query: &mut QueryBuilder<DB>,
    rows: impl IntoIterator<Item = [Value<'v>; N]>,
) {
    for (number, row) in rows.into_iter().enumerate() {
        query.push(if number == 0 { "VALUES (" } else { "), (" });
        for (number, value) in row.into_iter().enumerate() {
            if number > 0 {
                query.push(", ");
            }
            DB::bind(query, value);
        }
    }
    query.push(")");
}

/// Writes how many rows to read and how many to leave out before them. What can
/// be is written out: SQLite's planner looks at a limit that is bound (and for
/// the search index at an offset), and prepares the statement anew each time
/// because the next one may differ, which doubled what a list costs.
pub(crate) fn push_limit<DB: Dialect>(query: &mut QueryBuilder<DB>, limit: u64, offset: i64) {
    query.push(" LIMIT ").push(limit);
    if offset > 0 {
        query.push(" OFFSET ");
        DB::bind(query, offset.into());
    }
}

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

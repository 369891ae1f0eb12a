//! Whether SQLite prepares a statement again each time it runs.

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, ConnectOptions};
use sqlx_sqlite::SqliteConnectOptions;
use sqlx_sqlite::SqliteConnection;

/// How often each statement runs, with other values each time.
const RUNS: usize = 3;

/// Opens a connection that keeps every statement that it has prepared.
async fn open(database: &str) -> SqliteConnection {
    let options: SqliteConnectOptions = database.parse().expect("an address");
    let options = options.statement_cache_capacity(10_000);
    options.connect().await.expect("a database")
}

/// Runs statements several times on one connection, changes nothing, and returns
/// those that SQLite prepared again.
pub(super) async fn again(database: &str, statements: &BTreeSet<String>) -> Vec<String> {
    let mut connection = open(database).await;
    // Otherwise the first statement would be prepared again once the schema is read.
    execute(&mut connection, "SELECT name FROM sqlite_schema").await;
    for statement in statements {
        for run in 0..RUNS {
            execute(&mut connection, "BEGIN IMMEDIATE").await;
            run_once(&mut connection, statement, run).await;
            execute(&mut connection, "ROLLBACK").await;
        }
    }
    let often: (i64,) = sqlx::query_as("SELECT count(*) FROM sqlite_stmt WHERE run >= $1")
        .bind(i64::try_from(RUNS).expect("few"))
        .fetch_one(&mut connection)
        .await
        .expect("a count");
    let often = usize::try_from(often.0).expect("a count");
    assert!(often >= statements.len(), "only {often} statements ran");
    prepared_again(&mut connection).await
}

/// Returns the statements that a connection has prepared more than once.
async fn prepared_again(connection: &mut SqliteConnection) -> Vec<String> {
    let rows: Vec<(String,)> = sqlx::query_as("SELECT sql FROM sqlite_stmt WHERE reprep > 0")
        .fetch_all(connection)
        .await
        .expect("the statements of this connection");
    rows.into_iter().map(|(text,)| text).collect()
}

/// Runs a statement. The values may violate a constraint, which does not matter:
/// SQLite prepares a statement again before its first step.
async fn run_once(connection: &mut SqliteConnection, statement: &str, run: usize) {
    let mut query = sqlx::query(AssertSqlSafe(statement.to_owned()));
    // At least as many as the statement has parameters.
    for position in 0..statement.matches(['?', '$']).count() {
        query = match (position + run) % 3 {
            0 => query.bind(i64::try_from(position).unwrap_or_default()),
            1 => query.bind(format!("value{run}")),
            _ => query.bind(vec![7_u8; 16 + run]),
        };
    }
    match query.execute(connection).await {
        Ok(_) | Err(sqlx::Error::Database(_)) => {}
        Err(error) => panic!("{error}: {statement}"),
    }
}

async fn execute(connection: &mut SqliteConnection, statement: &'static str) {
    let done = sqlx::query(statement).execute(connection).await;
    done.unwrap_or_else(|error| panic!("{error}: {statement}"));
}

#[tokio::test]
async fn a_statement_that_is_prepared_again_is_found() {
    const SELECT: &str = "SELECT a FROM b WHERE a = $1";
    let mut connection = open("sqlite::memory:").await;
    execute(&mut connection, "CREATE TABLE b (a)").await;
    for run in 0..RUNS {
        run_once(&mut connection, SELECT, run).await;
    }
    assert!(prepared_again(&mut connection).await.is_empty());
    // A change of the schema makes every statement invalid.
    execute(&mut connection, "CREATE INDEX c ON b (a)").await;
    run_once(&mut connection, SELECT, 0).await;
    let again = prepared_again(&mut connection).await;
    assert!(again.contains(&SELECT.to_owned()), "{again:?}");
}

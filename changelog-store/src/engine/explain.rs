//! How SQLite runs a statement, for tests: a plan depends on the schema alone,
//! because nothing has counted the rows.

use sqlx::{AssertSqlSafe, Connection};
use sqlx_sqlite::SqliteConnection;

/// Returns the steps of the plan of a statement.
pub(crate) async fn of(statement: &str) -> Vec<String> {
    let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    sqlx::migrate!("migrations/sqlite")
        .run(&mut connection)
        .await
        .unwrap();
    let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
    let steps: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    steps.into_iter().map(|(.., step)| step).collect()
}

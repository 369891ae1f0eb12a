//! SQLite's write-ahead log with a long reader: writes do not wait for it, and the log is
//! truncated when the reader has ended.

use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::Connection;
use sqlx_sqlite::SqliteConnection;

use changelog_tests::{TestApp, on_sqlite, send};

on_sqlite!(process: writes_do_not_wait_for_a_long_reader);

/// More than the log may hold when no reader needs it.
const LARGE: u64 = 64 << 20;

fn log_bytes(app: &TestApp) -> u64 {
    let log = app.folder().join("changelog.db-wal");
    log.metadata().map_or(0, |found| found.len())
}

async fn execute(connection: &mut SqliteConnection, statement: &'static str) {
    sqlx::raw_sql(statement)
        .execute(connection)
        .await
        .unwrap_or_else(|error| panic!("{statement}: {error}"));
}

async fn writes_do_not_wait_for_a_long_reader(app: TestApp) {
    let key = app.key();
    key.change("before").await;
    let mut reader = app.sqlite().await;
    execute(&mut reader, "BEGIN; SELECT count(*) FROM changes").await;
    let mut other = app.sqlite().await;
    execute(
        &mut other,
        "CREATE TABLE large AS SELECT zeroblob(80000000) AS bytes",
    )
    .await;
    assert!(log_bytes(&app) > LARGE, "{}", log_bytes(&app));

    let mut slowest = Duration::ZERO;
    for number in 0..40 {
        let started = Instant::now();
        key.change(&format!("during {number}")).await;
        slowest = slowest.max(started.elapsed());
    }
    // Waiting for the reader would take five seconds.
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    assert!(log_bytes(&app) > LARGE, "the log was truncated");

    execute(&mut reader, "COMMIT").await;
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut number = 0;
    while log_bytes(&app) > LARGE {
        assert!(Instant::now() < deadline, "{} bytes", log_bytes(&app));
        number += 1;
        let body = json!({ "title": format!("after {number}") });
        send(key.request("POST", "/api/changes").json(&body))
            .await
            .is(201);
    }
    other.close().await.expect("closed");
    reader.close().await.expect("closed");
}

//! A millisecond has room for a million changes of all organizations on SQLite.

use serde_json::json;
use sqlx::Connection;

use changelog_tests::{TestApp, each, on_sqlite};

on_sqlite!(process: a_full_millisecond_is_refused_until_keys_are_free);

/// Fills a millisecond of 2025 with changes of the newest organization.
const FILL: &str = "
PRAGMA synchronous = OFF;
PRAGMA foreign_keys = OFF;
BEGIN IMMEDIATE;
WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 1048575)
INSERT INTO changes (sort_key, organization_id, id, risk_level, status, title, document)
SELECT (1735689600000 << 20) + n, (SELECT id FROM organizations ORDER BY id DESC LIMIT 1),
    CAST(n AS BLOB), 'low', 'planned', '', '{}' FROM n;
COMMIT";

async fn a_full_millisecond_is_refused_until_keys_are_free(app: TestApp) {
    app.second_organization();
    let mut db = app.sqlite().await;
    let mut run = async |statement: &'static str| {
        let done = sqlx::raw_sql(statement).execute(&mut db).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    };
    run(FILL).await;
    let key = app.key();
    let body = |title: &str| json!({ "title": title, "occurred_at": "2025-01-01T00:00:00Z" });
    key.post("/api/changes", body("no room"))
        .await
        .violates(&[("/occurred_at", "out_of_range")]);

    // Makes one of 500 keys free.
    run("DELETE FROM changes WHERE sort_key % 500 = 7").await;
    for number in 0..5 {
        let title = format!("room for {number}");
        key.post("/api/changes", body(&title)).await.is(201);
    }
    let many: Vec<_> = (0..100).map(|n| body(&format!("of many {n}"))).collect();
    key.create_changes(many).await;
    let list = key.body("/api/changes?per_page=100").await;
    assert_eq!(list["count"], 105);
    for at in each(&list["data"], "occurred_at") {
        assert_eq!(at, "2025-01-01T00:00:00.000Z");
    }
    db.close().await.expect("a closed connection");
}

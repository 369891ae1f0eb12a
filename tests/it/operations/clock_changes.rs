//! Clock changes: times in the future are corrected, and a clock that was set back does
//! not make expired keys and sessions valid.

use chrono::{TimeDelta, Utc};

use changelog_tests::database::{Db, execute, fetch};
use changelog_tests::{TestApp, on_both, send, text};
use serde_json::json;

on_both!(
    process:
    a_clock_set_back_before_a_restart_revives_no_key_or_session,
    times_in_the_future_are_corrected,
    a_clock_that_is_far_ahead_deletes_nothing,
    what_a_wrong_clock_has_put_off_is_pulled_back,
);

async fn a_clock_set_back_before_a_restart_revives_no_key_or_session(mut app: TestApp) {
    let expires_at = (Utc::now() + TimeDelta::minutes(30)).to_rfc3339();
    let made = app.create_key(&["--expires-at", &expires_at]);
    let key = text(&made["key"]);
    app.with_key(&key).get("/api/hosts").await.is(200);
    let organization = app.organization.clone();
    let cookie = app.cookie_of(&organization).await;
    let browser = |app: &TestApp| app.anonymous().with("cookie", &cookie);
    browser(&app).get("/api/activity").await.is(200);

    // As if the clock had been eight days ahead and was set back.
    let seen = (Utc::now() + TimeDelta::days(8)).timestamp_millis();
    let mut db = Db::open(app.engine, &app.database).await;
    let keep = "INSERT INTO latest_time (id, seen_at) VALUES (1, $1)";
    execute!(&mut db, sqlx::query(keep).bind(seen));
    app.restart().await;
    let refused = app.with_key(&key).get("/api/hosts").await;
    refused.problem(401, "unauthorized");
    app.key().get("/api/hosts").await.is(200);
    let refused = browser(&app).get("/api/activity").await;
    refused.problem(401, "unauthorized");
    let log = app.server.log();
    assert!(log.contains("--trust-clock"), "{log}");
    let id = app.key().change("recorded").await;
    let path = format!("/api/changes/{id}");
    let change = app.key().read(&path).await;
    changelog_tests::shapes::assert_recent(&change["created_at"]);

    // The operator states that the clock is right.
    app.restart_with(&["--trust-clock"]).await;
    app.with_key(&key).get("/api/hosts").await.is(200);
    let rows: Vec<(i64,)> = fetch!(&mut db, sqlx::query_as("SELECT seen_at FROM latest_time"));
    assert!(rows[0].0 < seen, "{rows:?}");
    app.restart().await;
    app.with_key(&key).get("/api/hosts").await.is(200);
    db.close().await;
}

async fn times_in_the_future_are_corrected(app: TestApp) {
    let browser = app.browser().await;
    let ahead = (Utc::now() + TimeDelta::days(3_650)).timestamp_millis();
    let mut db = Db::open(app.engine, &app.database).await;
    let organization = &app.organization;
    let wrong = async || {
        let anonymous = app.anonymous();
        anonymous
            .try_sign_in(&organization.email, "a wrong password")
            .await
    };

    // A session that begins in the future.
    let stamp = "UPDATE sessions SET created_at = $1, last_seen_at = $1";
    execute!(&mut db, sqlx::query(stamp).bind(ahead));
    let refused = browser.get("/api/activity").await;
    refused.problem(401, "unauthorized");

    // Failures in the future do not block sign-ins until then.
    for _ in 0..6 {
        wrong().await;
    }
    wrong().await.is(429);
    let stamp = "UPDATE sign_in_failures SET last_failed_at = $1";
    execute!(&mut db, sqlx::query(stamp).bind(ahead));
    wrong().await.is(401);
    let rows: Vec<(i64,)> = fetch!(
        &mut db,
        sqlx::query_as("SELECT last_failed_at FROM sign_in_failures")
    );
    assert!(rows.iter().all(|(at,)| *at < ahead), "{rows:?}");

    // A key with a last use in the future.
    let stamp = "UPDATE api_keys SET last_used_at = $1";
    execute!(&mut db, sqlx::query(stamp).bind(ahead));
    app.key().get("/api/hosts").await.is(200);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let rows: Vec<(i64,)> =
            fetch!(&mut db, sqlx::query_as("SELECT last_used_at FROM api_keys"));
        if rows[0].0 < ahead {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{rows:?}");
        tokio::task::yield_now().await;
    }
    db.close().await;
}

/// Returns the number of rows of a table.
async fn count(app: &TestApp, select: &'static str) -> i64 {
    let mut db = Db::open(app.engine, &app.database).await;
    let rows: Vec<(i64,)> = fetch!(&mut db, sqlx::query_as(select));
    db.close().await;
    rows[0].0
}

async fn a_clock_that_is_far_ahead_deletes_nothing(mut app: TestApp) {
    let body = json!({ "title": "Once" });
    let request = app.key().request("POST", "/api/changes");
    send(request.header("idempotency-key", "k").json(&body)).await;
    // As old as the clock is ahead.
    app.execute("UPDATE idempotency SET created_at = 1").await;
    let select = "SELECT CAST(count(*) AS BIGINT) FROM idempotency";
    for (days, left) in [(10, 1), (0, 0)] {
        let seen = (Utc::now() - TimeDelta::days(days)).timestamp_millis();
        let keep = "INSERT INTO latest_time (id, seen_at) VALUES (1, $1) \
                    ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at";
        app.server.kill9();
        let mut db = Db::open(app.engine, &app.database).await;
        execute!(&mut db, sqlx::query(keep).bind(seen));
        db.close().await;
        app.restart().await;
        let started = std::time::Instant::now();
        // The server deletes at its start.
        while count(&app, select).await != left || started.elapsed().as_secs() < 3 {
            assert!(started.elapsed().as_secs() < 30, "{days} days");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let is_told = app.server.log().contains("more than a day ahead");
        assert_eq!(is_told, left == 1);
    }
}

async fn what_a_wrong_clock_has_put_off_is_pulled_back(mut app: TestApp) {
    let create = ["integration", "create", "--org", &app.organization.id];
    let kind = [
        "--kind",
        "webhook",
        "--name",
        "Gone",
        "--url",
        "https://hooks.example.invalid/x",
    ];
    app.admin(&[&create[..], &kind].concat());
    app.key().change("is sent").await;
    app.admin(&["org", "retention", &app.organization.id, "24"]);
    let pending = "SELECT CAST(count(*) AS BIGINT) FROM deliveries WHERE state = 'pending'";
    while count(&app, pending).await == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    app.server.kill9();
    for statement in [
        "UPDATE deliveries SET next_at = 9000000000000, is_claimed = 0",
        "UPDATE connections SET hold_until = 9000000000000, failing_since = 9000000000000",
        "UPDATE retentions SET due_at = 9000000000000",
    ] {
        app.execute(statement).await;
    }
    let late = "SELECT CAST((SELECT count(*) FROM deliveries WHERE next_at > 8000000000000)
                + (SELECT count(*) FROM connections WHERE hold_until > 8000000000000
                       OR failing_since > 8000000000000)
                + (SELECT count(*) FROM retentions WHERE due_at > 8000000000000) AS BIGINT)";
    assert_eq!(count(&app, late).await, 3);
    app.restart_with(&["--trust-clock"]).await;
    assert_eq!(count(&app, late).await, 0);
}

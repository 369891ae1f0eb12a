//! `/api/health`, and the service without its database.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use changelog_tests::shapes::assert_recent;
use changelog_tests::{
    Postgres, TestApp, TestClient, TestResponse, assert_lacks, keys, on_both, on_sqlite, send,
};

on_both!(a_healthy_service_reports_ok);
on_sqlite!(process: a_missing_sqlite_file_is_reported);

async fn a_healthy_service_reports_ok(app: TestApp) {
    for caller in [app.anonymous(), app.with_key("chlog_wrong"), app.key()] {
        let answer = caller.get("/api/health").await;
        let health = answer.body(200);
        assert_eq!(keys(&health), ["db", "latency_ms", "status", "timestamp"]);
        assert_eq!(health["status"], "ok");
        assert_eq!(health["db"], "reachable");
        let latency = health["latency_ms"].as_u64().expect("whole milliseconds");
        assert!(latency < 1500, "{latency}");
        assert_recent(&health["timestamp"]);
        assert!(
            answer.header("cache-control").contains("no-store"),
            "{:?}",
            answer.headers
        );
    }
}

/// Requires the body of the specification, without details of the database.
#[track_caller]
fn assert_degraded(answer: &TestResponse, app: &TestApp) {
    let health = answer.body(503);
    assert_eq!(keys(&health), ["db", "error", "status"]);
    assert_eq!(health["status"], "degraded");
    assert_eq!(health["db"], "unreachable");
    let error = health["error"].as_str().expect("a phrase");
    assert_ne!(error, "");
    for secret in ["sqlite", "postgres", "127.0.0.1", "/"] {
        assert_lacks(&error, secret);
    }
    assert!(!answer.text.contains(&app.database));
}

/// Requires that all other endpoints respond with 503 in time.
async fn assert_unavailable(key: &TestClient, browser: &TestClient) {
    let started = Instant::now();
    let requests = [
        key.request("GET", "/api/hosts"),
        key.request("GET", "/api/changes?q=x"),
        key.request("GET", "/api/services"),
        key.request("POST", "/api/changes")
            .json(&json!({ "title": "lost" })),
        key.request("POST", "/api/hosts")
            .json(&json!({ "hostname": "lost" })),
        browser.request("GET", "/api/activity"),
        browser.request("GET", "/api/activity/actors"),
    ];
    let answers = futures_util::future::join_all(requests.map(send)).await;
    for answer in answers {
        answer.problem(503, "unavailable");
        assert!(
            answer
                .header("retry-after")
                .parse::<u64>()
                .is_ok_and(|seconds| seconds > 0)
        );
    }
    let took = started.elapsed();
    assert!(took < Duration::from_millis(5500), "{took:?}");
}

/// Waits until the service is healthy.
async fn wait_until_healthy(app: &TestApp) {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let answer = app.anonymous().get("/api/health").await;
        if answer.status == 200 {
            return;
        }
        assert!(Instant::now() < deadline, "no recovery: {}", answer.text);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn assert_degraded_in_time(app: &TestApp) {
    let started = Instant::now();
    let answer = app.anonymous().get("/api/health").await;
    let took = started.elapsed();
    assert_degraded(&answer, app);
    // The limit is 1.5 s; the rest is for a busy machine.
    assert!(took < Duration::from_millis(1900), "{took:?}");
    let head = send(app.anonymous().request("HEAD", "/api/health")).await;
    assert_eq!((head.status, head.text.as_str()), (503, ""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_postgres_is_reported_in_time() {
    let Some(postgres) = Postgres::start().await else {
        return;
    };
    let app = TestApp::on_postgres(&postgres).await;
    let (key, browser) = (app.key(), app.browser().await);
    key.change("before").await;

    postgres.suspend();
    assert_degraded_in_time(&app).await;
    assert_unavailable(&key, &browser).await;
    // Also when every connection of the pool is in use.
    let many = (0..40).map(|_| key.get("/api/hosts"));
    let started = Instant::now();
    for answer in futures_util::future::join_all(many).await {
        answer.problem(503, "unavailable");
    }
    assert!(
        started.elapsed() < Duration::from_millis(5500),
        "{:?}",
        started.elapsed()
    );
    assert_degraded_in_time(&app).await;
    let keyed = || {
        let request = key
            .request("POST", "/api/changes")
            .header("idempotency-key", "through the outage");
        send(request.json(&json!({ "title": "through the outage" })))
    };
    keyed().await.problem(503, "unavailable");

    postgres.resume();
    wait_until_healthy(&app).await;
    keyed().await.is(201);
    let list = key.body("/api/changes?q=through").await;
    assert_eq!(list["count"], 1, "the retry created one change");
    let many = (0..40).map(|_| key.get("/api/hosts"));
    for answer in futures_util::future::join_all(many).await {
        answer.is(200);
    }
    browser.body("/api/activity").await;

    // A stopped database is reported at once.
    drop(postgres);
    assert_degraded_in_time(&app).await;
    assert_unavailable(&key, &browser).await;
    assert_lacks(&app.server.log(), "panicked");
}

async fn a_missing_sqlite_file_is_reported(app: TestApp) {
    let key = app.key();
    key.change("before").await;
    let away = app.folder().join("away.db");
    for round in 0..2 {
        fs::rename(app.file(), &away).expect("the file exists");
        assert_degraded_in_time(&app).await;
        let answer = key.post("/api/changes", json!({ "title": "lost" })).await;
        answer.problem(503, "unavailable");
        let answer = key.post("/api/hosts", json!({ "hostname": "lost" })).await;
        answer.problem(503, "unavailable");
        fs::rename(&away, app.file()).expect("the file exists");
        wait_until_healthy(&app).await;
        key.change(&format!("after {round}")).await;
    }
    assert_eq!(key.body("/api/changes").await["count"], 3);

    fs::remove_file(app.file()).expect("the file exists");
    assert_degraded_in_time(&app).await;
    let answer = key.post("/api/changes", json!({ "title": "lost" })).await;
    answer.problem(503, "unavailable");
    // Another file in its place is not the database.
    fs::write(app.file(), "").expect("the folder is there");
    assert_degraded_in_time(&app).await;
    let answer = key.post("/api/changes", Value::Null).await;
    assert!(answer.status >= 400);
    let answer = key.post("/api/changes", json!({ "title": "lost" })).await;
    answer.problem(503, "unavailable");
}

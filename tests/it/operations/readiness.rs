//! `/livez`, `/readyz`, `changelog-server health`, and what happens between the signal to stop
//! and the end.

use std::time::{Duration, Instant};

use serde_json::json;

use changelog_tests::{TestApp, assert_contains, on_both, on_one, on_sqlite};

on_both!(a_running_server_is_live_and_ready);
on_sqlite!(process: a_server_without_its_database_is_live_and_not_ready);
on_one!(
    process:
    readiness_fails_before_the_drain_begins,
    the_health_command_fails_without_a_server,
);

async fn a_running_server_is_live_and_ready(app: TestApp) {
    let anyone = app.anonymous();
    for (path, expected) in [
        ("/livez", "ok\n"),
        ("/readyz", "ok\n"),
        ("/readyz?verbose", "[+] database: ok\n[+] running: ok\nok\n"),
    ] {
        let answer = anyone.get(path).await;
        answer.is(200);
        assert_eq!(answer.text, expected, "{path}");
        assert_contains(answer.header("content-type"), "text/plain");
    }
    let output = app.try_admin(&["health", "--listen", &app.server.address], "");
    assert!(output.status.success(), "{output:?}");
    assert_contains(&String::from_utf8_lossy(&output.stdout), "database: ok");
}

async fn a_server_without_its_database_is_live_and_not_ready(app: TestApp) {
    let away = app.folder().join("away.db");
    std::fs::rename(app.file(), &away).expect("the file exists");
    let answer = app.anonymous().get("/readyz").await;
    answer.is(503);
    assert_contains(&answer.text, "[-] database: the database does not answer");
    assert_contains(&answer.text, "not ready");
    app.anonymous().get("/livez").await.is(200);
    let health = ["health", "--listen", &app.server.address];
    let output = app.try_admin(&health, "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_contains(&String::from_utf8_lossy(&output.stderr), "answered 503");
    std::fs::rename(away, app.file()).expect("the file exists");
    assert!(app.try_admin(&health, "").status.success());
}

async fn readiness_fails_before_the_drain_begins(mut app: TestApp) {
    app.restart_with(&["--drain-delay", "4"]).await;
    let (anyone, key) = (app.anonymous(), app.key());
    app.server.terminate();
    let signaled = Instant::now();
    while anyone.get("/readyz").await.status == 200 {
        assert!(signaled.elapsed() < Duration::from_secs(3), "still ready");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let answer = anyone.get("/readyz").await;
    assert_contains(&answer.text, "[-] running: the server is stopping");
    // New connections are still accepted, and their requests are answered.
    let late = app.with_key(&app.organization.key);
    late.post("/api/changes", json!({ "title": "late" }))
        .await
        .is(201);
    key.get("/livez").await.is(200);
    let status = app.server.wait_for_exit(Duration::from_secs(30)).await;
    assert_eq!(status.and_then(|status| status.code()), Some(0));
    let took = signaled.elapsed();
    assert!(took >= Duration::from_secs(4), "{took:?}");
}

async fn the_health_command_fails_without_a_server(mut app: TestApp) {
    let address = app.server.address.clone();
    app.server.kill9();
    for arguments in [
        ["health", "--listen", &address],
        ["health", "--url", &format!("http://{address}")],
    ] {
        let output = app.try_admin(&arguments, "");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let reason = "does not answer: no connection could be made";
        assert_contains(&String::from_utf8_lossy(&output.stderr), reason);
    }
}

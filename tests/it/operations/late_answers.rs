//! PostgreSQL answers when the caller has left or given up.

use serde_json::json;

use changelog_tests::{HoldingProxy, Server, TestApp, TestClient, assert_contains, on_postgres};

on_postgres!(
    a_create_after_a_late_answer_to_begin_is_committed,
    a_create_whose_commit_is_not_confirmed_has_a_code_of_its_own,
);

/// The fewest connections that a server may have, and how many of them write.
const CONNECTIONS: [&str; 2] = ["--database-connections", "10"];
const WRITING: usize = 2;

/// A connection that a client made begin a transaction, and left, has no open transaction
/// when the next create is written: its statement would not be committed.
async fn a_create_after_a_late_answer_to_begin_is_committed(app: TestApp) {
    let proxy = HoldingProxy::before(&app.database).await;
    let server = Server::start_in_process(&proxy.database, &CONNECTIONS).await;
    let server = server.expect("it starts behind a proxy");
    let client = TestClient::new(&server.address).with("x-api-key", &app.organization.key);
    proxy.hold("BEGIN");
    while proxy.held() < WRITING {
        let held = proxy.held();
        let host = client.request("POST", "/api/hosts");
        let host = host.json(&json!({ "hostname": "web-1" }));
        tokio::select! {
            response = host.send() => assert_eq!(response.expect("a response").status(), 503),
            () = proxy.wait_until_held(held + 1) => {}
        }
    }
    proxy.release();
    for created in 1..=3 {
        client.change("acknowledged").await;
        let list = app.key().get("/api/changes").await;
        assert_eq!(list.body(200)["count"], created);
    }
    assert_eq!(app.key().read("/api/hosts").await, json!([]));
}

/// What may have been recorded is not reported as what was not.
async fn a_create_whose_commit_is_not_confirmed_has_a_code_of_its_own(app: TestApp) {
    let proxy = HoldingProxy::before(&app.database).await;
    let server = Server::start_in_process(&proxy.database, &CONNECTIONS).await;
    let server = server.expect("it starts behind a proxy");
    let client = TestClient::new(&server.address).with("x-api-key", &app.organization.key);
    // The statement that records a change also commits it.
    proxy.hold("INSERT INTO changes");
    let change = json!({ "title": "not confirmed" });
    let answer = client.post("/api/changes", change).await;
    answer.problem(503, "outcome_unknown");
    // `chlog` says so, too, also if a later attempt was refused.
    let mut log = app.chlog();
    log.env("CHLOG_URL", format!("http://{}", server.address))
        .args(["log", "Not confirmed", "--strict"]);
    let output = tokio::task::spawn_blocking(move || log.output());
    let output = output.await.expect("no panic").expect("chlog runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert_contains(&said, "may or may not have been recorded");
}

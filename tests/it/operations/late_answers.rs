//! PostgreSQL answers when the caller has left or given up.

use serde_json::json;

use changelog_tests::{HoldingProxy, Server, TestApp, TestClient, on_postgres};

on_postgres!(a_create_after_a_late_answer_to_begin_is_committed);

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

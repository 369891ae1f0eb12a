//! PostgreSQL that fails over to a replica, and one that takes no writes.

use std::time::{Duration, Instant};

use changelog_tests::database::{self, Db};
use changelog_tests::postgres::Postgres;
use changelog_tests::{HoldingProxy, TestApp, on_postgres, try_send};
use serde_json::json;

use super::faults::{Clients, assert_recorded};

on_postgres!(
    process:
    a_database_that_takes_no_writes_is_not_ready,
    writes_that_do_not_return_are_seen_by_health,
);

/// How long the service may take to recover from the loss of a host that nothing tells it of.
const RECOVERY: Duration = Duration::from_secs(15);
/// How many operations are answered before and after.
const OPERATIONS: usize = 60;

/// Waits until `/readyz` answers with a status, and with words in its body.
async fn wait_for_readiness(app: &TestApp, status: u16, text: &str) {
    let deadline = Instant::now() + RECOVERY;
    loop {
        let request = app.anonymous().request("GET", "/readyz?verbose");
        if let Ok(answer) = try_send(request).await
            && answer.status == status
            && answer.text.contains(text)
        {
            return;
        }
        assert!(Instant::now() < deadline, "{}", app.server.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The host of the primary vanishes without a word, and its address leads to the replica, which is
/// promoted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_takes_over() {
    let Some(primary) = Postgres::start().await else {
        return;
    };
    let mut app = TestApp::on_postgres(&primary).await;
    let replica = primary.replica().await;
    let proxy = HoldingProxy::before(&app.database).await;
    app.database.clone_from(&proxy.database);
    app.restart().await;
    let clients = Clients::start(&app, 7).await;
    clients.wait_for(OPERATIONS).await;
    primary.kill();
    proxy.vanish(&replica.default_database());
    replica.promote().await;
    wait_for_readiness(&app, 200, "ok").await;
    clients.wait_for(OPERATIONS).await;
    let known = clients.finish().await;
    assert_recorded(&app, &known).await;
    let report = app.admin(&["check"]);
    assert_eq!(report["problems"], json!([]), "{report}");
}

/// Reads are answered while another session holds a lock that writes need.
async fn writes_that_do_not_return_are_seen_by_health(app: TestApp) {
    let key = app.key();
    key.change("before").await;
    let mut other = Db::open(app.engine, &app.database).await;
    let lock = "BEGIN; LOCK TABLE changes IN EXCLUSIVE MODE";
    database::execute!(&mut other, sqlx::raw_sql(lock));
    let writing = tokio::spawn({
        let key = key.clone();
        async move {
            loop {
                let change = json!({ "title": "held up" });
                if key.post("/api/changes", change).await.status == 201 {
                    return;
                }
            }
        }
    });
    wait_for_readiness(&app, 503, "the database takes no writes").await;
    key.get("/api/changes").await.is(200);
    database::execute!(&mut other, sqlx::raw_sql("COMMIT"));
    writing.await.expect("a change is created");
    wait_for_readiness(&app, 200, "ok").await;
}

/// Sessions that began while the database took no writes are replaced when it does again.
async fn a_database_that_takes_no_writes_is_not_ready(app: TestApp) {
    let key = app.key();
    key.change("before").await;
    app.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on',
                                    current_database()); END $$",
    )
    .await;
    app.execute(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    .await;
    wait_for_readiness(&app, 503, "the database takes no writes").await;
    for _ in 0..10 {
        let answer = key
            .post("/api/changes", json!({ "title": "refused" }))
            .await;
        answer.is(503);
    }
    let writing = "?options=-c%20default_transaction_read_only%3Doff";
    let mut db = Db::open(app.engine, &format!("{}{writing}", app.database)).await;
    let reset =
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET default_transaction_read_only',
                                            current_database()); END $$";
    database::execute!(&mut db, sqlx::query(reset));
    db.close().await;
    wait_for_readiness(&app, 200, "ok").await;
    key.change("after").await;
    let list = key.body("/api/changes").await;
    assert_eq!(list["count"], 2, "{list}");
}

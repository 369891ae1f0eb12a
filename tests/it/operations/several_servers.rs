//! Servers and databases: one server per SQLite file, several per PostgreSQL database,
//! and backups.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use changelog_tests::{Engine, Server, TestApp, on_both, on_postgres, on_sqlite, run, send};

on_both!(
    process:
    a_backup_is_complete,
);
on_sqlite!(process: a_second_server_on_a_file_refuses_to_start);
on_postgres!(process: two_servers_share_one_postgres);

async fn a_backup_is_complete(app: TestApp) {
    let copy = app.folder().join("copy.db");
    let path = copy.to_str().expect("a path").to_owned();
    if app.engine == Engine::Postgres {
        let output = app.try_admin(&["backup", &path], "");
        assert!(!output.status.success());
        let stderr = String::from_utf8_lossy(&output.stderr).to_lowercase();
        assert!(
            stderr.contains("sqlite") || stderr.contains("pg_dump"),
            "{stderr}"
        );
        assert!(!copy.exists());
        return;
    }
    let key = app.key();
    for index in 0..40 {
        key.change(&format!("before {index}")).await;
    }
    // During writes.
    let writing = tokio::spawn({
        let key = key.clone();
        async move {
            for index in 0.. {
                let body = json!({ "title": format!("during {index}") });
                let request = key.request("POST", "/api/changes").json(&body);
                match changelog_tests::client::try_send(request).await {
                    Ok(answer) => answer.is(201),
                    Err(_) => break,
                }
            }
        }
    });
    let output = app.try_admin(&["backup", &path], "");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!writing.is_finished(), "a write failed");
    // An existing file is not overwritten.
    let size = copy.metadata().expect("the copy").len();
    let output = app.try_admin(&["backup", &path], "");
    assert!(!output.status.success());
    assert_eq!(copy.metadata().expect("the copy").len(), size);
    writing.abort();

    // The copy is complete, and can be served.
    let mut command = app.serve_command();
    command.env("CHANGELOG_DATABASE_URL", format!("sqlite://{path}"));
    let server = Server::start(command).await.expect("the copy is served");
    let caller = changelog_tests::TestClient::new(&server.address);
    let caller = caller.with("x-api-key", &app.organization.key);
    let list = caller.body("/api/changes?q=before&per_page=100").await;
    assert_eq!(list["count"], 40);
    assert_eq!(list["data"].as_array().map(Vec::len), Some(40));
    caller.change("in the copy").await;
    assert_eq!(key.body("/api/changes?q=copy").await["count"], 0);
}

async fn a_second_server_on_a_file_refuses_to_start(mut app: TestApp) {
    let stderr = Server::start(app.serve_command()).await.err();
    let stderr = stderr.expect("a second server refuses to start");
    assert!(
        stderr.contains("served") || stderr.contains("in use") || stderr.contains("another"),
        "{stderr}"
    );
    assert!(
        stderr.contains("changelog.db"),
        "the file is not named: {stderr}"
    );
    app.key().change("the first goes on").await;
    // A killed server leaves no lock.
    app.restart().await;
    assert_eq!(app.key().body("/api/changes").await["count"], 1);
}

async fn two_servers_share_one_postgres(app: TestApp) {
    let server = app.another_server(&[]).await;
    let other =
        changelog_tests::TestClient::new(&server.address).with("x-api-key", &app.organization.key);
    let first = app.key();
    for index in 0..5 {
        let id = first.change(&format!("first {index}")).await;
        let path = format!("/api/changes/{id}");
        assert_eq!(other.read(&path).await, first.read(&path).await);
        other.change(&format!("other {index}")).await;
    }
    for caller in [&first, &other] {
        assert_eq!(caller.body("/api/changes").await["count"], 10);
    }
    // One idempotency key, sent to both at once.
    let keyed = |caller: &changelog_tests::TestClient| {
        let request = caller
            .request("POST", "/api/changes")
            .header("idempotency-key", "both");
        send(request.json(&json!({ "title": "to both" })))
    };
    let answers: Vec<_> = (0..10)
        .flat_map(|_| [keyed(&first), keyed(&other)])
        .collect();
    let answers = futures_util::future::join_all(answers).await;
    for answer in &answers {
        assert_eq!(answer.data(201), answers[0].data(201));
    }
    assert_eq!(first.body("/api/changes?q=both").await["count"], 1);
}

/// The error of a database that cannot be opened does not show its URL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_errors_do_not_show_the_password() {
    let folder = tempfile::tempdir().expect("a folder");
    for address in [
        "postgres://someone:hunter2secret@127.0.0.1:1/nowhere",
        "sqlite:///nowhere/at/all/changelog.db",
        "mysql://someone:hunter2secret@127.0.0.1/x",
        "nonsense",
    ] {
        let mut command: Command = changelog_tests::server_command(folder.path());
        command.args(["org", "list", "--database-url", address]);
        let waiting = tokio::task::spawn_blocking(move || run(command, ""));
        let output = tokio::time::timeout(Duration::from_secs(40), waiting).await;
        let output = output.expect("the timeout").expect("an exit");
        assert!(!output.status.success(), "{address}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            !stderr.trim().is_empty() && !stderr.contains("hunter2secret"),
            "{stderr}"
        );
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

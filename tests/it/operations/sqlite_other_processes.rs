//! Other processes on the SQLite file: other users cannot read it, and a process that
//! blocks writes is reported.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use changelog_tests::{RawConnection, TestApp, each, keys, on_sqlite, run, send};

on_sqlite!(process:
    only_the_owner_can_open_the_files,
    a_process_that_holds_the_write_lock_is_reported,
    abandoned_requests_are_not_recorded,
    a_server_starts_only_when_it_can_write,
);

fn companion_file(app: &TestApp, purpose: &str) -> PathBuf {
    let mut name = app.file().into_os_string();
    name.push(format!("-{purpose}"));
    name.into()
}

fn mode(path: &Path) -> u32 {
    let found = fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    found.permissions().mode() & 0o777
}

fn database_files(app: &TestApp) -> Vec<PathBuf> {
    let companions = ["wal", "shm", "write-lock", "queue-lock", "serve-lock"]
        .map(|name| companion_file(app, name));
    [app.file()].into_iter().chain(companions).collect()
}

/// The umask of a test run is the usual 022.
async fn only_the_owner_can_open_the_files(mut app: TestApp) {
    app.key().change("before").await;
    let backup = app.folder().join("copy.db");
    app.admin(&["backup", backup.to_str().expect("a path")]);
    let mut files = database_files(&app);
    for file in files.iter().chain([&backup]) {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }

    // Existing files get these permissions at the next start.
    files.retain(|file| file.exists());
    for file in &files {
        fs::set_permissions(file, fs::Permissions::from_mode(0o664)).expect("permission");
    }
    app.restart().await;
    app.key().change("after").await;
    for file in database_files(&app) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    let log = app.server.log();
    assert!(log.contains("changelog.db") && log.contains("664"), "{log}");
}

async fn a_process_that_holds_the_write_lock_is_reported(app: TestApp) {
    let key = app.key();
    key.change("before").await;
    // Like an admin command that was suspended during a write.
    let lock = companion_file(&app, "write-lock");
    let stopped = File::options().write(true).open(&lock).expect("a lock");
    stopped.lock().expect("the lock");

    let started = Instant::now();
    let create = |number: usize| {
        let body = json!({ "title": format!("change {number}") });
        send(key.request("POST", "/api/changes").json(&body))
    };
    let host = send(
        key.request("POST", "/api/hosts")
            .json(&json!({ "hostname": "lost" })),
    );
    let creates = futures_util::future::join_all((0..40).map(create));
    let (host, creates) = tokio::join!(host, creates);
    let took = started.elapsed();
    assert!(took < Duration::from_millis(5_500), "{took:?}");
    for answer in creates.iter().chain([&host]) {
        let detail = answer.problem(503, "unavailable")["detail"].to_string();
        assert!(detail.contains("nothing was recorded"), "{detail}");
        assert!(detail.contains("blocked"), "{detail}");
    }
    // Later requests are refused sooner.
    let started = Instant::now();
    create(40).await.problem(503, "unavailable");
    let took = started.elapsed();
    assert!(took < Duration::from_millis(1_500), "{took:?}");

    let health = app.anonymous().get("/api/health").await.body(503);
    assert_eq!(keys(&health), ["db", "error", "status"]);
    assert_eq!(health["status"], "degraded");
    assert_eq!(health["db"], "reachable");
    let error = health["error"].as_str().expect("a phrase");
    assert!(error.contains("blocked") && !error.contains('/'), "{error}");
    key.body("/api/changes").await;

    // An admin command has the same timeout, and names the lock.
    let arguments = ["org", "set-plan", app.organization.id.as_str(), "free"];
    let output = app.try_admin(&arguments, "");
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(&*lock.to_string_lossy()), "{stderr}");

    // Nothing of what was refused is recorded when the lock is released.
    drop(stopped);
    let made = loop {
        let answer = create(41).await;
        if answer.status == 201 {
            break answer;
        }
        answer.problem(503, "unavailable");
        assert!(started.elapsed() < Duration::from_secs(15), "no recovery");
    };
    made.is(201);
    let changes = key.body("/api/changes?per_page=100").await;
    assert_eq!(each(&changes["data"], "title"), ["change 41", "before"]);
    assert_eq!(key.read("/api/hosts").await, json!([]));
    app.anonymous().body("/api/health").await;
}

async fn abandoned_requests_are_not_recorded(app: TestApp) {
    let key = app.key();
    key.change("before").await;
    let lock = companion_file(&app, "write-lock");
    let stopped = File::options().write(true).open(&lock).expect("a lock");
    stopped.lock().expect("the lock");
    // One request waits for the lock, and ten after it whose clients disconnect.
    let patient = tokio::spawn(send(
        key.request("POST", "/api/hosts")
            .json(&json!({ "hostname": "patient" })),
    ));
    let mut callers = Vec::new();
    for number in 0..10 {
        let body = format!("{{\"hostname\":\"ghost-{number}\"}}");
        let mut caller = RawConnection::connect(&app.server.address).await;
        let request = format!(
            "POST /api/hosts HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            app.organization.key,
            body.len()
        );
        caller.send(request).await;
        callers.push(caller);
    }
    // Every request was read when a later one has a response.
    for _ in 0..20 {
        key.read("/api/hosts").await;
    }
    drop(callers);
    for _ in 0..20 {
        key.read("/api/hosts").await;
    }
    drop(stopped);
    patient.await.expect("the request does not panic").is(201);
    // All earlier writes are done before this one.
    key.post("/api/hosts", json!({ "hostname": "zz-last" }))
        .await
        .is(201);
    let hosts = key.read("/api/hosts").await;
    assert_eq!(each(&hosts, "hostname"), ["patient", "zz-last"]);
}

async fn a_server_starts_only_when_it_can_write(mut app: TestApp) {
    app.server.kill9();
    let lock = companion_file(&app, "write-lock");
    let stopped = File::options().write(true).open(&lock).expect("a lock");
    stopped.lock().expect("the lock");
    let output = run(app.serve_command(), "");
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(&*lock.to_string_lossy()), "{stderr}");
    drop(stopped);
    app.restart().await;
    app.key().change("after").await;
}

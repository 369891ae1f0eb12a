//! Secrets are written neither to the log nor to the database nor to a backup.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use changelog_tests::issuer::SigningKey;
use changelog_tests::receivers::Receiver;
use changelog_tests::{Answer, Postgres, TestApp, on_sqlite, send, sign_in, text};

use crate::sso::{Begun, CLIENT_SECRET, Provider};

on_sqlite!(process: no_secret_is_written_on_sqlite);

/// Returns all files in a folder and its subfolders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Returns what a file holds; bytes that are no text are replaced, which changes no secret.
/// A file of PostgreSQL may be removed meanwhile, and is then empty.
fn contents(file: &Path) -> String {
    String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned()
}

/// Uses every kind of secret, and returns them with their names.
async fn use_everything(app: &mut TestApp) -> Vec<(&'static str, String)> {
    // The log has all levels.
    let mut command = app.serve_command();
    command
        .args(["--allow-receivers", "127.0.0.0/8"])
        .env("CHANGELOG_LOG", "trace")
        .env("CHANGELOG_LOG_FORMAT", "json");
    app.server.kill9();
    app.server = changelog_tests::Server::start(command)
        .await
        .expect("it starts");
    let owner = app.organization.clone();
    let anonymous = app.anonymous();
    let cookie = sign_in(&anonymous, &owner.email, &owner.password).await;
    let (_, session) = cookie.split_once('=').expect("a value");
    let ended = sign_in(&anonymous, &owner.email, &owner.password).await;
    let signed_out = anonymous.clone().with("cookie", &ended);
    signed_out.submit("/sign-out", &[]).await;
    let wrong = "a-wrong-password-4711";
    anonymous.try_sign_in(&owner.email, wrong).await.is(401);
    let revoked = app.create_key(&[]);
    app.with_key(&text(&revoked["key"]))
        .change("with a key that ends")
        .await;
    app.admin(&["key", "revoke", &text(&revoked["id"])]);
    app.with_key(&text(&revoked["key"]))
        .get("/api/hosts")
        .await
        .is(401);
    let idempotency = "idempotency-key-4711";
    let keyed = app
        .key()
        .request("POST", "/api/changes")
        .header("idempotency-key", idempotency);
    let body = json!({ "title": "a title", "description": "description-in-a-body-4711" });
    send(keyed.json(&body)).await.is(201);
    let refused = "/api/changes?page=0&q=query-4711";
    app.key().get(refused).await.is(400);
    app.key()
        .post_bytes("/api/changes", "{broken-body-4711")
        .await
        .is(400);
    let browser = anonymous.clone().with("cookie", &cookie);
    browser.get("/api/activity").await.is(200);
    let new_password = "the-next-password-4711";
    let arguments = [
        "user",
        "set-password",
        "--email",
        &owner.email,
        "--password-file",
        "-",
    ];
    assert!(app.try_admin(&arguments, new_password).status.success());
    let latest = sign_in(&anonymous, &owner.email, new_password).await;
    let mut secrets = use_connections(app).await;
    secrets.extend(use_a_provider(app).await);
    // The log, which is read by a thread, has the request id of the last response.
    let id = app.key().get(refused).await;
    let id = id.header("x-request-id");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !app.server.log().contains(id) {
        assert!(Instant::now() < deadline, "{id} is not in the log");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    secrets.extend([
        ("the key", owner.key.clone()),
        ("the random part of the key", owner.key[6..38].to_owned()),
        ("a revoked key", text(&revoked["key"])),
        ("the password", owner.password.clone()),
        ("the new password", new_password.to_owned()),
        ("a wrong password", wrong.to_owned()),
        ("a session", session.to_owned()),
        (
            "an ended session",
            ended.split_once('=').expect("a value").1.to_owned(),
        ),
        (
            "the latest session",
            latest.split_once('=').expect("a value").1.to_owned(),
        ),
    ]);
    secrets
}

/// Has a person sign in by an identity provider, and returns the secrets.
async fn use_a_provider(app: &TestApp) -> Vec<(&'static str, String)> {
    let key = SigningKey::p256("k1");
    let provider = Provider::start(&key).await;
    let organization = &app.organization;
    provider.connect(app, organization, &["--default-role", "member"]);
    let begun = Begun::begin(app, organization).await;
    let token = key.sign(&provider.claims(app, &begun, "sub-cleo"));
    provider.token(&token);
    let answer = begun.finish(app, "").await;
    answer.is(303);
    let (_, session) = answer.cookie().split_once('=').expect("a value");
    vec![
        ("the secret of the client", CLIENT_SECRET.to_owned()),
        ("an id token", token),
        ("the session of a provider", session.to_owned()),
        ("what the browser has begun", begun.cookie().to_owned()),
    ]
}

/// Sends to receivers that repeat the secrets that they were sent, and to one that is not
/// there, and returns the secrets.
async fn use_connections(app: &TestApp) -> Vec<(&'static str, String)> {
    let receiver = Receiver::start().await;
    receiver.answer_by(|request| {
        let authorization = request.header("authorization");
        Answer::text(403, &format!("no {} {authorization}", request.path))
    });
    let closed = Receiver::start().await.base();
    let (path, token) = ("slack-path-4711", "glsa_grafana-token-4711");
    let connect = |kind: &str, name: &str, url: &str, flags: &[&str]| {
        let organization = &app.organization.id;
        let mut arguments = vec!["--json", "integration", "create", "--org", organization];
        arguments.extend(["--kind", kind, "--name", name, "--url", url]);
        arguments.extend(flags);
        let made = app.try_admin(&arguments, token);
        assert!(made.status.success(), "{made:?}");
        serde_json::from_slice::<Value>(&made.stdout).expect("JSON")
    };
    let base = receiver.base();
    let webhook = connect("webhook", "Hook", &receiver.url(), &[]);
    let all = [
        connect("slack", "Slack", &format!("{base}/{path}"), &[]),
        connect("grafana", "Grafana", &base, &["--token-file", "-"]),
        connect("teams", "Gone", &format!("{closed}/{path}"), &[]),
        webhook.clone(),
    ];
    // Grafana gets what has happened and is no small risk.
    let body = json!({ "title": "sent to receivers", "status": "completed", "risk_level": "high" });
    app.key().create("/api/changes", body).await;
    for one in &all {
        let deliveries = [
            "integration",
            "deliveries",
            one["id"].as_str().expect("an id"),
        ];
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let shown = app.admin(&deliveries);
            if shown[0]["attempts"].as_i64() > Some(0) && shown[0]["is_claimed"] != true {
                break;
            }
            assert!(Instant::now() < deadline, "{one}: {shown}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert_eq!(receiver.count(), 3);
    vec![
        ("the secret of a webhook", text(&webhook["secret"])),
        ("the address of a chat", path.to_owned()),
        ("the token of Grafana", token.to_owned()),
    ]
}

/// Bodies are stored in the database, but not logged.
const BODIES: [&str; 2] = ["description-in-a-body-4711", "broken-body-4711"];

async fn no_secret_is_written_on_sqlite(mut app: TestApp) {
    let secrets = use_everything(&mut app).await;
    let copy = app.folder().join("copy.db");
    app.admin(&["backup", copy.to_str().expect("a path")]);
    let log = app.server.log();
    assert!(log.lines().count() > 20, "too few lines: {log}");
    assert!(!log.contains("panicked"), "{log}");
    assert_unwritten(&secrets, &[&log], app.folder(), 2);
}

/// Checks that no secret is in a log or in a file of a folder, that no body is in a log, and
/// that at least some of the files are those of the database.
fn assert_unwritten(
    secrets: &[(&str, String)],
    logs: &[&str],
    folder: &Path,
    least_databases: usize,
) {
    let mut databases = 0;
    for file in files(folder) {
        let contents = contents(&file);
        databases += usize::from(contents.contains(BODIES[0]));
        for (name, secret) in secrets {
            assert!(
                !contents.contains(secret),
                "{name} is in {}",
                file.display()
            );
        }
    }
    assert!(
        databases >= least_databases,
        "{databases} files hold a body"
    );
    for log in logs {
        for (name, secret) in secrets {
            assert!(!log.contains(secret), "{name} is in a log");
        }
    }
    for body in BODIES {
        assert!(!logs[0].contains(body), "a body is in the log");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_written_on_postgres() {
    let Some(postgres) = Postgres::start().await else {
        return;
    };
    let mut app = TestApp::on_postgres(&postgres).await;
    let secrets = use_everything(&mut app).await;
    let log = app.server.log();
    // A checkpoint writes everything to the files.
    let mut connection = <sqlx_postgres::PgConnection as sqlx::Connection>::connect(&app.database)
        .await
        .expect("a connection to PostgreSQL");
    sqlx::query("CHECKPOINT")
        .execute(&mut connection)
        .await
        .expect("a checkpoint");
    assert_unwritten(&secrets, &[&log, &postgres.log()], &postgres.data(), 1);
}

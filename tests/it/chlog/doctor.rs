//! `chlog doctor`: whether a change would be recorded, and if not, why.

use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::chlog::{ChlogOutput, chlog};
use changelog_tests::{FaultyProxy, ProxyMode, TestApp, keys, on_one, text};

on_one!(
    a_working_setup_is_reported,
    clocks_are_compared,
    a_clock_that_is_behind_is_reported_when_a_change_is_recorded,
    doctor_agrees_with_log,
    the_limits_of_the_key_are_compared_with_the_settings,
    connection_faults_are_named,
    the_key_endpoint_describes_the_key;
    process:
    each_fault_has_the_exit_code_of_chlog_log,
);

/// Returns a check of a report by name.
fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().expect("a list");
    let found = checks.iter().find(|check| check["check"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {report}"))
}

async fn a_working_setup_is_reported(app: TestApp) {
    let output = chlog(&app, "doctor --json").succeeds();
    let report = output.json();
    assert_eq!(keys(&report), ["checks", "works"]);
    assert_eq!(report["works"], true);
    for (name, words) in [
        ("url", "CHLOG_URL"),
        ("reachable", "responds in"),
        ("server", "database"),
        ("clock", "ms from"),
        ("key", "terraform, is accepted"),
        ("plan", "organization Acme, plan pro"),
        ("expiry", "never"),
    ] {
        let check = check(&report, name);
        assert_eq!(check["verdict"], "ok", "{check}");
        let found = text(&check["found"]);
        assert!(found.contains(words), "{name}: {found}");
    }
    let key = &app.organization.key;
    assert!(!output.stdout.contains(key.as_str()), "{}", output.stdout);
    chlog(&app, "service create web").succeeds();
    chlog(&app, "host create h").succeeds();
    // Settings are shown with their sources.
    let settings = "risk = \"high\"\n";
    std::fs::write(app.folder().join(".chlog.toml"), settings).expect("a file");
    let config = app.folder().join("config/chlog");
    std::fs::create_dir_all(&config).expect("a folder");
    let settings = "service = \"web\"\nrisk = \"low\"\n[profiles.p]\nhost = \"h\"\n";
    std::fs::write(config.join("config.toml"), settings).expect("a file");
    let output = ChlogOutput::of(app.chlog().args(["doctor", "--profile", "p"])).succeeds();
    for words in [
        "high (from",
        ".chlog.toml)",
        "web (from",
        "config.toml)",
        "h (from profile p",
    ] {
        assert!(output.stdout.contains(words), "{words}: {}", output.stdout);
    }
    assert!(!output.stdout.contains("low (from"), "{}", output.stdout);
    // A key that expires soon works, with a warning.
    let soon = Utc::now() + TimeDelta::days(2);
    let made = app.create_key(&["--expires-at", &soon.to_rfc3339()]);
    let mut command = app.chlog();
    command
        .env("CHLOG_API_KEY", text(&made["key"]))
        .args(["doctor", "--json"]);
    let report = ChlogOutput::of(&mut command).succeeds().json();
    assert_eq!(check(&report, "expiry")["verdict"], "warning");
}

async fn each_fault_has_the_exit_code_of_chlog_log(app: TestApp) {
    let mut app = app;
    // Compares with `log --strict` in the same situation.
    let compare = |app: &TestApp, name: &str, value: &str, exit: i32, failed: &str| {
        let command = |arguments: &[&str]| {
            let mut command = app.chlog();
            ChlogOutput::of(command.env(name, value).args(arguments))
        };
        command(&["log", "Deploy", "--strict"]).exits_with(exit);
        let report = command(&["doctor", "--json"]).exits_with(exit).json();
        assert_eq!(report["works"], false);
        let check = check(&report, failed);
        assert_eq!(check["verdict"], "failed", "{report}");
        assert!(check["advice"].is_string(), "{report}");
    };
    compare(&app, "CHLOG_API_KEY", "", 4, "key");
    compare(&app, "CHLOG_API_KEY", "chlog_mistyped", 4, "key");
    compare(&app, "CHLOG_URL", "http://127.0.0.1:1", 7, "reachable");
    compare(&app, "CHLOG_URL", "", 2, "url");
    compare(&app, "CHLOG_URL", "ftp://example.com", 2, "url");
    let made = app.create_key(&[]);
    app.admin(&["key", "revoke", &text(&made["id"])]);
    compare(&app, "CHLOG_API_KEY", &text(&made["key"]), 4, "key");
    app.admin(&["org", "set-plan", &app.organization.id, "free"]);
    compare(&app, "CHLOG_PROFILE", "", 4, "plan");
    app.admin(&["org", "set-plan", &app.organization.id, "pro"]);
    let config = app.folder().join("config/chlog");
    std::fs::create_dir_all(&config).expect("a folder");
    std::fs::write(config.join("config.toml"), "ulr = 1\n").expect("a file");
    let report = chlog(&app, "doctor --json").exits_with(2).json();
    assert_eq!(check(&report, "configuration")["verdict"], "failed");
    std::fs::remove_file(config.join("config.toml")).expect("a file");
    chlog(&app, "doctor").succeeds();
    app.server.kill9();
    let output = chlog(&app, "doctor").exits_with(7);
    output.prints("failed");
    // `chlog log` keeps the change and exits with 0.
    output.says("would only queue");
}

/// Starts a server that responds to every request as a healthy service with its clock
/// ahead, or as one that has recorded a change.
async fn service_ahead(seconds: i64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        loop {
            let Ok((mut socket, _)) = listener.accept().await else {
                return;
            };
            tokio::spawn(async move {
                let mut head = [0; 4096];
                let _ = socket.read(&mut head).await;
                let date = Utc::now() + TimeDelta::seconds(seconds);
                let id = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
                let created = json!({ "data": {
                    "id": id, "title": "Deploy", "risk_level": "low", "status": "completed",
                    "organization_id": id,
                    "created_at": date.to_rfc3339_opts(SecondsFormat::Millis, true),
                } });
                let date = date.format("%a, %d %b %Y %H:%M:%S GMT");
                let health = json!({ "status": "ok", "db": "reachable", "latency_ms": 1 });
                let body = if head.starts_with(b"POST") {
                    created
                } else {
                    health
                };
                let body = body.to_string();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ndate: {date}\r\ncontent-type: application/json\r\n\
                     content-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = socket.write_all(answer.as_bytes()).await;
            });
        }
    });
    format!("http://{address}")
}

async fn clocks_are_compared(app: TestApp) {
    for (ahead, verdict, words) in [
        (0, "ok", "ms from"),
        (60, "warning", "s behind"),
        (-60, "warning", "s ahead"),
        (-1200, "warning", "min ahead"),
    ] {
        let url = service_ahead(ahead).await;
        let mut command = app.chlog();
        command.env("CHLOG_URL", url).args(["doctor", "--json"]);
        // That server has no keys; only the clock is checked here.
        let output = tokio::task::spawn_blocking(move || command.output().expect("chlog runs"));
        let output = output.await.expect("an exit");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let clock = check(&report, "clock");
        assert_eq!(clock["verdict"], verdict, "{report}");
        assert!(text(&clock["found"]).contains(words), "{report}");
    }
}

async fn a_clock_that_is_behind_is_reported_when_a_change_is_recorded(app: TestApp) {
    for (ahead, is_reported) in [(0, false), (60, false), (90_300, true)] {
        let url = service_ahead(ahead).await;
        let mut command = app.chlog();
        command.env("CHLOG_URL", url).args(["log", "Deploy"]);
        let output = tokio::task::spawn_blocking(move || ChlogOutput::of(&mut command));
        let output = output.await.expect("an exit").succeeds();
        let warning = "warning: the clock of this machine is 25 h";
        assert_eq!(
            output.stderr.contains(warning),
            is_reported,
            "{}",
            output.stderr
        );
    }
}

async fn doctor_agrees_with_log(app: TestApp) {
    let settings = app.folder().join(".chlog.toml");
    for (name, setting) in [
        ("service", "service = \"nope\"\n"),
        ("host", "host = \"nope\"\n"),
    ] {
        std::fs::write(&settings, setting).expect("a file");
        chlog(&app, "log Deploy").exits_with(3);
        let report = chlog(&app, "doctor --json").exits_with(3).json();
        let checks = report["checks"].as_array().expect("a list");
        let failed = |check: &Value| check["check"] == name && check["verdict"] == "failed";
        assert!(checks.iter().any(failed), "{report}");
    }
    std::fs::remove_file(&settings).expect("a file");
    // Changes that are queued for another URL are not sent, but reported.
    let mut command = app.chlog();
    command.env("CHLOG_URL", "http://127.0.0.1:1");
    ChlogOutput::of(command.args(["log", "For another URL"])).succeeds();
    let report = chlog(&app, "doctor --json").succeeds().json();
    let spool = check(&report, "spool");
    assert!(
        text(&spool["found"]).contains("http://127.0.0.1:1"),
        "{report}"
    );
    assert!(text(&spool["advice"]).contains("--from"), "{report}");
}

async fn connection_faults_are_named(app: TestApp) {
    let plain = app.url();
    let secure = plain.replace("http://", "https://");
    let proxy = "http://user:secret@127.0.0.1:1";
    for (url, variable, words) in [
        (&secure, "NONE", "does not use TLS on this port"),
        (
            &plain,
            "http_proxy",
            "through the proxy http://127.0.0.1:1: ",
        ),
    ] {
        let mut command = app.chlog();
        command.env("CHLOG_URL", url).env(variable, proxy);
        let output = ChlogOutput::of(command.arg("list"));
        assert!(output.code == 1 || output.code == 7, "{}", output.stderr);
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
        assert!(!output.stderr.contains("secret"), "{}", output.stderr);
        let is_retried = output.stderr.contains("attempts");
        assert_eq!(is_retried, variable == "http_proxy", "{}", output.stderr);
    }
    let mut command = app.chlog();
    command.env("http_proxy", proxy).args(["doctor", "--json"]);
    let report = ChlogOutput::of(&mut command).exits_with(7).json();
    let found = text(&check(&report, "proxy")["found"]);
    assert!(found.ends_with("http://127.0.0.1:1"), "{found}");
    let redirecting = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Redirect);
    let mut command = app.chlog();
    command.env("CHLOG_URL", &redirecting.url).arg("list");
    let output = ChlogOutput::of(&mut command).exits_with(1);
    let words = "the server redirects to https://changes.example.com/";
    output.says(words);
}

async fn the_limits_of_the_key_are_compared_with_the_settings(app: TestApp) {
    app.key().service("payments").await;
    let host = json!({ "hostname": "web-1", "environment": "staging" });
    app.key().create("/api/hosts", host).await;
    let limited = ["--environment", "staging", "--service", "payments"];
    let key = text(&app.create_key(&limited)["key"]);
    let settings = app.folder().join(".chlog.toml");
    let doctor = || {
        let mut command = app.chlog();
        command
            .env("CHLOG_API_KEY", &key)
            .args(["doctor", "--json"]);
        ChlogOutput::of(&mut command).succeeds().json()
    };
    for (toml, words) in [
        (
            "",
            "may record changes in staging only; the change has no environment",
        ),
        (
            "host = \"web-1\"\n",
            "may record changes of the services payments only; the change has no service",
        ),
    ] {
        std::fs::write(&settings, toml).expect("a file");
        let report = doctor();
        let check = check(&report, "bounds");
        assert_eq!(check["verdict"], "warning", "{check}");
        let found = text(&check["found"]);
        assert!(found.contains(words), "{found}");
        let mut command = app.chlog();
        let log = command.env("CHLOG_API_KEY", &key);
        ChlogOutput::of(log.args(["log", "--strict", "Deploy"])).exits_with(4);
    }
    let within = "host = \"web-1\"\nservice = \"payments\"\n";
    std::fs::write(&settings, within).expect("a file");
    let report = doctor();
    let checks = report["checks"].as_array().expect("checks");
    assert!(
        checks.iter().all(|check| check["check"] != "bounds"),
        "{report}"
    );
}

async fn the_key_endpoint_describes_the_key(app: TestApp) {
    let described = app.key().read("/api/key").await;
    assert_eq!(
        keys(&described),
        [
            "created_at",
            "environments",
            "expires_at",
            "id",
            "masked",
            "name",
            "organization",
            "plan",
            "scopes",
            "services"
        ]
    );
    let organization = &app.organization;
    let expected = json!({ "id": organization.id, "name": organization.name });
    assert_eq!(described["organization"], expected);
    assert_eq!(described["id"], organization.key_id);
    assert_eq!(described["plan"], "pro");
    assert_eq!(described["expires_at"], Value::Null);
    assert!(!described.to_string().contains(&organization.key));
    let client = changelog_client::Client::builder()
        .url(app.url())
        .api_key(organization.key.clone())
        .build()
        .expect("a client");
    assert_eq!(json!(client.key().await.expect("a response")), described);
    let probe = client.probe().await.expect("a response");
    assert!(probe.health.is_ok() && probe.date.is_some());
    app.key().get("/api/key?x=1").await.is(400);
    app.anonymous()
        .get("/api/key")
        .await
        .problem(401, "unauthorized");
    app.admin(&["org", "set-plan", &organization.id, "free"]);
    app.key()
        .get("/api/key")
        .await
        .problem(403, "plan_required");
}

//! `chlog auth`, and the precedence of settings for the URL and the key.

use std::os::unix::fs::PermissionsExt;

use crate::chlog::ChlogOutput;
use changelog_tests::{TestApp, keys, on_one};

on_one!(
    health_needs_no_key,
    keys_are_read_in_order_of_precedence,
    keys_are_stored_and_deleted,
    a_profile_of_the_command_line_overrides_the_environment,
    a_key_of_the_environment_is_not_sent_to_a_profile,
);

async fn health_needs_no_key(app: TestApp) {
    let output = ChlogOutput::of(app.bare_chlog().args(["health", "--url", &app.url()])).succeeds();
    assert!(
        output.stdout.contains("ok") && output.stdout.contains("reachable"),
        "{}",
        output.stdout
    );
    let mut command = app.bare_chlog();
    let health = ChlogOutput::of(
        command
            .args(["health", "--json"])
            .env("CHLOG_URL", app.url()),
    )
    .succeeds();
    assert_eq!(
        keys(&health.json()),
        ["db", "latency_ms", "status", "timestamp"]
    );
    let output = ChlogOutput::of(app.bare_chlog().arg("health")).exits_with(2);
    assert!(
        output.stderr.contains("CHLOG_URL") && output.stderr.contains("--url"),
        "{}",
        output.stderr
    );
}

async fn keys_are_read_in_order_of_precedence(app: TestApp) {
    let key = &app.organization.key;
    let file = app.folder().join("key");
    std::fs::write(&file, format!("{key}\n")).expect("a file");
    let url = app.url();
    let list = |environment: &[(&str, &str)], arguments: &[&str]| {
        let mut command = app.bare_chlog();
        command.arg("list").args(arguments);
        for (name, value) in environment {
            command.env(name, value);
        }
        ChlogOutput::of(&mut command)
    };
    let path = file.to_str().expect("a path");
    list(&[("CHLOG_URL", &url), ("CHLOG_API_KEY", key)], &[]).succeeds();
    list(&[("CHLOG_URL", &url), ("CHLOG_API_KEY_FILE", path)], &[]).succeeds();
    // Flags take precedence over the environment.
    let nowhere = "http://127.0.0.1:1";
    list(
        &[("CHLOG_URL", nowhere), ("CHLOG_API_KEY", key)],
        &["--url", &url],
    )
    .succeeds();
    list(
        &[("CHLOG_URL", &url), ("CHLOG_API_KEY", key)],
        &["--url", nowhere],
    )
    .exits_with(7);
    // The environment takes precedence over the configuration file; profiles have names.
    let config = app.folder().join("config/chlog");
    std::fs::create_dir_all(&config).expect("a folder");
    let settings = format!("url = \"{nowhere}\"\n[profiles.here]\nurl = \"{url}\"\n");
    std::fs::write(config.join("config.toml"), settings).expect("a file");
    list(&[("CHLOG_API_KEY", key)], &[]).exits_with(7);
    list(&[("CHLOG_API_KEY", key), ("CHLOG_URL", &url)], &[]).succeeds();
    list(&[("CHLOG_API_KEY", key), ("CHLOG_PROFILE", "here")], &[]).succeeds();
    let output = list(&[("CHLOG_API_KEY", key)], &["--profile", "hree"]).exits_with(2);
    assert!(output.stderr.contains("hree"), "{}", output.stderr);
    // Without a key, or with a missing key file, nothing is sent.
    let output = list(&[("CHLOG_URL", &url)], &[]);
    assert!(
        matches!(output.code, 2 | 4),
        "{}: {}",
        output.code,
        output.stderr
    );
    assert!(
        output.stderr.contains("CHLOG_API_KEY") && output.stderr.contains("auth login"),
        "{}",
        output.stderr
    );
    list(
        &[
            ("CHLOG_URL", &url),
            ("CHLOG_API_KEY_FILE", "/nowhere/at/all"),
        ],
        &[],
    )
    .exits_with(2);
}

async fn keys_are_stored_and_deleted(app: TestApp) {
    let url = app.url();
    let key = &app.organization.key;
    let bare = |arguments: &[&str], input: &str| {
        ChlogOutput::of(app.bare_chlog().args(arguments).write_stdin(input))
    };
    let login = ["auth", "login", "--with-token", "--url", &url];
    // Only a key that works is stored.
    let unknown = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    bare(&login, &unknown).exits_with(4);
    bare(&login, "nonsense").exits_with(4);
    bare(&login, "").exits_with(2);
    bare(&["auth", "login"], key).exits_with(2);
    let output = bare(&["auth", "status", "--url", &url], "");
    assert_ne!(output.code, 0);
    let output = bare(&login, &format!("{key}\n")).succeeds();
    assert!(!output.stdout.contains(key.as_str()) && !output.stderr.contains(key.as_str()));
    // Readable by its owner only.
    let folder = app.folder().join("config/chlog");
    let mut holding = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
        if std::fs::read_to_string(entry.path()).is_ok_and(|text| text.contains(key.as_str())) {
            let mode = entry.metadata().expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", entry.path().display());
            holding.push(entry.file_name());
        }
    }
    assert_eq!(holding.len(), 1, "{holding:?}");
    assert_ne!(holding[0], "config.toml", "the key is in the settings");
    // The key is used, shown masked, and not sent to other servers.
    bare(&["log", "With a stored key"], "").succeeds();
    let output = bare(&["auth", "status"], "").succeeds();
    assert!(
        output.stdout.contains("chlog_") && output.stdout.contains(&key[40..]),
        "{}",
        output.stdout
    );
    assert!(!output.stdout.contains(key.as_str()));
    let elsewhere = bare(&["list", "--url", "http://127.0.0.1:1"], "");
    assert!(
        matches!(elsewhere.code, 2 | 4),
        "{}: {}",
        elsewhere.code,
        elsewhere.stderr
    );
    // The environment takes precedence, and the status shows it.
    let mut command = app.bare_chlog();
    let output = ChlogOutput::of(
        command
            .args(["auth", "status"])
            .env("CHLOG_API_KEY", &unknown),
    )
    .exits_with(4);
    assert!(output.stdout.contains("CHLOG_API_KEY") || output.stderr.contains("CHLOG_API_KEY"));
    bare(&["auth", "logout"], "").succeeds();
    let output = bare(&["list"], "");
    assert_ne!(output.code, 0);
    bare(&["auth", "logout"], "").succeeds();
    assert!(
        std::fs::read_dir(&folder)
            .expect("a folder")
            .flatten()
            .all(|entry| {
                !std::fs::read_to_string(entry.path())
                    .unwrap_or_default()
                    .contains(key.as_str())
            })
    );
}

/// Stores the key of an organization under a profile.
fn log_in(app: &TestApp, profile: &str, url: &str, key: &str) -> ChlogOutput {
    let arguments = [
        "auth",
        "login",
        "--with-token",
        "--url",
        url,
        "--profile",
        profile,
    ];
    ChlogOutput::of(app.bare_chlog().args(arguments).write_stdin(key)).succeeds()
}

async fn a_profile_of_the_command_line_overrides_the_environment(app: TestApp) {
    let url = app.url();
    let other = app.second_organization();
    log_in(&app, "old", &url, &app.organization.key);
    log_in(&app, "new", &url, &other.key);
    let exported = |arguments: &[&str]| {
        let mut command = app.bare_chlog();
        command
            .env("CHLOG_URL", "http://127.0.0.1:1")
            .env("CHLOG_API_KEY", &app.organization.key);
        ChlogOutput::of(command.args(arguments))
    };
    exported(&["--profile", "old", "log", "Copied"]).succeeds();
    let export = exported(&["--profile", "old", "export"]).succeeds().stdout;
    let mut command = app.bare_chlog();
    command
        .env("CHLOG_URL", &url)
        .env("CHLOG_API_KEY", &app.organization.key)
        .args(["--profile", "new", "import", "-"]);
    ChlogOutput::of(command.write_stdin(export)).succeeds();
    let copied = app.with_key(&other.key).get("/api/changes").await.body(200);
    assert_eq!(copied["count"], 1);
    let own = app.key().get("/api/changes").await.body(200);
    assert_eq!(own["count"], 1);
    let status = exported(&["--profile", "new", "auth", "status", "--json"]).succeeds();
    assert_eq!(status.json()["url"], url);
    assert_eq!(status.json()["key_source"], "chlog auth login");
    // Of the environment, the profile names the settings, and the URL is that of CHLOG_URL.
    let mut command = app.bare_chlog();
    command
        .env("CHLOG_URL", "http://127.0.0.1:1")
        .env("CHLOG_PROFILE", "new")
        .env("CHLOG_API_KEY", &app.organization.key);
    ChlogOutput::of(command.arg("list")).exits_with(7);
}

async fn a_key_of_the_environment_is_not_sent_to_a_profile(app: TestApp) {
    let url = app.url();
    let config = app.folder().join("config/chlog");
    std::fs::create_dir_all(&config).expect("a folder");
    let settings = format!("[profiles.new]\nurl = \"{url}\"\n");
    std::fs::write(config.join("config.toml"), settings).expect("a file");
    let list = |environment: &[(&str, &str)], arguments: &[&str]| {
        let mut command = app.bare_chlog();
        command.arg("list").args(arguments);
        command.envs(environment.iter().copied());
        ChlogOutput::of(&mut command)
    };
    let key = ("CHLOG_API_KEY", app.organization.key.as_str());
    // The key works there, so only the rule refuses it.
    let profile = ["--profile", "new"];
    for elsewhere in [None, Some(("CHLOG_URL", "http://127.0.0.1:1"))] {
        let environment: Vec<_> = [key].into_iter().chain(elsewhere).collect();
        let output = list(&environment, &profile).exits_with(4);
        for part in ["CHLOG_API_KEY", "--profile", "auth login"] {
            assert!(output.stderr.contains(part), "{}", output.stderr);
        }
    }
    list(&[key, ("CHLOG_URL", &url)], &profile).succeeds();
    list(&[key], &["--profile", "new", "--url", &url]).succeeds();
    list(&[key], &["--url", &url]).succeeds();
    list(&[key, ("CHLOG_PROFILE", "new")], &[]).succeeds();
    // A stored key precedes that of another server.
    log_in(&app, "default", &url, &app.organization.key);
    let wrong = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    let wrong = ("CHLOG_API_KEY", wrong.as_str());
    let elsewhere = ("CHLOG_URL", "http://127.0.0.1:1");
    list(&[wrong, elsewhere], &["--url", &url]).succeeds();
    list(&[wrong], &["--url", &url]).exits_with(4);
}

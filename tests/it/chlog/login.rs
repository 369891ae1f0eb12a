//! `chlog auth`, and the precedence of settings for the URL and the key.

use std::os::unix::fs::PermissionsExt;

use crate::chlog::ChlogOutput;
use changelog_tests::{KEY_NAME, TestApp, assert_contains, assert_lacks, keys, on_one, text};

on_one!(
    health_needs_no_key,
    keys_are_read_in_order_of_precedence,
    keys_are_stored_and_deleted,
    a_profile_of_the_command_line_overrides_the_environment,
    a_key_of_the_environment_is_not_sent_to_a_profile,
    profiles_are_listed_and_switched,
    the_organization_of_the_key_is_shown,
);

async fn health_needs_no_key(app: TestApp) {
    let output = ChlogOutput::of(app.bare_chlog().args(["health", "--url", &app.url()])).succeeds();
    output.prints("ok");
    output.prints("reachable");
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
    output.says("CHLOG_URL");
    output.says("--url");
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
    output.says("hree");
    // Without a key, or with a missing key file, nothing is sent.
    let output = list(&[("CHLOG_URL", &url)], &[]);
    assert!(
        matches!(output.code, 2 | 4),
        "{}: {}",
        output.code,
        output.stderr
    );
    output.says("CHLOG_API_KEY");
    output.says("auth login");
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
    output.prints("chlog_");
    output.prints(&key[40..]);
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
    let copied = app.with_key(&other.key).body("/api/changes").await;
    assert_eq!(copied["count"], 1);
    let own = app.key().body("/api/changes").await;
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
            output.says(part);
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

async fn profiles_are_listed_and_switched(app: TestApp) {
    let url = app.url();
    let other = app.second_organization();
    let bare = |arguments: &[&str]| ChlogOutput::of(app.bare_chlog().args(arguments));
    let output = bare(&["list"]).exits_with(2);
    output.says("--url");
    log_in(&app, "own", &url, &app.organization.key);
    log_in(&app, "other", &url, &other.key);
    // Without a default profile, the profiles are named.
    let output = bare(&["list"]).exits_with(2);
    for part in ["other, own", "--profile", "auth switch"] {
        output.says(part);
    }
    bare(&["auth", "switch"]).exits_with(2);
    let output = bare(&["auth", "switch", "owm"]).exits_with(2);
    output.says("did you mean own?");
    let file = app.folder().join("config/chlog/config.toml");
    std::fs::write(
        &file,
        "# mine\nrisk = \"high\"\n\n[profiles.far]\nurl = \"http://far\"\n",
    )
    .expect("a file");
    for (name, organization) in [("own", &app.organization), ("other", &other)] {
        bare(&["auth", "switch", name]).succeeds();
        bare(&["log", "With the chosen profile"]).succeeds();
        let list = app.with_key(&organization.key).get("/api/changes").await;
        assert_eq!(list.body(200)["count"], 1, "{name}");
        let rows = bare(&["auth", "list", "--json"]).succeeds().json();
        let rows = rows["data"].as_array().expect("a list").clone();
        let names: Vec<_> = rows.iter().map(|row| text(&row["profile"])).collect();
        assert_eq!(names, ["far", "other", "own"]);
        let active = rows.iter().find(|row| row["is_active"] == true);
        let active = active.expect("an active profile");
        assert_eq!(active["profile"], name);
        assert_eq!(active["organization"], organization.name);
        assert_eq!(active["url"], url);
    }
    // The rest of the file stays, and the keys are masked.
    let settings = std::fs::read_to_string(&file).expect("text");
    assert!(settings.contains("# mine") && settings.contains("[profiles.far]"));
    let output = bare(&["auth", "list"]).succeeds().stdout;
    assert_contains(&output, "other");
    assert_contains(&output, "no stored key");
    for key in [&other.key, &app.organization.key] {
        assert_contains(&output, &key[40..]);
        assert_lacks(&output, key.as_str());
    }
    // Without its key, the default profile would not exist.
    bare(&["auth", "logout"]).succeeds();
    let settings = std::fs::read_to_string(&file).expect("text");
    assert_contains(&settings, "profile = \"default\"");
    // A default profile that does not exist does not stop what names its server.
    std::fs::write(&file, "profile = \"gone\"\n").expect("a file");
    bare(&["list"]).exits_with(2);
    app.chlog().arg("list").assert().success();
    // What takes precedence is named.
    let mut command = app.bare_chlog();
    command
        .env("CHLOG_URL", &url)
        .args(["auth", "switch", "own"]);
    let output = ChlogOutput::of(&mut command).succeeds();
    output.says("CHLOG_URL");
}

async fn the_organization_of_the_key_is_shown(app: TestApp) {
    let organization = &app.organization;
    let output = log_in(&app, "default", &app.url(), &organization.key);
    for part in [organization.name.as_str(), KEY_NAME] {
        output.says(part);
    }
    let status = |arguments: &[&str], key: &str| {
        let mut command = app.bare_chlog();
        command
            .env("CHLOG_URL", app.url())
            .env("CHLOG_API_KEY", key);
        ChlogOutput::of(command.args(["auth", "status"]).args(arguments))
    };
    let output = status(&[], &organization.key).succeeds();
    output.prints(&organization.name);
    let output = status(&["--json"], &organization.key).succeeds().json();
    assert_eq!(output["organization"]["name"], organization.name);
    assert_eq!(output["key_name"], KEY_NAME);
    assert_eq!(output["plan"], "pro");
    // What is not a key is not shown as one, and a short one not at all.
    for (key, shown) in [
        ("foo", "…"),
        ("0123456789", "…6789"),
        ("chlog_foo", "chlog_…"),
    ] {
        let output = status(&["--json"], key).exits_with(4);
        assert_eq!(output.json()["key"], shown);
        // The hint is not the command itself.
        assert_lacks(&output.stderr, "auth status");
        assert_lacks(&output.stderr, "x-api-key");
    }
    // Other commands name the source of the key.
    let mut command = app.bare_chlog();
    command
        .env("CHLOG_URL", app.url())
        .env("CHLOG_API_KEY", "chlog_foo");
    let output = ChlogOutput::of(command.arg("list")).exits_with(4);
    for part in ["CHLOG_API_KEY", "expired", "auth status"] {
        output.says(part);
    }
    // So does a URL that repeats what chlog adds, or lacks its beginning.
    let mut command = app.chlog();
    let url = app.at("/api/");
    let output = ChlogOutput::of(command.args(["list", "--url", &url])).exits_with(3);
    output.says("leave out /api");
    let mut command = app.chlog();
    let output = ChlogOutput::of(command.args(["list", "--url", "localhost:1"])).exits_with(2);
    output.says("http://localhost:1");
}

//! Where `chlog` finds the service and the key, and where it stores it.

use std::os::unix::fs::PermissionsExt;

use crate::chlog::Said;
use changelog_tests::{TestApp, keys, on_one};

on_one!(
    health_needs_no_key,
    keys_come_from_where_they_should,
    keys_are_stored_and_forgotten,
);

async fn health_needs_no_key(app: TestApp) {
    let said = Said::of(app.bare_chlog().args(["health", "--url", &app.url()])).done();
    assert!(
        said.out.contains("ok") && said.out.contains("reachable"),
        "{}",
        said.out
    );
    let mut command = app.bare_chlog();
    let health = Said::of(
        command
            .args(["health", "--json"])
            .env("CHLOG_URL", app.url()),
    )
    .done();
    assert_eq!(
        keys(&health.json()),
        ["db", "latency_ms", "status", "timestamp"]
    );
    let said = Said::of(app.bare_chlog().arg("health")).ended(2);
    assert!(
        said.err.contains("CHLOG_URL") && said.err.contains("--url"),
        "{}",
        said.err
    );
}

async fn keys_come_from_where_they_should(app: TestApp) {
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
        Said::of(&mut command)
    };
    let path = file.to_str().expect("a path");
    list(&[("CHLOG_URL", &url), ("CHLOG_API_KEY", key)], &[]).done();
    list(&[("CHLOG_URL", &url), ("CHLOG_API_KEY_FILE", path)], &[]).done();
    // A flag beats the environment.
    let nowhere = "http://127.0.0.1:1";
    list(
        &[("CHLOG_URL", nowhere), ("CHLOG_API_KEY", key)],
        &["--url", &url],
    )
    .done();
    list(
        &[("CHLOG_URL", &url), ("CHLOG_API_KEY", key)],
        &["--url", nowhere],
    )
    .ended(7);
    // The environment beats the user's file; profiles are chosen by name.
    let config = app.folder().join("config/chlog");
    std::fs::create_dir_all(&config).expect("a folder");
    let settings = format!("url = \"{nowhere}\"\n[profiles.here]\nurl = \"{url}\"\n");
    std::fs::write(config.join("config.toml"), settings).expect("a file");
    list(&[("CHLOG_API_KEY", key)], &[]).ended(7);
    list(&[("CHLOG_API_KEY", key), ("CHLOG_URL", &url)], &[]).done();
    list(&[("CHLOG_API_KEY", key)], &["--profile", "here"]).done();
    list(&[("CHLOG_API_KEY", key), ("CHLOG_PROFILE", "here")], &[]).done();
    let said = list(&[("CHLOG_API_KEY", key)], &["--profile", "hree"]).ended(2);
    assert!(said.err.contains("hree"), "{}", said.err);
    // Without a key, or with a file that is not there, nothing is sent.
    let said = list(&[("CHLOG_URL", &url)], &[]);
    assert!(matches!(said.code, 2 | 4), "{}: {}", said.code, said.err);
    assert!(
        said.err.contains("CHLOG_API_KEY") && said.err.contains("auth login"),
        "{}",
        said.err
    );
    list(
        &[
            ("CHLOG_URL", &url),
            ("CHLOG_API_KEY_FILE", "/nowhere/at/all"),
        ],
        &[],
    )
    .ended(2);
}

async fn keys_are_stored_and_forgotten(app: TestApp) {
    let url = app.url();
    let key = &app.organization.key;
    let bare = |arguments: &[&str], input: &str| {
        Said::of(app.bare_chlog().args(arguments).write_stdin(input))
    };
    let login = ["auth", "login", "--with-token", "--url", &url];
    // Only a key that works is stored.
    let unknown = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    bare(&login, &unknown).ended(4);
    bare(&login, "nonsense").ended(4);
    bare(&login, "").ended(2);
    bare(&["auth", "login"], key).ended(2);
    let said = bare(&["auth", "status", "--url", &url], "");
    assert_ne!(said.code, 0);
    let said = bare(&login, &format!("{key}\n")).done();
    assert!(!said.out.contains(key.as_str()) && !said.err.contains(key.as_str()));
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
    assert_ne!(holding[0], "config.toml", "apart from the settings");
    // It is used, shown masked, and sent nowhere else.
    bare(&["log", "With a stored key"], "").done();
    let said = bare(&["auth", "status"], "").done();
    assert!(
        said.out.contains("chlog_") && said.out.contains(&key[40..]),
        "{}",
        said.out
    );
    assert!(!said.out.contains(key.as_str()));
    let elsewhere = bare(&["list", "--url", "http://127.0.0.1:1"], "");
    assert!(
        matches!(elsewhere.code, 2 | 4),
        "{}: {}",
        elsewhere.code,
        elsewhere.err
    );
    // The environment beats it, and says so in the status.
    let mut command = app.bare_chlog();
    let said = Said::of(
        command
            .args(["auth", "status"])
            .env("CHLOG_API_KEY", &unknown),
    )
    .ended(4);
    assert!(said.out.contains("CHLOG_API_KEY") || said.err.contains("CHLOG_API_KEY"));
    bare(&["auth", "logout"], "").done();
    let said = bare(&["list"], "");
    assert_ne!(said.code, 0);
    bare(&["auth", "logout"], "").done();
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

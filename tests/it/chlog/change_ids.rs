//! Changes as a user names them: by the beginning of an ID, as `@last`, by a choice.

use portable_pty::CommandBuilder;
use serde_json::json;

use crate::chlog::run::{run_on_terminal, set_terminal_environment};
use crate::chlog::{ChlogOutput, chlog};
use changelog_tests::{TestApp, on_one, programs, text};

on_one!(
    an_id_may_be_shortened,
    the_last_change_has_a_name,
    a_change_is_chosen_on_a_terminal,
);

async fn an_id_may_be_shortened(app: TestApp) {
    let key = app.key();
    let record = async |title: &str, at: &str| {
        let change = json!({"title": title, "occurred_at": at, "status": "completed"});
        text(&key.post("/api/changes", change).await.body(201)["data"]["id"])
    };
    let first = record("Deploy api", "2026-01-15T08:00:00.000Z").await;
    let digits = first.replace('-', "");
    let second = record("Deploy web", "2026-01-15T08:00:00.001Z").await;
    // Its title has the digits, but not its ID.
    record(&format!("Revert {}", &digits[..8]), "2026-03-15T08:00:00Z").await;

    for name in [&first[..20], &digits, &digits[..20], &first.to_uppercase()] {
        let shown = chlog(&app, &["show", name, "--json"]).succeeds().json();
        assert_eq!(shown["data"]["id"], json!(first), "{name}");
    }
    chlog(&app, &["update", &second[..20], "--risk", "high"]).succeeds();
    let output = chlog(&app, &["rollback", &second[..20], "--format", "ids"]).succeeds();
    assert_eq!(output.stdout.trim(), second);
    assert_eq!(
        chlog(&app, &["history", &second[..20], "--format", "ndjson"])
            .succeeds()
            .stdout
            .lines()
            .count(),
        3
    );

    // Both changes are listed if the prefix is ambiguous.
    let output = chlog(&app, &["show", &digits[..8]]).exits_with(2);
    for part in [first.as_str(), "Deploy api", &second, "Deploy web"] {
        assert!(output.stderr.contains(part), "{}", output.stderr);
    }
    assert!(!output.stderr.contains("Revert"), "{}", output.stderr);
    chlog(&app, &["show", "00000000"]).exits_with(3);
    for invalid in ["0000000", "latest", "@first", ""] {
        chlog(&app, &["show", invalid]).exits_with(2);
    }
}

async fn the_last_change_has_a_name(app: TestApp) {
    let output = chlog(&app, &["show", "@last"]).exits_with(3);
    assert!(output.stderr.contains("@last"), "{}", output.stderr);
    let id = |output: ChlogOutput| output.succeeds().stdout.trim().to_owned();
    let first = id(chlog(&app, &["log", "First change", "--format", "ids"]));
    let second = id(chlog(&app, &["log", "Second change", "--format", "ids"]));
    assert_eq!(
        id(chlog(&app, &["show", "@last", "--format", "ids"])),
        second
    );
    chlog(&app, &["update", &first, "--risk", "high"]).succeeds();
    assert_eq!(
        id(chlog(&app, &["rollback", "@last", "--format", "ids"])),
        first
    );
    // Another organization has another last change.
    let other = app.second_organization();
    let mut command = app.chlog();
    command.env("CHLOG_API_KEY", &other.key);
    ChlogOutput::of(command.args(["show", "@last"])).exits_with(3);
}

async fn a_change_is_chosen_on_a_terminal(app: TestApp) {
    let key = app.key();
    for (title, status) in [
        ("Move DNS", "planned"),
        ("Resize the disk", "in_progress"),
        ("Deploy api", "completed"),
    ] {
        let change = json!({"title": title, "status": status});
        key.post("/api/changes", change).await.body(201);
    }
    let on_terminal = |arguments: &[&str]| {
        let mut command = CommandBuilder::new(programs::chlog());
        command.args(arguments);
        set_terminal_environment(&mut command, &app, &app.url());
        let (seen, code) = run_on_terminal(command, b"\r", "type to filter");
        (String::from_utf8_lossy(&seen).into_owned(), code)
    };
    let status = async |title: &str| {
        let list = key.get("/api/changes").await.body(200);
        let changes = list["data"].as_array().expect("a list");
        let change = changes.iter().find(|change| change["title"] == title);
        text(&change.expect("a change")["status"])
    };
    let (seen, code) = on_terminal(&["start"]);
    assert_eq!(code, 0, "{seen}");
    assert!(
        !seen.contains("Resize") && !seen.contains("Deploy"),
        "{seen}"
    );
    assert_eq!(status("Move DNS").await, "in_progress");
    let (seen, code) = on_terminal(&["done"]);
    assert_eq!(code, 0, "{seen}");
    assert!(!seen.contains("Deploy"), "{seen}");
    let (seen, _) = on_terminal(&["rollback"]);
    assert!(seen.contains("Deploy api"), "{seen}");

    // Without a terminal, the command fails at once.
    for command in ["start", "done", "rollback", "show", "history"] {
        let output = chlog(&app, &[command]).exits_with(2);
        for part in ["terminal", "@last"] {
            assert!(output.stderr.contains(part), "{}", output.stderr);
        }
    }
    chlog(&app, &["update", "--risk", "high"]).exits_with(2);
}

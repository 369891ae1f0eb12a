//! Changes as a user names them: by the beginning of an ID, as `@last`, by a choice.

use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;
use serde_json::json;

use super::terraform::fixture;
use crate::chlog::run::{run_on_terminal, set_terminal_environment};
use crate::chlog::{ChlogOutput, chlog};
use changelog_tests::{TestApp, assert_contains, assert_lacks, on_one, programs, text};

on_one!(
    an_id_may_be_shortened,
    the_last_change_has_a_name,
    the_last_change_may_be_of_a_command_or_of_terraform,
    a_change_is_chosen_on_a_terminal,
    a_queued_change_has_the_same_names,
    the_page_of_a_change_is_printed_and_opened,
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
        let shown = chlog(&app, &format!("show {name} --json"))
            .succeeds()
            .json();
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
        output.says(part);
    }
    assert_lacks(&output.stderr, "Revert");
    chlog(&app, "show 00000000").exits_with(3);
    for invalid in ["0000000", "latest", "@first", ""] {
        chlog(&app, &format!("show '{invalid}'")).exits_with(2);
    }
}

async fn the_last_change_has_a_name(app: TestApp) {
    let output = chlog(&app, "show @last").exits_with(3);
    output.says("@last");
    let id = |output: ChlogOutput| output.succeeds().stdout.trim().to_owned();
    let first = id(chlog(&app, "log 'First change' --format ids"));
    let second = id(chlog(&app, "log 'Second change' --format ids"));
    assert_eq!(id(chlog(&app, "show @last --format ids")), second);
    chlog(&app, &format!("update {first} --risk high")).succeeds();
    assert_eq!(id(chlog(&app, "rollback @last --format ids")), first);
    // Another organization has another last change.
    let other = app.second_organization();
    let mut command = app.chlog();
    command.env("CHLOG_API_KEY", &other.key);
    ChlogOutput::of(command.args(["show", "@last"])).exits_with(3);
}

async fn the_last_change_may_be_of_a_command_or_of_terraform(app: TestApp) {
    let id = |output: ChlogOutput| output.succeeds().stdout.trim().to_owned();
    let logged = id(chlog(&app, "log 'First change' --format ids"));
    let mut command = app.chlog();
    command.args(["terraform", "--format", "ids"]);
    let run = id(ChlogOutput::of(
        command.write_stdin(fixture("created.ndjson")),
    ));
    assert_ne!(run, logged);
    assert_eq!(id(chlog(&app, "show @last --format ids")), run);
    // Also if they wait for the server.
    let offline = |line: &str, input: &[u8]| {
        let mut command = app.chlog();
        command.env("CHLOG_URL", "http://127.0.0.1:9");
        command.args(line.split(' ')).write_stdin(input);
        ChlogOutput::of(&mut command)
    };
    let logged = id(offline("log Second --format ids", b""));
    let run = id(offline(
        "terraform --format ids",
        &fixture("created.ndjson"),
    ));
    assert_ne!(run, logged);
    assert_eq!(id(offline("done @last --format ids", b"")), run);
    offline("run -- true", b"").succeeds();
    let command = id(offline("update @last --risk high --format ids", b""));
    assert!(command != run && command != logged, "{command}");
    offline("show @last", b"").exits_with(3).says("queued");
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
        let list = key.body("/api/changes").await;
        let changes = list["data"].as_array().expect("a list");
        let change = changes.iter().find(|change| change["title"] == title);
        text(&change.expect("a change")["status"])
    };
    let (seen, code) = on_terminal(&["start"]);
    assert_eq!(code, 0, "{seen}");
    assert_lacks(&seen, "Resize");
    assert_lacks(&seen, "Deploy");
    assert_eq!(status("Move DNS").await, "in_progress");
    let (seen, code) = on_terminal(&["done"]);
    assert_eq!(code, 0, "{seen}");
    assert_lacks(&seen, "Deploy");
    let (seen, _) = on_terminal(&["rollback"]);
    assert_contains(&seen, "Deploy api");

    // Without a terminal, the command fails at once.
    for command in ["start", "done", "rollback", "show", "history"] {
        let output = chlog(&app, &format!("'{command}'")).exits_with(2);
        for part in ["terminal", "@last"] {
            output.says(part);
        }
    }
    chlog(&app, "update --risk high").exits_with(2);
}

async fn a_queued_change_has_the_same_names(app: TestApp) {
    let offline = |arguments: &[&str]| {
        let mut command = app.chlog();
        command.env("CHLOG_URL", "http://127.0.0.1:9");
        ChlogOutput::of(command.args(arguments))
    };
    let output = offline(&["log", "Move DNS", "--status", "planned", "--format", "ids"]);
    let queued = output.succeeds().stdout.trim().to_owned();
    for name in ["@last", &queued[..20]] {
        let output = offline(&["start", name, "--format", "ids"]).succeeds();
        assert_eq!(output.stdout.trim(), queued, "{name}");
        let output = offline(&["show", name]).exits_with(3);
        output.says("queued");
    }
}

async fn the_page_of_a_change_is_printed_and_opened(app: TestApp) {
    let script = app.folder().join("browser.sh");
    let opened = app.folder().join("opened");
    std::fs::write(
        &script,
        format!("#!/bin/sh\necho \"$1\" >>{}\n", opened.display()),
    )
    .expect("a file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&script, mode).expect("a mode");
    let run = |arguments: &[&str]| {
        let mut command = app.chlog();
        command.env("BROWSER", &script);
        ChlogOutput::of(command.args(arguments)).succeeds().stdout
    };
    let output = run(&["log", "Deploy api", "--status", "planned"]);
    let (id, rest) = output.split_once("  ").expect("columns");
    let page = app.at(&format!("/changes/{id}"));
    assert_eq!(rest, format!("planned  Deploy api\n{page}\n"));
    for (arguments, status) in [
        (&format!("start {id}"), "in progress"),
        (&format!("done {id}"), "completed"),
        (&format!("rollback {id}"), "rolled back"),
        (&format!("update {id} --status completed"), "completed"),
    ] {
        let output = run(&arguments.split(' ').collect::<Vec<_>>());
        assert_eq!(output, format!("{id}  {status}  Deploy api\n{page}\n"));
    }
    assert!(run(&["show", id]).contains(&page));
    // For programs, only the ID.
    assert_eq!(run(&["done", id, "--format", "ids"]), format!("{id}\n"));
    assert!(!opened.exists());

    let mut expected = String::new();
    for arguments in [
        &["show", id, "--web"][..],
        &["update", id, "--risk", "high", "--web"],
        &["done", id, "--web"],
        &["rollback", id, "--web"],
    ] {
        run(arguments);
        expected.extend([page.as_str(), "\n"]);
        let text = wait_for_lines(&opened, expected.lines().count()).await;
        assert_eq!(text, expected, "{arguments:?}");
    }
    let output = run(&["log", "Deploy web", "--web"]);
    let page = output.lines().nth(1).expect("an address");
    let text = wait_for_lines(&opened, expected.lines().count() + 1).await;
    assert_eq!(text, format!("{expected}{page}\n"));
    // The address belongs to the dashboard.
    app.browser()
        .await
        .get(page.strip_prefix(&app.url()).expect("of this server"))
        .await
        .is(200);
}

/// Waits until a file has this many lines, and returns its text.
async fn wait_for_lines(path: &std::path::Path, count: usize) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.lines().count() >= count || Instant::now() > deadline {
            return text;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

//! What `chlog` prints: formats, tables, streams, exit codes.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::chlog::{ChlogOutput, chlog};
use changelog_tests::{TestApp, assert_contains, assert_lacks, each, on_one, programs, text};

on_one!(
    all_formats_have_the_same_content,
    tables_match_their_snapshots,
    control_characters_are_not_printed,
    a_closed_pipe_is_not_an_error,
    completions_and_manuals_are_printed;
    process:
    exit_codes_distinguish_failures,
);

/// Creates two changes at fixed times.
async fn create_two_changes(app: &TestApp) {
    let key = app.key();
    let service = key.service("payments").await;
    let host = json!({ "hostname": "web-1", "environment": "prod" });
    let host = key.create("/api/hosts", host).await;
    let body = json!({
        "title": "Deploy \"payments\", 2.3", "service_id": service, "host_id": host,
        "tags": ["deploy", "eu"], "risk_level": "high", "status": "completed",
        "description": "One\nTwo", "impact": "None", "scheduled_for": "2026-01-01T00:00:00Z",
        "occurred_at": "2026-01-02T03:04:05Z",
        "links": [{ "label": "run", "url": "https://e.com/1" }],
    });
    key.create("/api/changes", body).await;
    let body = json!({ "title": "Überlauf 数据库 🚀", "occurred_at": "2026-01-01T00:00:00Z" });
    key.create("/api/changes", body).await;
}

async fn all_formats_have_the_same_content(app: TestApp) {
    create_two_changes(&app).await;
    let api = app.key().body("/api/changes").await;
    assert_eq!(chlog(&app, "list --format json").succeeds().json(), api);
    assert_eq!(chlog(&app, "list --json").succeeds().json(), api);
    let lines = chlog(&app, "list --format ndjson").succeeds().stdout;
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(json!(lines), api["data"]);
    let ids: Vec<String> = each(&api["data"], "id").into_iter().map(text).collect();
    let output = chlog(&app, "list --format ids").succeeds().stdout;
    assert_eq!(output, ids.join("\n") + "\n");
    let csv = chlog(&app, "list --format csv").succeeds().stdout;
    let header = csv.lines().next().expect("a header");
    assert!(header.starts_with("id,title,"), "{header}");
    assert_contains(&csv, "\"Deploy \"\"payments\"\", 2.3\"");
    assert_contains(&csv, "\"One\nTwo\"");
    let one = &ids[0];
    let detail = app.key().body(&format!("/api/changes/{one}")).await;
    assert_eq!(
        chlog(&app, &format!("show '{one}' --json"))
            .succeeds()
            .json(),
        detail
    );
    assert_eq!(
        chlog(&app, &format!("show '{one}' --format ids"))
            .succeeds()
            .stdout,
        format!("{one}\n")
    );
    // Standard output has results only, also when there are none.
    let empty = chlog(&app, "list -q nothing").succeeds();
    assert_eq!(empty.stdout, "");
    assert_ne!(empty.stderr, "");
    let empty = chlog(&app, "list -q nothing --json").succeeds().json();
    assert_eq!((&empty["data"], &empty["count"]), (&json!([]), &json!(0)));
    assert_eq!(
        chlog(&app, "list -q nothing --format ids")
            .succeeds()
            .stdout,
        ""
    );
    chlog(&app, "list --format xml").exits_with(2);
    chlog(&app, "list --format csv --json").exits_with(2);
}

/// Replaces ids, which differ from run to run.
fn redacted(output: &str) -> String {
    let mut settings = String::new();
    for line in output.lines() {
        let mut line = line.to_owned();
        while let Some(at) = find_id(&line) {
            line.replace_range(at..at + 36, "[id]");
        }
        settings.push_str(line.trim_end());
        settings.push('\n');
    }
    settings
}

fn find_id(line: &str) -> Option<usize> {
    let ends = line.char_indices().map(|(at, _)| at);
    ends.filter(|at| line.is_char_boundary(at + 36)).find(|at| {
        line.get(*at..at + 36)
            .is_some_and(|part| uuid::Uuid::try_parse(part).is_ok())
    })
}

async fn tables_match_their_snapshots(app: TestApp) {
    create_two_changes(&app).await;
    let list = chlog(&app, "list").succeeds().stdout;
    assert!(!list.contains('\u{1b}'), "no colour in a pipe");
    // The age of a change depends on the date.
    let mut when = Vec::new();
    for line in list.lines() {
        let mut words = line.split("  ").filter(|word| !word.is_empty());
        when.push(words.nth(1).unwrap_or_default().trim().to_owned());
    }
    let mut rest = list.clone();
    for word in &when[1..] {
        rest = rest.replace(word.as_str(), "[when]");
    }
    insta::assert_snapshot!("list", redacted(&rest));
    let id = text(&app.key().body("/api/changes").await["data"][0]["id"]);
    let shown = chlog(&app, &format!("show {id}")).succeeds().stdout;
    let shown = shown.replace(&app.url(), "[server]");
    assert!(shown.contains("2026-01-02"), "exact times: {shown}");
    let lines: String = shown
        .lines()
        // The time of recording differs.
        .filter(|line| !line.trim_start().starts_with("recorded"))
        .map(|line| match line.split_once(" (") {
            Some((exact, _)) if line.contains("ago") => format!("{exact} ([ago])\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    insta::assert_snapshot!("show", redacted(&lines));
    insta::assert_snapshot!(
        "services",
        redacted(&chlog(&app, "service list").succeeds().stdout)
    );
    insta::assert_snapshot!(
        "hosts",
        redacted(&chlog(&app, "host list").succeeds().stdout)
    );
}

async fn control_characters_are_not_printed(app: TestApp) {
    let key = app.key();
    // The service refuses control characters; what it allows reorders text.
    let body =
        json!({ "title": "safe \u{202e}desrever", "description": "tab\there\nand \u{2066}there" });
    let id = key.create("/api/changes", body).await;
    for arguments in ["list", &format!("show {id}"), "list --json"] {
        let output = chlog(&app, arguments).succeeds().stdout;
        for steering in ['\u{202e}', '\u{2066}', '\u{1b}', '\u{7}'] {
            assert!(!output.contains(steering), "{arguments:?}: {output:?}");
        }
    }
    let list = chlog(&app, "list --json").succeeds().json();
    assert_eq!(
        list["data"][0]["title"], "safe \u{202e}desrever",
        "the title in JSON"
    );
}

async fn a_closed_pipe_is_not_an_error(app: TestApp) {
    let key = app.key();
    let long = "long ".repeat(50);
    for index in 0..120 {
        key.post(
            "/api/changes",
            json!({ "title": format!("{index} {long}"), "description": long.repeat(20) }),
        )
        .await
        .is(201);
    }
    for format in ["table", "json", "ndjson", "csv"] {
        let mut child = Command::new(programs::chlog())
            .args(["list", "--all", "--format", format])
            .env_clear()
            .env("HOME", app.folder())
            .env("CHLOG_URL", app.url())
            .env("CHLOG_API_KEY", &app.organization.key)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("chlog runs");
        // Reads one line, like `head -1`, and closes the pipe.
        let mut reader = BufReader::with_capacity(64, child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        drop(reader);
        let output = child.wait_with_output().expect("an exit");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{format}: {} {stderr}",
            output.status
        );
        assert_eq!(stderr, "", "{format}");
    }
}

async fn exit_codes_distinguish_failures(mut app: TestApp) {
    let nowhere = uuid::Uuid::now_v7().to_string();
    app.key().host("web-1").await;
    for (arguments, code) in [
        ("health", 0),
        ("--version", 0),
        ("--help", 0),
        ("log --help", 0),
        ("", 2),
        ("frobnicate", 2),
        ("log title --frobnicate", 2),
        ("log title --risk extreme", 2),
        ("log title --link no-address", 2),
        (&format!("show {nowhere}"), 3),
        ("host show nobody", 3),
        ("host create web-1", 5),
        ("log ab", 6),
        ("log title --tag ''", 6),
    ] {
        chlog(&app, arguments).exits_with(code);
    }
    let with_key = |key: &str| {
        let mut command = app.chlog();
        ChlogOutput::of(command.args(["list"]).env("CHLOG_API_KEY", key))
    };
    with_key("chlog_nonsense").exits_with(4);
    let unknown = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    let output = with_key(&unknown).exits_with(4);
    assert_lacks(&output.stderr, &unknown);
    app.admin(&["org", "set-plan", &app.organization.id, "free"]);
    let output = chlog(&app, "log title").exits_with(4);
    output.says("plan");
    app.admin(&["org", "set-plan", &app.organization.id, "pro"]);
    // The server does not run.
    app.server.terminate();
    app.server
        .wait_for_exit(Duration::from_secs(15))
        .await
        .expect("an exit");
    chlog(&app, "list").exits_with(7);
    chlog(&app, "health").exits_with(7);
    chlog(&app, "log title --strict").exits_with(7);
    // An invalid URL.
    let output = ChlogOutput::of(app.chlog().args(["list"]).env("CHLOG_URL", "nonsense"));
    output.exits_with(2);
}

async fn completions_and_manuals_are_printed(app: TestApp) {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = ChlogOutput::of(app.bare_chlog().args(["completions", shell]))
            .succeeds()
            .stdout;
        assert!(
            script.contains("chlog") && script.contains("COMPLETE"),
            "{shell}: {script}"
        );
    }
    ChlogOutput::of(app.bare_chlog().args(["completions", "tcsh"])).exits_with(2);
    let page = ChlogOutput::of(app.bare_chlog().arg("man"))
        .succeeds()
        .stdout;
    assert!(page.contains(".TH") && page.contains("chlog"), "{page}");
    let folder = app.folder().join("man1");
    let mut command = app.bare_chlog();
    ChlogOutput::of(command.arg("man").arg("--out").arg(&folder)).succeeds();
    let page = std::fs::read_to_string(folder.join("chlog-service-create.1")).expect("a page");
    for words in [
        ".SH EXAMPLES",
        ".SH ENVIRONMENT",
        ".SH \"EXIT STATUS\"",
        "\\-\\-depends\\-on",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let help = ChlogOutput::of(app.bare_chlog().arg("--help"))
        .succeeds()
        .stdout;
    for word in [
        "log", "list", "show", "update", "start", "done", "rollback", "service", "host", "auth",
        "health", "import", "export", "doctor",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
    // The key itself is never a flag.
    for command in ["list", "log", "auth"] {
        let help = ChlogOutput::of(app.bare_chlog().args([command, "--help"]))
            .succeeds()
            .stdout;
        assert_lacks(&help, "--api-key");
        assert_lacks(&help, "--key ");
    }
}

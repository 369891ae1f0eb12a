//! What `chlog` prints: formats, tables, streams, exit codes.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::chlog::{Said, chlog};
use changelog_tests::{TestApp, each, on_one, programs, text};

on_one!(
    formats_hold_the_same,
    tables_look_as_they_should,
    nothing_steers_a_terminal,
    a_closed_pipe_is_no_error,
    a_reading_flag_behind_log_is_explained,
    completions_and_manuals_are_printed;
    process:
    exit_codes_tell_what_went_wrong,
);

/// Two changes at fixed times.
async fn two(app: &TestApp) {
    let key = app.key();
    let service = key
        .create("/api/services", json!({ "name": "payments" }))
        .await;
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

async fn formats_hold_the_same(app: TestApp) {
    two(&app).await;
    let api = app.key().get("/api/changes").await.body(200);
    assert_eq!(
        chlog(&app, &["list", "--format", "json"]).done().json(),
        api
    );
    assert_eq!(chlog(&app, &["list", "--json"]).done().json(), api);
    let lines = chlog(&app, &["list", "--format", "ndjson"]).done().out;
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(json!(lines), api["data"]);
    let ids: Vec<String> = each(&api["data"], "id").into_iter().map(text).collect();
    let said = chlog(&app, &["list", "--format", "ids"]).done().out;
    assert_eq!(said, ids.join("\n") + "\n");
    let csv = chlog(&app, &["list", "--format", "csv"]).done().out;
    let header = csv.lines().next().expect("a header");
    assert!(header.starts_with("id,title,"), "{header}");
    assert!(csv.contains("\"Deploy \"\"payments\"\", 2.3\""), "{csv}");
    assert!(csv.contains("\"One\nTwo\""), "{csv}");
    let one = &ids[0];
    let detail = app
        .key()
        .get(&format!("/api/changes/{one}"))
        .await
        .body(200);
    assert_eq!(chlog(&app, &["show", one, "--json"]).done().json(), detail);
    assert_eq!(
        chlog(&app, &["show", one, "--format", "ids"]).done().out,
        format!("{one}\n")
    );
    // Nothing but the results is on standard output, also when there are none.
    let empty = chlog(&app, &["list", "-q", "nothing"]).done();
    assert_eq!(empty.out, "");
    assert_ne!(empty.err, "");
    let empty = chlog(&app, &["list", "-q", "nothing", "--json"])
        .done()
        .json();
    assert_eq!((&empty["data"], &empty["count"]), (&json!([]), &json!(0)));
    assert_eq!(
        chlog(&app, &["list", "-q", "nothing", "--format", "ids"])
            .done()
            .out,
        ""
    );
    chlog(&app, &["list", "--format", "xml"]).ended(2);
    chlog(&app, &["list", "--format", "csv", "--json"]).ended(2);
}

/// Replaces what differs from run to run.
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

async fn tables_look_as_they_should(app: TestApp) {
    two(&app).await;
    let list = chlog(&app, &["list"]).done().out;
    assert!(!list.contains('\u{1b}'), "no colour in a pipe");
    // How long ago it was changes with the calendar.
    let mut when = Vec::new();
    for line in list.lines() {
        when.push(line.split("  ").next().unwrap_or_default().to_owned());
    }
    let mut rest = list.clone();
    for word in &when[1..] {
        rest = rest.replace(word.as_str(), "[when]");
    }
    insta::assert_snapshot!("list", redacted(&rest));
    let id = text(&app.key().get("/api/changes").await.body(200)["data"][0]["id"]);
    let shown = chlog(&app, &["show", &id]).done().out;
    assert!(shown.contains("2026-01-02"), "exact times: {shown}");
    let lines: String = shown
        .lines()
        // Made now.
        .filter(|line| !line.trim_start().starts_with("recorded"))
        .map(|line| match line.split_once(" (") {
            Some((exact, _)) if line.contains("ago") => format!("{exact} ([ago])\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    insta::assert_snapshot!("show", redacted(&lines));
    insta::assert_snapshot!(
        "services",
        redacted(&chlog(&app, &["service", "list"]).done().out)
    );
    insta::assert_snapshot!(
        "hosts",
        redacted(&chlog(&app, &["host", "list"]).done().out)
    );
}

async fn nothing_steers_a_terminal(app: TestApp) {
    let key = app.key();
    // The service refuses control characters; what it allows reorders text.
    let body =
        json!({ "title": "safe \u{202e}desrever", "description": "tab\there\nand \u{2066}there" });
    let id = key.create("/api/changes", body).await;
    for arguments in [&["list"][..], &["show", &id], &["list", "--json"]] {
        let said = chlog(&app, arguments).done().out;
        for steering in ['\u{202e}', '\u{2066}', '\u{1b}', '\u{7}'] {
            assert!(!said.contains(steering), "{arguments:?}: {said:?}");
        }
    }
    let list = chlog(&app, &["list", "--json"]).done().json();
    assert_eq!(
        list["data"][0]["title"], "safe \u{202e}desrever",
        "JSON means the same"
    );
}

async fn a_closed_pipe_is_no_error(app: TestApp) {
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
        // One line, as `head -1` takes, and then nobody reads any more.
        let mut reader = BufReader::with_capacity(64, child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        drop(reader);
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{format}: {} {said}",
            output.status
        );
        assert_eq!(said, "", "{format}");
    }
}

async fn exit_codes_tell_what_went_wrong(mut app: TestApp) {
    let nowhere = uuid::Uuid::now_v7().to_string();
    app.key()
        .create("/api/hosts", json!({ "hostname": "web-1" }))
        .await;
    for (arguments, code) in [
        (&["health"][..], 0),
        (&["--version"], 0),
        (&["--help"], 0),
        (&["log", "--help"], 0),
        (&[], 2),
        (&["frobnicate"], 2),
        (&["log", "title", "--frobnicate"], 2),
        (&["log", "title", "--risk", "extreme"], 2),
        (&["log", "title", "--link", "no-address"], 2),
        (&["show", &nowhere], 3),
        (&["host", "show", "nobody"], 3),
        (&["host", "create", "web-1"], 5),
        (&["log", "ab"], 6),
        (&["log", "title", "--tag", ""], 6),
    ] {
        chlog(&app, arguments).ended(code);
    }
    let with_key = |key: &str| {
        let mut command = app.chlog();
        Said::of(command.args(["list"]).env("CHLOG_API_KEY", key))
    };
    with_key("chlog_nonsense").ended(4);
    let unknown = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    let said = with_key(&unknown).ended(4);
    assert!(!said.err.contains(&unknown), "{}", said.err);
    app.admin(&["org", "set-plan", &app.organization.id, "free"]);
    let said = chlog(&app, &["log", "title"]).ended(4);
    assert!(said.err.contains("plan"), "{}", said.err);
    app.admin(&["org", "set-plan", &app.organization.id, "pro"]);
    // Nobody there.
    app.server.terminate();
    app.server
        .ended(Duration::from_secs(15))
        .await
        .expect("it ends");
    chlog(&app, &["list"]).ended(7);
    chlog(&app, &["health"]).ended(7);
    chlog(&app, &["log", "title", "--strict"]).ended(7);
    // Somebody else there.
    let said = Said::of(app.chlog().args(["list"]).env("CHLOG_URL", "nonsense"));
    said.ended(2);
}

async fn a_reading_flag_behind_log_is_explained(app: TestApp) {
    for arguments in [
        &["log", "--since", "2h"][..],
        &["log", "-q", "deploy"],
        &["log", "--search", "deploy"],
        &["log", "--until=2026-01-01"],
        &["log", "-L", "5"],
        &["log", "--limit", "5"],
        &["log", "--page", "2"],
        &["log", "--all"],
    ] {
        let said = chlog(&app, arguments).ended(2);
        assert!(
            said.err.contains("did you mean `chlog list`?"),
            "{arguments:?}: {}",
            said.err
        );
    }
    assert_eq!(app.key().get("/api/changes").await.body(200)["count"], 0);
}

async fn completions_and_manuals_are_printed(app: TestApp) {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Said::of(app.bare_chlog().args(["completions", shell]))
            .done()
            .out;
        assert!(
            script.contains("chlog") && script.contains("COMPLETE"),
            "{shell}: {script}"
        );
    }
    Said::of(app.bare_chlog().args(["completions", "tcsh"])).ended(2);
    let page = Said::of(app.bare_chlog().arg("man")).done().out;
    assert!(page.contains(".TH") && page.contains("chlog"), "{page}");
    let help = Said::of(app.bare_chlog().arg("--help")).done().out;
    for word in [
        "log", "list", "show", "update", "start", "done", "rollback", "service", "host", "auth",
        "health", "import", "export", "doctor",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
    // The key itself is never a flag.
    for command in ["list", "log", "auth"] {
        let help = Said::of(app.bare_chlog().args([command, "--help"]))
            .done()
            .out;
        assert!(
            !help.contains("--api-key") && !help.contains("--key "),
            "{help}"
        );
    }
}

//! How `chlog` presents results: widths, columns, fields, jq, templates, the pager, and raw
//! requests.

use portable_pty::CommandBuilder;
use serde_json::{Value, json};

use crate::chlog::run::{run_interactively, set_terminal_environment};
use crate::chlog::{ChlogOutput, chlog};
use changelog_tests::{TestApp, assert_contains, assert_lacks, on_one, programs, text};

on_one!(
    tables_fit_every_terminal,
    the_pager_shows_what_is_longer_than_the_terminal,
    fields_expressions_and_templates_choose_what_is_printed,
    columns_are_chosen_by_name,
    a_chosen_format_is_honored_or_refused,
    a_raw_request_goes_to_the_configured_server,
    requests_are_printed_without_secrets,
    watch_prints_earlier_changes_first,
);

/// Runs `chlog` on a terminal of this size.
fn on_terminal(app: &TestApp, columns: u16, rows: u16, line: &str) -> (String, u32) {
    let script = format!(
        "stty cols {columns} rows {rows}; {} {line}",
        programs::chlog().display()
    );
    let mut command = CommandBuilder::new("sh");
    command.args(["-c", &script]);
    set_terminal_environment(&mut command, app, &app.url());
    command.env("NO_COLOR", "1");
    command.env("PAGER", "sed s/^/paged:/");
    let (seen, code) = run_interactively(command, &[]);
    (String::from_utf8_lossy(&seen).replace('\r', ""), code)
}

async fn create_changes(app: &TestApp, count: usize) -> Vec<String> {
    let key = app.key();
    let service = key.service("payments").await;
    let mut ids = Vec::new();
    for index in 0..count {
        let title = format!("Replace the certificate of balancer {index} in the second region");
        let body = json!({
            "title": title, "tags": ["tls", "eu"], "service_id": service, "risk_level": "high",
            "started_at": format!("2026-01-02T03:{index:02}:00Z"),
            "ended_at": format!("2026-01-02T03:{:02}:30Z", index + 1),
            "status": "completed",
        });
        ids.push(key.create("/api/changes", body).await);
    }
    ids
}

async fn tables_fit_every_terminal(app: TestApp) {
    let ids = create_changes(&app, 2).await;
    for columns in [20, 30, 40, 60, 80, 120, 400] {
        // The tables, and the notes below.
        for line in [
            "list",
            "list -L 1",
            "service list",
            "around 2026-01-02T03:30:00Z",
        ] {
            let (seen, code) = on_terminal(&app, columns, 50, line);
            assert_eq!(code, 0, "{seen}");
            let widest = seen.lines().map(|line| line.chars().count()).max();
            assert!(
                widest <= Some(usize::from(columns)) && !seen.contains("panicked"),
                "{columns}: {seen}"
            );
        }
        let (seen, _) = on_terminal(&app, columns, 50, "list");
        let table: Vec<&str> = seen.lines().take(3).collect();
        // Short ids that are unique, on one line each.
        let shown: Vec<&str> = table[1..]
            .iter()
            .map(|line| line.split(' ').next().unwrap_or_default())
            .collect();
        assert!(shown.iter().all(|id| (8..36).contains(&id.len())), "{seen}");
        assert!(
            shown[0] != shown[1] && ids[1].starts_with(shown[0]),
            "{seen}"
        );
        // Each column that is not there is named.
        let words = seen.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_hidden = |name: &str| {
            let note = words.split_once("hidden at this width: ");
            note.is_some_and(|(_, note)| note.contains(name))
        };
        for name in ["TAGS", "SERVICE", "STATUS"] {
            assert_ne!(
                table[0].contains(name),
                is_hidden(name),
                "{columns}: {seen}"
            );
        }
        assert_eq!(
            columns < 60,
            !table[0].contains("STATUS"),
            "{columns}: {seen}"
        );
    }
    // A short id is accepted.
    let (seen, _) = on_terminal(&app, 80, 50, "list");
    let short = seen.lines().nth(1).and_then(|line| line.split(' ').next());
    let short = short.unwrap_or_default();
    assert_eq!(
        chlog(&app, &format!("show {short} --format ids"))
            .succeeds()
            .stdout
            .trim(),
        ids[1]
    );
    // Chosen columns are cut rather than hidden.
    let (seen, _) = on_terminal(
        &app,
        60,
        50,
        "list --columns id,title,tags,service,duration",
    );
    for name in [
        "ID",
        "TITLE",
        "TAGS",
        "SERVICE",
        "DURATION",
        "1 min 30 s",
        "…",
    ] {
        assert!(seen.contains(name), "{name}: {seen}");
    }
    // A pipe gets whole ids and titles.
    let piped = chlog(&app, "list").succeeds();
    piped.prints(&ids[0]);
    piped.prints("second region");
    assert_eq!(piped.stderr, "");
}

async fn the_pager_shows_what_is_longer_than_the_terminal(app: TestApp) {
    create_changes(&app, 12).await;
    let (seen, code) = on_terminal(&app, 100, 10, "list");
    assert_eq!((seen.matches("paged:").count(), code), (13, 0), "{seen}");
    for line in [
        "list -L 3",
        "list --no-pager",
        "list --format ids",
        "list | cat",
    ] {
        let (seen, _) = on_terminal(&app, 100, 10, line);
        assert!(!seen.contains("paged:"), "{line}: {seen}");
    }
    // A pager that cannot be started does not lose the output.
    let line = "list --columns title --no-pager; CHLOG_PAGER=/nope";
    let (seen, _) = on_terminal(
        &app,
        100,
        10,
        &format!("{line} {} list", programs::chlog().display()),
    );
    assert!(
        seen.matches("Replace the certificate").count() >= 24,
        "{seen}"
    );
}

async fn fields_expressions_and_templates_choose_what_is_printed(app: TestApp) {
    let ids = create_changes(&app, 2).await;
    let list = |arguments: &[&str]| {
        chlog(&app, &[&["list"], arguments].concat())
            .succeeds()
            .stdout
    };
    let json: Value = serde_json::from_str(&list(&["--json=id,title"])).expect("JSON");
    assert_eq!(json["count"], 2);
    assert_eq!(json["data"][1]["id"], ids[0].as_str());
    assert_eq!(
        json["data"][0].as_object().map(serde_json::Map::len),
        Some(2)
    );
    assert_eq!(
        list(&["--jq", ".data[].id"]),
        format!("{}\n{}\n", ids[1], ids[0])
    );
    assert_eq!(list(&["--all", "--jq", ".data | length"]), "2\n");
    assert_eq!(
        list(&["--jq", ".risk_level", "-o", "ndjson"]),
        "high\nhigh\n"
    );
    assert_eq!(
        list(&[
            "--template",
            "{% for c in data %}{{ c.service.name }} {{ c.tags | join('+') }}\n{% endfor %}"
        ]),
        "payments tls+eu\n".repeat(2)
    );
    assert!(list(&["-o", "yaml"]).contains("  title: Replace the certificate of balancer 1"));
    // All of a list and a page of it have the same form.
    assert_eq!(
        list(&["--all", "--json"]).lines().count(),
        list(&["--json"]).lines().count()
    );
    let show = chlog(&app, &["show", &ids[0], "--jq", ".data.tags[0]"]).succeeds();
    assert_eq!(show.stdout, "tls\n");
    let health = chlog(&app, "health --jq .status").succeeds();
    assert_eq!(health.stdout, "ok\n");
    // Mistakes are found before anything is sent or recorded.
    for arguments in [
        &["--jq", ".data["][..],
        &["--jq", "nope"],
        &["--template", "{% for %}"],
        &["--json=titel"],
        &["--columns", "titel"],
        &["--columns", "id", "--json"],
        &["--jq", ".", "--format", "csv"],
    ] {
        let all = [&["log", "Must not be recorded"], arguments].concat();
        let output = chlog(&app, &all).exits_with(2);
        output.says("error: ");
    }
    assert_eq!(app.key().body("/api/changes").await["count"], 2);
}

async fn columns_are_chosen_by_name(app: TestApp) {
    let ids = create_changes(&app, 1).await;
    let columns = "title,duration,risk_level";
    let table = chlog(&app, &format!("list --columns '{columns}'"))
        .succeeds()
        .stdout;
    assert!(
        table.starts_with("TITLE  ") && table.contains("1 min 30 s  high"),
        "{table}"
    );
    let csv = chlog(&app, "list -o csv --columns id,duration,status").succeeds();
    assert_eq!(
        csv.stdout,
        format!("id,duration,status\n{},1 min 30 s,completed\n", ids[0])
    );
    let one = chlog(&app, &["show", &ids[0], "--columns", "status,title"])
        .succeeds()
        .stdout;
    assert!(
        one.starts_with("STATUS     TITLE\ncompleted  Replace"),
        "{one}"
    );
    // A wrong name is refused with the columns of this table, and no others.
    let around = "score, reasons, id, when, scheduled, risk, status, title, env, service, host, \
                  by, agent, tags, duration, risk_level, occurred_at";
    for (command, wrong, said) in [
        ("list", "durration", "did you mean duration?\n"),
        (
            "list",
            "hostname",
            "are id, when, scheduled, risk, status, title, env, service, ",
        ),
        ("watch --updates", "duration", "are event, id, title, "),
        ("around", "nope", around),
        (
            "history @last",
            "title",
            "are id, at, action, by, by_type, by_id, changes, reason, agent\n",
        ),
        (
            "service list",
            "duration",
            "are name, description, color, depends_on, created, id, ",
        ),
        (
            "host list",
            "nmae",
            "are hostname, env, address, platform, os, roles, id, fqdn, ",
        ),
        ("host show web-1", "hostnames", "did you mean hostname?\n"),
        (
            "spool status",
            "tags",
            "are kept, state, title, reason, url, organization, id, ",
        ),
        (
            "auth list",
            "id",
            "are active, profile, url, organization, key, is_active\n",
        ),
        (
            "log No",
            "host",
            "are id, title, risk_level, status, organization_id, created_at, queued",
        ),
    ] {
        let mut arguments: Vec<&str> = command.split(' ').collect();
        arguments.extend(["--columns", wrong]);
        let stderr = chlog(&app, &arguments).exits_with(2).stderr;
        let unknown = format!("error: --columns: unknown column {wrong}");
        assert!(
            stderr.starts_with(&unknown) && stderr.contains(said),
            "{command}: {stderr}"
        );
    }
}

async fn a_chosen_format_is_honored_or_refused(app: TestApp) {
    let health = chlog(&app, "health --format ndjson").succeeds();
    assert_eq!(health.stdout.lines().count(), 1, "{}", health.stdout);
    let health = chlog(&app, "health --format csv").succeeds().stdout;
    assert!(
        health
            .lines()
            .next()
            .is_some_and(|line| line.contains("status")),
        "{health}"
    );
    chlog(&app, "health --format ids").exits_with(2);
    for flag in ["--json", "--format=csv", "--jq=."] {
        let output = chlog(&app, &format!("run '{flag}' -- touch ran")).exits_with(2);
        output.says("chlog run");
    }
    assert!(!app.folder().join("ran").exists());
}

async fn a_raw_request_goes_to_the_configured_server(app: TestApp) {
    let ids = create_changes(&app, 3).await;
    let count = chlog(&app, "api changes --jq .count").succeeds();
    assert_eq!(count.stdout, "3\n");
    let query = "api '/api/changes?per_page=1' -X GET -f 'q=balancer 2'";
    let found = chlog(&app, query).succeeds().json();
    assert_eq!(found["data"][0]["id"], ids[2].as_str());
    let all = ["api", "changes?per_page=1", "--paginate", "--format", "ids"];
    let all = chlog(&app, &all).succeeds().stdout;
    assert_eq!(all.lines().count(), 3);
    let created = [
        "api",
        "changes",
        "-f",
        "title=By hand",
        "-F",
        "tags=[\"x\"]",
    ];
    let created = chlog(&app, &created).succeeds().json();
    let id = text(&created["data"]["id"]);
    let change = app.key().body(&format!("/api/changes/{id}")).await;
    assert_eq!(change["data"]["tags"], json!(["x"]));
    let path = format!("changes/{id}");
    let mut command = app.chlog();
    command.args(["api", &path, "-X", "patch", "--input", "-"]);
    ChlogOutput::of(command.write_stdin(r#"{"risk_level":"high"}"#)).succeeds();
    let change = app.key().body(&format!("/api/changes/{id}")).await;
    assert_eq!(change["data"]["risk_level"], "high");
    let head = chlog(&app, "api changes -X HEAD").succeeds();
    assert_eq!(head.stdout, "");
    // Exit codes as elsewhere.
    chlog(&app, "api nothing/here").exits_with(3);
    let of_people = chlog(&app, "api activity").exits_with(4);
    of_people.says("this takes the session of a signed-in person");
    assert_lacks(&of_people.stderr, "unknown, expired or revoked");
    chlog(&app, "api changes -f title=x").exits_with(6);
    for path in [
        "https://example.com/api/changes",
        "//example.com/api",
        "../setup",
    ] {
        let output = chlog(&app, &format!("api '{path}'")).exits_with(2);
        assert_lacks(&output.stderr, &app.organization.key);
    }
}

async fn requests_are_printed_without_secrets(app: TestApp) {
    let output = chlog(&app, "list --debug").succeeds();
    let url = app.url();
    let line = format!("debug: GET {url}/api/changes");
    output.says(&line);
    output.says(": 200 OK in ");
    output.says("request id ");
    assert!(!output.stderr.contains(&app.organization.key));
    let mut command = app.chlog();
    command
        .env("CHLOG_DEBUG", "1")
        .env("CHLOG_URL", "http://127.0.0.1:9");
    let output = ChlogOutput::of(command.args(["list"])).exits_with(7);
    output.says("next attempt in");
    let output = chlog(&app, "list").succeeds();
    assert_lacks(&output.stderr, "debug:");
    // Notes can be left out.
    assert_ne!(chlog(&app, "list").stderr, "");
    assert_eq!(chlog(&app, "list --quiet").succeeds().stderr, "");
}

async fn watch_prints_earlier_changes_first(app: TestApp) {
    let ids = create_changes(&app, 2).await;
    let line = "watch --since 1h";
    let script = format!(
        "timeout -s INT 2 {} {line}; echo code $?",
        programs::chlog().display()
    );
    let mut command = CommandBuilder::new("sh");
    command.args(["-c", &script]);
    set_terminal_environment(&mut command, &app, &app.url());
    let (seen, _) = run_interactively(command, &[]);
    let seen = String::from_utf8_lossy(&seen).into_owned();
    let at = |words: &str| {
        seen.find(words)
            .unwrap_or_else(|| panic!("{words}: {seen}"))
    };
    assert!(at("watching for changes") < at("TITLE"), "{seen}");
    assert!(
        at("TITLE") < at(&ids[0][..13]) && at(&ids[0][..13]) < at("balancer 1"),
        "{seen}"
    );
    // An interruption is not an error message.
    assert_lacks(&seen, "error:");
    assert_lacks(&seen, "cancelled");
    // Explicit formats are kept in a pipe.
    let mut command = app.chlog();
    command.args(["watch", "--since", "1h", "--format", "table"]);
    let output = command.timeout(std::time::Duration::from_secs(3)).output();
    let output = String::from_utf8_lossy(&output.expect("chlog runs").stdout).into_owned();
    assert_contains(&output, format!("  {}  high", ids[1]));
}

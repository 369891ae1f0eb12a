//! `chlog log`: recording changes.

use serde_json::{Value, json};

use crate::chlog::{ChlogOutput, Line, chlog, count, newest};
use changelog_tests::{TestApp, each, keys, on_one, shapes, text};

on_one!(
    a_change_is_recorded_with_all_fields,
    several_services_and_outcomes_are_recorded,
    the_message_comes_from_a_pipe_or_a_file,
    an_editor_is_opened,
    without_a_title_the_alternatives_are_listed,
    missing_services_and_hosts_are_created_on_request,
    a_dry_run_sends_nothing,
    one_idempotency_key_creates_one_change,
    project_files_set_defaults,
);

fn piped(app: &TestApp, line: &(impl Line + ?Sized), input: &str) -> ChlogOutput {
    ChlogOutput::of(app.chlog().args(line.words()).write_stdin(input))
}

async fn a_change_is_recorded_with_all_fields(app: TestApp) {
    let key = app.key();
    let service = key.service("Payments").await;
    let host = key.host("web-1").await;
    let arguments = "log 'Deploy payments 2.3' --risk high --status in_progress \
        --service payments --host WEB-1 --tag deploy,prod --tag eu -m 'The whole story' \
        --impact 'None expected' --link 'run=https://ci.example.com/runs/42?a=b' \
        --link ticket=https://tickets.example.com/7 --occurred-at 2026-01-02T03:04:05+01:00 \
        --scheduled-for 2027-01-02T03:04:05Z --environment staging \
        --started-at 2026-01-02T02:30:00Z --on-behalf-of ada@example.com \
        --agent renovate:autonomous --commit 1a2b3c4 --json";
    let created = chlog(&app, arguments).succeeds().json();
    assert_eq!(keys(&created), ["data"]);
    assert_eq!(keys(&created["data"]), shapes::CHANGE_CREATED);
    let change = newest(&app).await;
    assert_eq!(change["id"], created["data"]["id"]);
    for (field, value) in [
        ("title", json!("Deploy payments 2.3")),
        ("risk_level", json!("high")),
        ("status", json!("in_progress")),
        ("tags", json!(["deploy", "prod", "eu"])),
        ("description", json!("The whole story")),
        ("impact", json!("None expected")),
        (
            "links",
            json!([
                { "label": "run", "url": "https://ci.example.com/runs/42?a=b" },
                { "label": "ticket", "url": "https://tickets.example.com/7" },
            ]),
        ),
        ("occurred_at", json!("2026-01-02T02:04:05.000Z")),
        ("scheduled_for", json!("2027-01-02T03:04:05.000Z")),
        ("environment", json!("staging")),
        ("started_at", json!("2026-01-02T02:30:00.000Z")),
        ("ended_at", Value::Null),
        ("on_behalf_of", json!("ada@example.com")),
        (
            "agent",
            json!({ "name": "renovate", "mode": "autonomous", "run": null }),
        ),
        ("commit", json!("1a2b3c4")),
    ] {
        assert_eq!(change[field], value, "{field}");
    }
    assert_eq!(change["service"]["id"], json!(service));
    assert_eq!(change["host_ref"]["id"], json!(host));
    // Service and host by id; the other fields have defaults.
    let by_id = ["log", "By id", "--service", &service, "--host", &host];
    let output = chlog(&app, &by_id).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["risk_level"], "low");
    assert_eq!(change["status"], "completed");
    assert_eq!(change["service"]["name"], "Payments");
    output.prints(&text(&change["id"]));
    output.prints("By id");
}

async fn several_services_and_outcomes_are_recorded(app: TestApp) {
    app.key().service("Payments").await;
    let scheduled = ["log", "Later", "--scheduled-for", "2099-01-02"];
    chlog(&app, &scheduled).succeeds();
    assert_eq!(newest(&app).await["status"], "planned");
    // Several services, of which one is created.
    let several = "log Both --service search,payments --service ' SEARCH ' \
        --create-missing --ended-at 2026-01-02T03:00:00Z --outcome succeeded";
    chlog(&app, several).succeeds();
    let list = app.key().body("/api/changes?text=both").await;
    let both = &list["data"][0];
    assert_eq!(each(&both["services"], "name"), ["search", "Payments"]);
    assert_eq!(both["ended_at"], "2026-01-02T03:00:00.000Z");
    assert_eq!(both["outcome"], "succeeded");
    chlog(&app, "log 'No such' --service search,nobody").exits_with(3);
    let planned = "log 'Not yet' --status planned --outcome failed";
    chlog(&app, planned).exits_with(6);
}

async fn the_message_comes_from_a_pipe_or_a_file(app: TestApp) {
    let file = app.folder().join("words.txt");
    let words = "Rotate the certificates\n\nAll of them,\nin turn.\n";
    std::fs::write(&file, words).expect("a file");
    let path = file.to_str().expect("a path");
    for output in [
        piped(&app, "log --risk high", words),
        piped(&app, "log --risk high -F -", words),
        chlog(&app, &format!("log --risk high -F '{path}'")),
        piped(
            &app,
            "log --risk high",
            "\n\r\nRotate the certificates\r\n\r\nAll of them,\r\nin turn.",
        ),
    ] {
        output.succeeds();
        let change = newest(&app).await;
        assert_eq!(change["title"], "Rotate the certificates");
        assert_eq!(change["description"], "All of them,\nin turn.");
        assert_eq!(change["risk_level"], "high");
    }
    piped(&app, "log", "Only a title").succeeds();
    assert_eq!(newest(&app).await["description"], Value::Null);
    // With a title, standard input is not read.
    piped(&app, "log 'From the argument'", "Not this").succeeds();
    assert_eq!(newest(&app).await["title"], "From the argument");
    assert_eq!(count(&app).await, 6);
    for (arguments, input) in [
        (&["log", "-F", "/nowhere/at/all"][..], ""),
        (&["log", "-F", "-"], ""),
        (&["log", "-F", "-", "A title", "-e"], "words"),
    ] {
        piped(&app, arguments, input).exits_with(2);
    }
    assert_eq!(count(&app).await, 6);
}

async fn an_editor_is_opened(app: TestApp) {
    let script = app.folder().join("editor.sh");
    let edits = "#!/bin/sh\nprintf 'From the editor\\n\\nWith a story\\n' > \"$1\"\n";
    std::fs::write(&script, edits).expect("a file");
    let editor = format!("sh {}", script.display());
    let edit =
        |editor: &str| ChlogOutput::of(app.chlog().args(["log", "-e"]).env("EDITOR", editor));
    edit(&editor).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["title"], "From the editor");
    assert_eq!(change["description"], "With a story");
    // Without a title from the editor, nothing is recorded.
    edit("true").exits_with(130);
    edit("false").exits_with(130);
    // An editor that does not exist is an error.
    edit("no-such-editor").exits_with(1);
    assert_eq!(count(&app).await, 1);
}

async fn without_a_title_the_alternatives_are_listed(app: TestApp) {
    for input in ["", "  \n\n "] {
        let output = piped(&app, "log --risk high", input).exits_with(2);
        for way in ["chlog log \"", "-F", "-e", "|"] {
            assert!(output.stderr.contains(way), "{way}: {}", output.stderr);
        }
        assert_eq!(output.stdout, "");
    }
    assert_eq!(count(&app).await, 0);
}

async fn missing_services_and_hosts_are_created_on_request(app: TestApp) {
    let arguments = ["log", "Deploy", "--service", "brand-new", "--host", "web-9"];
    let output = chlog(&app, &arguments).exits_with(3);
    output.says("brand-new");
    output.says("--create-missing");
    assert_eq!(count(&app).await, 0);
    let mut arguments = arguments.to_vec();
    arguments.push("--create-missing");
    for _ in 0..2 {
        chlog(&app, &arguments).succeeds();
        let change = newest(&app).await;
        assert_eq!(change["service"]["name"], "brand-new");
        assert_eq!(change["host_ref"]["hostname"], "web-9");
    }
    let key = app.key();
    assert_eq!(
        each(&key.read("/api/services").await, "name"),
        ["brand-new"]
    );
    assert_eq!(each(&key.read("/api/hosts").await, "hostname"), ["web-9"]);
    // A refused change creates no service.
    chlog(&app, "log ab --service other --create-missing").exits_with(6);
    assert_eq!(
        each(&key.read("/api/services").await, "name"),
        ["brand-new"]
    );
    // A similar name is suggested.
    let output = chlog(&app, "log Deploy --service brand-nwe").exits_with(3);
    output.says("brand-new");
}

async fn a_dry_run_sends_nothing(app: TestApp) {
    app.key().service("payments").await;
    let arguments = "log '  Deploy ' --tag a,a --service payments --dry-run";
    let output = chlog(&app, arguments).succeeds().json();
    assert_eq!(output["title"], "Deploy");
    assert_eq!(output["tags"], json!(["a"]));
    assert!(output["service_id"].is_string(), "{output}");
    let arguments = "log Deploy --host new --create-missing --dry-run";
    let output = chlog(&app, arguments).succeeds();
    output.says("new");
    // A dry run finds the same mistakes.
    chlog(&app, "log ab --dry-run").exits_with(6);
    chlog(&app, "log Deploy --service nobody --dry-run").exits_with(3);
    assert_eq!(count(&app).await, 0);
    assert_eq!(app.key().read("/api/hosts").await, json!([]));
}

async fn one_idempotency_key_creates_one_change(app: TestApp) {
    let arguments = "log Deploy --idempotency-key run-42 --format ids";
    let first = chlog(&app, arguments).succeeds().stdout;
    let second = chlog(&app, arguments).succeeds().stdout;
    assert_eq!(first, second);
    assert_eq!(count(&app).await, 1);
    let other = ["log", "Another", "--idempotency-key", "run-42"];
    chlog(&app, &other).exits_with(6);
    // Without a key, each call creates a change.
    chlog(&app, "log Deploy").succeeds();
    chlog(&app, "log Deploy").succeeds();
    assert_eq!(count(&app).await, 3);
}

async fn project_files_set_defaults(app: TestApp) {
    let project = app.folder().join("project");
    let below = project.join("deep/down");
    std::fs::create_dir_all(&below).expect("a folder");
    std::fs::create_dir(project.join(".git")).expect("a folder");
    let file = project.join(".chlog.toml");
    let settings =
        "service = \"payments\"\nhost = \"web-1\"\ntags = [\"a\", \"b\"]\nrisk = \"high\"\n";
    std::fs::write(&file, settings).expect("a file");
    let log = |line: &str| {
        let mut command = app.chlog();
        ChlogOutput::of(command.arg("log").args(line.words()).current_dir(&below))
    };
    log("'From below' --create-missing").succeeds();
    let change = newest(&app).await;
    assert_eq!(change["service"]["name"], "payments");
    assert_eq!(change["host_ref"]["hostname"], "web-1");
    assert_eq!(change["tags"], json!(["a", "b"]));
    assert_eq!(change["risk_level"], "high");
    // Flags take precedence.
    log("'With flags' --risk low --tag c --service ''").succeeds();
    let change = newest(&app).await;
    assert_eq!(change["tags"], json!(["c", "a", "b"]));
    assert_eq!(change["risk_level"], "low");
    assert_eq!(change["service"], Value::Null);
    // What is wrong in the file is ignored: it must not turn recording off.
    let wrong = "service = 1\nhost = \"web-1\"\ntags = \"a\"\nrisk = \"extreme\"\n";
    for (settings, host) in [(wrong, "web-1"), ("host = [", "")] {
        std::fs::write(&file, settings).expect("a file");
        let output = log("'With wrong settings'").succeeds();
        output.says(".chlog.toml");
        let change = newest(&app).await;
        let found = change["host_ref"]["hostname"].as_str().unwrap_or_default();
        assert_eq!((found, &change["risk_level"]), (host, &json!("low")));
        let mut command = app.chlog();
        ChlogOutput::of(command.arg("list").current_dir(&below)).succeeds();
        let mut command = app.chlog();
        ChlogOutput::of(command.args(["run", "--", "true"]).current_dir(&below)).succeeds();
        assert_eq!(newest(&app).await["title"], "Run true");
    }
    // A cloned repository must not set where the key is sent.
    for line in [
        "url = \"http://evil.example.com\"",
        "profile = \"evil\"",
        "api_key = \"x\"",
    ] {
        std::fs::write(&file, format!("{line}\nrisk = \"medium\"\n")).expect("a file");
        let output = log("'Not redirected'");
        if output.code == 0 {
            assert_eq!(newest(&app).await["title"], "Not redirected");
        }
        output.says(line.split(' ').next().expect("a word"));
    }
    // Files above the root of the repository are ignored.
    std::fs::remove_file(&file).expect("a file");
    std::fs::write(app.folder().join(".chlog.toml"), "risk = \"high\"\n").expect("a file");
    log("Outside").succeeds();
    assert_eq!(newest(&app).await["risk_level"], "low");
}

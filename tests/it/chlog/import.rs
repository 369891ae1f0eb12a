//! `chlog import`: files, CSV and git history; each change is imported once.

use std::fmt::Write as _;
use std::process::Command;

use serde_json::{Value, json};

use crate::chlog::{ChlogOutput, chlog, count};
use changelog_tests::{Organization, TestApp, assert_contains, each, on_one};

on_one!(
    importing_a_file_again_adds_nothing,
    identical_lines_are_imported_separately,
    edited_changes_are_not_imported_again,
    invalid_lines_are_written_to_the_rejected_file,
    an_unwritable_rejected_file_stops_no_import,
    an_interrupted_import_reports_its_progress,
    ten_thousand_lines_are_imported,
    changes_of_one_time_keep_their_order;
    process:
    a_failed_import_can_be_repeated,
);

/// Returns a `chlog` command with the key of another organization.
pub(crate) fn chlog_of(app: &TestApp, organization: &Organization) -> assert_cmd::Command {
    let mut command = app.chlog();
    command.env("CHLOG_API_KEY", &organization.key);
    command
}

/// Returns all changes, newest first, without ids and times of recording.
pub(crate) async fn all_changes(app: &TestApp, key: &str) -> Vec<Value> {
    let caller = app.with_key(key);
    let mut changes = Vec::new();
    for page in 1.. {
        let path = format!("/api/changes?per_page=100&page={page}");
        let list = caller.body(&path).await;
        let data = list["data"].as_array().expect("a list").clone();
        let is_last = data.len() < 100;
        changes.extend(data);
        if is_last {
            break;
        }
    }
    for change in &mut changes {
        let change = change.as_object_mut().expect("an object");
        for own in [
            "id",
            "organization_id",
            "created_at",
            "created_by",
            "updated_at",
            "updated_by",
            "service_ids",
        ] {
            change.remove(own);
        }
        for service in change
            .get_mut("services")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            service["id"].take();
        }
        for linked in ["service", "host_ref"] {
            if let Some(linked) = change[linked].as_object_mut() {
                linked.remove("id");
            }
        }
    }
    changes
}

pub(super) fn write(app: &TestApp, name: &str, text: impl AsRef<[u8]>) {
    std::fs::write(app.folder().join(name), text).expect("a file");
}

pub(super) fn line(second: u32, title: &str) -> String {
    let at = format!(
        "2026-01-01T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    );
    json!({ "title": title, "occurred_at": at }).to_string()
}

async fn importing_a_file_again_adds_nothing(app: TestApp) {
    let lines: Vec<String> = (0..250).map(|n| line(n, &format!("Deploy {n}"))).collect();
    write(&app, "changes.ndjson", lines.join("\n"));
    let output = chlog(&app, "import changes.ndjson").succeeds();
    assert_eq!(output.stdout, "");
    output.says("imported 250, skipped 0 already present, rejected 0");
    let output = chlog(&app, "import changes.ndjson --json").succeeds();
    let expected =
        json!({ "imported": 0, "already_there": 250, "rejected": 0, "rejected_file": null });
    assert_eq!(output.json(), expected);
    // Only the added line is imported, wherever it is in the file.
    let mut more = lines.clone();
    more.insert(100, line(7000, "Added"));
    let input = more.join("\r\n");
    let output = ChlogOutput::of(app.chlog().args(["import", "-"]).write_stdin(input)).succeeds();
    output.says("imported 1, skipped 250 already present");
    assert_eq!(count(&app).await, 251);
    // A dry run imports nothing.
    let input = line(8000, "Not yet");
    let dry = ["import", "-", "--dry-run"];
    let output = ChlogOutput::of(app.chlog().args(dry).write_stdin(input)).succeeds();
    output.says("would import 1, skipped 0 already present");
    assert_eq!(count(&app).await, 251);
    let output = ChlogOutput::of(app.chlog().args(["import", "-"]).write_stdin("")).succeeds();
    output.says("imported 0");
    chlog(&app, "import nowhere.csv").exits_with(2);
    chlog(&app, "import").exits_with(2);
}

async fn identical_lines_are_imported_separately(app: TestApp) {
    let text = [
        line(1, "Same"),
        line(1, "Same"),
        line(2, "Other"),
        line(1, "Same"),
    ]
    .join("\n");
    write(&app, "twice.jsonl", &text);
    for expected in [
        "imported 4, skipped 0 already present",
        "imported 0, skipped 4 already present",
    ] {
        let output = chlog(&app, "import twice.jsonl").succeeds();
        output.says(expected);
    }
    // More than one request, all with the same time.
    let many: Vec<String> = (0..1100).map(|_| line(9, "Same")).collect();
    write(&app, "many.ndjson", many.join("\n"));
    for expected in [
        "imported 1100, skipped 0 already present",
        "imported 0, skipped 1100 already present",
    ] {
        let output = chlog(&app, "import many.ndjson").succeeds();
        output.says(expected);
    }
    assert_eq!(count(&app).await, 1104);
}

async fn edited_changes_are_not_imported_again(app: TestApp) {
    write(&app, "one.ndjson", line(1, "Deploy"));
    chlog(&app, "import one.ndjson").succeeds();
    let id = chlog(&app, "list --format ids").succeeds().stdout;
    chlog(
        &app,
        &[
            "update",
            id.trim(),
            "--status",
            "completed",
            "--tag",
            "late",
        ],
    )
    .succeeds();
    let output = chlog(&app, "import one.ndjson").succeeds();
    output.says("imported 0, skipped 1 already present");
    // Lines of an export of this organization are recognized by id, even after edits.
    let exported = chlog(&app, "export").succeeds().stdout;
    chlog(&app, &["update", id.trim(), "--title", "Renamed"]).succeeds();
    let output =
        ChlogOutput::of(app.chlog().args(["import", "-"]).write_stdin(exported)).succeeds();
    output.says("imported 0, skipped 1 already present");
    assert_eq!(count(&app).await, 1);
    // A change that was planned when it was imported, and has been started since.
    let planned = json!({ "title": "Switch", "occurred_at": "2026-01-03T00:00:00Z" });
    let import = || {
        let input = planned.to_string();
        ChlogOutput::of(app.chlog().args(["import", "-"]).write_stdin(input)).succeeds()
    };
    import().says("imported 1, skipped 0 already present");
    let id = chlog(&app, "list switch --format ids").succeeds().stdout;
    chlog(&app, &["start", id.trim()]).succeeds();
    import().says("imported 0, skipped 1 already present");
    chlog(&app, &["done", id.trim()]).succeeds();
    import().says("imported 0, skipped 1 already present");
    // More of them in one millisecond than the beginning of an id finds.
    let lines = (0..230).map(|number| {
        let title = format!("Planned {number}");
        json!({ "title": title, "occurred_at": "2026-01-04T00:00:00Z" }).to_string() + "\n"
    });
    let lines: String = lines.collect();
    let import = || {
        let input = lines.clone();
        ChlogOutput::of(app.chlog().args(["import", "-"]).write_stdin(input)).succeeds()
    };
    import().says("imported 230, skipped 0 ");
    let id = chlog(&app, "list 'planned 229' --format ids")
        .succeeds()
        .stdout;
    chlog(&app, &["start", id.trim()]).succeeds();
    let again = import().stderr;
    assert_contains(&again, "imported 0, skipped 230 ");
    // A change of an export whose start has been corrected since.
    for format in ["ndjson", "csv"] {
        let exported = chlog(&app, &format!("export --format '{format}'"))
            .succeeds()
            .stdout;
        let start = format!("2026-01-0{}T11:00:00Z", format.len());
        chlog(&app, &["update", id.trim(), "--started-at", &start]).succeeds();
        let arguments = ["import", "-", "--input-format", format];
        let again = ChlogOutput::of(app.chlog().args(arguments).write_stdin(exported)).succeeds();
        let again = again.stderr;
        assert!(again.contains("imported 0, "), "{format}: {again}");
    }
    // The same change on another host is another change.
    for host in ["web-1", "web-2"] {
        let text = json!({ "title": "Roll", "occurred_at": "2026-01-01T00:00:00Z", "host": host });
        let arguments = ["import", "-", "--create-missing"];
        let output =
            ChlogOutput::of(app.chlog().args(arguments).write_stdin(text.to_string())).succeeds();
        output.says("imported 1");
    }
}

async fn invalid_lines_are_written_to_the_rejected_file(app: TestApp) {
    let lines = [
        line(1, "Fine"),
        "{\"title\": ".to_owned(),
        String::new(),
        json!({ "title": "No time" }).to_string(),
        json!({ "title": "ab", "occurred_at": "2026-01-01T00:00:00Z", "risk": "high" }).to_string(),
        json!({ "title": "Ahead", "occurred_at": "2999-01-01T00:00:00Z" }).to_string(),
        json!({
            "title": "Of nobody", "occurred_at": "2026-01-01T00:00:00Z",
            "service_id": uuid::Uuid::now_v7(),
        })
        .to_string(),
        json!({
            "title": "Of nobody", "occurred_at": "2026-01-01T00:00:00Z",
            "service_ids": [uuid::Uuid::now_v7(), uuid::Uuid::now_v7()],
        })
        .to_string(),
        line(2, "Fine too"),
    ];
    write(&app, "bad.ndjson", lines.join("\n"));
    let output = chlog(&app, "import bad.ndjson").exits_with(6);
    output.says("imported 2, skipped 0 already present, rejected 6");
    for words in [
        "line 2: ",
        "line 4: occurred_at: is required",
        "line 5: title: must have 3 to 300 characters, got 2",
        "line 5: risk: ",
        "line 6: occurred_at: must be at most 5 minutes after the server time",
        "line 7: service_id: ",
        "line 8: service_ids: ",
        "bad.ndjson.rejected",
    ] {
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    }
    let rejected = app.folder().join("bad.ndjson.rejected");
    let rejected = std::fs::read_to_string(rejected).expect("a file");
    let mut expected: Vec<&str> = [1, 3, 4, 5, 6, 7]
        .iter()
        .map(|index| lines[*index].as_str())
        .collect();
    let mut found: Vec<&str> = rejected.lines().collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    // The corrected file of rejected lines can be imported.
    let corrected = line(3, "Corrected");
    write(&app, "bad.ndjson.rejected", corrected);
    chlog(&app, "import bad.ndjson.rejected").succeeds();
    assert_eq!(count(&app).await, 3);
    // The default name for a pipe, and a given name; a file that exists is kept.
    let input = "{}\n";
    let pipe = |input: &str| {
        ChlogOutput::of(app.chlog().args(["import", "-"]).write_stdin(input)).exits_with(6)
    };
    pipe(input);
    assert!(app.folder().join("import-rejected.ndjson").exists());
    let again = pipe(input);
    again.says("import-rejected.ndjson.2");
    pipe("title,occurred_at\nab,2026-01-01T00:00:00Z\n");
    assert!(app.folder().join("import-rejected.csv").exists());
    let arguments = ["import", "-", "--rejected", "elsewhere"];
    ChlogOutput::of(app.chlog().args(arguments).write_stdin(input)).exits_with(6);
    let elsewhere = std::fs::read_to_string(app.folder().join("elsewhere"));
    assert_eq!(elsewhere.expect("a file"), input);
    chlog(&app, "import bad.ndjson --rejected bad.ndjson").exits_with(2);
}

async fn a_failed_import_can_be_repeated(app: TestApp) {
    let mut app = app;
    let lines: Vec<String> = (0..1200).map(|n| line(n, &format!("Deploy {n}"))).collect();
    // As if the first request had succeeded, and the second had failed.
    write(&app, "some.ndjson", lines[..500].join("\n"));
    write(&app, "all.ndjson", lines.join("\n"));
    chlog(&app, "import some.ndjson").succeeds();
    app.server.kill9();
    let output = chlog(&app, "import all.ndjson").exits_with(7);
    assert_eq!(output.stdout, "");
    app.restart().await;
    let output = chlog(&app, "import all.ndjson").succeeds();
    output.says("imported 700, skipped 500 already present");
    assert_eq!(count(&app).await, 1200);
}

async fn an_interrupted_import_reports_its_progress(app: TestApp) {
    const COUNT: u32 = 40_000;
    let lines: Vec<String> = (0..COUNT)
        .map(|n| line(n, &format!("Deploy {n}")))
        .collect();
    write(&app, "long.ndjson", lines.join("\n"));
    let mut command = Command::new(changelog_tests::programs::chlog());
    command
        .args(["import", "long.ndjson"])
        .current_dir(app.folder())
        .env("CHLOG_URL", app.url())
        .env("CHLOG_API_KEY", &app.organization.key)
        .env("HOME", app.folder())
        .env_remove("XDG_CONFIG_HOME")
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("chlog runs");
    while count(&app).await == 0 {}
    changelog_tests::signal(child.id(), "INT");
    let output = child.wait_with_output().expect("an exit");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert_contains(&stderr, "interrupted after");
    assert_contains(&stderr, "rerun the same command");
    let imported = count(&app).await;
    assert!(imported > 0 && imported < u64::from(COUNT), "{imported}");
    // The service may still be writing the last request.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let imported = count(&app).await;
    let output = chlog(&app, "import long.ndjson").succeeds();
    let rest = u64::from(COUNT) - imported;
    let expected = format!("imported {rest}, skipped {imported} already present");
    output.says(&expected);
    assert_eq!(count(&app).await, u64::from(COUNT));
}

async fn ten_thousand_lines_are_imported(app: TestApp) {
    let mut text = String::new();
    for n in 0..10_000 {
        let tags = json!(["deploy", format!("team-{}", n % 20)]);
        let at = format!(
            "2026-01-{:02}T{:02}:{:02}:00Z",
            1 + n / 1440,
            n / 60 % 24,
            n % 60
        );
        let change = json!({
            "title": format!("Deploy number {n}"), "occurred_at": at, "tags": tags,
            "status": "completed", "description": "Rolls out what was merged since the last time.",
        });
        writeln!(text, "{change}").expect("text");
    }
    write(&app, "many.ndjson", text);
    for expected in ["imported 10000", "skipped 10000 already present"] {
        let output = chlog(&app, "import many.ndjson").succeeds();
        output.says(expected);
    }
    assert_eq!(count(&app).await, 10_000);
}

async fn changes_of_one_time_keep_their_order(app: TestApp) {
    let title = |n: usize| format!("Number {n:03}");
    let lines: Vec<String> = (0..400).map(|n| line(1, &title(n))).collect();
    write(&app, "moment.ndjson", lines.join("\n"));
    let expected: Vec<Value> = (0..400).rev().map(|n| json!(title(n))).collect();
    // On SQLite, some sort keys of the second organization are taken by the first one.
    for organization in [&app.organization, &app.second_organization()] {
        let mut import = chlog_of(&app, organization);
        ChlogOutput::of(import.args(["import", "moment.ndjson"])).succeeds();
        let changes = json!(all_changes(&app, &organization.key).await);
        assert!(
            each(&changes, "title").into_iter().eq(&expected),
            "{changes}"
        );
    }
}

async fn an_unwritable_rejected_file_stops_no_import(app: TestApp) {
    let lines = "{\"title\":\"Good one\",\"occurred_at\":\"2021-03-01T00:00:00Z\"}\n\
                 {\"title\":\"x\",\"occurred_at\":\"2021-03-01T00:00:00Z\"}\n";
    write(&app, "mixed.ndjson", lines);
    let arguments = ["import", "mixed.ndjson", "--rejected", "nowhere/rejected"];
    let output = chlog(&app, &arguments).exits_with(6);
    output.says("line 2: title: ");
    output.says("not saved: cannot write nowhere/rejected");
    assert_eq!(app.key().body("/api/changes").await["count"], 1);
}

//! `chlog import`: files, CSV and git history; each change is imported once.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::chlog::{ChlogOutput, chlog};
use changelog_tests::{Organization, TestApp, each, on_one};

on_one!(
    importing_a_file_again_adds_nothing,
    identical_lines_are_imported_separately,
    edited_changes_are_not_imported_again,
    invalid_lines_are_written_to_the_rejected_file,
    csv_files_are_imported,
    json_documents_are_imported,
    mistakes_are_explained,
    unknown_names_are_refused_or_created,
    an_interrupted_import_reports_its_progress,
    ten_thousand_lines_are_imported,
    changes_of_one_time_keep_their_order,
    git_history_is_imported,
    a_range_of_git_history_is_imported,
    import_outside_a_repository_fails;
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
        let list = caller.get(&path).await.body(200);
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

fn write(app: &TestApp, name: &str, text: impl AsRef<[u8]>) {
    std::fs::write(app.folder().join(name), text).expect("a file");
}

async fn count(app: &TestApp) -> u64 {
    let list = app.key().get("/api/changes").await.body(200);
    list["count"].as_u64().expect("a count")
}

fn line(second: u32, title: &str) -> String {
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
    let output = chlog(&app, &["import", "changes.ndjson"]).succeeds();
    assert_eq!(output.stdout, "");
    assert!(
        output
            .stderr
            .contains("imported 250, skipped 0 already present, rejected 0"),
        "{}",
        output.stderr
    );
    let output = chlog(&app, &["import", "changes.ndjson", "--json"]).succeeds();
    let expected =
        json!({ "imported": 0, "already_there": 250, "rejected": 0, "rejected_file": null });
    assert_eq!(output.json(), expected);
    // Only the added line is imported, wherever it is in the file.
    let mut more = lines.clone();
    more.insert(100, line(7000, "Added"));
    let input = more.join("\r\n");
    let output = ChlogOutput::of(app.chlog().args(["import", "-"]).write_stdin(input)).succeeds();
    assert!(
        output
            .stderr
            .contains("imported 1, skipped 250 already present"),
        "{}",
        output.stderr
    );
    assert_eq!(count(&app).await, 251);
    // A dry run imports nothing.
    let input = line(8000, "Not yet");
    let dry = ["import", "-", "--dry-run"];
    let output = ChlogOutput::of(app.chlog().args(dry).write_stdin(input)).succeeds();
    assert!(
        output
            .stderr
            .contains("would import 1, skipped 0 already present"),
        "{}",
        output.stderr
    );
    assert_eq!(count(&app).await, 251);
    let output = ChlogOutput::of(app.chlog().args(["import", "-"]).write_stdin("")).succeeds();
    assert!(output.stderr.contains("imported 0"), "{}", output.stderr);
    chlog(&app, &["import", "nowhere.csv"]).exits_with(2);
    chlog(&app, &["import"]).exits_with(2);
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
        let output = chlog(&app, &["import", "twice.jsonl"]).succeeds();
        assert!(output.stderr.contains(expected), "{}", output.stderr);
    }
    // More than one request, all with the same time.
    let many: Vec<String> = (0..1100).map(|_| line(9, "Same")).collect();
    write(&app, "many.ndjson", many.join("\n"));
    for expected in [
        "imported 1100, skipped 0 already present",
        "imported 0, skipped 1100 already present",
    ] {
        let output = chlog(&app, &["import", "many.ndjson"]).succeeds();
        assert!(output.stderr.contains(expected), "{}", output.stderr);
    }
    assert_eq!(count(&app).await, 1104);
}

async fn edited_changes_are_not_imported_again(app: TestApp) {
    write(&app, "one.ndjson", line(1, "Deploy"));
    chlog(&app, &["import", "one.ndjson"]).succeeds();
    let id = chlog(&app, &["list", "--format", "ids"]).succeeds().stdout;
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
    let output = chlog(&app, &["import", "one.ndjson"]).succeeds();
    assert!(
        output
            .stderr
            .contains("imported 0, skipped 1 already present"),
        "{}",
        output.stderr
    );
    // Lines of an export of this organization are recognized by id, even after edits.
    let exported = chlog(&app, &["export"]).succeeds().stdout;
    chlog(&app, &["update", id.trim(), "--title", "Renamed"]).succeeds();
    let output =
        ChlogOutput::of(app.chlog().args(["import", "-"]).write_stdin(exported)).succeeds();
    assert!(
        output
            .stderr
            .contains("imported 0, skipped 1 already present"),
        "{}",
        output.stderr
    );
    assert_eq!(count(&app).await, 1);
    // A change that was planned when it was imported, and has been started since.
    let planned = json!({ "title": "Switch", "occurred_at": "2026-01-03T00:00:00Z" });
    let import = || {
        let input = planned.to_string();
        ChlogOutput::of(app.chlog().args(["import", "-"]).write_stdin(input)).succeeds()
    };
    assert!(
        import()
            .stderr
            .contains("imported 1, skipped 0 already present")
    );
    let id = chlog(&app, &["list", "switch", "--format", "ids"])
        .succeeds()
        .stdout;
    chlog(&app, &["start", id.trim()]).succeeds();
    assert!(
        import()
            .stderr
            .contains("imported 0, skipped 1 already present")
    );
    chlog(&app, &["done", id.trim()]).succeeds();
    assert!(
        import()
            .stderr
            .contains("imported 0, skipped 1 already present")
    );
    // The same change on another host is another change.
    for host in ["web-1", "web-2"] {
        let text = json!({ "title": "Roll", "occurred_at": "2026-01-01T00:00:00Z", "host": host });
        let arguments = ["import", "-", "--create-missing"];
        let output =
            ChlogOutput::of(app.chlog().args(arguments).write_stdin(text.to_string())).succeeds();
        assert!(output.stderr.contains("imported 1"), "{}", output.stderr);
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
    let output = chlog(&app, &["import", "bad.ndjson"]).exits_with(6);
    assert!(
        output
            .stderr
            .contains("imported 2, skipped 0 already present, rejected 6"),
        "{}",
        output.stderr
    );
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
    chlog(&app, &["import", "bad.ndjson.rejected"]).succeeds();
    assert_eq!(count(&app).await, 3);
    // The default name for a pipe, and a given name; a file that exists is kept.
    let input = "{}\n";
    let pipe = |input: &str| {
        ChlogOutput::of(app.chlog().args(["import", "-"]).write_stdin(input)).exits_with(6)
    };
    pipe(input);
    assert!(app.folder().join("import-rejected.ndjson").exists());
    let again = pipe(input);
    assert!(
        again.stderr.contains("import-rejected.ndjson.2"),
        "{}",
        again.stderr
    );
    pipe("title,occurred_at\nab,2026-01-01T00:00:00Z\n");
    assert!(app.folder().join("import-rejected.csv").exists());
    let arguments = ["import", "-", "--rejected", "elsewhere"];
    ChlogOutput::of(app.chlog().args(arguments).write_stdin(input)).exits_with(6);
    let elsewhere = std::fs::read_to_string(app.folder().join("elsewhere"));
    assert_eq!(elsewhere.expect("a file"), input);
    chlog(&app, &["import", "bad.ndjson", "--rejected", "bad.ndjson"]).exits_with(2);
}

async fn json_documents_are_imported(app: TestApp) {
    for title in ["Deploy one", "Deploy two"] {
        chlog(&app, &["log", title, "--tag", "a"]).succeeds();
    }
    let other = app.second_organization();
    for arguments in [
        &["export", "--json"][..],
        &["list", "--json"],
        &["list", "--all", "--json"],
    ] {
        let document = chlog(&app, arguments).succeeds().stdout;
        let mut command = app.chlog();
        command.args(["import", "-"]).write_stdin(document.clone());
        let output = ChlogOutput::of(&mut command).succeeds();
        let words = "imported 0, skipped 2 already present, rejected 0";
        assert!(output.stderr.contains(words), "{}", output.stderr);
        let mut command = chlog_of(&app, &other);
        command
            .args(["import", "-", "--dry-run"])
            .write_stdin(document);
        let output = ChlogOutput::of(&mut command).succeeds();
        // What would be imported is printed.
        for words in ["  Deploy one\n", "  Deploy two\n", "would import 2"] {
            assert!(output.stderr.contains(words), "{}", output.stderr);
        }
    }
    write(
        &app,
        "array.json",
        format!("[{},\n{}]", line(1, "One more"), line(2, "x")),
    );
    let output = chlog(&app, &["import", "array.json"]).exits_with(6);
    assert!(
        output.stderr.contains("line 2: title: "),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("imported 1"), "{}", output.stderr);
    // The rejected objects can be corrected and imported again.
    let rejected = app.folder().join("array.json.rejected");
    let text = std::fs::read_to_string(&rejected).expect("text");
    std::fs::write(&rejected, text.replace("\"x\"", "\"Two more\"")).expect("a file");
    let output = chlog(&app, &["import", "array.json.rejected"]).succeeds();
    assert!(output.stderr.contains("imported 1"), "{}", output.stderr);
}

async fn mistakes_are_explained(app: TestApp) {
    let output = chlog(&app, &["import"]).exits_with(2);
    assert!(output.stderr.contains("import --git"), "{}", output.stderr);
    write(&app, "text.ndjson", "not JSON\n");
    let output = chlog(&app, &["import", "text.ndjson"]).exits_with(6);
    let words = "line 1: not a JSON object";
    assert!(output.stderr.contains(words), "{}", output.stderr);
    // A repository without tags and merges.
    let git =
        "git init -q . && git -c user.name=a -c user.email=a@b.c commit -qm one --allow-empty";
    let made = Command::new("sh")
        .args(["-c", git])
        .current_dir(app.folder())
        .status();
    assert!(made.expect("git").success());
    let output = chlog(&app, &["import", "--git"]).succeeds();
    assert!(
        output.stderr.contains("no merge commits"),
        "{}",
        output.stderr
    );
}

async fn csv_files_are_imported(app: TestApp) {
    let table = "\u{feff}title,occurred_at,risk_level,tags,links,service,description\r\n\
        \"Deploy \"\"api\"\", 2\",2026-01-01T00:00:00+01:00,high,\
        \"[\"\"a\"\", \"\"b\"\"]\",\"[{\"\"label\"\":\"\"run\"\",\"\"url\"\":\"\"https://e.com/?a=b\"\"}]\",web,\"One\nTwo\"\r\n\
        '=1+1,2026-01-02T00:00:00Z,,,,,\r\n\
        too,few\r\n\
        bad risk,2026-01-02T00:00:00Z,hihg,,,,\r\n";
    write(&app, "table.csv", table);
    let arguments = ["import", "table.csv", "--create-missing"];
    let output = chlog(&app, &arguments).exits_with(6);
    assert!(
        output
            .stderr
            .contains("imported 2, skipped 0 already present, rejected 2"),
        "{}",
        output.stderr
    );
    assert!(
        output.stderr.contains("line 5: ") && output.stderr.contains("line 6: risk_level"),
        "{}",
        output.stderr
    );
    let rejected =
        std::fs::read_to_string(app.folder().join("table.csv.rejected")).expect("a file");
    assert_eq!(
        rejected,
        "title,occurred_at,risk_level,tags,links,service,description\r\ntoo,few\r\n\
         bad risk,2026-01-02T00:00:00Z,hihg,,,,\r\n"
    );
    let all_changes = all_changes(&app, &app.organization.key).await;
    assert_eq!(all_changes[0]["title"], "=1+1");
    let change = &all_changes[1];
    assert_eq!(change["title"], "Deploy \"api\", 2");
    assert_eq!(change["occurred_at"], "2025-12-31T23:00:00.000Z");
    assert_eq!(change["description"], "One\nTwo");
    assert_eq!(change["tags"], json!(["a", "b"]));
    assert_eq!(
        change["links"],
        json!([{ "label": "run", "url": "https://e.com/?a=b" }])
    );
    assert_eq!(change["service"]["name"], "web");
    for (header, word) in [("title,when\n", "when"), ("title\n", "occurred_at")] {
        let output =
            ChlogOutput::of(app.chlog().args(["import", "-"]).write_stdin(header)).exits_with(2);
        assert!(output.stderr.contains(word), "{}", output.stderr);
    }
    // The format can be given where the name does not show it.
    write(&app, "table.txt", line(1, "Deploy"));
    let arguments = ["import", "table.txt", "--input-format", "csv"];
    chlog(&app, &arguments).exits_with(2);
    chlog(&app, &["import", "table.txt"]).succeeds();
}

async fn unknown_names_are_refused_or_created(app: TestApp) {
    let text = json!({
        "title": "Deploy", "occurred_at": "2026-01-01T00:00:00Z", "service": "payments", "host": "web-1",
    });
    write(
        &app,
        "named.ndjson",
        format!("{text}\n{}", line(1, "Other")),
    );
    app.key()
        .create("/api/services", json!({ "name": "Payment" }))
        .await;
    let output = chlog(&app, &["import", "named.ndjson"]).exits_with(3);
    for words in [
        "payments",
        "did you mean Payment?",
        "web-1",
        "--create-missing",
        "nothing was",
    ] {
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    }
    assert_eq!(count(&app).await, 0);
    let arguments = ["import", "named.ndjson", "--create-missing"];
    let output = ChlogOutput::of(app.chlog().args(arguments).arg("--dry-run")).succeeds();
    assert!(
        output.stderr.contains("payments would be created"),
        "{}",
        output.stderr
    );
    for expected in ["imported 2", "skipped 2 already present"] {
        let output = chlog(&app, &arguments).succeeds();
        assert!(output.stderr.contains(expected), "{}", output.stderr);
    }
    let services = app.key().get("/api/services").await.data(200);
    assert_eq!(each(&services, "name"), ["Payment", "payments"]);
}

async fn a_failed_import_can_be_repeated(app: TestApp) {
    let mut app = app;
    let lines: Vec<String> = (0..1200).map(|n| line(n, &format!("Deploy {n}"))).collect();
    // As if the first request had succeeded, and the second had failed.
    write(&app, "some.ndjson", lines[..500].join("\n"));
    write(&app, "all.ndjson", lines.join("\n"));
    chlog(&app, &["import", "some.ndjson"]).succeeds();
    app.server.kill9();
    let output = chlog(&app, &["import", "all.ndjson"]).exits_with(7);
    assert_eq!(output.stdout, "");
    app.restart().await;
    let output = chlog(&app, &["import", "all.ndjson"]).succeeds();
    assert!(
        output
            .stderr
            .contains("imported 700, skipped 500 already present"),
        "{}",
        output.stderr
    );
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
    assert!(
        stderr.contains("interrupted after") && stderr.contains("rerun the same command"),
        "{stderr}"
    );
    let imported = count(&app).await;
    assert!(imported > 0 && imported < u64::from(COUNT), "{imported}");
    // The service may still be writing the last request.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let imported = count(&app).await;
    let output = chlog(&app, &["import", "long.ndjson"]).succeeds();
    let rest = u64::from(COUNT) - imported;
    let expected = format!("imported {rest}, skipped {imported} already present");
    assert!(
        output.stderr.contains(&expected),
        "{expected}: {}",
        output.stderr
    );
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
        let output = chlog(&app, &["import", "many.ndjson"]).succeeds();
        assert!(output.stderr.contains(expected), "{}", output.stderr);
    }
    assert_eq!(count(&app).await, 10_000);
}

async fn changes_of_one_time_keep_their_order(app: TestApp) {
    let title = |n: usize| format!("Number {n:03}");
    let lines: Vec<String> = (0..400).map(|n| line(1, &title(n))).collect();
    write(&app, "moment.ndjson", lines.join("\n"));
    chlog(&app, &["import", "moment.ndjson"]).succeeds();
    let all_changes = all_changes(&app, &app.organization.key).await;
    let titles: Vec<&str> = all_changes
        .iter()
        .filter_map(|change| change["title"].as_str())
        .collect();
    let mut expected: Vec<String> = (0..400).map(title).collect();
    expected.reverse();
    assert_eq!(titles, expected);
}

/// Runs git in a folder with this commit time and without the settings of this machine.
fn git(folder: &Path, at: &str, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "Ada")
        .env("GIT_AUTHOR_EMAIL", "ada@example.com")
        .env("GIT_COMMITTER_NAME", "Ada")
        .env("GIT_COMMITTER_EMAIL", "ada@example.com")
        .env("GIT_AUTHOR_DATE", at)
        .env("GIT_COMMITTER_DATE", at)
        .output()
        .expect("git is installed");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Creates a repository with two merges and three tags.
fn repository(app: &TestApp) -> std::path::PathBuf {
    let folder = app.folder().join("repository");
    std::fs::create_dir(&folder).expect("a folder");
    let git = |at: &str, arguments: &[&str]| git(&folder, at, arguments);
    git("", &["init", "-q", "-b", "main"]);
    let remote = "https://ada:hunter2@git.example.com/acme/shop.git";
    git("", &["remote", "add", "origin", remote]);
    let commit = |at: &str, words: &str| {
        git(at, &["commit", "-q", "--allow-empty", "-m", words]);
    };
    let merge = |at: &str, words: &str| {
        git(at, &["merge", "-q", "--no-ff", "side", "-m", words]);
    };
    commit("2026-01-01T00:00:00Z", "First");
    git("2026-01-01T06:00:00Z", &["tag", "v1"]);
    git("", &["checkout", "-q", "-b", "side"]);
    commit("2026-01-02T00:00:00Z", "On the side");
    git("", &["checkout", "-q", "main"]);
    merge(
        "2026-01-03T00:00:00Z",
        "Merge pull request #1 from ada/side\n\nFaster search",
    );
    git(
        "2026-01-04T00:00:00Z",
        &["tag", "-a", "v2", "-m", "The second\n\nWith search"],
    );
    git("", &["checkout", "-q", "side"]);
    commit("2026-01-05T00:00:00Z", "More");
    git("", &["checkout", "-q", "main"]);
    merge("2026-01-06T00:00:00Z", "Merge branch 'side'");
    git("", &["tag", "v3"]);
    // Not in the history of main.
    git("", &["checkout", "-q", "--orphan", "other"]);
    commit("2026-01-07T00:00:00Z", "Elsewhere");
    git("", &["tag", "elsewhere"]);
    git("", &["checkout", "-q", "main"]);
    folder
}

async fn git_history_is_imported(app: TestApp) {
    let folder = repository(&app);
    let import =
        || ChlogOutput::of(app.chlog().args(["import", "--git"]).current_dir(&folder)).succeeds();
    assert!(
        import()
            .stderr
            .contains("imported 5, skipped 0 already present")
    );
    assert!(
        import()
            .stderr
            .contains("imported 0, skipped 5 already present")
    );
    let mut all_changes = all_changes(&app, &app.organization.key).await;
    all_changes.sort_by_key(|change| format!("{} {}", change["occurred_at"], change["title"]));
    let found: Vec<(&str, &str)> = all_changes
        .iter()
        .map(|change| {
            let text = |name: &str| change[name].as_str().unwrap_or_default();
            (text("occurred_at"), text("title"))
        })
        .collect();
    assert_eq!(
        found,
        [
            ("2026-01-01T00:00:00.000Z", "Tag v1"),
            (
                "2026-01-03T00:00:00.000Z",
                "Merge pull request #1 from ada/side"
            ),
            ("2026-01-04T00:00:00.000Z", "Tag v2"),
            ("2026-01-06T00:00:00.000Z", "Merge branch 'side'"),
            ("2026-01-06T00:00:00.000Z", "Tag v3"),
        ]
    );
    assert_eq!(all_changes[1]["description"], "Faster search");
    assert_eq!(all_changes[2]["description"], "The second\n\nWith search");
    assert_eq!(all_changes[0]["description"], Value::Null);
    let merged = git(&folder, "", &["rev-parse", "v2^{commit}"]);
    for change in &all_changes {
        assert_eq!(change["status"], "completed");
        assert_eq!(change["tags"][0], "repo=acme/shop");
        assert!(!change.to_string().contains("hunter2"), "{change}");
    }
    for change in &all_changes {
        assert_eq!(change["on_behalf_of"], "Ada");
    }
    for index in [1, 2] {
        let change = &all_changes[index];
        assert_eq!(change["commit"], merged);
        assert_eq!(change["committed_at"], "2026-01-03T00:00:00.000Z");
    }
    assert_eq!(
        all_changes[1]["tags"][1],
        format!("commit={}", &merged[..7])
    );
    assert_eq!(
        all_changes[2]["tags"][1],
        format!("commit={}", &merged[..7])
    );
}

async fn a_range_of_git_history_is_imported(app: TestApp) {
    let folder = repository(&app);
    let import = |range: &str| {
        ChlogOutput::of(
            app.chlog()
                .args(["import", "--git", range])
                .current_dir(&folder),
        )
    };
    assert!(
        import("v2..HEAD")
            .succeeds()
            .stderr
            .contains("imported 2, skipped 0 already present")
    );
    assert!(
        import("main")
            .succeeds()
            .stderr
            .contains("imported 3, skipped 2 already present")
    );
    for bad in [
        "--git=--output=x",
        "--git=-p",
        "--git=no-such-branch",
        "--git=v1..nowhere",
        "--git=",
    ] {
        let output =
            ChlogOutput::of(app.chlog().args(["import", bad]).current_dir(&folder)).exits_with(2);
        assert!(output.stderr.contains("--git: "), "{}", output.stderr);
    }
    import("--output=x").exits_with(2);
    assert!(!folder.join("x").exists());
}

async fn import_outside_a_repository_fails(app: TestApp) {
    let folder = app.folder().join("empty");
    std::fs::create_dir(&folder).expect("a folder");
    let mut command = app.chlog();
    command.args(["import", "--git"]).current_dir(&folder);
    // The temporary folder may be in another repository.
    command.env("GIT_CEILING_DIRECTORIES", app.folder());
    let output = ChlogOutput::of(&mut command).exits_with(2);
    assert!(
        output.stderr.contains("not a git repository"),
        "{}",
        output.stderr
    );
}

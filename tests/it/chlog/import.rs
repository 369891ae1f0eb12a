//! `chlog import`: changes of elsewhere, each once.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::chlog::{Said, chlog};
use changelog_tests::{Organization, TestApp, each, on_one};

on_one!(
    a_file_is_imported_once,
    alike_lines_are_kept_each,
    what_was_edited_is_not_doubled,
    bad_lines_are_set_aside,
    tables_are_read,
    names_must_exist_or_be_made,
    a_cancelled_import_says_how_far_it_came,
    ten_thousand_take_seconds,
    a_moment_keeps_its_order,
    history_is_imported,
    a_range_of_history_is_imported,
    nothing_is_imported_of_no_repository;
    process:
    an_import_goes_on_where_it_was_interrupted,
);

/// A `chlog` that acts for another organization of the same service.
pub(crate) fn other(app: &TestApp, organization: &Organization) -> assert_cmd::Command {
    let mut command = app.chlog();
    command.env("CHLOG_API_KEY", &organization.key);
    command
}

/// Everything that the service has, newest first, without what is its own.
pub(crate) async fn all(app: &TestApp, key: &str) -> Vec<Value> {
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
        for own in ["id", "organization_id", "created_at", "updated_at"] {
            change.remove(own);
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

async fn a_file_is_imported_once(app: TestApp) {
    let lines: Vec<String> = (0..250).map(|n| line(n, &format!("Deploy {n}"))).collect();
    write(&app, "changes.ndjson", lines.join("\n"));
    let said = chlog(&app, &["import", "changes.ndjson"]).done();
    assert_eq!(said.out, "");
    assert!(
        said.err
            .contains("imported 250, already there 0, rejected 0"),
        "{}",
        said.err
    );
    let said = chlog(&app, &["import", "changes.ndjson", "--json"]).done();
    let expected =
        json!({ "imported": 0, "already_there": 250, "rejected": 0, "rejected_file": null });
    assert_eq!(said.json(), expected);
    // What was added since is all that is recorded, wherever it stands.
    let mut more = lines.clone();
    more.insert(100, line(7000, "Added"));
    let input = more.join("\r\n");
    let said = Said::of(app.chlog().args(["import", "-"]).write_stdin(input)).done();
    assert!(
        said.err.contains("imported 1, already there 250"),
        "{}",
        said.err
    );
    assert_eq!(count(&app).await, 251);
    // Nothing is recorded, and everything is said.
    let input = line(8000, "Not yet");
    let dry = ["import", "-", "--dry-run"];
    let said = Said::of(app.chlog().args(dry).write_stdin(input)).done();
    assert!(
        said.err.contains("would import 1, already there 0"),
        "{}",
        said.err
    );
    assert_eq!(count(&app).await, 251);
    let said = Said::of(app.chlog().args(["import", "-"]).write_stdin("")).done();
    assert!(said.err.contains("imported 0"), "{}", said.err);
    chlog(&app, &["import", "nowhere.csv"]).ended(2);
    chlog(&app, &["import"]).ended(2);
}

async fn alike_lines_are_kept_each(app: TestApp) {
    let text = [
        line(1, "Same"),
        line(1, "Same"),
        line(2, "Other"),
        line(1, "Same"),
    ]
    .join("\n");
    write(&app, "twice.jsonl", &text);
    for expected in ["imported 4, already there 0", "imported 0, already there 4"] {
        let said = chlog(&app, &["import", "twice.jsonl"]).done();
        assert!(said.err.contains(expected), "{}", said.err);
    }
    // More than one request takes, all at one moment.
    let many: Vec<String> = (0..1100).map(|_| line(9, "Same")).collect();
    write(&app, "many.ndjson", many.join("\n"));
    for expected in [
        "imported 1100, already there 0",
        "imported 0, already there 1100",
    ] {
        let said = chlog(&app, &["import", "many.ndjson"]).done();
        assert!(said.err.contains(expected), "{}", said.err);
    }
    assert_eq!(count(&app).await, 1104);
}

async fn what_was_edited_is_not_doubled(app: TestApp) {
    write(&app, "one.ndjson", line(1, "Deploy"));
    chlog(&app, &["import", "one.ndjson"]).done();
    let id = chlog(&app, &["list", "--format", "ids"]).done().out;
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
    .done();
    let said = chlog(&app, &["import", "one.ndjson"]).done();
    assert!(
        said.err.contains("imported 0, already there 1"),
        "{}",
        said.err
    );
    // An export of this organization is known by its ids, whatever was edited.
    let exported = chlog(&app, &["export"]).done().out;
    chlog(&app, &["update", id.trim(), "--title", "Renamed"]).done();
    let said = Said::of(app.chlog().args(["import", "-"]).write_stdin(exported)).done();
    assert!(
        said.err.contains("imported 0, already there 1"),
        "{}",
        said.err
    );
    assert_eq!(count(&app).await, 1);
    // The same deployment of another host is another change.
    for host in ["web-1", "web-2"] {
        let text = json!({ "title": "Roll", "occurred_at": "2026-01-01T00:00:00Z", "host": host });
        let arguments = ["import", "-", "--create-missing"];
        let said = Said::of(app.chlog().args(arguments).write_stdin(text.to_string())).done();
        assert!(said.err.contains("imported 1"), "{}", said.err);
    }
}

async fn bad_lines_are_set_aside(app: TestApp) {
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
        line(2, "Fine too"),
    ];
    write(&app, "bad.ndjson", lines.join("\n"));
    let said = chlog(&app, &["import", "bad.ndjson"]).ended(6);
    assert!(
        said.err.contains("imported 2, already there 0, rejected 5"),
        "{}",
        said.err
    );
    for words in [
        "line 2: ",
        "line 4: occurred_at: is required",
        "line 5: title: must have 3 to 300 characters, got 2",
        "line 5: risk: ",
        "line 6: occurred_at: must be at most 5 minutes after the server time",
        "line 7: service_id: ",
        "bad.ndjson.rejected",
    ] {
        assert!(said.err.contains(words), "{words}: {}", said.err);
    }
    let aside = app.folder().join("bad.ndjson.rejected");
    let aside = std::fs::read_to_string(aside).expect("a file");
    let mut expected: Vec<&str> = [1, 3, 4, 5, 6]
        .iter()
        .map(|index| lines[*index].as_str())
        .collect();
    let mut found: Vec<&str> = aside.lines().collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    // Mended there, it is imported from there.
    let mended = line(3, "Mended");
    write(&app, "bad.ndjson.rejected", mended);
    chlog(&app, &["import", "bad.ndjson.rejected"]).done();
    assert_eq!(count(&app).await, 3);
    // Of a pipe, and of a name that is asked for.
    let input = "{}\n";
    Said::of(app.chlog().args(["import", "-"]).write_stdin(input)).ended(6);
    assert!(app.folder().join("import-rejected.ndjson").exists());
    let arguments = ["import", "-", "--rejected", "elsewhere"];
    Said::of(app.chlog().args(arguments).write_stdin(input)).ended(6);
    let elsewhere = std::fs::read_to_string(app.folder().join("elsewhere"));
    assert_eq!(elsewhere.expect("a file"), input);
    chlog(&app, &["import", "bad.ndjson", "--rejected", "bad.ndjson"]).ended(2);
}

async fn tables_are_read(app: TestApp) {
    let table = "\u{feff}title,occurred_at,risk_level,tags,links,service,description\r\n\
        \"Deploy \"\"api\"\", 2\",2026-01-01T00:00:00+01:00,high,\
        \"[\"\"a\"\", \"\"b\"\"]\",\"[{\"\"label\"\":\"\"run\"\",\"\"url\"\":\"\"https://e.com/?a=b\"\"}]\",web,\"One\nTwo\"\r\n\
        '=1+1,2026-01-02T00:00:00Z,,,,,\r\n\
        too,few\r\n\
        bad risk,2026-01-02T00:00:00Z,hihg,,,,\r\n";
    write(&app, "table.csv", table);
    let arguments = ["import", "table.csv", "--create-missing"];
    let said = chlog(&app, &arguments).ended(6);
    assert!(
        said.err.contains("imported 2, already there 0, rejected 2"),
        "{}",
        said.err
    );
    assert!(
        said.err.contains("line 5: ") && said.err.contains("line 6: risk_level"),
        "{}",
        said.err
    );
    let aside = std::fs::read_to_string(app.folder().join("table.csv.rejected")).expect("a file");
    assert_eq!(
        aside,
        "title,occurred_at,risk_level,tags,links,service,description\r\ntoo,few\r\n\
         bad risk,2026-01-02T00:00:00Z,hihg,,,,\r\n"
    );
    let all = all(&app, &app.organization.key).await;
    assert_eq!(all[0]["title"], "=1+1");
    let change = &all[1];
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
        let said = Said::of(app.chlog().args(["import", "-"]).write_stdin(header)).ended(2);
        assert!(said.err.contains(word), "{}", said.err);
    }
    // What it is can be said where it cannot be seen.
    write(&app, "table.txt", line(1, "Deploy"));
    let arguments = ["import", "table.txt", "--input-format", "csv"];
    chlog(&app, &arguments).ended(2);
    chlog(&app, &["import", "table.txt"]).done();
}

async fn names_must_exist_or_be_made(app: TestApp) {
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
    let said = chlog(&app, &["import", "named.ndjson"]).ended(3);
    for words in [
        "payments",
        "did you mean Payment?",
        "web-1",
        "--create-missing",
        "nothing was",
    ] {
        assert!(said.err.contains(words), "{words}: {}", said.err);
    }
    assert_eq!(count(&app).await, 0);
    let arguments = ["import", "named.ndjson", "--create-missing"];
    let said = Said::of(app.chlog().args(arguments).arg("--dry-run")).done();
    assert!(
        said.err.contains("payments would be created"),
        "{}",
        said.err
    );
    for expected in ["imported 2", "already there 2"] {
        let said = chlog(&app, &arguments).done();
        assert!(said.err.contains(expected), "{}", said.err);
    }
    let services = app.key().get("/api/services").await.data(200);
    assert_eq!(each(&services, "name"), ["Payment", "payments"]);
}

async fn an_import_goes_on_where_it_was_interrupted(app: TestApp) {
    let mut app = app;
    let lines: Vec<String> = (0..1200).map(|n| line(n, &format!("Deploy {n}"))).collect();
    // As if the first request had been answered, and the second not.
    write(&app, "some.ndjson", lines[..500].join("\n"));
    write(&app, "all.ndjson", lines.join("\n"));
    chlog(&app, &["import", "some.ndjson"]).done();
    app.server.kill9();
    let said = chlog(&app, &["import", "all.ndjson"]).ended(7);
    assert_eq!(said.out, "");
    app.restart().await;
    let said = chlog(&app, &["import", "all.ndjson"]).done();
    assert!(
        said.err.contains("imported 700, already there 500"),
        "{}",
        said.err
    );
    assert_eq!(count(&app).await, 1200);
}

async fn a_cancelled_import_says_how_far_it_came(app: TestApp) {
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
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.contains("interrupted after") && said.contains("repeat the command"),
        "{said}"
    );
    let there = count(&app).await;
    assert!(there > 0 && there < u64::from(COUNT), "{there}");
    // It may still be writing what it was sent last: that is there in a moment.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let there = count(&app).await;
    let said = chlog(&app, &["import", "long.ndjson"]).done();
    let rest = u64::from(COUNT) - there;
    let expected = format!("imported {rest}, already there {there}");
    assert!(said.err.contains(&expected), "{expected}: {}", said.err);
    assert_eq!(count(&app).await, u64::from(COUNT));
}

async fn ten_thousand_take_seconds(app: TestApp) {
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
    for expected in ["imported 10000", "already there 10000"] {
        let said = chlog(&app, &["import", "many.ndjson"]).done();
        assert!(said.err.contains(expected), "{}", said.err);
    }
    assert_eq!(count(&app).await, 10_000);
}

async fn a_moment_keeps_its_order(app: TestApp) {
    let title = |n: usize| format!("Number {n:03}");
    let lines: Vec<String> = (0..400).map(|n| line(1, &title(n))).collect();
    write(&app, "moment.ndjson", lines.join("\n"));
    chlog(&app, &["import", "moment.ndjson"]).done();
    let all = all(&app, &app.organization.key).await;
    let titles: Vec<&str> = all
        .iter()
        .filter_map(|change| change["title"].as_str())
        .collect();
    let mut expected: Vec<String> = (0..400).map(title).collect();
    expected.reverse();
    assert_eq!(titles, expected);
}

/// Runs git in a folder, at a time, with nothing of this machine's settings.
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
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Makes a repository with two merges and three tags.
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
    // Not of this history.
    git("", &["checkout", "-q", "--orphan", "other"]);
    commit("2026-01-07T00:00:00Z", "Elsewhere");
    git("", &["tag", "elsewhere"]);
    git("", &["checkout", "-q", "main"]);
    folder
}

async fn history_is_imported(app: TestApp) {
    let folder = repository(&app);
    let import = || Said::of(app.chlog().args(["import", "--git"]).current_dir(&folder)).done();
    assert!(import().err.contains("imported 5, already there 0"));
    assert!(import().err.contains("imported 0, already there 5"));
    let mut all = all(&app, &app.organization.key).await;
    all.sort_by_key(|change| format!("{} {}", change["occurred_at"], change["title"]));
    let found: Vec<(&str, &str)> = all
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
    assert_eq!(all[1]["description"], "Faster search");
    assert_eq!(all[2]["description"], "The second\n\nWith search");
    assert_eq!(all[0]["description"], Value::Null);
    let merged = git(&folder, "", &["rev-parse", "v2^{commit}"]);
    for change in &all {
        assert_eq!(change["status"], "completed");
        assert_eq!(change["tags"][0], "repo=acme/shop");
        assert!(!change.to_string().contains("hunter2"), "{change}");
    }
    assert_eq!(all[1]["tags"][1], format!("commit={merged}"));
    assert_eq!(all[2]["tags"][1], format!("commit={merged}"));
}

async fn a_range_of_history_is_imported(app: TestApp) {
    let folder = repository(&app);
    let import = |range: &str| {
        Said::of(
            app.chlog()
                .args(["import", "--git", range])
                .current_dir(&folder),
        )
    };
    assert!(
        import("v2..HEAD")
            .done()
            .err
            .contains("imported 2, already there 0")
    );
    assert!(
        import("main")
            .done()
            .err
            .contains("imported 3, already there 2")
    );
    for bad in [
        "--git=--output=x",
        "--git=-p",
        "--git=no-such-branch",
        "--git=v1..nowhere",
        "--git=",
    ] {
        let said = Said::of(app.chlog().args(["import", bad]).current_dir(&folder)).ended(2);
        assert!(said.err.contains("--git: "), "{}", said.err);
    }
    import("--output=x").ended(2);
    assert!(!folder.join("x").exists());
}

async fn nothing_is_imported_of_no_repository(app: TestApp) {
    let folder = app.folder().join("empty");
    std::fs::create_dir(&folder).expect("a folder");
    let mut command = app.chlog();
    command.args(["import", "--git"]).current_dir(&folder);
    // The folder of this app may lie in a repository of somebody else.
    command.env("GIT_CEILING_DIRECTORIES", app.folder());
    let said = Said::of(&mut command).ended(2);
    assert!(said.err.contains("not a git repository"), "{}", said.err);
}

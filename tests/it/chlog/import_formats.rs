//! `chlog import`: the formats of files, and names in them.

use std::process::Command;

use serde_json::json;

use super::import::{all_changes, chlog_of, line, write};
use crate::chlog::{ChlogOutput, chlog, count};
use changelog_tests::{TestApp, each, on_one};

on_one!(
    json_documents_are_imported,
    mistakes_are_explained,
    csv_files_are_imported,
    unknown_names_are_refused_or_created,
);

async fn json_documents_are_imported(app: TestApp) {
    for title in ["Deploy one", "Deploy two"] {
        chlog(&app, &format!("log '{title}' --tag a")).succeeds();
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
        output.says(words);
        let mut command = chlog_of(&app, &other);
        command
            .args(["import", "-", "--dry-run"])
            .write_stdin(document);
        let output = ChlogOutput::of(&mut command).succeeds();
        // What would be imported is printed.
        for words in ["  Deploy one\n", "  Deploy two\n", "would import 2"] {
            output.says(words);
        }
    }
    write(
        &app,
        "array.json",
        format!("[{},\n{}]", line(1, "One more"), line(2, "x")),
    );
    let output = chlog(&app, "import array.json").exits_with(6);
    output.says("line 2: title: ");
    output.says("imported 1");
    // The rejected objects can be corrected and imported again.
    let rejected = app.folder().join("array.json.rejected");
    let text = std::fs::read_to_string(&rejected).expect("text");
    std::fs::write(&rejected, text.replace("\"x\"", "\"Two more\"")).expect("a file");
    let output = chlog(&app, "import array.json.rejected").succeeds();
    output.says("imported 1");
}

async fn mistakes_are_explained(app: TestApp) {
    let output = chlog(&app, "import").exits_with(2);
    output.says("import --git");
    write(&app, "text.ndjson", "not JSON\n");
    let output = chlog(&app, "import text.ndjson").exits_with(6);
    let words = "line 1: not a JSON object";
    output.says(words);
    // A repository without tags and merges.
    let git =
        "git init -q . && git -c user.name=a -c user.email=a@b.c commit -qm one --allow-empty";
    let made = Command::new("sh")
        .args(["-c", git])
        .current_dir(app.folder())
        .status();
    assert!(made.expect("git").success());
    let output = chlog(&app, "import --git").succeeds();
    output.says("no merge commits");
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
    output.says("imported 2, skipped 0 already present, rejected 2");
    output.says("line 5: ");
    output.says("line 6: risk_level");
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
        output.says(word);
    }
    // The format can be given where the name does not show it.
    write(&app, "table.txt", line(1, "Deploy"));
    let arguments = ["import", "table.txt", "--input-format", "csv"];
    chlog(&app, &arguments).exits_with(2);
    chlog(&app, "import table.txt").succeeds();
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
    app.key().service("Payment").await;
    let output = chlog(&app, "import named.ndjson").exits_with(3);
    for words in [
        "line 1: there is no service \"payments\"",
        "did you mean Payment?",
        "line 1: there is no host \"web-1\"",
        "--create-missing",
        "nothing was",
    ] {
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    }
    assert_eq!(count(&app).await, 0);
    let arguments = ["import", "named.ndjson", "--create-missing"];
    let output = ChlogOutput::of(app.chlog().args(arguments).arg("--dry-run")).succeeds();
    output.says("payments would be created");
    for expected in ["imported 2", "skipped 2 already present"] {
        let output = chlog(&app, &arguments).succeeds();
        output.says(expected);
    }
    let services = app.key().read("/api/services").await;
    assert_eq!(each(&services, "name"), ["Payment", "payments"]);
}

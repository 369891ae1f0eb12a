//! `chlog terraform`: real runs of Terraform, and recorded ones.
//!
//! The module in `terraform/` has a string with `PLANTED` wherever a value can be; the
//! folder also has the output of Terraform 1.11. The tests search for the string in
//! everything that is sent or stored.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::chlog::{ChlogOutput, Line, chlog, count, newest};
use changelog_tests::{Engine, TestApp, on_one, programs, text};

on_one!(
    process:
    recorded_runs_become_changes,
    applying_a_plan_updates_the_planned_change,
    flags_override_detected_values,
    an_incomplete_stream_is_reported,
    input_is_read_to_its_end,
);

pub(super) const PLANTED: &str = "PLANTED";

pub(super) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("it/chlog/terraform")
}

pub(super) fn fixture(name: &str) -> Vec<u8> {
    fs::read(fixtures().join(name)).expect("a fixture")
}

/// Pipes bytes into `chlog terraform`.
pub(super) fn piped(app: &TestApp, line: &(impl Line + ?Sized), input: &[u8]) -> ChlogOutput {
    let mut command = app.chlog();
    command.arg("terraform").args(line.words());
    ChlogOutput::of(command.write_stdin(input))
}

/// Requires that no planted string reached the service.
pub(super) async fn assert_nothing_planted(app: &TestApp) {
    let key = app.key();
    let list = key.body("/api/changes?per_page=100").await;
    assert_ne!(list["count"], 0);
    assert!(!list.to_string().contains(PLANTED), "{list}");
    let browser = app.browser().await;
    let activity = browser.body("/api/activity?limit=100").await;
    assert!(!activity.to_string().contains(PLANTED), "{activity}");
    if app.engine == Engine::Sqlite {
        for entry in fs::read_dir(app.folder()).expect("a folder").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("changelog.db") && entry.path().is_file() {
                let bytes = fs::read(entry.path()).expect("a file");
                let found = bytes
                    .windows(PLANTED.len())
                    .any(|window| window == PLANTED.as_bytes());
                assert!(!found, "{name}");
            }
        }
    }
}

async fn recorded_runs_become_changes(app: TestApp) {
    for (name, title, status, risk, lines) in [
        (
            "created.ndjson",
            "terraform apply: 4 added",
            "completed",
            "low",
            &[
                "- create `terraform_data.stays`",
                "- create `terraform_data.replaced[\"eu\"]`",
                "Terraform 1.11.4",
            ][..],
        ),
        (
            "changed.ndjson",
            "terraform apply: 2 added, 1 changed, 2 destroyed",
            "completed",
            "high",
            &[
                "- update `terraform_data.updated`",
                "- replace `terraform_data.replaced[\"us\"]`",
            ],
        ),
        (
            "failed.ndjson",
            "terraform apply: failed",
            "rolled_back",
            "high",
            &[
                "- create `terraform_data.broken[0]`: failed",
                "- create `terraform_data.after[0]`: not done",
                "- local-exec provisioner error, at `terraform_data.broken[0]`",
                "- Resource postcondition failed",
            ],
        ),
        (
            "planned.ndjson",
            "terraform plan: ",
            "planned",
            "high",
            &["- destroy `terraform_data.stays`"],
        ),
        (
            "destroyed.ndjson",
            "terraform destroy: ",
            "completed",
            "high",
            &["- destroy `terraform_data.stays`"],
        ),
    ] {
        let output = piped(&app, "", &fixture(name)).succeeds();
        // The output of Terraform is shown.
        output.says("Terraform 1.11.4");
        // Lists are ordered by the start of the recorded run.
        let id = output.stdout.split_whitespace().next().expect("an id");
        let change = app.key().read(&format!("/api/changes/{id}")).await;
        assert!(text(&change["title"]).starts_with(title), "{change}");
        assert_eq!(
            (&change["status"], &change["risk_level"]),
            (&json!(status), &json!(risk)),
            "{name}"
        );
        assert_eq!(change["tags"], json!(["terraform"]));
        let outcome = match status {
            "completed" => json!("succeeded"),
            "rolled_back" => json!("failed"),
            _ => Value::Null,
        };
        assert_eq!(change["outcome"], outcome, "{name}");
        assert_eq!(change["ended_at"].is_null(), status == "planned", "{name}");
        let description = text(&change["description"]);
        for line in lines {
            assert!(description.contains(line), "{line}: {description}");
        }
        let sent = piped(&app, "--dry-run", &fixture(name)).succeeds().stdout;
        assert!(!sent.contains(PLANTED), "{sent}");
    }
    let output = piped(&app, "", &fixture("nothing.ndjson")).succeeds();
    output.says("--always");
    assert_eq!((count(&app).await, output.stdout.as_str()), (5, ""));
    piped(&app, "--always", &fixture("nothing.ndjson")).succeeds();
    assert_eq!(newest(&app).await["title"], "terraform apply: no changes");
    assert_nothing_planted(&app).await;
}

async fn applying_a_plan_updates_the_planned_change(app: TestApp) {
    let plan = fixtures().join("plan.json");
    let plan = plan.to_str().expect("a path");
    let output = chlog(&app, &format!("terraform plan '{plan}' --tag network")).succeeds();
    let planned = newest(&app).await;
    let id = text(&planned["id"]);
    output.prints(&id);
    assert_eq!(planned["title"], "terraform plan: 4 to add");
    assert_eq!(planned["status"], "planned");
    assert_eq!(planned["risk_level"], "low");
    let print = text(&planned["tags"][2]);
    let print = print.strip_prefix("plan=").unwrap_or_default();
    assert_eq!(print.len(), 16, "{planned}");
    // The same plan again, from a pipe, creates no other change.
    let mut again = app.chlog();
    again.args(["terraform", "plan", "-"]);
    let output = ChlogOutput::of(again.write_stdin(fixture("plan.json"))).succeeds();
    output.prints(&id);
    assert_eq!(count(&app).await, 1);

    let arguments = ["--plan", plan, "--format", "ids"];
    let output = piped(&app, &arguments, &fixture("created.ndjson")).succeeds();
    assert_eq!(output.stdout, format!("{id}\n"));
    assert_eq!(count(&app).await, 1);
    let applied = newest(&app).await;
    assert_eq!(applied["title"], "terraform apply: 4 added");
    assert_eq!(applied["status"], "completed");
    // Added tags stay.
    assert!(applied["tags"].to_string().contains("network"), "{applied}");
    // The change is no longer planned: a later run is another change.
    piped(&app, &format!("--plan '{plan}'"), &fixture("failed.ndjson")).succeeds();
    assert_eq!(count(&app).await, 2);
    assert_nothing_planted(&app).await;

    let output = chlog(&app, "terraform plan /nowhere/at/all").exits_with(2);
    output.says("/nowhere/at/all");
    let mut state = app.chlog();
    state.args(["terraform", "plan", "-"]);
    let output = ChlogOutput::of(state.write_stdin("{\"values\": \"PLANTED\"}")).exits_with(2);
    assert!(!output.stderr.contains(PLANTED), "{}", output.stderr);
}

async fn flags_override_detected_values(app: TestApp) {
    let arguments = "--title 'Network of the new office' --risk medium --status in_progress \
        --service network --create-missing --tag office -m 'As agreed' \
        --link ticket=https://tickets.example.com/7";
    piped(&app, arguments, &fixture("changed.ndjson")).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["title"], "Network of the new office");
    assert_eq!(change["risk_level"], "medium");
    assert_eq!(change["status"], "in_progress");
    assert_eq!(change["service"]["name"], "network");
    assert_eq!(change["tags"], json!(["office", "terraform"]));
    let description = text(&change["description"]);
    assert!(description.starts_with("As agreed\n\n- "), "{description}");
    assert_eq!(change["links"][0]["label"], "ticket");
}

async fn an_incomplete_stream_is_reported(app: TestApp) {
    let whole = fixture("changed.ndjson");
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let begun = lines
        .iter()
        .position(|line| String::from_utf8_lossy(line).contains("apply_start"))
        .expect("a transaction");
    let mut cut = lines[..=begun].concat();
    cut.extend_from_slice(&lines[begun + 1][..40]);
    piped(&app, "", &cut).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["title"], "terraform apply: ended without a result");
    assert_eq!(change["status"], "rolled_back");
    assert_eq!(change["risk_level"], "high");
    assert_eq!(change["outcome"], "unknown");
    assert!(!change.to_string().contains(PLANTED), "{change}");
    // Without an event there is nothing to record.
    for input in ["", "terraform: command not found\n", "{}\n"] {
        let output = piped(&app, "", input.as_bytes()).exits_with(2);
        output.says("-json");
        output.says(input.trim());
    }
    assert_eq!(count(&app).await, 1);
}

/// Terraform must not be killed by a closed pipe, even if the flags are wrong.
async fn input_is_read_to_its_end(app: TestApp) {
    let script = "for i in 1 2 3 4 5 6 7 8 9; do cat \"$INPUT\" || exit 9; done; echo whole >&2";
    // The run is recorded without the invalid flags.
    for (number, arguments) in [
        &["--nonsense", "--title", "Valid"][..],
        &["--title", "Valid", "--risk", "extreme"],
        &["--rsk", "high", "--title", "Valid"],
        &["--rsk", "high", "--title", "Valid", "--tag", "plan"],
        &["--plan", "/nowhere", "--title", "Valid"],
        &["--tag", "", "--title", "Valid"],
        &["--title", "Valid", "--link", "a=ftp://nowhere"],
    ]
    .into_iter()
    .enumerate()
    {
        let mut shell = Command::new("sh");
        let chlog = programs::chlog();
        let line = format!(
            "({script}) | '{}' terraform {}",
            chlog.display(),
            arguments
                .iter()
                .map(|word| format!("'{word}'"))
                .collect::<Vec<_>>()
                .join(" ")
        );
        let output = shell
            .args(["-c", &line])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", app.folder())
            .env("INPUT", fixtures().join("changed.ndjson"))
            .env("CHLOG_URL", app.url())
            .env("CHLOG_API_KEY", &app.organization.key)
            .current_dir(app.folder())
            .output()
            .expect("a shell");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("whole"), "{arguments:?}: {stderr}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
        assert!(
            stderr.contains("warning: ") || stderr.contains("error: "),
            "{stderr}"
        );
        let change = newest(&app).await;
        assert_eq!(change["title"], "Valid", "{arguments:?}");
        let description = text(&change["description"]);
        assert!(description.contains("terraform_data"), "{description}");
        assert_eq!(count(&app).await, number as u64 + 1, "{arguments:?}");
    }
    // With an unknown service, the change is kept.
    let output = piped(&app, "--service zzz", &fixture("changed.ndjson")).exits_with(3);
    output.says("was saved to");
    // If the change cannot be kept, it is printed.
    let mut command = app.chlog();
    command.arg("terraform").env("CHLOG_API_KEY", "");
    let output = ChlogOutput::of(command.write_stdin(fixture("changed.ndjson"))).exits_with(4);
    output.says("not recorded: {");
}

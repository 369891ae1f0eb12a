//! `chlog terraform`: real runs of Terraform, and recorded ones.
//!
//! The module in `terraform/` has a string with `PLANTED` wherever a value can be; the
//! folder also has the output of Terraform 1.11. The tests search for the string in
//! everything that is sent or stored.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use changelog_core::Timestamp;
use serde_json::{Value, json};

use crate::chlog::{ChlogOutput, chlog, newest};
use changelog_tests::{Engine, TestApp, installed, on_one, programs, text};

on_one!(
    process:
    recorded_runs_become_changes,
    applying_a_plan_updates_the_planned_change,
    flags_override_detected_values,
    an_incomplete_stream_is_reported,
    input_is_read_to_its_end,
    real_runs_send_no_secrets,
    a_run_ends_as_terraform_does,
    a_run_asks_for_confirmation,
    an_interrupt_reaches_terraform,
    a_saved_plan_is_one_change,
    a_plan_of_yesterday_is_applied_today,
    examples_work_unchanged,
);

const PLANTED: &str = "PLANTED";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("it/chlog/terraform")
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(fixtures().join(name)).expect("a fixture")
}

/// Pipes bytes into `chlog terraform`.
fn piped(app: &TestApp, arguments: &[&str], input: &[u8]) -> ChlogOutput {
    let mut command = app.chlog();
    command.arg("terraform").args(arguments);
    ChlogOutput::of(command.write_stdin(input))
}

async fn count(app: &TestApp) -> u64 {
    let list = app.key().get("/api/changes").await.body(200);
    list["count"].as_u64().expect("a count")
}

/// Requires that no planted string reached the service.
async fn assert_nothing_planted(app: &TestApp) {
    let key = app.key();
    let list = key.get("/api/changes?per_page=100").await.body(200);
    assert_ne!(list["count"], 0);
    assert!(!list.to_string().contains(PLANTED), "{list}");
    let browser = app.browser().await;
    let activity = browser.get("/api/activity?limit=100").await.body(200);
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
        let output = piped(&app, &[], &fixture(name)).succeeds();
        // The output of Terraform is shown.
        assert!(
            output.stderr.contains("Terraform 1.11.4"),
            "{}",
            output.stderr
        );
        // Lists are ordered by the start of the recorded run.
        let id = output.stdout.split_whitespace().next().expect("an id");
        let change = app.key().get(&format!("/api/changes/{id}")).await.data(200);
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
        let sent = piped(&app, &["--dry-run"], &fixture(name))
            .succeeds()
            .stdout;
        assert!(!sent.contains(PLANTED), "{sent}");
    }
    let output = piped(&app, &[], &fixture("nothing.ndjson")).succeeds();
    assert!(output.stderr.contains("--always"), "{}", output.stderr);
    assert_eq!((count(&app).await, output.stdout.as_str()), (5, ""));
    piped(&app, &["--always"], &fixture("nothing.ndjson")).succeeds();
    assert_eq!(newest(&app).await["title"], "terraform apply: no changes");
    assert_nothing_planted(&app).await;
}

async fn applying_a_plan_updates_the_planned_change(app: TestApp) {
    let plan = fixtures().join("plan.json");
    let plan = plan.to_str().expect("a path");
    let output = chlog(&app, &["terraform", "plan", plan, "--tag", "network"]).succeeds();
    let planned = newest(&app).await;
    let id = text(&planned["id"]);
    assert!(output.stdout.contains(&id), "{}", output.stdout);
    assert_eq!(planned["title"], "terraform plan: 4 to add");
    assert_eq!(
        (&planned["status"], &planned["risk_level"]),
        (&json!("planned"), &json!("low"))
    );
    let print = text(&planned["tags"][2]);
    let print = print.strip_prefix("plan=").unwrap_or_default();
    assert_eq!(print.len(), 16, "{planned}");
    // The same plan again, from a pipe, creates no other change.
    let mut again = app.chlog();
    again.args(["terraform", "plan", "-"]);
    let output = ChlogOutput::of(again.write_stdin(fixture("plan.json"))).succeeds();
    assert!(output.stdout.contains(&id), "{}", output.stdout);
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
    piped(&app, &["--plan", plan], &fixture("failed.ndjson")).succeeds();
    assert_eq!(count(&app).await, 2);
    assert_nothing_planted(&app).await;

    let output = chlog(&app, &["terraform", "plan", "/nowhere/at/all"]).exits_with(2);
    assert!(
        output.stderr.contains("/nowhere/at/all"),
        "{}",
        output.stderr
    );
    let mut state = app.chlog();
    state.args(["terraform", "plan", "-"]);
    let output = ChlogOutput::of(state.write_stdin("{\"values\": \"PLANTED\"}")).exits_with(2);
    assert!(!output.stderr.contains(PLANTED), "{}", output.stderr);
}

async fn flags_override_detected_values(app: TestApp) {
    let arguments = [
        "--title",
        "Network of the new office",
        "--risk",
        "medium",
        "--status",
        "in_progress",
        "--service",
        "network",
        "--create-missing",
        "--tag",
        "office",
        "-m",
        "As agreed",
        "--link",
        "ticket=https://tickets.example.com/7",
    ];
    piped(&app, &arguments, &fixture("changed.ndjson")).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["title"], "Network of the new office");
    assert_eq!(
        (&change["risk_level"], &change["status"]),
        (&json!("medium"), &json!("in_progress"))
    );
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
    piped(&app, &[], &cut).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["title"], "terraform apply: ended without a result");
    assert_eq!(
        (&change["status"], &change["risk_level"]),
        (&json!("rolled_back"), &json!("high"))
    );
    assert_eq!(change["outcome"], "unknown");
    assert!(!change.to_string().contains(PLANTED), "{change}");
    // Without an event there is nothing to record.
    for input in ["", "terraform: command not found\n", "{}\n"] {
        let output = piped(&app, &[], input.as_bytes()).exits_with(2);
        assert!(output.stderr.contains("-json"), "{}", output.stderr);
        assert!(output.stderr.contains(input.trim()), "{}", output.stderr);
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
    let output = piped(&app, &["--service", "zzz"], &fixture("changed.ndjson")).exits_with(3);
    assert!(output.stderr.contains("was saved to"), "{}", output.stderr);
    // If the change cannot be kept, it is printed.
    let mut command = app.chlog();
    command.arg("terraform").env("CHLOG_API_KEY", "");
    let output = ChlogOutput::of(command.write_stdin(fixture("changed.ndjson"))).exits_with(4);
    assert!(
        output.stderr.contains("not recorded: {"),
        "{}",
        output.stderr
    );
}

/// A module with its state, and a shell in which Terraform and `chlog` run.
pub(crate) struct Module<'a> {
    app: &'a TestApp,
    pub(crate) folder: PathBuf,
}

impl<'a> Module<'a> {
    /// Creates a module; `None` if Terraform is not installed.
    fn new(app: &'a TestApp, name: &str, main: &str) -> Option<Self> {
        if installed::in_path("terraform").is_none() {
            installed::missing("terraform", "Terraform");
            return None;
        }
        let folder = app.folder().join(name);
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("main.tf"), main).expect("a file");
        Some(Self { app, folder })
    }

    pub(crate) fn initialized(app: &'a TestApp, name: &str, main: &str) -> Option<Self> {
        let module = Self::new(app, name, main)?;
        module.shell("terraform init -no-color", &[], "").succeeds();
        Some(module)
    }

    /// Runs a script as CI systems do: it stops at the first failure, including one
    /// within a pipe.
    pub(crate) fn shell(
        &self,
        script: &str,
        variables: &[(&str, &str)],
        input: &str,
    ) -> ChlogOutput {
        let chlog = programs::chlog();
        let mut path = chlog.parent().expect("a folder").as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new("bash");
        command
            .args(["-e", "-o", "pipefail", "-c", script])
            .env_clear()
            .env("PATH", path)
            .env("HOME", &self.folder)
            .env("CHECKPOINT_DISABLE", "1")
            .env("CHLOG_URL", self.app.url())
            .env("CHLOG_API_KEY", &self.app.organization.key)
            .envs(variables.iter().copied())
            .current_dir(&self.folder)
            // Signals to the group must not reach the tests.
            .process_group(0)
            .stdin(Stdio::piped());
        let output = changelog_tests::run(command, input);
        ChlogOutput {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

async fn real_runs_send_no_secrets(app: TestApp) {
    let main = String::from_utf8(fixture("main.tf")).expect("text");
    let Some(module) = Module::initialized(&app, "secrets", &main) else {
        return;
    };
    let git = "git init -q . && git remote add origin https://bot:PLANTED-token@github.com/o/r.git";
    if installed::in_path("git").is_some() {
        module.shell(git, &[], "").succeeds();
    }
    let variables = [
        ("TF_VAR_from_environment", "PLANTED-environment"),
        ("TF_CLI_ARGS_apply", "-var=plain=PLANTED-cli-arguments"),
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_SERVER_URL", "https://PLANTED:PLANTED@github.com"),
        ("GITHUB_REPOSITORY", "o/r"),
    ];
    for (script, fails) in [
        ("terraform plan -json | chlog terraform", false),
        (
            "terraform apply -json -auto-approve | chlog terraform",
            false,
        ),
        (
            "chlog terraform run -- apply -auto-approve -var given=PLANTED-argument",
            false,
        ),
        (
            "chlog terraform run -- plan -out=saved -var given=PLANTED-other",
            false,
        ),
        ("terraform show -json saved | chlog terraform plan -", false),
        (
            "unset TF_CLI_ARGS_apply; chlog terraform run -- apply saved",
            false,
        ),
        (
            "terraform apply -json -auto-approve -var fail=true | chlog terraform",
            true,
        ),
        (
            "chlog terraform run -- apply -auto-approve -var fail=true",
            true,
        ),
        (
            "chlog terraform run -- apply -auto-approve -var sensitive",
            true,
        ),
        ("chlog terraform run -- destroy -auto-approve", false),
    ] {
        let output = module.shell(script, &variables, "");
        assert_eq!(
            output.code != 0,
            fails,
            "{script}: {}{}",
            output.stdout,
            output.stderr
        );
    }
    let list = app.key().get("/api/changes?tag=terraform").await.body(200);
    assert!(list["count"].as_u64() >= Some(7), "{list}");
    assert!(
        list.to_string().contains("local-exec provisioner error"),
        "{list}"
    );
    assert_nothing_planted(&app).await;
}

const VALID_MODULE: &str = r#"
variable "word" {
  default = "one"
}
resource "terraform_data" "first" {
  input = var.word
}
"#;

const FAILING_RESOURCE: &str = r#"
resource "terraform_data" "second" {
  provisioner "local-exec" {
    command = "exit 3"
  }
}
"#;

async fn a_run_ends_as_terraform_does(app: TestApp) {
    let Some(module) = Module::initialized(&app, "run", VALID_MODULE) else {
        return;
    };
    let run = "chlog terraform run --";
    let output = module.shell(&format!("{run} apply -auto-approve"), &[], "");
    let output = output.succeeds();
    // The plan with its attributes, and what was done.
    for words in [
        "resource \"terraform_data\" \"first\"",
        "\"one\"",
        "Creation complete",
    ] {
        assert!(output.stdout.contains(words), "{words}: {}", output.stdout);
    }
    assert!(
        !output.stdout.contains("Enter a value"),
        "{}",
        output.stdout
    );
    assert!(output.stderr.contains("recorded "), "{}", output.stderr);
    assert_eq!(newest(&app).await["title"], "terraform apply: 1 added");
    // A second apply changes nothing.
    let output = module.shell(&format!("{run} apply -auto-approve"), &[], "");
    assert!(output.succeeds().stderr.contains("nothing was recorded"));
    assert_eq!(count(&app).await, 1);
    // From another folder, with JSON events on standard output.
    let elsewhere = format!(
        "mkdir -p ../elsewhere && cd ../elsewhere && {run} -chdir=../run apply -json -auto-approve -var word=two"
    );
    let output = module.shell(&elsewhere, &[], "").succeeds();
    assert!(
        output.stdout.contains("\"type\":\"apply_complete\""),
        "{}",
        output.stdout
    );
    let change = newest(&app).await;
    assert_eq!(
        (&change["title"], &change["risk_level"]),
        (&json!("terraform apply: 1 changed"), &json!("medium"))
    );

    // The titles of several projects and workspaces of a repository differ.
    let inner = "git init -q .. && terraform workspace new -no-color blue";
    let inner = format!("{inner} && {run} apply -auto-approve -var word=blue");
    module.shell(&inner, &[], "").succeeds();
    let title = newest(&app).await["title"].clone();
    assert_eq!(title, "terraform apply run (blue): 1 added");
    let back = format!("{run} destroy -auto-approve && terraform workspace select default");
    module.shell(&back, &[], "").succeeds();
    fs::remove_dir_all(app.folder().join(".git")).expect("a repository");
    fs::write(module.folder.join("bad.tf"), FAILING_RESOURCE).expect("a file");
    let output = module.shell(&format!("{run} apply -auto-approve"), &[], "");
    let output = output.exits_with(1);
    assert!(
        output.stderr.contains("local-exec provisioner error"),
        "{}",
        output.stderr
    );
    let change = newest(&app).await;
    assert_eq!(
        (&change["title"], &change["status"], &change["risk_level"]),
        (
            &json!("terraform apply: failed, 1 changed"),
            &json!("rolled_back"),
            &json!("high")
        )
    );
    fs::remove_file(module.folder.join("bad.tf")).expect("it exists");
    module
        .shell(&format!("{run} destroy -auto-approve"), &[], "")
        .succeeds();
    let change = newest(&app).await;
    assert_eq!(change["title"], "terraform destroy: 2 destroyed");
    assert_eq!(count(&app).await, 6);
    // Commands that change nothing are not recorded.
    let output = module.shell(&format!("{run} version"), &[], "").succeeds();
    assert!(output.stdout.contains("Terraform v"), "{}", output.stdout);
    let output = module.shell(&format!("{run} plan -detailed-exitcode"), &[], "");
    output.exits_with(2);
    assert_eq!(newest(&app).await["title"], "terraform plan: 1 to add");
    // Invalid values do not stop Terraform, unless a record is required.
    let wrong = "chlog terraform run --strict --tag '' -- apply -auto-approve";
    let output = module.shell(wrong, &[], "").exits_with(6);
    let refused = "Terraform was not started";
    assert!(output.stderr.contains(refused), "{}", output.stderr);
    let wrong = "chlog terraform run --tag '' --risk \"$NONE\" -- plan";
    let output = module.shell(wrong, &[], "").succeeds();
    for words in ["chlog: warning: --tag \"\": ", "--risk <RISK>"] {
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    }
    let nobody = [("CHLOG_TERRAFORM", "/nowhere/terraform")];
    let output = module
        .shell(&format!("{run} apply"), &nobody, "")
        .exits_with(1);
    assert!(
        output.stderr.contains("/nowhere/terraform"),
        "{}",
        output.stderr
    );
    // An unavailable service does not fail the run.
    let away = [("CHLOG_URL", "http://127.0.0.1:9")];
    let output = module.shell(&format!("{run} apply -auto-approve"), &away, "");
    assert!(output.succeeds().stdout.contains("Apply complete!"));
}

async fn a_run_asks_for_confirmation(app: TestApp) {
    let Some(module) = Module::initialized(&app, "asks", VALID_MODULE) else {
        return;
    };
    let apply = "chlog terraform run -- apply -var word=three -lock-timeout=3s";
    for answer in ["no\n", "", "y\n"] {
        let output = module.shell(apply, &[], answer).exits_with(1);
        assert!(
            output.stdout.contains("will be created"),
            "{}",
            output.stdout
        );
        assert!(
            output.stderr.contains("nothing was changed"),
            "{}",
            output.stderr
        );
    }
    assert_eq!(count(&app).await, 0);
    let output = module.shell(apply, &[], "yes\n").succeeds();
    assert!(
        output.stdout.contains("Apply complete!"),
        "{}",
        output.stdout
    );
    assert_eq!(newest(&app).await["title"], "terraform apply: 1 added");
    let state = fs::read_to_string(module.folder.join("terraform.tfstate")).expect("a state");
    assert!(state.contains("three"), "{state}");
    let unasked = format!("{apply} -input=false");
    module.shell(&unasked, &[], "yes\n").exits_with(2);
    let output = module.shell("chlog terraform run -- destroy", &[], "yes\n");
    output.succeeds();
    assert_eq!(
        newest(&app).await["title"],
        "terraform destroy: 1 destroyed"
    );
    // The plans created no changes.
    assert_eq!(count(&app).await, 2);
}

/// A resource that interrupts the process group, as a terminal does.
const INTERRUPTED: &str = r#"
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "kill -INT 0; sleep 60"
  }
}
resource "terraform_data" "next" {
  depends_on = [terraform_data.slow]
}
"#;

async fn an_interrupt_reaches_terraform(app: TestApp) {
    let Some(module) = Module::initialized(&app, "interrupted", INTERRUPTED) else {
        return;
    };
    for (number, script) in [
        "terraform apply -json -auto-approve | chlog terraform",
        "chlog terraform run -- apply -auto-approve",
    ]
    .iter()
    .enumerate()
    {
        let output = module.shell(script, &[], "");
        assert_ne!(output.code, 0, "{script}");
        assert_eq!(count(&app).await, number as u64 + 1, "{}", output.stderr);
        let change = newest(&app).await;
        let title = text(&change["title"]);
        assert!(title.starts_with("terraform apply: failed"), "{title}");
        let description = text(&change["description"]);
        let line = "- create `terraform_data.next`: not done";
        assert!(description.contains(line), "{description}");
    }
}

async fn a_saved_plan_is_one_change(app: TestApp) {
    let Some(module) = Module::initialized(&app, "saved", VALID_MODULE) else {
        return;
    };
    module
        .shell("chlog terraform run -- plan -out=saved", &[], "")
        .succeeds();
    let planned = newest(&app).await;
    assert_eq!(planned["status"], "planned");
    module
        .shell("chlog terraform run -- apply saved", &[], "")
        .succeeds();
    let applied = newest(&app).await;
    assert_eq!(
        (&applied["id"], &applied["status"], count(&app).await),
        (&planned["id"], &json!("completed"), 1)
    );
    for time in ["started_at", "ended_at"] {
        assert!(
            text(&applied[time]) > text(&planned["created_at"]),
            "{applied}"
        );
    }
    assert_eq!(applied["outcome"], "succeeded");
    // The same with pipes, and with a failing run.
    fs::write(module.folder.join("bad.tf"), FAILING_RESOURCE).expect("a file");
    let script = "terraform plan -out=saved && terraform show -json saved > plan.json \
                  && chlog terraform plan plan.json \
                  && terraform apply -json saved | chlog terraform --plan plan.json";
    module.shell(script, &[], "").exits_with(1);
    let failed = newest(&app).await;
    assert_eq!(
        (&failed["status"], &failed["outcome"], count(&app).await),
        (&json!("rolled_back"), &json!("failed"), 2)
    );
    let shown = chlog(&app, &["show", &text(&failed["id"])])
        .succeeds()
        .stdout;
    assert!(shown.contains("  failed\n"), "{shown}");
}

/// A plan of yesterday that is applied today is a change of today.
async fn a_plan_of_yesterday_is_applied_today(app: TestApp) {
    let Some(module) = Module::initialized(&app, "days", VALID_MODULE) else {
        return;
    };
    let run = "chlog terraform run --";
    module
        .shell(&format!("{run} apply -auto-approve"), &[], "")
        .succeeds();
    let script = format!("{run} plan -destroy -out=saved");
    module.shell(&script, &[], "").succeeds();
    // The plan as it would be if it had been recorded yesterday.
    let today = newest(&app).await;
    let tag = text(&today["tags"][1]);
    assert!(tag.starts_with("plan="), "{today}");
    let yesterday = chrono::Utc::now() - chrono::TimeDelta::hours(26);
    let body = json!({
        "title": today["title"], "description": today["description"],
        "risk_level": today["risk_level"], "tags": today["tags"],
        "occurred_at": yesterday.to_rfc3339(),
    });
    let id = app.key().create("/api/changes", body).await;
    let of_another_plan = ["update", &text(&today["id"]), "--set-tags", "terraform"];
    chlog(&app, &of_another_plan).succeeds();
    let since = |age: &str| {
        let list = ["list", "--since", age, "--tag", &tag, "--format", "ids"];
        chlog(&app, &list).succeeds().stdout
    };
    assert_eq!(
        (since("1h"), since("2d")),
        (String::new(), format!("{id}\n"))
    );

    let output = module
        .shell(&format!("{run} apply saved"), &[], "")
        .succeeds();
    assert!(
        output.stderr.contains(&format!("recorded {id}")),
        "{}",
        output.stderr
    );
    assert_eq!(since("1h"), format!("{id}\n"));
    let applied = newest(&app).await;
    assert_eq!(applied["id"], id);
    assert_eq!(
        (
            &applied["status"],
            &applied["outcome"],
            &applied["risk_level"]
        ),
        (&json!("completed"), &json!("succeeded"), &json!("high"))
    );
    assert!(
        text(&applied["title"]).ends_with("1 destroyed"),
        "{applied}"
    );
    let description = text(&applied["description"]);
    assert!(
        description.contains("- destroy `terraform_data.first`"),
        "{description}"
    );
    assert!(applied["tags"].to_string().contains(&tag), "{applied}");
    let changed = |at: &Value| text(at).parse::<Timestamp>().expect("a time").millis();
    let now = chrono::Utc::now().timestamp_millis();
    let (start, end) = (
        changed(&applied["started_at"]),
        changed(&applied["ended_at"]),
    );
    assert!(
        start <= end && end <= now && now - start < 600_000,
        "{applied}"
    );
    assert_eq!(
        changed(&applied["occurred_at"]),
        yesterday.timestamp_millis()
    );
}

fn example(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let example = fs::read_to_string(root.join("examples").join(path)).expect("an example");
    let page = fs::read_to_string(root.join("docs/terraform.md")).expect("the page");
    assert!(
        page.contains(example.trim()),
        "docs/terraform.md does not contain {path}"
    );
    example
}

/// Returns the commands of a file that are between a prefix and a suffix.
fn commands(text: &str, before: &str, after: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| {
        let command = line.trim().strip_prefix(before)?;
        command.strip_suffix(after).map(str::to_owned)
    });
    lines.collect()
}

async fn examples_work_unchanged(app: TestApp) {
    let sha = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";
    let plan = app.folder().join("atlantis.tfplan").display().to_string();
    let github = [
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_REPOSITORY", "o/r"),
        ("GITHUB_SHA", sha),
    ];
    let gitlab = [
        ("GITLAB_CI", "true"),
        ("CI_PROJECT_PATH", "o/r"),
        ("CI_COMMIT_SHA", sha),
    ];
    let jenkins = [
        ("JENKINS_URL", "https://ci.example.com/"),
        ("GIT_URL", "https://github.com/o/r"),
        ("GIT_COMMIT", sha),
    ];
    let atlantis = [
        ("PULL_URL", "https://github.com/o/r/pull/3"),
        ("PLANFILE", plan.as_str()),
        ("HEAD_COMMIT", sha),
    ];
    for (path, commands, variables, ci) in [
        (
            "github-actions/terraform.yml",
            commands(&example("github-actions/terraform.yml"), "- run: ", ""),
            &github[..],
            "github-actions",
        ),
        (
            "gitlab-ci/.gitlab-ci.yml",
            commands(&example("gitlab-ci/.gitlab-ci.yml"), "- ", ""),
            &gitlab,
            "gitlab-ci",
        ),
        (
            "jenkins/Jenkinsfile",
            commands(&example("jenkins/Jenkinsfile"), "sh '", "'"),
            &jenkins,
            "jenkins",
        ),
        (
            "atlantis/repos.yaml",
            commands(&example("atlantis/repos.yaml"), "- run: ", ""),
            &atlantis,
            "atlantis",
        ),
    ] {
        assert!(commands.len() >= 2, "{path}: {commands:?}");
        let before = count(&app).await;
        let Some(module) = Module::new(&app, ci, VALID_MODULE) else {
            return;
        };
        if ci == "atlantis" {
            // The steps of Atlantis itself.
            module
                .shell(
                    "terraform init && terraform plan -out \"$PLANFILE\"",
                    variables,
                    "",
                )
                .succeeds();
        }
        for command in &commands {
            module.shell(command, variables, "").succeeds();
        }
        let change = newest(&app).await;
        assert_eq!(count(&app).await, before + 1, "{path}");
        assert_eq!(change["title"], "terraform apply: 1 added", "{path}");
        let tags = change["tags"].to_string();
        for tag in [&format!("ci={ci}"), "repo=o/r", "commit=1a2b3c4"] {
            assert!(tags.contains(tag), "{path}: {tags}");
        }
    }
    let module = Module::initialized(&app, "local-exec", &example("local-exec/main.tf"));
    let Some(module) = module else {
        return;
    };
    module
        .shell("terraform apply -auto-approve -var release=2.3.1", &[], "")
        .succeeds();
    let change: Value = newest(&app).await;
    assert_eq!(change["title"], "Release 2.3.1");
    assert_eq!(change["tags"], json!(["terraform", "release"]));
}

//! `chlog terraform run` and pipes, with real runs of Terraform.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use changelog_core::Timestamp;
use serde_json::{Value, json};

use super::terraform::{assert_nothing_planted, fixture};
use crate::chlog::{ChlogOutput, chlog, count, newest};
use changelog_tests::{TestApp, assert_contains, assert_lacks, installed, on_one, programs, text};

on_one!(
    process:
    real_runs_send_no_secrets,
    a_run_ends_as_terraform_does,
    a_run_asks_for_confirmation,
    a_run_does_with_arguments_of_the_environment_what_terraform_does,
    an_interrupt_reaches_terraform,
    a_saved_plan_is_one_change,
    a_plan_as_json_is_one_change,
    a_plan_of_yesterday_is_applied_today,
);

/// A module with its state, and a shell in which Terraform and `chlog` run.
pub(crate) struct Module<'a> {
    app: &'a TestApp,
    pub(crate) folder: PathBuf,
}

impl<'a> Module<'a> {
    /// Creates a module; `None` if Terraform is not installed.
    pub(super) fn new(app: &'a TestApp, name: &str, main: &str) -> Option<Self> {
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
    let list = app.key().body("/api/changes?tag=terraform").await;
    assert!(list["count"].as_u64() >= Some(7), "{list}");
    assert!(
        list.to_string().contains("local-exec provisioner error"),
        "{list}"
    );
    assert_nothing_planted(&app).await;
}

pub(super) const VALID_MODULE: &str = r#"
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
    assert_lacks(&output.stdout, "Enter a value");
    output.says("recorded ");
    assert_eq!(newest(&app).await["title"], "terraform apply: 1 added");
    // A second apply changes nothing.
    let output = module.shell(&format!("{run} apply -auto-approve"), &[], "");
    output.succeeds().says("nothing was recorded");
    assert_eq!(count(&app).await, 1);
    // From another folder, with JSON events on standard output.
    let elsewhere = format!(
        "mkdir -p ../elsewhere && cd ../elsewhere && {run} -chdir=../run apply -json -auto-approve -var word=two"
    );
    let output = module.shell(&elsewhere, &[], "").succeeds();
    output.prints("\"type\":\"apply_complete\"");
    let change = newest(&app).await;
    assert_eq!(change["title"], "terraform apply: 1 changed");
    assert_eq!(change["risk_level"], "medium");

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
    output.says("local-exec provisioner error");
    let change = newest(&app).await;
    assert_eq!(change["title"], "terraform apply: failed, 1 changed");
    assert_eq!(change["status"], "rolled_back");
    assert_eq!(change["risk_level"], "high");
    fs::remove_file(module.folder.join("bad.tf")).expect("it exists");
    module
        .shell(&format!("{run} destroy -auto-approve"), &[], "")
        .succeeds();
    let change = newest(&app).await;
    assert_eq!(change["title"], "terraform destroy: 2 destroyed");
    assert_eq!(count(&app).await, 6);
    // Commands that change nothing are not recorded.
    let output = module.shell(&format!("{run} version"), &[], "").succeeds();
    output.prints("Terraform v");
    let output = module.shell(&format!("{run} plan -detailed-exitcode"), &[], "");
    output.exits_with(2);
    assert_eq!(newest(&app).await["title"], "terraform plan: 1 to add");
    // Invalid values do not stop Terraform, unless a record is required.
    let wrong = "chlog terraform run --strict --tag '' -- apply -auto-approve";
    let output = module.shell(wrong, &[], "").exits_with(6);
    let refused = "Terraform was not started";
    output.says(refused);
    let wrong = "chlog terraform run --tag '' --risk \"$NONE\" -- plan";
    let output = module.shell(wrong, &[], "").succeeds();
    for words in ["chlog: warning: --tag \"\": ", "--risk <RISK>"] {
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    }
    let nobody = [("CHLOG_TERRAFORM", "/nowhere/terraform")];
    let output = module
        .shell(&format!("{run} apply"), &nobody, "")
        .exits_with(1);
    output.says("/nowhere/terraform");
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
        output.prints("will be created");
        output.says("nothing was changed");
    }
    assert_eq!(count(&app).await, 0);
    let output = module.shell(apply, &[], "yes\n").succeeds();
    output.prints("Apply complete!");
    assert_eq!(newest(&app).await["title"], "terraform apply: 1 added");
    let state = fs::read_to_string(module.folder.join("terraform.tfstate")).expect("a state");
    assert_contains(&state, "three");
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

async fn a_run_does_with_arguments_of_the_environment_what_terraform_does(app: TestApp) {
    let Some(module) = Module::initialized(&app, "environment", VALID_MODULE) else {
        return;
    };
    let apply = "chlog terraform run -- apply";
    // The plan that stands for the apply is no plan of the user.
    let variables = [
        ("TF_CLI_ARGS_plan", "-destroy -detailed-exitcode -out=mine"),
        ("TF_CLI_ARGS_show", "-no-such-flag"),
        ("TF_CLI_ARGS", "-input=false"),
    ];
    let script = format!("{apply} -auto-approve");
    module.shell(&script, &variables, "").succeeds();
    assert_eq!(newest(&app).await["title"], "terraform apply: 1 added");
    let variables = [
        ("TF_CLI_ARGS_apply", "-auto-approve -var 'word=two words'"),
        ("TF_CLI_ARGS_plan", "-destroy"),
    ];
    module.shell(apply, &variables, "").succeeds();
    assert_eq!(newest(&app).await["title"], "terraform apply: 1 changed");
    let state = fs::read_to_string(module.folder.join("terraform.tfstate")).expect("a state");
    assert_contains(&state, "two words");
    assert_eq!(count(&app).await, 2);
    // Terraform refuses the flags of a plan.
    let script = format!("{apply} -auto-approve -detailed-exitcode -var word=three");
    let output = module.shell(&script, &[], "").exits_with(1);
    output.says("-detailed-exitcode");
    assert_eq!(count(&app).await, 2);
    let variables = [("TF_CLI_ARGS_destroy", "-auto-approve")];
    module
        .shell("chlog terraform run -- destroy", &variables, "")
        .succeeds();
    assert_eq!(
        newest(&app).await["title"],
        "terraform destroy: 1 destroyed"
    );
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
        assert_contains(&description, line);
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
    assert_eq!(applied["id"], planned["id"]);
    assert_eq!(applied["status"], "completed");
    assert_eq!(count(&app).await, 1);
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
    assert_eq!(failed["status"], "rolled_back");
    assert_eq!(failed["outcome"], "failed");
    assert_eq!(count(&app).await, 2);
    let shown = chlog(&app, &["show", &text(&failed["id"])])
        .succeeds()
        .stdout;
    assert_contains(&shown, "  failed\n");
}

async fn a_plan_as_json_is_one_change(app: TestApp) {
    let Some(module) = Module::initialized(&app, "json", VALID_MODULE) else {
        return;
    };
    let run = "chlog terraform run --";
    let script = format!("{run} plan -json -detailed-exitcode -out=saved");
    module.shell(&script, &[], "").exits_with(2);
    let planned = newest(&app).await;
    assert_eq!(planned["status"], "planned", "{planned}");
    module
        .shell(&format!("{run} apply saved"), &[], "")
        .succeeds();
    let applied = newest(&app).await;
    assert_eq!(applied["id"], planned["id"]);
    assert_eq!(applied["status"], "completed");
    assert_eq!(count(&app).await, 1);
    // A plan that fails changes nothing.
    fs::write(
        module.folder.join("bad.tf"),
        "output \"o\" { value = local.none }",
    )
    .expect("a file");
    let script = format!("{run} plan -json || test $? = 1");
    module.shell(&script, &[], "").succeeds();
    let output = module.shell(&format!("{run} apply"), &[], "").exits_with(1);
    output.says("the plan failed, so nothing was recorded");
    assert_eq!(count(&app).await, 1);
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
    output.says(&format!("recorded {id}"));
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
    assert_contains(&description, "- destroy `terraform_data.first`");
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

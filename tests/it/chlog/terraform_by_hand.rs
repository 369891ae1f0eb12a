//! A Terraform run that is recorded with `chlog log`.

use std::fs;
use std::path::Path;
use std::process::Command;

use changelog_tests::{TestApp, assert_contains, assert_lacks, each, installed, on_one, text};

on_one!(runs_can_be_logged_by_hand);

const VALID_MODULE: &str = r#"
resource "terraform_data" "first" {
  input = "one"
}
resource "terraform_data" "second" {
  input = "two"
  provisioner "local-exec" {
    command = "true"
  }
}
"#;

const FAILING_RESOURCE: &str = r#"
resource "terraform_data" "third" {
  provisioner "local-exec" {
    command = "exit 3"
  }
}
"#;

/// Runs Terraform in a folder, with the built-in provider only.
fn terraform(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new("terraform")
        .args(arguments)
        .current_dir(folder)
        .env_remove("TF_CLI_CONFIG_FILE")
        .env("CHECKPOINT_DISABLE", "1")
        .env("TF_IN_AUTOMATION", "1")
        .env("HOME", folder)
        .output()
        .expect("terraform runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (
        output.status.success(),
        text + &String::from_utf8_lossy(&output.stderr),
    )
}

async fn runs_can_be_logged_by_hand(app: TestApp) {
    if installed::in_path("terraform").is_none() {
        installed::missing("terraform", "Terraform");
        return;
    }
    let folder = app.folder().join("module");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("main.tf"), VALID_MODULE).expect("a file");
    let (done, output) = terraform(&folder, &["init", "-no-color"]);
    assert!(done, "{output}");
    let (done, output) = terraform(&folder, &["apply", "-auto-approve", "-no-color"]);
    assert!(done, "{output}");
    let summary = output.lines().find(|line| line.contains("Apply complete!"));
    assert!(
        summary.is_some_and(|line| line.contains("2 added")),
        "{output}"
    );
    let run = |arguments: &[&str]| {
        let output = app.chlog().args(arguments).assert().success();
        String::from_utf8_lossy(&output.get_output().stdout).into_owned()
    };
    run(&[
        "log",
        "terraform apply: 2 added",
        "--status",
        "completed",
        "--tag",
        "terraform",
    ]);

    fs::write(folder.join("more.tf"), FAILING_RESOURCE).expect("a file");
    let (done, output) = terraform(&folder, &["apply", "-auto-approve", "-no-color"]);
    assert!(!done, "{output}");
    // The output of Terraform becomes the description.
    let title = "terraform apply: failed";
    app.chlog()
        .args([
            "log",
            "--status",
            "rolled_back",
            "--outcome",
            "failed",
            "--risk",
            "high",
            "--tag",
            "terraform",
            "-F",
            "-",
        ])
        .write_stdin(format!("{title}\n\n{output}"))
        .assert()
        .success();

    let risky = run(&["list", "--risk", "high"]);
    assert_contains(&risky, title);
    assert_lacks(&risky, "2 added");
    let list = app.key().body("/api/changes?tag=terraform").await;
    assert_eq!(each(&list["data"], "status"), ["rolled_back", "completed"]);
    let id = text(&list["data"][0]["id"]);
    let shown = run(&["show", &id]);
    for words in [
        title,
        "local-exec provisioner error",
        "failed\n",
        "high",
        "terraform",
    ] {
        assert!(shown.contains(words), "{words} is missing: {shown}");
    }
}

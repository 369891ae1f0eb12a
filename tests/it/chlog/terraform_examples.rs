//! The examples of the CI systems and of the documents work unchanged.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::terraform_run::{Module, VALID_MODULE};
use crate::chlog::{count, newest};
use changelog_tests::{TestApp, on_one};

on_one!(
    process:
    examples_work_unchanged,
);

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

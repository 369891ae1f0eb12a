//! What a CI run and a git repository add to a change.

use std::fs;
use std::path::Path;
use std::process::Command;

use changelog_core::Timestamp;
use serde_json::{Value, json};

use crate::chlog::{ChlogOutput, Line, git, newest};
use changelog_tests::{TestApp, assert_contains, installed, on_one, text};

on_one!(
    a_ci_run_sets_title_tags_and_links,
    a_repository_sets_tags_and_links,
    the_agent_that_runs_the_command_is_named,
    the_environment_of_a_deployment_is_recorded,
    unknown_context_is_omitted,
);

const SHA: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

/// The variables of a run of GitHub Actions.
const RUN: [(&str, &str); 10] = [
    ("CI", "true"),
    ("GITHUB_ACTIONS", "true"),
    ("GITHUB_SERVER_URL", "https://github.com"),
    ("GITHUB_REPOSITORY", "octo-org/hello-world"),
    ("GITHUB_SHA", SHA),
    ("GITHUB_REF", "refs/heads/main"),
    ("GITHUB_REF_NAME", "main"),
    ("GITHUB_ACTOR", "octocat"),
    ("GITHUB_RUN_ID", "1658821493"),
    ("GITHUB_RUN_ATTEMPT", "1"),
];

fn log(
    app: &TestApp,
    folder: &Path,
    line: &(impl Line + ?Sized),
    variables: &[(&str, &str)],
) -> ChlogOutput {
    let mut command = app.chlog();
    command
        .arg("log")
        .args(line.words())
        .envs(variables.iter().copied())
        .current_dir(folder);
    ChlogOutput::of(command.write_stdin(""))
}

async fn the_agent_that_runs_the_command_is_named(app: TestApp) {
    let here = app.folder();
    let claude = [
        ("CLAUDECODE", "1"),
        ("CLAUDE_CODE_ENTRYPOINT", "cli"),
        ("CLAUDE_CODE_SESSION_ID", "5f2d"),
    ];
    let agent =
        |name: &str, mode: Value, run: Value| json!({ "name": name, "mode": mode, "run": run });
    let by_claude = agent("claude-code", json!("interactive"), json!("5f2d"));
    let codex = [("CODEX_THREAD_ID", "th-1")];
    for (line, variables, expected) in [
        ("Plain", vec![], Value::Null),
        ("Interactive", claude.to_vec(), by_claude.clone()),
        (
            "In-CI",
            [&RUN[..], &codex].concat(),
            agent("codex", json!("autonomous"), json!("th-1")),
        ),
        (
            "Given --agent renovate:autonomous",
            claude.to_vec(),
            agent("renovate", json!("autonomous"), Value::Null),
        ),
        (
            "Named",
            [&claude[..], &[("CHLOG_AGENT", "deploy-bot")]].concat(),
            agent("deploy-bot", Value::Null, Value::Null),
        ),
        (
            "Off",
            [&claude[..], &[("CHLOG_AGENT", "off")]].concat(),
            Value::Null,
        ),
        ("No-context --no-context", claude.to_vec(), Value::Null),
    ] {
        log(&app, here, line, &variables).succeeds();
        assert_eq!(newest(&app).await["agent"], expected, "{line}");
    }
    // A change whose agent changes is not that of whoever updates it.
    let mut update = app.chlog();
    update
        .args(["update", "@last", "--risk", "high"])
        .envs(claude);
    ChlogOutput::of(&mut update).succeeds();
    assert_eq!(newest(&app).await["agent"], Value::Null);
    // A command that is run is recorded in the same way.
    let mut run = app.chlog();
    run.args(["run", "--title", "Ran", "--", "true"])
        .envs(claude);
    ChlogOutput::of(&mut run).succeeds();
    assert_eq!(newest(&app).await["agent"], by_claude);
    for (variables, words) in [
        (
            &claude[..],
            "claude-code (as claimed, interactive, 5f2d) (from CLAUDE",
        ),
        (
            &[("CHLOG_AGENT", "off")],
            "changes name none (from CHLOG_AGENT)",
        ),
    ] {
        let mut doctor = app.chlog();
        doctor.arg("doctor").envs(variables.iter().copied());
        assert_contains(&ChlogOutput::of(&mut doctor).succeeds().stdout, words);
    }
}

async fn a_ci_run_sets_title_tags_and_links(app: TestApp) {
    let here = app.folder();
    log(&app, here, "--risk high", &RUN).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["title"], "deploy octo-org/hello-world@1a2b3c4");
    assert_eq!(
        change["tags"],
        json!([
            "ci=github-actions",
            "repo=octo-org/hello-world",
            "commit=1a2b3c4",
        ])
    );
    assert_eq!(change["on_behalf_of"], "octocat");
    assert_eq!(change["environment"], Value::Null);
    // The checkout does not have the commit.
    assert_eq!(change["commit"], SHA);
    assert_eq!(change["committed_at"], Value::Null);
    let at = "https://github.com/octo-org/hello-world";
    assert_eq!(
        change["links"],
        json!([
            { "label": "run", "url": format!("{at}/actions/runs/1658821493/attempts/1") },
            { "label": "commit", "url": format!("{at}/commit/{SHA}") },
            { "label": "branch", "url": format!("{at}/tree/main") },
        ])
    );
    // The title and flags take precedence.
    let given = [
        "Mine",
        "--tag",
        "repo=mine,x",
        "--link",
        "run=https://e.com/",
        "--on-behalf-of",
        "ada@example.com",
        "--commit",
        "v2.3",
    ];
    log(&app, here, &given, &RUN).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["title"], "Mine");
    assert_eq!(
        change["tags"],
        json!(["repo=mine", "x", "ci=github-actions", "commit=1a2b3c4",])
    );
    assert_eq!(change["on_behalf_of"], "ada@example.com");
    assert_eq!(change["commit"], "v2.3");
    assert_eq!(change["links"][0]["url"], "https://e.com/");
    assert!(!change["links"].to_string().contains("actions/runs"));
    let mut piped = app.chlog();
    piped.arg("log").envs(RUN);
    ChlogOutput::of(piped.write_stdin("From a pipe\n\nAll of it")).succeeds();
    assert_eq!(newest(&app).await["title"], "From a pipe");
    // --no-context adds neither a title nor anything else.
    let output = log(&app, here, "--no-context", &RUN).exits_with(2);
    output.says("no title given");
    log(&app, here, "Bare --no-context", &RUN).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["title"], "Bare");
    assert_eq!(change["tags"], json!([]));
    assert_eq!(change["links"], json!([]));
    for field in ["on_behalf_of", "commit", "committed_at", "environment"] {
        assert_eq!(change[field], Value::Null, "{field}");
    }
}

async fn the_environment_of_a_deployment_is_recorded(app: TestApp) {
    let here = app.folder();
    let event = here.join("event.json");
    fs::write(&event, "{\"deployment\": {\"environment\": \"Staging\"}}").expect("a file");
    let mut github = RUN.to_vec();
    github.push(("GITHUB_EVENT_PATH", event.to_str().expect("a path")));
    let gitlab = [
        ("GITLAB_CI", "true"),
        ("CI_ENVIRONMENT_NAME", "eu/production"),
        ("CI_ENVIRONMENT_TIER", "production"),
        ("GITLAB_USER_LOGIN", "ada"),
    ];
    let unknown = [("GITLAB_CI", "true"), ("CI_ENVIRONMENT_NAME", "canary")];
    for (variables, arguments, expected) in [
        (&github[..], &["Deploy"][..], json!("staging")),
        (&gitlab, &["Deploy"], json!("prod")),
        (&gitlab, &["Deploy", "--environment", "Dev"], json!("dev")),
        (&unknown, &["Deploy"], Value::Null),
        (&gitlab, &["Deploy", "--no-context"], Value::Null),
    ] {
        log(&app, here, arguments, variables).succeeds();
        let change = newest(&app).await;
        assert_eq!(change["environment"], expected, "{arguments:?}");
    }
    let mut command = app.chlog();
    command.args(["run", "--", "true"]).envs(gitlab);
    ChlogOutput::of(&mut command).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["environment"], "prod");
    assert_eq!(change["on_behalf_of"], "ada");
    // Without an environment of the run, it is that of the host.
    app.key()
        .create(
            "/api/hosts",
            json!({ "hostname": "web-1", "environment": "test" }),
        )
        .await;
    log(&app, here, "Deploy --host web-1", &unknown).succeeds();
    assert_eq!(newest(&app).await["environment"], "test");
}

async fn a_repository_sets_tags_and_links(app: TestApp) {
    if installed::in_path("git").is_none() {
        installed::missing("git", "git");
        return;
    }
    let folder = app.folder().join("repository");
    let below = folder.join("below");
    fs::create_dir_all(&below).expect("a folder");
    git(&folder, &["init", "-q"]);
    let subject = "Fix the payments\n\nAll of them";
    git(&folder, &["commit", "-q", "--allow-empty", "-m", subject]);
    let remote = "https://ada:ghp_planted@github.com/owner/repo.git?planted=1";
    git(&folder, &["remote", "add", "origin", remote]);
    let commit = git(&folder, &["rev-parse", "HEAD"]);
    log(&app, &below, "Deploy", &[]).succeeds();
    let change = newest(&app).await;
    assert_eq!(
        change["tags"],
        json!(["repo=owner/repo", format!("commit={}", &commit[..7])])
    );
    assert_eq!(
        change["links"],
        json!([
            { "label": "commit", "url": format!("https://github.com/owner/repo/commit/{commit}") },
            { "label": "branch", "url": "https://github.com/owner/repo/tree/main" },
        ])
    );
    let committed = git(&folder, &["show", "-s", "--format=%ct"]);
    let committed: i64 = committed.parse().expect("seconds");
    assert_eq!(change["commit"], commit);
    let at: Timestamp = text(&change["committed_at"]).parse().expect("a time");
    assert_eq!(at.millis(), committed * 1000);
    // The run deploys a commit that is not checked out.
    git(&folder, &["commit", "-q", "--allow-empty", "-m", "Later"]);
    let mut run = RUN.to_vec();
    run.retain(|(name, _)| *name != "GITHUB_SHA");
    run.push(("GITHUB_SHA", &commit));
    log(&app, &below, "", &run).succeeds();
    let earlier = newest(&app).await;
    for field in ["commit", "committed_at"] {
        assert_eq!(earlier[field], change[field], "{field}");
    }
    git(&folder, &["reset", "-q", "--hard", &commit]);
    // Outside of a CI run there is no default title.
    log(&app, &below, "", &[]).exits_with(2);
    // In a CI run, the default title has the subject of the commit.
    let mut run = RUN.to_vec();
    run.retain(|(name, _)| *name != "GITHUB_SHA");
    run.push(("GITHUB_SHA", &commit));
    log(&app, &below, "", &run).succeeds();
    let title = text(&newest(&app).await["title"]);
    assert_eq!(
        title,
        format!(
            "deploy octo-org/hello-world@{}: Fix the payments",
            &commit[..7]
        )
    );
    log(&app, &below, "", &RUN).succeeds();
    assert_eq!(
        newest(&app).await["title"],
        "deploy octo-org/hello-world@1a2b3c4"
    );
    let all = app.key().body("/api/changes").await.to_string();
    assert!(!all.contains("planted"), "{all}");
}

async fn unknown_context_is_omitted(app: TestApp) {
    // A broken repository, no git, and a git that hangs.
    let folder = app.folder().join("broken");
    fs::create_dir_all(folder.join(".git")).expect("a folder");
    let output = log(&app, &folder, "Deploy", &[]).succeeds();
    assert_eq!(output.stderr, "");
    let output = log(&app, &folder, "Deploy", &[("PATH", "/nowhere")]).succeeds();
    assert_eq!(output.stderr, "");
    let programs = app.folder().join("programs");
    fs::create_dir(&programs).expect("a folder");
    let slow = programs.join("git");
    fs::write(&slow, "#!/bin/sh\nexec sleep 60\n").expect("a file");
    assert!(
        Command::new("chmod")
            .args(["+x", slow.to_str().expect("a path")])
            .status()
            .is_ok_and(|status| status.success())
    );
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let begun = std::time::Instant::now();
    log(&app, &folder, "Deploy", &[("PATH", &path)]).succeeds();
    assert!(begun.elapsed() < std::time::Duration::from_secs(30));
    let change = newest(&app).await;
    assert_eq!(change["tags"], json!([]));
    assert_eq!(change["links"], json!([]));
    // Context that exceeds the limit of tags is omitted.
    let tags: Vec<String> = (0..19).map(|n| format!("tag{n}")).collect();
    let tags = tags.join(",");
    log(&app, &folder, &format!("Deploy --tag '{tags}'"), &RUN).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["tags"].as_array().map(Vec::len), Some(20));
    assert_eq!(change["tags"][19], "ci=github-actions");
}

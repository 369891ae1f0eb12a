//! `chlog import --git`: merges and tags of a repository.

use serde_json::Value;

use super::import::all_changes;
use crate::chlog::{ChlogOutput, git, git_at};
use changelog_tests::{TestApp, on_one};

on_one!(
    git_history_is_imported,
    a_range_of_git_history_is_imported,
    import_outside_a_repository_fails,
);

/// Creates a repository with two merges and three tags.
fn repository(app: &TestApp) -> std::path::PathBuf {
    let folder = app.folder().join("repository");
    std::fs::create_dir(&folder).expect("a folder");
    let git = |at: &str, arguments: &[&str]| git_at(&folder, at, arguments);
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
    import().says("imported 5, skipped 0 already present");
    import().says("imported 0, skipped 5 already present");
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
    let merged = git(&folder, "rev-parse v2^{commit}");
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
    import("v2..HEAD")
        .succeeds()
        .says("imported 2, skipped 0 already present");
    import("main")
        .succeeds()
        .says("imported 3, skipped 2 already present");
    for bad in [
        "--git=--output=x",
        "--git=-p",
        "--git=no-such-branch",
        "--git=v1..nowhere",
        "--git=",
    ] {
        let output =
            ChlogOutput::of(app.chlog().args(["import", bad]).current_dir(&folder)).exits_with(2);
        output.says("--git: ");
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
    output.says("not a git repository");
}

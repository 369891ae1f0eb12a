//! `chlog` runs no program that a hostile repository configures, and does not pass the
//! key to git.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::chlog::{ChlogOutput, git, newest};
use changelog_tests::{TestApp, installed, on_one};

on_one!(a_hostile_repository_runs_nothing);

async fn a_hostile_repository_runs_nothing(app: TestApp) {
    if installed::in_path("git").is_none() {
        installed::missing("git", "git");
        return;
    }
    let folder = app.folder().join("hostile");
    fs::create_dir(&folder).expect("a folder");
    let run = |arguments: &[&str]| git(&folder, arguments);
    run(&["init", "-q", "-b", "main"]);
    run(&["commit", "-q", "--allow-empty", "-m", "First"]);
    run(&["checkout", "-q", "-b", "topic"]);
    run(&["commit", "-q", "--allow-empty", "-m", "On a branch"]);
    run(&["checkout", "-q", "main"]);
    run(&["merge", "-q", "--no-ff", "-m", "Merge the topic", "topic"]);
    run(&["tag", "-a", "v1", "-m", "Version 1"]);
    // A signed commit, which git would verify with a program.
    let head = run(&["cat-file", "commit", "HEAD"]);
    let (headers, message) = head.split_once("\n\n").expect("a message");
    let signature = "-----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----";
    let signed = format!("{headers}\ngpgsig {signature}\n\n{message}\n");
    fs::write(folder.join("signed"), signed).expect("a file");
    let signed = run(&["hash-object", "-t", "commit", "-w", "signed"]);
    run(&["reset", "-q", "--soft", &signed]);

    // Every program in the configuration logs that it ran, with the key if it has it.
    let ran = app.folder().join("ran");
    let trap = app.folder().join("trap.sh");
    let script = format!(
        "#!/bin/sh\necho \"$0 $* key=$CHLOG_API_KEY\" >>'{}'\nexit 1\n",
        ran.display()
    );
    fs::write(&trap, script).expect("a file");
    Command::new("chmod")
        .args(["755"])
        .arg(&trap)
        .status()
        .expect("chmod runs");
    let trap = trap.to_str().expect("a path");
    for name in [
        "core.sshCommand",
        "core.fsmonitor",
        "core.pager",
        "core.askPass",
        "core.gitProxy",
        "core.editor",
        "credential.helper",
        "diff.external",
        "gpg.program",
        "gpg.ssh.program",
        "log.diffMerges",
    ] {
        let value = if name == "log.diffMerges" {
            "first-parent"
        } else {
            trap
        };
        run(&["config", name, value]);
    }
    for (name, value) in [
        ("log.showSignature", "true"),
        ("pager.log", "true"),
        ("remote.origin.url", "ssh://git@example.invalid/o/r.git"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.partialclonefilter", "blob:none"),
        ("extensions.partialClone", "origin"),
    ] {
        run(&["config", name, value]);
    }
    let log = |arguments: &[&str]| {
        let mut command = app.chlog();
        command.current_dir(&folder);
        ChlogOutput::of(command.args(arguments))
    };
    log(&["log", "Deploy"]).succeeds();
    let change = newest(&app).await;
    assert!(change["tags"].to_string().contains("repo=o/r"), "{change}");
    log(&["import", "--git", "HEAD"]).succeeds();
    assert_nothing_ran(&ran);
    let list = app.key().body("/api/changes").await;
    assert!(list["count"].as_u64() >= Some(2), "{list}");

    // Missing objects are not fetched, which would run ssh.
    let tree = run(&["rev-parse", "v1^1"]);
    let object = folder.join(format!(".git/objects/{}/{}", &tree[..2], &tree[2..]));
    fs::remove_file(object).expect("a loose object");
    let output = log(&["import", "--git", "HEAD"]);
    assert_ne!(output.code, 0, "{}", output.stderr);
    log(&["log", "Deploy again"]).succeeds();
    assert_nothing_ran(&ran);
    assert_git_does_not_see_the_key(&app, &folder);
}

/// Requires that no program of the repository has run.
#[track_caller]
fn assert_nothing_ran(log: &Path) {
    assert!(!log.exists(), "{:?}", fs::read_to_string(log));
}

/// Requires that git does not get the key, with a program in its place that logs its
/// environment.
fn assert_git_does_not_see_the_key(app: &TestApp, folder: &Path) {
    let fake = app.folder().join("bin");
    fs::create_dir(&fake).expect("a folder");
    let seen = app.folder().join("seen");
    let script = format!("#!/bin/sh\nenv >>'{}'\nexit 1\n", seen.display());
    fs::write(fake.join("git"), script).expect("a file");
    Command::new("chmod")
        .args(["755"])
        .arg(fake.join("git"))
        .status()
        .expect("chmod runs");
    let path = format!("{}:/usr/bin:/bin", fake.display());
    for arguments in [&["log", "Deploy"][..], &["import", "--git", "HEAD"]] {
        let mut command = app.chlog();
        command.current_dir(folder).env("PATH", &path);
        command.env("CHLOG_API_KEY_FILE", "/some/where");
        ChlogOutput::of(command.args(arguments));
    }
    let seen = fs::read_to_string(&seen).expect("git was run");
    assert!(!seen.contains("CHLOG_API_KEY"), "{seen}");
    assert!(seen.contains("GIT_NO_LAZY_FETCH=1"), "{seen}");
}

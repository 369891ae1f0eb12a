//! The `chlog` commands, run as processes against the service.

mod catalog;
mod certificates;
mod change_ids;
mod completion;
mod doctor;
mod edit;
mod export;
mod hostile_repository;
mod id_token;
mod import;
mod import_formats;
mod import_git;
mod incidents;
mod list;
mod log;
mod log_context;
mod log_sources;
mod login;
mod mcp;
mod output;
mod presentation;
mod run;
mod run_signals;
mod saved_input;
mod service;
mod spool;
mod spool_organizations;
mod spool_updates;
mod terraform;
mod terraform_by_hand;
mod terraform_examples;
mod terraform_run;
mod times;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use changelog_tests::TestApp;

/// The output and exit code of a `chlog` command.
pub(crate) struct ChlogOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl ChlogOutput {
    pub(crate) fn of(command: &mut assert_cmd::Command) -> Self {
        let output = command.output().expect("chlog runs");
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// Requires success.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Self {
        self.exits_with(0)
    }

    /// Requires this exit code; a failure must print an error.
    #[track_caller]
    pub(crate) fn exits_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        assert!(
            code == 0 || !self.stderr.trim().is_empty(),
            "the command fails without a message"
        );
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// Requires that standard error has these words.
    #[track_caller]
    pub(crate) fn says(&self, words: &str) {
        assert!(self.stderr.contains(words), "{words}: {}", self.stderr);
    }

    /// Requires that standard output has these words.
    #[track_caller]
    pub(crate) fn prints(&self, words: &str) {
        assert!(self.stdout.contains(words), "{words}: {}", self.stdout);
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

/// A command line: its words, or one string that is split as a shell does.
pub(crate) trait Line {
    fn words(&self) -> Vec<String>;
}

impl Line for str {
    fn words(&self) -> Vec<String> {
        shlex::split(self).unwrap_or_else(|| panic!("a quote is missing: {self}"))
    }
}

impl Line for String {
    fn words(&self) -> Vec<String> {
        self.as_str().words()
    }
}

impl Line for [&str] {
    fn words(&self) -> Vec<String> {
        self.iter().map(|word| (*word).to_owned()).collect()
    }
}

impl<const COUNT: usize> Line for [&str; COUNT] {
    fn words(&self) -> Vec<String> {
        self.as_slice().words()
    }
}

impl Line for Vec<&str> {
    fn words(&self) -> Vec<String> {
        self.as_slice().words()
    }
}

pub(crate) fn chlog(app: &TestApp, line: &(impl Line + ?Sized)) -> ChlogOutput {
    ChlogOutput::of(app.chlog().args(line.words()))
}

/// Returns the number of changes of the service.
pub(crate) async fn count(app: &TestApp) -> u64 {
    let list = app.key().body("/api/changes").await;
    list["count"].as_u64().expect("a count")
}

/// Returns the newest change of the service.
pub(crate) async fn newest(app: &TestApp) -> Value {
    let list = app.key().body("/api/changes?per_page=1").await;
    list["data"][0].clone()
}

/// Runs git in a folder, without settings of the machine, and returns what it prints.
pub(crate) fn git(folder: &Path, line: &(impl Line + ?Sized)) -> String {
    git_at(folder, "", line)
}

/// Runs git like [`git`]; what it creates has this time.
pub(crate) fn git_at(folder: &Path, at: &str, line: &(impl Line + ?Sized)) -> String {
    let output = Command::new("git")
        .args(["-c", "init.defaultBranch=main"])
        .args(line.words())
        .current_dir(folder)
        .env("HOME", folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "Ada")
        .env("GIT_AUTHOR_EMAIL", "ada@example.com")
        .env("GIT_COMMITTER_NAME", "Ada")
        .env("GIT_COMMITTER_EMAIL", "ada@example.com")
        .env("GIT_AUTHOR_DATE", at)
        .env("GIT_COMMITTER_DATE", at)
        .output()
        .expect("git runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {stderr}", line.words());
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

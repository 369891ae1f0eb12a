//! The `chlog` commands, run as processes against the service.

mod catalog;
mod certificates;
mod change_ids;
mod completion;
mod doctor;
mod edit;
mod export;
mod hostile_repository;
mod import;
mod import_formats;
mod import_git;
mod list;
mod log;
mod log_context;
mod log_sources;
mod login;
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

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

pub(crate) fn chlog(app: &TestApp, arguments: &[&str]) -> ChlogOutput {
    ChlogOutput::of(app.chlog().args(arguments))
}

/// Returns the newest change of the service.
pub(crate) async fn newest(app: &TestApp) -> Value {
    let list = app.key().get("/api/changes?per_page=1").await.body(200);
    list["data"][0].clone()
}

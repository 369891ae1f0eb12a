//! What git has checked out in the current directory.

use std::time::{Duration, Instant};

use changelog_core::Timestamp;

use crate::environment::git;
use crate::environment::repository::Repository;

/// How long git may take in all.
const GIT_TIMEOUT: Duration = Duration::from_millis(500);

/// What is checked out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkout {
    /// The id of the commit that is checked out.
    pub(crate) commit: Option<String>,
    /// The time of the commit that was asked for, or else of the one checked out.
    pub(crate) committed_at: Option<Timestamp>,
    /// The first line of the message of the commit that is checked out.
    pub(crate) subject: Option<String>,
    pub(crate) branch: Option<String>,
    pub(crate) repository: Option<Repository>,
}

/// Returns what is checked out; empty outside of a repository. `commit` is the commit
/// whose time is needed, if it is not the one checked out: a run of a pull request may
/// check out a merge.
pub(crate) fn checkout(commit: Option<&str>) -> Checkout {
    let is_repository = std::env::var_os("GIT_DIR").is_some()
        || std::env::current_dir()
            .is_ok_and(|here| here.ancestors().any(|at| at.join(".git").exists()));
    if !is_repository {
        return Checkout::default();
    }
    let deadline = Instant::now() + GIT_TIMEOUT;
    // Three or four processes that run at the same time.
    let log = log("--format=%H%n%cI%n%s", "HEAD");
    let other = commit.and_then(|commit| self::log("--format=%cI", commit));
    let branch = git::start(&["symbolic-ref", "--quiet", "--short", "HEAD"]);
    // Prints the URL, as the settings rewrite it, and connects to nothing.
    let remote = git::start(&["ls-remote", "--get-url"]);
    let log = log.and_then(|git| git.output_before(deadline));
    let branch = branch.and_then(|git| git.output_before(deadline));
    let remote = remote.and_then(|git| git.output_before(deadline));
    let other = other.and_then(|git| git.output_before(deadline));
    let mut lines = log.as_deref().unwrap_or_default().lines();
    let id = lines.next().map(str::to_owned);
    let time = lines.next().map(str::to_owned);
    let time = if commit.is_some() { other } else { time };
    Checkout {
        commit: id,
        committed_at: time.and_then(|time| time.trim().parse().ok()),
        subject: lines.next().map(str::to_owned),
        branch: branch.map(|name| name.trim().to_owned()),
        repository: remote.as_deref().and_then(Repository::of_remote),
    }
}

/// Starts to read a commit, given by its id or HEAD.
fn log(format: &str, commit: &str) -> Option<git::Running> {
    git::start(&[
        "log",
        "-1",
        "--no-show-signature",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        format,
        commit,
        "--",
    ])
}

//! What git has checked out in the current directory.

use std::time::{Duration, Instant};

use crate::environment::git;
use crate::environment::repository::Repository;

/// How long git may take in all.
const GIT_TIMEOUT: Duration = Duration::from_millis(500);

/// What is checked out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkout {
    /// The id of the commit.
    pub(crate) commit: Option<String>,
    /// The first line of the commit's message.
    pub(crate) subject: Option<String>,
    pub(crate) branch: Option<String>,
    pub(crate) repository: Option<Repository>,
}

/// Returns what is checked out; empty outside of a repository.
pub(crate) fn checkout() -> Checkout {
    let is_repository = std::env::var_os("GIT_DIR").is_some()
        || std::env::current_dir()
            .is_ok_and(|here| here.ancestors().any(|at| at.join(".git").exists()));
    if !is_repository {
        return Checkout::default();
    }
    let deadline = Instant::now() + GIT_TIMEOUT;
    // Three processes that run at the same time.
    let log = git::start(&[
        "log",
        "-1",
        "--no-show-signature",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--format=%H%n%s",
    ]);
    let branch = git::start(&["symbolic-ref", "--quiet", "--short", "HEAD"]);
    // Prints the URL, as the settings rewrite it, and connects to nothing.
    let remote = git::start(&["ls-remote", "--get-url"]);
    let log = log.and_then(|git| git.output_before(deadline));
    let branch = branch.and_then(|git| git.output_before(deadline));
    let remote = remote.and_then(|git| git.output_before(deadline));
    let mut lines = log.as_deref().unwrap_or_default().lines();
    Checkout {
        commit: lines.next().map(str::to_owned),
        subject: lines.next().map(str::to_owned),
        branch: branch.map(|name| name.trim().to_owned()),
        repository: remote.as_deref().and_then(Repository::of_remote),
    }
}

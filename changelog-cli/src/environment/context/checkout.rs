//! What git says about the folder that `chlog` runs in.
//!
//! The program is asked, since it alone knows all of git's settings; it is
//! asked for little, all of it at once, and not for long.

use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::forge::Repository;
use crate::environment::git;

/// How long git may take in all.
const PATIENCE: Duration = Duration::from_millis(500);
/// The most that is read of an answer, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// What is checked out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkout {
    /// The id of the commit.
    pub(crate) commit: Option<String>,
    /// The first line of its message.
    pub(crate) subject: Option<String>,
    pub(crate) branch: Option<String>,
    pub(crate) repository: Option<Repository>,
}

/// Asks what is checked out here; nothing where that is not a repository.
pub(crate) fn checkout() -> Checkout {
    let is_repository = std::env::var_os("GIT_DIR").is_some()
        || std::env::current_dir()
            .is_ok_and(|here| here.ancestors().any(|at| at.join(".git").exists()));
    if !is_repository {
        return Checkout::default();
    }
    let until = Instant::now() + PATIENCE;
    // Side by side: each is a process.
    let log = ask(&[
        "log",
        "-1",
        "--no-show-signature",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--format=%H%n%s",
    ]);
    let branch = ask(&["symbolic-ref", "--quiet", "--short", "HEAD"]);
    // Only names the address, with what the settings put in its place.
    let remote = ask(&["ls-remote", "--get-url"]);
    let log = log.and_then(|asked| asked.answer(until));
    let branch = branch.and_then(|asked| asked.answer(until));
    let remote = remote.and_then(|asked| asked.answer(until));
    let mut lines = log.as_deref().unwrap_or_default().lines();
    Checkout {
        commit: lines.next().map(str::to_owned),
        subject: lines.next().map(str::to_owned),
        branch: branch.map(|name| name.trim().to_owned()),
        repository: remote.as_deref().and_then(Repository::of_remote),
    }
}

/// A question that git is about to answer.
struct Asked {
    child: Child,
    answer: mpsc::Receiver<String>,
}

fn ask(arguments: &[&str]) -> Option<Asked> {
    let mut child = git::command()
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let stdout = child.stdout.take()?;
    let (sender, answer) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if stdout.take(MAX_BYTES).read_to_end(&mut bytes).is_ok() {
            // Nobody may be waiting any more.
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        }
    });
    Some(Asked { child, answer })
}

impl Asked {
    /// Waits for the answer; none if git refuses or is too slow.
    fn answer(mut self, until: Instant) -> Option<String> {
        let left = until.saturating_duration_since(Instant::now());
        let answer = self.answer.recv_timeout(left);
        if answer.is_err() {
            // Gone already is as good as ended.
            let _ = self.child.kill();
        }
        let done = self.child.wait().is_ok_and(|status| status.success());
        answer.ok().filter(|_| done)
    }
}

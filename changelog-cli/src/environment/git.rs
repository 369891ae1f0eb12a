//! Runs git in the current directory.
//!
//! A repository may have been written by anyone, and its settings name programs
//! that git runs: to fetch a missing object, to check a signature, to find
//! changed files, to page, to show a difference. Every git command is built
//! here, so that none of these programs is ever run, and so that git does not
//! get the API key.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use super::credentials::SECRET_VARIABLES;
use crate::base::failure::{Exit, Failure, Outcome};

/// Settings that override those of the repository and of the user.
const SETTINGS: [&str; 14] = [
    // No transport at all: neither ssh nor a helper is started.
    "protocol.allow=never",
    "core.sshCommand=false",
    "core.gitProxy=none",
    "core.askPass=",
    "credential.helper=",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "diff.external=",
    "log.showSignature=false",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "gpg.x509.program=false",
    "core.quotePath=false",
];
/// The variables that are set for git.
const ENVIRONMENT: [(&str, &str); 9] = [
    ("GIT_NO_LAZY_FETCH", "1"),
    // Versions of git before 2.45 ignore the one above; all know this one.
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS", "false"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("LC_ALL", "C"),
];
/// The most that [`Running::output_before`] reads, in bytes.
const MAX_OUTPUT: u64 = 64 * 1024;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("--no-pager");
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    command
        .args(arguments)
        .envs(ENVIRONMENT)
        .env_remove("GIT_EXTERNAL_DIFF")
        .stdin(Stdio::null());
    for name in SECRET_VARIABLES {
        command.env_remove(name);
    }
    command
}

/// Runs git to its end and returns its whole output.
pub(crate) fn output(arguments: &[&str]) -> Outcome<Vec<u8>> {
    let output = command(arguments)
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::usage("--git: the program git is not installed"),
            _ => Failure::new(Exit::Other, format!("cannot run git: {error}")),
        })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.trim();
    let message = message.strip_prefix("fatal: ").unwrap_or(message);
    Err(Failure::usage(format!("--git: git failed: {message}")))
}

/// A git process whose output is being read.
pub(crate) struct Running {
    child: Child,
    output: mpsc::Receiver<String>,
}

/// Starts git; none if it cannot be started.
pub(crate) fn start(arguments: &[&str]) -> Option<Running> {
    let mut child = command(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let stdout = child.stdout.take()?;
    let (sender, output) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if stdout.take(MAX_OUTPUT).read_to_end(&mut bytes).is_ok() {
            // The receiver may have given up.
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        }
    });
    Some(Running { child, output })
}

impl Running {
    /// Waits for the output; none if git fails or does not end in time.
    pub(crate) fn output_before(mut self, deadline: Instant) -> Option<String> {
        let left = deadline.saturating_duration_since(Instant::now());
        let output = self.output.recv_timeout(left);
        if output.is_err() {
            // Fails if the process has ended.
            let _ = self.child.kill();
        }
        let succeeded = self.child.wait().is_ok_and(|status| status.success());
        output.ok().filter(|_| succeeded)
    }
}

//! git, asked about the repository here.
//!
//! A repository may have been written by anybody, and its own settings name
//! programs: to reach a remote that a missing object is fetched from, to check a
//! signature, to find changed files, to page, to show a difference. Every
//! command is made here, so that none of them is ever run, and so that git, and
//! whatever it runs all the same, does not get the API key.

use std::process::{Command, Stdio};

use crate::environment::credentials::{KEY_FILE_VARIABLE, KEY_VARIABLE};

/// What stands above the settings of the repository and of the user.
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
/// What git gets to know from its environment.
const ENVIRONMENT: [(&str, &str); 9] = [
    ("GIT_NO_LAZY_FETCH", "1"),
    // Versions of git before 2.45 do not know that one, and all know this one.
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS", "false"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("LC_ALL", "C"),
];

/// Begins a command of git in the current folder, without standard input.
pub(crate) fn command() -> Command {
    let mut command = Command::new("git");
    command.arg("--no-pager");
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    command
        .envs(ENVIRONMENT)
        .env_remove("GIT_EXTERNAL_DIFF")
        .env_remove(KEY_VARIABLE)
        .env_remove(KEY_FILE_VARIABLE)
        .stdin(Stdio::null());
    command
}

//! Processes that tests start and signal.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::programs;

/// Sends a signal to a process that this test started.
///
/// A process group is addressed by its id with a minus sign before it.
pub fn signal(target: impl Display, signal: &str) {
    // A process that has exited needs no signal.
    let _ = Command::new("kill")
        .args([&format!("-{signal}"), "--", &target.to_string()])
        .stderr(Stdio::null())
        .status();
}

/// Runs a command to its end with this standard input.
pub fn run(mut command: Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A command that does not read its input may exit before this is written.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("an exit")
}

/// Returns a `changelog-server` command that does not inherit the settings of this
/// machine.
pub fn server_command(home: &Path) -> Command {
    let mut command = Command::new(programs::server());
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("TZ", "UTC")
        .env("CHANGELOG_SECRETS_KEY_FILE", secrets_key_file(home))
        .current_dir(home);
    command
}

/// Returns the path of the key of stored secrets of an app.
pub(crate) fn secrets_key_file(home: &Path) -> std::path::PathBuf {
    home.join("secrets.key")
}

//! Processes that tests start and signal.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::programs;

/// Sends a signal to a process that this test started.
///
/// A group of processes is its first one's number behind a minus.
pub fn signal(who: impl Display, signal: &str) {
    // Gone already is as good as told.
    let _ = Command::new("kill")
        .args([&format!("-{signal}"), "--", &who.to_string()])
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
    // A command that reads nothing may be gone before this is written.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

/// Begins a command of `changelog-server` that knows nothing of this machine's
/// own settings.
pub fn server_command(home: &Path) -> Command {
    let mut command = Command::new(programs::server());
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("TZ", "UTC")
        .current_dir(home);
    command
}

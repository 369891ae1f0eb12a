//! Runs a command as it would run without `chlog`: with the same input and
//! output, and so that each signal reaches it once.
//!
//! The command stays in the process group of `chlog`. It therefore shares the
//! terminal as without `chlog` (Ctrl-C, Ctrl-Z and `fg`, reading and writing, a
//! pager at the end of a pipe), and a SIGKILL to the group ends it too. However,
//! a signal may reach the command directly and must then not be passed on:
//! Terraform stops at once on a second interrupt. The kernel marks the signals
//! that it sends itself; for other signals, a witness shows whether they were
//! sent to the whole group; see [`witness`].

mod event;
mod process;
mod relay;
pub(crate) mod witness;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdout, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use rustix::process::Pid;
use tokio::sync::oneshot;

use event::Event;

/// A running command.
pub(crate) struct Supervised {
    /// Its process id.
    pub(crate) pid: u32,
    /// Its output, if it is piped.
    pub(crate) stdout: Option<ChildStdout>,
    ended: oneshot::Receiver<io::Result<ExitStatus>>,
}

impl Supervised {
    /// Waits until the command ends.
    pub(crate) async fn wait(self) -> io::Result<ExitStatus> {
        let ended = self.ended.await;
        ended.unwrap_or_else(|_| Err(io::Error::other("the command was not waited for")))
    }
}

/// Starts a command. From then on, signals no longer end this process: it passes
/// them on and ends after the command.
pub(crate) fn start(mut command: Command) -> io::Result<Supervised> {
    let mut signals = relay::signals()?;
    let handle = signals.handle();
    let (events, received) = mpsc::channel();
    // Before the command, so that each signal to the command reaches the witness.
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let command_line: Vec<OsString> = words.map(OsStr::to_owned).collect();
    let witness = witness::Witness::start(&events, &command_line).ok();
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            handle.close();
            return Err(error);
        }
    };
    // No signal is sent to a process id that may have been reused.
    let running = Arc::new(Mutex::new(true));
    let pid = Pid::from_child(&child);
    let id = child.id();
    let stdout = child.stdout.take();
    let relay = relay::Relay::new(
        pid,
        Arc::clone(&running),
        command_line,
        witness,
        events.clone(),
    );
    let relaying = thread::spawn(move || relay.run(&received));
    let ending = events.clone();
    thread::spawn(move || {
        for origin in &mut signals {
            if let Some(event) = Event::of(&origin) {
                // Fails if the command has ended.
                let _ = events.send(event);
            }
        }
    });
    let (sender, ended) = oneshot::channel();
    thread::spawn(move || {
        process::wait_for_end(pid);
        *running.lock().unwrap_or_else(PoisonError::into_inner) = false;
        let status = child.wait();
        handle.close();
        let _ = ending.send(Event::Ended);
        // The witness ends before the end of the command is reported.
        let _ = relaying.join();
        // Fails if nothing waits for the command.
        let _ = sender.send(status);
    });
    Ok(Supervised {
        pid: id,
        stdout,
        ended,
    })
}

/// Returns the exit code as a shell does: 128 plus the number of the signal that
/// ended the command.
pub(crate) fn code(status: ExitStatus) -> u8 {
    if let Some(signal) = status.signal() {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1)
}

/// Returns a shell's exit code for a command that cannot be started.
pub(crate) fn code_of_failure(error: &io::Error) -> u8 {
    match error.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    }
}

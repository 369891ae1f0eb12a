//! A process that shows which signals are sent to the whole process group.
//!
//! A process cannot see where else a signal was sent: a signal to `chlog` alone,
//! to its group, and to each process of its tree look the same. Nor can it see
//! the signals of the command: a handled signal leaves no trace that another
//! process could read. `chlog run` therefore starts a witness next to the
//! command, in the same group and tree, with the same environment and with the command
//! line of the command in its own, so that `pkill -f` finds both. A signal that also
//! reaches the witness has reached the command.
//!
//! The witness handles no signal: its exit status tells its parent which one
//! ended it. It also ends when its standard input does, so that it never outlives
//! its parent.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Resource, Rlimit, setrlimit};

use super::event::Event;
use super::process::wait_for_end;
use crate::environment::credentials::SECRET_VARIABLES;

/// The first argument of a witness; the others are the command line of the command.
const ARGUMENT: &str = "__signal-witness";

/// A running witness.
pub(super) struct Witness {
    pid: Pid,
    /// None after it was waited for, when its process id may be reused.
    child: Arc<Mutex<Option<Child>>>,
    /// Closing it ends the witness.
    _stdin: ChildStdin,
}

impl Witness {
    /// Starts a witness of a command; sends an event when a signal ends it.
    pub(super) fn start(events: &Sender<Event>, command_line: &[OsString]) -> io::Result<Self> {
        let mut command = Command::new(program()?);
        for name in SECRET_VARIABLES {
            command.env_remove(name);
        }
        let mut child = command
            .arg(ARGUMENT)
            .args(command_line)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pid = Pid::from_child(&child);
        let stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let child = Arc::new(Mutex::new(Some(child)));
        let (waiting, events) = (Arc::clone(&child), events.clone());
        thread::spawn(move || {
            wait_for_end(pid);
            let at = Instant::now();
            let ended = locked(&waiting).take();
            let status = ended.and_then(|mut child| child.wait().ok());
            if let Some(signal) = status.and_then(|status| status.signal()) {
                // Fails if the command has ended.
                let _ = events.send(Event::Witnessed { signal, at });
            }
        });
        Ok(Self {
            pid,
            child,
            _stdin: stdin,
        })
    }

    /// Returns whether a signal was sent to the witness although its end is not
    /// reported yet: the machine is busy, or the whole group is stopped.
    pub(super) fn has_received(&self, signal: i32) -> bool {
        let path = format!("/proc/{}/status", self.pid.as_raw_nonzero());
        let Ok(status) = fs::read_to_string(path) else {
            // The witness has ended, or this system has no such files.
            return Path::new("/proc/self/status").exists();
        };
        let value = |name| status.lines().find_map(|line| line.strip_prefix(name));
        let has_ended = value("State:").is_some_and(|state| state.trim().starts_with(['Z', 'X']));
        let is_pending = ["SigPnd:", "ShdPnd:"].iter().any(|name| {
            let mask = value(name).and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
            mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
        });
        has_ended || is_pending
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // A stopped process would not see the end of its input.
        if let Some(child) = locked(&self.child).as_mut() {
            // Fails if it is just ending.
            let _ = child.kill();
        }
    }
}

fn locked(child: &Mutex<Option<Child>>) -> MutexGuard<'_, Option<Child>> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns this program, even if its file was replaced meanwhile.
fn program() -> io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        return Ok(running);
    }
    std::env::current_exe()
}

/// Runs as a witness if this process was started as one.
pub(crate) fn run_if_requested() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    // SIGQUIT then writes no core file.
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
    let _ = io::stdin().read(&mut [0]);
    Some(ExitCode::SUCCESS)
}

//! A process that does nothing but get the signals that are sent to everybody.
//!
//! What a signal was sent to cannot be seen by the process that got it: a
//! signal to `chlog` alone, one to its whole group and one to each process of
//! its tree look the same. The command cannot be asked either: a signal that a
//! process has handled leaves no trace that another process could read. So
//! `chlog run` starts a second process next to the command, in the same group
//! and the same tree, with the same environment. A signal that reaches the
//! witness too was sent to everybody, the command included.
//!
//! The witness handles no signal: its parent sees in its exit status which one
//! ended it. It ends by itself when its standard input does, so it never
//! outlives its parent.

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

use super::unix::{Event, wait_for_end};
use crate::environment::credentials::{KEY_FILE_VARIABLE, KEY_VARIABLE};

/// The only argument of a process that is a witness.
const ARGUMENT: &str = "__signal-witness";

/// A witness that runs.
pub(super) struct Witness {
    pid: Pid,
    /// None once it has been waited for, and its number may be another's.
    child: Arc<Mutex<Option<Child>>>,
    /// Its end is the witness's.
    _stdin: ChildStdin,
}

impl Witness {
    /// Starts a witness, which reports its end.
    pub(super) fn start(events: &Sender<Event>) -> io::Result<Self> {
        let mut child = Command::new(program()?)
            .arg(ARGUMENT)
            .env_remove(KEY_VARIABLE)
            .env_remove(KEY_FILE_VARIABLE)
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
                // The command may have ended first.
                let _ = events.send(Event::Witnessed { signal, at });
            }
        });
        Ok(Self {
            pid,
            child,
            _stdin: stdin,
        })
    }

    /// Returns whether a signal has been sent to the witness of whose end has not
    /// been reported yet: the machine is busy, or the witness is stopped as its
    /// whole group is.
    pub(super) fn has_got(&self, signal: i32) -> bool {
        let path = format!("/proc/{}/status", self.pid.as_raw_nonzero());
        let Ok(status) = fs::read_to_string(path) else {
            // Gone; or this system has no such files.
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
        // Stopped, it would not see the end of its input.
        if let Some(child) = locked(&self.child).as_mut() {
            // It may end in this moment, and that is as good.
            let _ = child.kill();
        }
    }
}

fn locked(child: &Mutex<Option<Child>>) -> MutexGuard<'_, Option<Child>> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns this program, also when its file was replaced meanwhile.
fn program() -> io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        return Ok(running);
    }
    std::env::current_exe()
}

/// Is a witness, if this process was started as one.
pub(crate) fn answer() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    // SIGQUIT ends it as any other signal does, and leaves no file behind.
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
    let _ = io::stdin().read(&mut [0]);
    Some(ExitCode::SUCCESS)
}

//! Runs somebody else's command as if we were not there: its input and output
//! are ours untouched, and what is meant for it reaches it once.

use std::io;
use std::process::{Child, ChildStdout, Command, ExitStatus};

use tokio::sync::oneshot;

/// A command that runs.
pub(crate) struct Supervised {
    /// What it writes, where that was asked for.
    pub(crate) stdout: Option<ChildStdout>,
    ended: oneshot::Receiver<io::Result<ExitStatus>>,
}

impl Supervised {
    /// Waits for its end.
    pub(crate) async fn wait(self) -> io::Result<ExitStatus> {
        let ended = self.ended.await;
        ended.unwrap_or_else(|_| Err(io::Error::other("nobody waited for the command")))
    }
}

/// Starts a command. From then on, this process no longer ends by the signals
/// that a command is told to end by: it passes them on, and ends after it.
#[cfg(unix)]
pub(crate) fn start(mut command: Command) -> io::Result<Supervised> {
    use std::sync::{Arc, Mutex, PoisonError};
    use std::thread;

    let mut signals = unix::signals()?;
    let handle = signals.handle();
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            handle.close();
            return Err(error);
        }
    };
    // Nobody is told anything by a number that may be another's by now.
    let running = Arc::new(Mutex::new(true));
    let pid = unix::pid(&child);
    let stdout = child.stdout.take();
    let told = Arc::clone(&running);
    thread::spawn(move || {
        for origin in &mut signals {
            let running = told.lock().unwrap_or_else(PoisonError::into_inner);
            if *running {
                unix::pass_on(&origin, pid);
            }
        }
    });
    let (sender, ended) = oneshot::channel();
    thread::spawn(move || {
        unix::wait_for_end(pid);
        *running.lock().unwrap_or_else(PoisonError::into_inner) = false;
        let status = child.wait();
        handle.close();
        // Whoever waited may have gone.
        let _ = sender.send(status);
    });
    Ok(Supervised { stdout, ended })
}

#[cfg(not(unix))]
pub(crate) fn start(mut command: Command) -> io::Result<Supervised> {
    let mut child: Child = command.spawn()?;
    let stdout = child.stdout.take();
    let (sender, ended) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = sender.send(child.wait());
    });
    Ok(Supervised { stdout, ended })
}

/// Returns what a shell would say: the exit code, or 128 and the number of the
/// signal.
pub(crate) fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1)
}

/// Returns what a shell would say of a command that cannot be started.
pub(crate) fn code_of_failure(error: &io::Error) -> u8 {
    match error.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    }
}

#[cfg(unix)]
mod unix {
    use std::fs;
    use std::io;

    use rustix::io::Errno;
    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
    use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    use signal_hook::iterator::SignalsInfo;
    use signal_hook::iterator::exfiltrator::origin::WithOrigin;
    use signal_hook::low_level::siginfo::{Cause, Origin};

    use super::Child;

    const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

    /// Takes the signals from now on, but for those that this process was told
    /// to ignore (as `nohup` does): its command inherits that.
    pub(super) fn signals() -> io::Result<SignalsInfo<WithOrigin>> {
        let ignored = ignored();
        let taken = PASSED_ON
            .into_iter()
            .filter(|signal| ignored & (1 << (signal - 1)) == 0);
        SignalsInfo::<WithOrigin>::new(taken)
    }

    /// Returns which signals are ignored, a bit each; none where the system
    /// does not tell.
    fn ignored() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap_or(0)
    }

    pub(super) fn pid(child: &Child) -> Pid {
        Pid::from_child(child)
    }

    /// Passes a signal on, unless the kernel sent it: then it came from the
    /// terminal, whose whole group of processes has it already.
    pub(super) fn pass_on(origin: &Origin, pid: Pid) {
        if matches!(origin.cause, Cause::Kernel) {
            return;
        }
        if let Some(signal) = Signal::from_named_raw(origin.signal) {
            // It may end in this moment, and that is as good.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until a process has ended, and leaves its number its own.
    pub(super) fn wait_for_end(pid: Pid) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(pid), options), Err(Errno::INTR)) {}
    }
}

//! Runs somebody else's command as if we were not there: its input and output
//! are ours untouched, and a signal reaches it once.
//!
//! The command stays in the process group of `chlog`. So the terminal is its own
//! as it would be without: Ctrl-C, Ctrl-Z and `fg`, reading and writing, a pager
//! at the other end of a pipe; and a SIGKILL to the group ends it too. The price
//! is that a signal may reach the command by itself, and must not be passed on
//! then: Terraform takes a second interrupt as the order to stop at once. Which
//! signals these are, the kernel says of its own, and a witness of the others;
//! see [`witness`].

#[cfg(unix)]
pub(crate) mod witness;

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
    use std::sync::{Arc, Mutex, PoisonError, mpsc};
    use std::thread;

    let mut signals = unix::signals()?;
    let handle = signals.handle();
    let (events, received) = mpsc::channel();
    // Before the command, so that whatever reaches that reaches this.
    let witness = witness::Witness::start(&events).ok();
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
    let relay = unix::Relay::new(pid, Arc::clone(&running), witness, events.clone());
    let relaying = thread::spawn(move || relay.run(&received));
    let ending = events.clone();
    thread::spawn(move || {
        for origin in &mut signals {
            if let Some(event) = unix::Event::of(&origin) {
                // The command may have ended meanwhile.
                let _ = events.send(event);
            }
        }
    });
    let (sender, ended) = oneshot::channel();
    thread::spawn(move || {
        unix::wait_for_end(pid);
        *running.lock().unwrap_or_else(PoisonError::into_inner) = false;
        let status = child.wait();
        handle.close();
        let _ = ending.send(unix::Event::Ended);
        // The witness is gone before anybody hears that the command is.
        let _ = relaying.join();
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
    use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::{Duration, Instant};

    use rustix::io::Errno;
    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
    use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    use signal_hook::iterator::SignalsInfo;
    use signal_hook::iterator::exfiltrator::origin::WithOrigin;
    use signal_hook::low_level::siginfo::{Cause, Origin};

    use super::Child;
    use super::witness::Witness;

    const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
    /// Within which time the same signal to several processes, or twice to one,
    /// is one. What sends a signal to each process of a tree takes some
    /// milliseconds for it; nobody repeats himself as quickly.
    const WAVE: Duration = Duration::from_millis(500);

    /// What bears on whether a signal is passed on.
    pub(super) enum Event {
        /// A process sent this process a signal.
        Signal { signal: i32, at: Instant },
        /// The witness was ended by a signal.
        Witnessed { signal: i32, at: Instant },
        /// The command has ended.
        Ended,
    }

    impl Event {
        /// Reads a signal; none if the kernel sent it: then it came from the
        /// terminal, whose whole group of processes has it already.
        pub(super) fn of(origin: &Origin) -> Option<Self> {
            (!matches!(origin.cause, Cause::Kernel)).then(|| Self::Signal {
                signal: origin.signal,
                at: Instant::now(),
            })
        }
    }

    /// A signal of which something is known.
    #[derive(Clone, Copy)]
    struct Seen {
        signal: i32,
        at: Instant,
    }

    /// Passes on the signals that reached this process alone.
    pub(super) struct Relay {
        pid: Pid,
        /// Whether the command still has its number.
        running: Arc<Mutex<bool>>,
        events: Sender<Event>,
        /// None where it cannot be started: then everything is passed on.
        witness: Option<Witness>,
        /// What is passed on unless the witness gets it too.
        pending: Vec<Seen>,
        /// What the witness got lately, and so the command.
        witnessed: Vec<Seen>,
    }

    impl Relay {
        pub(super) fn new(
            pid: Pid,
            running: Arc<Mutex<bool>>,
            witness: Option<Witness>,
            events: Sender<Event>,
        ) -> Self {
            Self {
                pid,
                running,
                witness,
                events,
                pending: Vec::new(),
                witnessed: Vec::new(),
            }
        }

        /// Decides about each signal until the command has ended.
        pub(super) fn run(mut self, received: &Receiver<Event>) {
            loop {
                let next = self.pending.first().map(|seen| seen.at + WAVE);
                let left = next.map(|at| at.saturating_duration_since(Instant::now()));
                let event = match left {
                    None => received.recv().map_err(|_| RecvTimeoutError::Disconnected),
                    Some(left) => received.recv_timeout(left),
                };
                match event {
                    Ok(Event::Signal { signal, at }) => self.take(Seen { signal, at }),
                    Ok(Event::Witnessed { signal, at }) => {
                        self.pending.retain(|seen| seen.signal != signal);
                        self.witnessed.push(Seen { signal, at });
                        self.witness = Witness::start(&self.events).ok();
                    }
                    Err(RecvTimeoutError::Timeout) => self.decide(),
                    Ok(Event::Ended) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        }

        fn take(&mut self, seen: Seen) {
            let near = |other: &Seen| {
                let apart = seen.at.saturating_duration_since(other.at);
                other.signal == seen.signal && apart < WAVE
            };
            self.witnessed.retain(|other| other.at.elapsed() < 2 * WAVE);
            if !self.witnessed.iter().any(near) && !self.pending.iter().any(near) {
                self.pending.push(seen);
            }
        }

        /// Passes on the oldest signal, unless it has been sent to the witness
        /// too, which a busy machine has not let end.
        fn decide(&mut self) {
            let seen = self.pending.remove(0);
            let witness = self.witness.as_ref();
            if witness.is_some_and(|witness| witness.has_got(seen.signal)) {
                return;
            }
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            if *running && let Some(signal) = Signal::from_named_raw(seen.signal) {
                // It may end in this moment, and that is as good.
                let _ = kill_process(self.pid, signal);
            }
        }
    }

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

    /// Waits until a process has ended, and leaves its number its own.
    pub(super) fn wait_for_end(pid: Pid) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(pid), options), Err(Errno::INTR)) {}
    }
}

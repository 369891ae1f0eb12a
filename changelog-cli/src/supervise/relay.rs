//! Passing signals on to the command.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;

use super::event::Event;
use super::witness::Witness;

/// The signals that are passed on.
const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
/// How far apart equal signals are taken for one. A program that signals each
/// process of a tree takes some milliseconds; a user takes longer to repeat a
/// signal.
const SAME_SIGNAL_WINDOW: Duration = Duration::from_millis(500);

/// A signal and its time.
#[derive(Clone, Copy)]
struct Seen {
    signal: i32,
    at: Instant,
}

/// Passes on the signals that reached only this process.
pub(super) struct Relay {
    pid: Pid,
    /// Whether the process id still is that of the command.
    running: Arc<Mutex<bool>>,
    events: Sender<Event>,
    /// The command and its arguments.
    command_line: Vec<OsString>,
    /// None if it cannot be started; all signals are then passed on.
    witness: Option<Witness>,
    /// The signals to pass on unless the witness gets them too.
    pending: Vec<Seen>,
    /// The signals that recently reached the witness, and so the command.
    witnessed: Vec<Seen>,
}

impl Relay {
    pub(super) fn new(
        pid: Pid,
        running: Arc<Mutex<bool>>,
        command_line: Vec<OsString>,
        witness: Option<Witness>,
        events: Sender<Event>,
    ) -> Self {
        Self {
            pid,
            running,
            command_line,
            witness,
            events,
            pending: Vec::new(),
            witnessed: Vec::new(),
        }
    }

    /// Handles events until the command has ended.
    pub(super) fn run(mut self, received: &Receiver<Event>) {
        loop {
            let next = self
                .pending
                .first()
                .map(|seen| seen.at + SAME_SIGNAL_WINDOW);
            let left = next.map(|at| at.saturating_duration_since(Instant::now()));
            let event = match left {
                None => received.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(left) => received.recv_timeout(left),
            };
            match event {
                Ok(Event::Signal { signal, at }) => self.add(Seen { signal, at }),
                Ok(Event::Witnessed { signal, at }) => {
                    self.pending.retain(|seen| seen.signal != signal);
                    self.witnessed.push(Seen { signal, at });
                    self.witness = Witness::start(&self.events, &self.command_line).ok();
                }
                Err(RecvTimeoutError::Timeout) => self.pass_on_oldest(),
                Ok(Event::Ended) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Adds a signal to the pending ones, unless it is a repetition.
    fn add(&mut self, seen: Seen) {
        let is_same = |other: &Seen| {
            let apart = seen.at.saturating_duration_since(other.at);
            other.signal == seen.signal && apart < SAME_SIGNAL_WINDOW
        };
        self.witnessed
            .retain(|other| other.at.elapsed() < 2 * SAME_SIGNAL_WINDOW);
        if !self.witnessed.iter().any(is_same) && !self.pending.iter().any(is_same) {
            self.pending.push(seen);
        }
    }

    /// Passes on the oldest signal, unless it was sent to the witness too, whose
    /// end a busy machine may have delayed.
    fn pass_on_oldest(&mut self) {
        let seen = self.pending.remove(0);
        let witness = self.witness.as_ref();
        if witness.is_some_and(|witness| witness.has_received(seen.signal)) {
            return;
        }
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if *running && let Some(signal) = Signal::from_named_raw(seen.signal) {
            // Fails if the command is just ending.
            let _ = kill_process(self.pid, signal);
        }
    }
}

/// Handles the signals from now on, except for those that this process ignores
/// (as with `nohup`): the command ignores them as well.
pub(super) fn signals() -> io::Result<SignalsInfo<WithOrigin>> {
    let ignored = ignored();
    let taken = PASSED_ON
        .into_iter()
        .filter(|signal| ignored & (1 << (signal - 1)) == 0);
    SignalsInfo::<WithOrigin>::new(taken)
}

/// Returns the ignored signals as bits; none if the system does not report them.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

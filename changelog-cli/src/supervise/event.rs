//! The events of a supervised command.

use std::time::Instant;

use signal_hook::low_level::siginfo::{Cause, Origin};

/// An event that decides whether a signal is passed on.
pub(super) enum Event {
    /// A process sent this process a signal.
    Signal { signal: i32, at: Instant },
    /// A signal ended the witness.
    Witnessed { signal: i32, at: Instant },
    /// The command has ended.
    Ended,
}

impl Event {
    /// Returns the event for a signal. None if the kernel sent the signal: it came
    /// from the terminal and has reached the whole process group.
    pub(super) fn of(origin: &Origin) -> Option<Self> {
        (!matches!(origin.cause, Cause::Kernel)).then(|| Self::Signal {
            signal: origin.signal,
            at: Instant::now(),
        })
    }
}

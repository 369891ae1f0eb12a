//! Whether there is a user to prompt.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user does not want prompts.
static IS_OFF: AtomicBool = AtomicBool::new(false);

/// Turns prompts off for the whole process.
pub(crate) fn turn_off() {
    IS_OFF.store(true, Ordering::Relaxed);
}

/// Returns whether there is a user to prompt.
pub(crate) fn is_interactive() -> bool {
    !IS_OFF.load(Ordering::Relaxed) && io::stdin().is_terminal() && io::stderr().is_terminal()
}

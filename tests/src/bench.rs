//! What the programs of the benchmarks share.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// Runs a benchmark if it is requested, and returns the exit code of its program.
pub fn main<E: Display>(run: impl FnOnce() -> Result<(), E>) -> ExitCode {
    if std::env::args().any(|argument| argument == "--bench") {
        return exit_code(run());
    }
    // `cargo test --all-targets` runs this too.
    note("nothing is measured without --bench: cargo bench -p changelog-tests");
    ExitCode::SUCCESS
}

/// Prints an error, and returns the exit code.
pub fn exit_code<E: Display>(done: Result<(), E>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            note(&format!("error: {failure}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints progress.
pub fn note(text: &str) {
    // Progress may be lost.
    let _ = writeln!(std::io::stderr(), "{text}");
}

//! What the programs of the benchmarks share.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use crate::Engine;

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

/// Runs a future on the two threads of a benchmark's client.
///
/// # Errors
/// The runtime cannot be started.
pub fn block_on<F: Future>(future: F) -> std::io::Result<F::Output> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build()?;
    Ok(runtime.block_on(future))
}

/// Returns the number in an environment variable, or a default.
///
/// # Panics
/// The variable is not a number.
pub fn number(name: &str, default: usize) -> usize {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// Returns the databases that `BENCH_ENGINES` names: `sqlite`, `postgres` or, by default, both.
///
/// # Panics
/// It names another one.
pub fn engines() -> Vec<Engine> {
    let names = std::env::var("BENCH_ENGINES").unwrap_or_else(|_| "sqlite,postgres".to_owned());
    let engine = |name: &str| match name.trim() {
        "sqlite" => Engine::Sqlite,
        "postgres" => Engine::Postgres,
        other => panic!("BENCH_ENGINES must name sqlite or postgres, got {other:?}"),
    };
    names.split(',').map(engine).collect()
}

/// Prints a line of a table.
pub fn print(line: &str) {
    // If standard output is closed, the line is lost.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Prints progress.
pub fn note(text: &str) {
    // Progress may be lost.
    let _ = writeln!(std::io::stderr(), "{text}");
}

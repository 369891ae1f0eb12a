//! `chlog`: the change log on the command line.
//!
//! The modules form layers. Each uses only those below it:
//!
//! ```text
//! main, cli       the command line: all commands, and what to do with mistakes
//! commands        one file per command
//! recording       sending a change, the spool  | import, terraform, supervise:
//! input           shared flags, names, prompts | independent of each other
//! environment     settings, keys, the client, git and CI
//! output          results on standard output
//! base            failures, texts, times, private files
//! ```

mod base;
mod cli;
mod commands;
mod environment;
mod import;
mod input;
mod output;
mod recording;
mod supervise;
mod terraform;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use base::failure::{Exit, Failure, Outcome};
use cli::{Cli, mistakes};
use input::complete;

fn main() -> ExitCode {
    if let Some(code) = supervise::witness::run_if_requested() {
        return code;
    }
    if let Some(code) = complete::run_if_requested(cli::command) {
        return code;
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match cli::parse(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let words: Vec<String> = arguments
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            if error.use_stderr() && mistakes::reads_terraform(&words) && !io::stdin().is_terminal()
            {
                // Terraform is running: record the change with the flags that
                // are valid.
                return end(mistakes::parse_leniently(arguments).and_then(run));
            }
            if let Some(cli) = mistakes::parse_without_invalid_values(&error, &arguments) {
                return end(run(cli));
            }
            if let Some(failure) = mistakes::explain(&error, &words) {
                return failure.report();
            }
            // Also help and version. A closed pipe is not an error.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(Exit::Usage as u8)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    end(run(cli))
}

fn end(outcome: Outcome<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|failure| failure.report())
}

fn run(cli: Cli) -> Outcome<ExitCode> {
    // One request at a time needs one thread only, and starting more takes longer
    // than many requests.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Other, format!("cannot start: {error}")))?;
    let handles_signals = cli.command.handles_signals();
    let outcome = runtime.block_on(async {
        if handles_signals {
            return Box::pin(cli::run(cli)).await;
        }
        tokio::select! {
            outcome = Box::pin(cli::run(cli)) => outcome,
            Ok(()) = tokio::signal::ctrl_c() => Err(Failure::cancelled("")),
        }
    });
    // A thread that reads standard input may never end.
    runtime.shutdown_background();
    outcome
}

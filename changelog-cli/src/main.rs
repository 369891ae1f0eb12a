//! `chlog`: the change log on the command line.

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

use clap::{CommandFactory, Parser};

use base::failure::{Exit, Failure, Outcome};
use cli::{Cli, mistakes};
use input::complete;

fn main() -> ExitCode {
    #[cfg(unix)]
    if let Some(code) = supervise::witness::answer() {
        return code;
    }
    if let Some(code) = complete::answer(Cli::command) {
        return code;
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let words: Vec<String> = arguments
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            if error.use_stderr() && mistakes::reads_terraform(&words) && !io::stdin().is_terminal()
            {
                // Terraform is at work: what it does is recorded with the flags
                // that can be understood.
                return end(mistakes::tolerant(arguments).and_then(run));
            }
            if let Some(failure) = mistakes::misplaced(&error, &words) {
                return failure.report();
            }
            // Help and version come this way too. A reader that has gone is
            // not told about it.
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
    // One request at a time needs no other threads, and starting them takes
    // longer than many a request.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Other, format!("cannot start: {error}")))?;
    let is_patient = cli.command.outlives_signals();
    let outcome = runtime.block_on(async {
        if is_patient {
            return Box::pin(cli::run(cli)).await;
        }
        tokio::select! {
            outcome = Box::pin(cli::run(cli)) => outcome,
            Ok(()) = tokio::signal::ctrl_c() => Err(Failure::cancelled("cancelled")),
        }
    });
    // Standard input that is still being read may never end.
    runtime.shutdown_background();
    outcome
}

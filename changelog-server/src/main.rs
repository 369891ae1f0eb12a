//! `changelog-server`: arguments, then the command.

use std::process::ExitCode;

use changelog_server::commands;
use changelog_server::config::Arguments;
use clap::Parser;

fn main() -> ExitCode {
    commands::run(Arguments::parse())
}

//! `chlog man`: prints manual pages.

use clap::{Args, Command};
use clap_mangen::Man;

use crate::base::failure::{Exit, Failure, Outcome};
use crate::output::Output;

/// Prints a manual page.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Command, such as log or service create
    command: Vec<String>,
}

/// Prints the manual page of the program, or of one of its commands.
pub(crate) fn run(output: &mut Output, program: Command, args: &ManArgs) -> Outcome {
    let mut program = program.disable_help_subcommand(true);
    // Sets the full names of the commands and the global options.
    program.build();
    let mut command = program;
    for name in &args.command {
        command = command
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| Failure::usage(format!("there is no command {name:?}")))?;
    }
    let name = command
        .get_display_name()
        .unwrap_or(command.get_name())
        .to_owned();
    let mut page = Vec::new();
    Man::new(command.display_name(name))
        .render(&mut page)
        .map_err(|error| Failure::new(Exit::Other, format!("cannot write the page: {error}")))?;
    output.bytes(&page)
}

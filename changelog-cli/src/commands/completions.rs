//! `chlog completions`: prints the script that sets up completions in a shell.

use clap::Args;
use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::base::failure::{Exit, Failure, Outcome};
use crate::output::Output;

/// Prints completions.
#[derive(Debug, Args)]
#[command(after_help = "\
The script runs `chlog` when Tab is pressed. It completes flags, the names of services and hosts, \
and the IDs of changes:

  source <(chlog completions bash)")]
pub(crate) struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(output: &mut Output, args: &CompletionsArgs) -> Outcome {
    let name = args.shell.to_string();
    let mut script = Vec::new();
    Shells::builtins()
        .completer(&name)
        .ok_or_else(|| Failure::usage(format!("there are no completions for {name}")))?
        .write_registration("COMPLETE", "chlog", "chlog", "chlog", &mut script)
        .map_err(|error| Failure::new(Exit::Other, format!("cannot write the script: {error}")))?;
    output.bytes(&script)
}

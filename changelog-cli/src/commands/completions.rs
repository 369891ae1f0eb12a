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
    if args.shell == Shell::Bash {
        script = without_equals_words(&script);
    }
    output.bytes(&script)
}

/// Bash passes `--service=pay` as three words: a flag, `=` and its value. Returns the
/// script with lines that leave out `=`, so that the value is completed.
fn without_equals_words(script: &[u8]) -> Vec<u8> {
    const START: &str = "    COMPREPLY=(";
    const JOIN: &str = "\
    local _chlog_words=() _chlog_at
    for _chlog_at in \"${!words[@]}\"; do
        if [[ \"${words[_chlog_at]}\" == \"=\" && $_chlog_at -lt $COMP_CWORD ]]; then
            _CLAP_COMPLETE_INDEX=$((_CLAP_COMPLETE_INDEX - 1))
        else
            _chlog_words+=(\"${words[_chlog_at]}\")
        fi
    done
    words=(\"${_chlog_words[@]}\")
";
    let script = String::from_utf8_lossy(script);
    script
        .replacen(START, &format!("{JOIN}{START}"), 1)
        .into_bytes()
}

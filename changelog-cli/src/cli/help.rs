//! What the help and the manual pages of all commands have in common: examples, and where
//! the global options are listed.

use clap::builder::StyledStr;
use clap::{Arg, Command};

/// The examples of each command that has none in its own help: the name of the command,
/// followed by its examples, indented.
const EXAMPLES: &str = include_str!("examples.txt");

/// The defaults of options that several commands share.
const DEFAULTS: [(&str, &str, &str); 2] = [
    ("run", "risk", "[default: low, or that of the settings]"),
    ("terraform", "risk", "[default: by what is changed]"),
];

/// The heading of the examples.
const EXAMPLES_HEADING: &str = "Examples:";
const GLOBAL_NOTE: &str = "`chlog --help` lists the options that all commands have, such as --url, \
                           --profile, --columns, --jq and --debug.";

/// The global options that each command lists; the others are in `chlog --help`.
const LISTED_GLOBALS: [&str; 2] = ["format", "json"];

/// Adds the examples to each command, and hides most global options in the help of the
/// subcommands.
pub(super) fn complete(command: Command) -> Command {
    let globals: Vec<Arg> = command
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .map(|arg| {
            let is_listed = LISTED_GLOBALS.contains(&arg.get_id().as_str());
            arg.clone().hide(!is_listed)
        })
        .collect();
    command.mut_subcommands(|subcommand| {
        let name = subcommand.get_name().to_owned();
        with_examples(subcommand, &name, &globals)
    })
}

/// Returns the examples of a command.
fn examples(path: &str) -> Option<&'static str> {
    let parts = EXAMPLES.trim_end().split("\n\n");
    let mut parts = parts.filter_map(|part| part.split_once(":\n"));
    parts
        .find(|(of, _)| *of == path)
        .map(|(_, examples)| examples)
}

fn with_examples(mut command: Command, path: &str, globals: &[Arg]) -> Command {
    // An argument of the same name is not replaced by the global one.
    command = command.args(globals.iter().cloned());
    let own = command.get_after_help().map(StyledStr::to_string);
    let mut help = own.unwrap_or_default();
    if let Some(examples) = examples(path).filter(|_| !help.contains(EXAMPLES_HEADING)) {
        if !help.is_empty() {
            help.push_str("\n\n");
        }
        help.push_str(EXAMPLES_HEADING);
        help.push('\n');
        help.push_str(examples);
    }
    if !help.is_empty() {
        help.push_str("\n\n");
    }
    help.push_str(GLOBAL_NOTE);
    for (_, option, default) in DEFAULTS.iter().filter(|(of, ..)| *of == path) {
        command = command.mut_arg(option, |arg| {
            let help = arg.get_help().map(StyledStr::to_string);
            arg.help(format!("{} {default}", help.unwrap_or_default()))
        });
    }
    command.after_help(help).mut_subcommands(|subcommand| {
        let path = format!("{path} {}", subcommand.get_name());
        with_examples(subcommand, &path, globals)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &Command, path: &str) {
        let mut command = command.clone();
        let help = command.render_long_help().to_string();
        assert!(help.contains(EXAMPLES_HEADING), "{path} has no examples");
        let lines = help.lines().count();
        assert!(lines < 160, "{path} has {lines} lines");
        let after = command.get_after_help().map(ToString::to_string);
        let after = after.unwrap_or_default();
        for line in after.lines().filter(|line| line.starts_with("  ")) {
            assert!(line.chars().count() <= 80, "{path}: {line}");
        }
        let is_help = |command: &&Command| command.get_name() == "help";
        for subcommand in command.get_subcommands().filter(|one| !is_help(one)) {
            check(subcommand, &format!("{path} {}", subcommand.get_name()));
        }
    }

    #[test]
    fn every_command_has_examples() {
        check(&super::super::command(), "chlog");
    }

    #[test]
    fn global_options_are_accepted_anywhere_and_listed_once() {
        let command = super::super::command();
        for line in [
            "chlog --url http://a list",
            "chlog list --url http://a",
            "chlog service list --url http://a --no-pager --jq .",
        ] {
            let matches = command
                .clone()
                .try_get_matches_from(line.split(' '))
                .unwrap();
            let url = matches.get_one::<String>("url");
            assert_eq!(url.map(String::as_str), Some("http://a"), "{line}");
        }
        let mut list = command.clone();
        let help = list.find_subcommand_mut("list").unwrap().render_long_help();
        assert!(!help.to_string().contains("--profile <"), "{help}");
        assert!(help.to_string().contains("--json"), "{help}");
    }
}

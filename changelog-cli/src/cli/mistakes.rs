//! Command lines that cannot be parsed: some mistakes are explained, and
//! `chlog terraform` records the change all the same.

use std::ffi::OsString;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Cli;
use crate::base::failure::{Failure, Outcome, warn};

/// Flags of `list` that users pass to `log` by mistake.
const LIST_FLAGS: [&str; 12] = [
    "--since",
    "--until",
    "--search",
    "-q",
    "--limit",
    "-L",
    "--page",
    "--all",
    "--min-risk",
    "--not-status",
    "--active",
    "--by",
];

/// Explains a flag of `list` that was passed to `log`.
pub(crate) fn explain(error: &clap::Error, arguments: &[String]) -> Option<Failure> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let flag = flag.split([' ', '=']).next().unwrap_or(flag);
    let known = LIST_FLAGS
        .iter()
        .find(|known| flag == **known || (!known.starts_with("--") && flag.starts_with(**known)))?;
    if command(arguments)? != "log" {
        return None;
    }
    Some(
        Failure::usage(format!(
            "{known} is not a flag of `chlog log`; did you mean `chlog list`?"
        ))
        .hint("`chlog log` records a change, `chlog list` finds changes"),
    )
}

/// Returns whether a command line is `chlog terraform` at the end of a pipe. Its
/// subcommands are not: they fail before Terraform runs.
pub(crate) fn reads_terraform(arguments: &[String]) -> bool {
    let mut words = arguments.iter().map(String::as_str);
    command(arguments) == Some("terraform")
        && !words.any(|word| matches!(word, "run" | "plan" | "help"))
}

/// Parses a command line without its invalid arguments; warns of each.
pub(crate) fn parse_leniently(mut arguments: Vec<OsString>) -> Outcome<Cli> {
    loop {
        let error = match Cli::try_parse_from(&arguments) {
            Ok(cli) => return Ok(cli),
            Err(error) => error,
        };
        let message = error.to_string();
        let message = message.lines().next().unwrap_or_default();
        warn(&format!(
            "{}; the argument is ignored, and the change is recorded",
            message.trim_start_matches("error: ")
        ));
        let count = arguments.len();
        remove_invalid(&error, &mut arguments);
        if arguments.len() == count {
            // The error names no argument: ignore all of them.
            arguments = vec!["chlog".into(), "terraform".into()];
            return Cli::try_parse_from(&arguments)
                .map_err(|error| Failure::usage(error.to_string()));
        }
    }
}

/// Removes the argument that an error names: a flag with its value, or a word.
fn remove_invalid(error: &clap::Error, arguments: &mut Vec<OsString>) {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let invalid = text(ContextKind::InvalidArg).or_else(|| text(ContextKind::InvalidSubcommand));
    let Some(invalid) = invalid.and_then(|invalid| invalid.split([' ', '=']).next()) else {
        return;
    };
    // The last one: if a flag is repeated, the second is invalid.
    let at = arguments.iter().rposition(|argument| {
        let argument = argument.to_string_lossy();
        let is_short = invalid.len() == 2 && invalid.starts_with('-') && invalid != "--";
        argument == invalid
            || argument
                .strip_prefix(invalid)
                .is_some_and(|rest| rest.starts_with('='))
            || (is_short && argument.starts_with(invalid) && !argument.starts_with("--"))
    });
    // The program and the command stay.
    let Some(at) = at.filter(|at| *at >= 1 && arguments[*at] != "terraform") else {
        return;
    };
    let flag = arguments.remove(at);
    let value = text(ContextKind::InvalidValue).filter(|_| flag == invalid);
    if value.is_some_and(|value| arguments.get(at).is_some_and(|next| next == value)) {
        arguments.remove(at);
    }
}

/// Returns the first word that is neither a flag nor the value of one.
pub(crate) fn command(arguments: &[String]) -> Option<&str> {
    let mut words = arguments.iter().skip(1).map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--url" | "--profile" | "--format" => drop(words.next()),
            flag if flag.starts_with('-') => {}
            command => return Some(command),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    fn advice(line: &str) -> Option<String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let error = parse(line).unwrap_err();
        explain(&error, &arguments).map(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_flag_of_list_passed_to_log_is_explained() {
        for line in [
            "chlog log --since 2h",
            "chlog log -q x",
            "chlog log -qx",
            "chlog log title --until=2026-11-21",
            "chlog log --all",
            "chlog log -L 5",
            "chlog --json log --page 2",
            "chlog --profile list log --limit 2",
            "chlog log --by ada",
            "chlog log title --active",
        ] {
            let advice = advice(line).unwrap();
            assert!(
                advice.contains("did you mean `chlog list`?"),
                "{line}: {advice}"
            );
        }
        assert!(advice("chlog log --frobnicate").is_none());
        assert!(advice("chlog show --since 2h").is_none());
    }

    #[test]
    fn invalid_arguments_are_ignored_and_the_rest_is_used() {
        let read = |words: &[&str]| {
            let mut all = vec!["chlog", "terraform", "--title", "Network"];
            all.extend(words);
            let arguments: Vec<String> = all.iter().map(|word| (*word).to_owned()).collect();
            assert!(reads_terraform(&arguments), "{words:?}");
            let cli = parse_leniently(all.iter().map(OsString::from).collect()).unwrap();
            format!("{cli:?}")
        };
        for words in [
            &["--rsk", "high", "--tag", "a"][..],
            &["--tag", "a", "--risk", "extreme"],
            &["--tag", "a", "--risk=extreme"],
            &["--tag", "a", "--link", "nonsense"],
            &["--tag", "a", "stray"],
            &["--tag", "a", "--nonsense", "--always=x", "-Z"],
            &["--tag", "a", "--plan"],
            &["--tag", "a", "--always", "--always"],
        ] {
            let cli = read(words);
            assert!(
                cli.contains("\"Network\"") && cli.contains("\"a\""),
                "{words:?}: {cli}"
            );
        }
        let words = ["chlog", "terraform", "run", "--rsk", "--", "apply"];
        assert!(!reads_terraform(&words.map(str::to_owned)));
    }
}

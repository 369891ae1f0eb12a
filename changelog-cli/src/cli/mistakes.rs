//! Command lines that cannot be parsed: some mistakes are explained, and
//! `chlog terraform` records the change all the same.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Cli;
use crate::base::failure::{Failure, Outcome, name_program, warn};

/// Explains a flag of `list` that was passed to `log`.
pub(crate) fn explain(error: &clap::Error, arguments: &[String]) -> Option<Failure> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let flag = flag.split([' ', '=']).next().unwrap_or(flag);
    if commands(arguments).first()? != "log" {
        return None;
    }
    let all = Cli::command();
    let mut of_list = all.find_subcommand("list")?.get_arguments();
    let known = of_list.find_map(|arg| {
        let long = arg.get_long().map(|name| format!("--{name}"));
        let short = arg.get_short().map(|name| format!("-{name}"));
        let short = short.filter(|short| !flag.starts_with("--") && flag.starts_with(short));
        long.filter(|long| flag == long).or(short)
    })?;
    Some(
        Failure::usage(format!(
            "`chlog log` has no {known} flag; did you mean `chlog list`?"
        ))
        .hint("`chlog log` records a change, `chlog list` finds changes"),
    )
}

/// Returns the failure for a title that is the name of a command: `chlog log list` is
/// probably not meant to record anything, and a change cannot be deleted with `chlog`.
pub(crate) fn refuse_command_as_title(title: &str) -> Outcome {
    let is_command = |command: &clap::Command| {
        command.get_name() == title || command.get_all_aliases().any(|alias| alias == title)
    };
    let meant = match title {
        "help" => "chlog log --help".to_owned(),
        _ if Cli::command().get_subcommands().any(is_command) => format!("chlog {title}"),
        _ => return Ok(()),
    };
    Err(Failure::usage(format!(
        "the title {title:?} is a command; did you mean `{meant}`?"
    ))
    .hint("nothing was recorded; a title has more than the name of a command"))
}

/// Returns whether a command line is `chlog terraform` at the end of a pipe. Its
/// subcommands are not: they fail before Terraform runs.
pub(crate) fn reads_terraform(arguments: &[String]) -> bool {
    commands(arguments) == ["terraform"]
}

/// Parses a command line without its invalid arguments; warns of each.
pub(crate) fn parse_leniently(mut arguments: Vec<OsString>) -> Outcome<Cli> {
    loop {
        let error = match super::parse(&arguments) {
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
            return super::parse(&arguments).map_err(|error| Failure::usage(error.to_string()));
        }
    }
}

/// Parses a command line that runs another program without the values that are invalid:
/// they often come from variables, and must not stop a deployment. Warns of each. None if
/// anything else is wrong, or if the user requires that the change is recorded.
pub(crate) fn parse_without_invalid_values(
    error: &clap::Error,
    arguments: &[OsString],
) -> Option<Cli> {
    let is_value = |error: &clap::Error| {
        matches!(
            error.kind(),
            ErrorKind::InvalidValue | ErrorKind::ValueValidation
        )
    };
    let words: Vec<String> = arguments
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let own = words.iter().take_while(|word| *word != "--");
    let own: Vec<&str> = own.map(String::as_str).collect();
    let path = commands(&words);
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let runs = match path[..] {
        ["run"] => !own.contains(&"--require-log"),
        ["terraform", "run"] => !own.contains(&"--strict"),
        _ => false,
    };
    if !runs || !is_value(error) {
        return None;
    }
    let mut arguments = arguments.to_vec();
    let mut warnings: Vec<String> = Vec::new();
    loop {
        let error = match super::parse(&arguments) {
            Ok(cli) => {
                name_program();
                for warning in &warnings {
                    warn(warning);
                }
                return Some(cli);
            }
            Err(error) if is_value(&error) => error,
            Err(_) => return None,
        };
        let message = error.to_string();
        let message = message.lines().next().unwrap_or_default();
        let message = message.trim_start_matches("error: ");
        warnings.push(format!("{message}; the value is ignored"));
        remove_value(&error, &mut arguments)?;
    }
}

/// Removes the first flag that an error names, with its value. Flags after it may be those
/// of the program to run.
fn remove_value(error: &clap::Error, arguments: &mut Vec<OsString>) -> Option<()> {
    let Some(ContextValue::String(invalid)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let flag = invalid.split([' ', '=']).next()?;
    let value = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) => value.as_str(),
        _ => "",
    };
    let words: Vec<String> = arguments
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let is_flag = |at: usize| words[at] == flag || words[at].starts_with(&format!("{flag}="));
    let has_value = |at: usize| {
        let next = words.get(at + 1);
        words[at] == format!("{flag}={value}")
            || words[at] == flag && next.is_some_and(|next| next == value)
    };
    let all = 1..words.len();
    let at = all.clone().find(|at| is_flag(*at) && has_value(*at));
    let at = at.or_else(|| all.clone().find(|at| is_flag(*at)))?;
    let end = if words[at] == flag { at + 2 } else { at + 1 };
    arguments.drain(at..end.min(words.len()));
    Some(())
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

/// Returns the command that a command line names, and its subcommands: the words that are
/// neither flags nor the values of flags.
fn commands(arguments: &[String]) -> Vec<String> {
    let mut root = Cli::command();
    // Adds the flags that all commands have, and `help`.
    root.build();
    let mut found = Vec::new();
    let mut command = &root;
    let mut words = arguments.iter().skip(1).map(String::as_str);
    while let Some(word) = words.next().filter(|word| *word != "--") {
        if word.starts_with('-') {
            if has_value_behind(command, word) {
                let _ = words.next();
            }
        } else if let Some(inner) = command.find_subcommand(word) {
            found.push(inner.get_name().to_owned());
            command = inner;
        } else if found.is_empty() {
            break;
        }
    }
    found
}

/// Returns whether the value of a flag is the next word.
fn has_value_behind(command: &clap::Command, word: &str) -> bool {
    let needs_value = |arg: &clap::Arg| {
        let is_optional = arg.get_num_args().is_some_and(|n| n.min_values() == 0);
        arg.get_action().takes_values() && !is_optional
    };
    let mut known = command.get_arguments();
    if let Some(name) = word.strip_prefix("--") {
        return known.any(|arg| arg.get_long() == Some(name) && needs_value(arg));
    }
    // Of `-abVALUE`, the first flag with a value has the rest as its value.
    let mut letters = word.chars().skip(1);
    let known: Vec<&clap::Arg> = known.filter(|arg| needs_value(arg)).collect();
    let is_valued = |letter| known.iter().any(|arg| arg.get_short() == Some(letter));
    letters.any(is_valued) && letters.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        super::super::parse(line.split_whitespace())
    }

    fn advice(line: &str) -> Option<String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let error = parse(line).unwrap_err();
        explain(&error, &arguments).map(|failure| format!("{failure:?}"))
    }

    #[test]
    fn the_name_of_a_command_is_no_title() {
        for title in ["help", "list", "ls", "terraform"] {
            assert!(refuse_command_as_title(title).is_err(), "{title}");
        }
        for title in ["Deploy", "List", "list all", "-"] {
            assert!(refuse_command_as_title(title).is_ok(), "{title}");
        }
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
    }

    #[test]
    fn a_value_of_a_flag_is_no_command() {
        for (line, expected) in [
            ("chlog --cacert ca.pem terraform --rsk high", true),
            ("chlog -o json terraform --service plan --rsk high", true),
            ("chlog -ojson --json terraform --title=run --rsk", true),
            ("chlog terraform -m run --rsk high", true),
            ("chlog terraform run --rsk -- apply", false),
            ("chlog terraform --service run plan --rsk", false),
            ("chlog terraform help --rsk", false),
            ("chlog --profile terraform list", false),
            ("chlog lst terraform", false),
            ("chlog", false),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(reads_terraform(&words), expected, "{line}");
        }
    }

    #[test]
    fn invalid_values_do_not_stop_a_program() {
        let read = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let error = super::super::parse(&arguments).unwrap_err();
            parse_without_invalid_values(&error, &arguments).map(|cli| format!("{cli:?}"))
        };
        for line in [
            "chlog run --risk  --tag a -- deploy --risk extreme",
            "chlog run --tag a --risk=extreme --link nonsense deploy --risk extreme",
            "chlog --format x run --tag a --ok-codes 1,x -- deploy --risk extreme",
            "chlog --cacert ca.pem run --tag a --risk extreme -- deploy --risk extreme",
            "chlog -v --template run run --tag a --risk extreme -- deploy --risk extreme",
        ] {
            let cli = read(line).unwrap();
            assert!(
                cli.contains("[\"deploy\", \"--risk\", \"extreme\"]"),
                "{cli}"
            );
            assert!(cli.contains("[\"a\"]"), "{cli}");
        }
        for line in [
            "chlog run --require-log --risk extreme -- deploy",
            "chlog log title --risk extreme",
            "chlog terraform run --strict --risk extreme -- apply",
        ] {
            assert!(read(line).is_none(), "{line}");
        }
        assert!(read("chlog terraform run --risk extreme -- apply").is_some());
    }
}

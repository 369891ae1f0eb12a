//! The command line of Terraform.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

use super::secrets;

/// The flags of `plan`, `apply` and `destroy` without a value. All others have
/// one, after `=` or as the next argument.
const SWITCHES: [&str; 14] = [
    "auto-approve",
    "json",
    "input",
    "lock",
    "refresh",
    "refresh-only",
    "destroy",
    "no-color",
    "compact-warnings",
    "detailed-exitcode",
    "concise",
    "consolidate-warnings",
    "consolidate-errors",
    "help",
];
/// The flags of `apply` that apply to a saved plan; the others are part of the
/// plan.
const APPLY_FLAGS: [&str; 9] = [
    "backup",
    "compact-warnings",
    "concise",
    "lock",
    "lock-timeout",
    "no-color",
    "parallelism",
    "state",
    "state-out",
];
/// The flags of `apply` that `plan` does not have.
const APPLY_ONLY_FLAGS: [&str; 3] = ["auto-approve", "backup", "state-out"];
/// The flags of `plan` that `apply` refuses.
const PLAN_ONLY_FLAGS: [&str; 3] = ["detailed-exitcode", "generate-config-out", "out"];
/// The variable with arguments that Terraform adds to each command; with the name of a
/// command after it, to that one.
const ARGUMENTS_VARIABLE: &str = "TF_CLI_ARGS";

/// A flag and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Flag {
    name: String,
    value: Option<String>,
    words: Vec<OsString>,
}

/// A command line of Terraform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    /// The global flags global the subcommand: `-chdir=…`.
    pub(super) global: Vec<OsString>,
    pub(super) command: String,
    /// The arguments after the subcommand.
    pub(super) rest: Vec<OsString>,
    /// The flags, also those that Terraform adds from the environment, before the others.
    flags: Vec<Flag>,
    /// The arguments that are neither flags nor values, also of the environment: a saved
    /// plan.
    pub(super) positional: Vec<OsString>,
}

impl CommandLine {
    /// Parses the arguments of Terraform; `variable` reads the environment.
    pub(super) fn parse(arguments: &[OsString], variable: impl Fn(&str) -> Option<String>) -> Self {
        let is_flag = |word: &OsString| word.to_string_lossy().starts_with('-');
        let at = arguments.iter().take_while(|word| is_flag(word)).count();
        let (global, behind) = arguments.split_at(at);
        let mut call = Self {
            global: global.to_vec(),
            ..Self::default()
        };
        let Some((command, rest)) = behind.split_first() else {
            return call;
        };
        call.command = command.to_string_lossy().into_owned();
        call.rest = rest.to_vec();
        // In the order in which Terraform adds them.
        let added = [arguments_variable(&call.command), ARGUMENTS_VARIABLE.into()];
        let added: Vec<OsString> = added
            .iter()
            .filter_map(|name| shlex::split(&variable(name)?))
            .flatten()
            .map(Into::into)
            .collect();
        let mut words = added.iter().chain(rest);
        while let Some(word) = words.next() {
            if !is_flag(word) {
                call.positional.push(word.clone());
                continue;
            }
            let mut flag = Flag::read(word);
            if flag.value.is_none()
                && !SWITCHES.contains(&flag.name.as_str())
                && let Some(value) = words.next()
            {
                flag.value = Some(value.to_string_lossy().into_owned());
                flag.words.push(value.clone());
            }
            call.flags.push(flag);
        }
        call
    }

    /// Returns the directory that Terraform changes to.
    pub(super) fn chdir(&self) -> Option<PathBuf> {
        let flags = self.global.iter().map(|word| Flag::read(word));
        let mut folders = flags.filter(|flag| flag.name == "chdir");
        folders.next()?.value.map(PathBuf::from)
    }

    /// Returns whether a switch is on.
    pub(super) fn has(&self, name: &str) -> bool {
        let last = self.last(name);
        last.is_some_and(|flag| flag.value.as_deref().is_none_or(is_true))
    }

    /// Returns whether a switch is explicitly off.
    pub(super) fn has_disabled(&self, name: &str) -> bool {
        let last = self.last(name);
        last.is_some_and(|flag| flag.value.as_deref().is_some_and(|value| !is_true(value)))
    }

    /// Returns the value of a flag.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        self.last(name)?.value
    }

    /// Returns the last flag with a name.
    fn last(&self, name: &str) -> Option<Flag> {
        let mut flags = self.flags.iter();
        flags.rfind(|flag| flag.name == name).cloned()
    }

    /// Returns whether there are flags that only `plan` has.
    pub(super) fn has_plan_only(&self) -> bool {
        let mut flags = self.flags.iter();
        flags.any(|flag| PLAN_ONLY_FLAGS.contains(&flag.name.as_str()))
    }

    /// Returns the arguments for planning what is to be applied.
    pub(super) fn to_plan(&self) -> Vec<OsString> {
        self.words(|name| !APPLY_ONLY_FLAGS.contains(&name))
    }

    /// Returns the arguments for applying what was planned.
    pub(super) fn to_apply(&self) -> Vec<OsString> {
        self.words(|name| APPLY_FLAGS.contains(&name))
    }

    fn words(&self, wanted: impl Fn(&str) -> bool) -> Vec<OsString> {
        let flags = self.flags.iter().filter(|flag| wanted(&flag.name));
        flags.flat_map(|flag| flag.words.clone()).collect()
    }

    /// Returns the values of the variables on the command line.
    pub(super) fn secrets(&self) -> Vec<String> {
        let variables = self.flags.iter().filter(|flag| flag.name == "var");
        let values = variables.filter_map(|flag| flag.value.as_deref()?.split_once('='));
        values
            .flat_map(|(_, value)| secrets::pieces(value))
            .collect()
    }
}

/// Keeps Terraform from adding arguments of the environment to a command that the user did
/// not call.
pub(super) fn without_added(command: &mut Command, name: &str) {
    command.env_remove(ARGUMENTS_VARIABLE);
    command.env_remove(arguments_variable(name));
}

/// Returns the name of the variable with the arguments of a command.
fn arguments_variable(command: &str) -> String {
    format!("{ARGUMENTS_VARIABLE}_{command}")
}

impl Flag {
    fn read(word: &OsStr) -> Self {
        let text = word.to_string_lossy();
        let text = text.trim_start_matches('-');
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        Self {
            name: name.to_owned(),
            value,
            words: vec![word.to_owned()],
        }
    }
}

fn is_true(value: &str) -> bool {
    matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> CommandLine {
        let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        CommandLine::parse(&words, |_| None)
    }

    fn joined(words: &[OsString]) -> String {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn a_command_line_is_parsed() {
        let line = call(
            "-chdir=infra apply -auto-approve -var a=hunter2 --lock-timeout=5s -parallelism 3 \
             -target module.x -lock=false tfplan",
        );
        assert_eq!(line.command, "apply");
        assert_eq!(line.chdir(), Some(PathBuf::from("infra")));
        assert_eq!(line.positional, ["tfplan"]);
        assert!(line.has("auto-approve") && !line.has("json") && line.has_disabled("lock"));
        assert_eq!(line.secrets(), ["hunter2"]);
        assert_eq!(
            joined(&line.to_plan()),
            "-var a=hunter2 --lock-timeout=5s -parallelism 3 -target module.x -lock=false"
        );
        assert_eq!(
            joined(&line.to_apply()),
            "--lock-timeout=5s -parallelism 3 -lock=false"
        );
        let off = call("apply -auto-approve=false");
        assert!(!off.has("auto-approve"));
        assert_eq!(CommandLine::parse(&[], |_| None), CommandLine::default());
    }

    #[test]
    fn arguments_of_the_environment_are_those_of_the_command() {
        let variable = |name: &str| match name {
            "TF_CLI_ARGS" => Some("-input=false -lock=false".to_owned()),
            "TF_CLI_ARGS_apply" => {
                Some("-auto-approve -backup old -var 'a=one two' -lock=true".to_owned())
            }
            "TF_CLI_ARGS_plan" => Some("-destroy -detailed-exitcode".to_owned()),
            _ => None,
        };
        let words = ["apply", "-parallelism=3"].map(OsString::from);
        let apply = CommandLine::parse(&words, variable);
        assert!(apply.has("auto-approve") && apply.has_disabled("lock"));
        assert!(!apply.has("destroy") && !apply.has_plan_only());
        assert_eq!(
            joined(&apply.to_plan()),
            "-var a=one two -lock=true -input=false -lock=false -parallelism=3"
        );
        assert_eq!(
            joined(&apply.to_apply()),
            "-backup old -lock=true -lock=false -parallelism=3"
        );
        assert_eq!(joined(&apply.rest), "-parallelism=3");
        assert_eq!(apply.secrets(), ["one two"]);
        let plan = CommandLine::parse(&["plan".into()], variable);
        assert!(plan.has("destroy") && plan.has_plan_only());
    }
}

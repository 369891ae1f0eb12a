//! How Terraform is called: what its command line asks for, which program it
//! is, and what around it is known.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// The flags that take no value, of `plan`, `apply` and `destroy`; every other
/// takes one, behind `=` or as the next word.
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
/// The flags of `apply` that a saved plan is applied with; the others are part
/// of the plan.
const OF_APPLYING: [&str; 9] = [
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
/// The flags of `apply` that `plan` does not know.
const NOT_OF_PLANNING: [&str; 3] = ["auto-approve", "backup", "state-out"];
/// The largest lock file that is read, in bytes, and the most providers named.
const MAX_LOCK_FILE: u64 = 1024 * 1024;
const MAX_PROVIDERS: usize = 20;

/// A flag with the words that it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Flag {
    name: String,
    value: Option<String>,
    words: Vec<OsString>,
}

/// A command line of Terraform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    /// What stands before the command: `-chdir=…`.
    pub(crate) before: Vec<OsString>,
    pub(crate) command: String,
    /// What stands behind it, as it was given.
    pub(crate) rest: Vec<OsString>,
    flags: Vec<Flag>,
    /// What is neither a flag nor the value of one: a saved plan.
    pub(crate) named: Vec<OsString>,
}

impl Call {
    pub(crate) fn read(arguments: &[OsString]) -> Self {
        let is_flag = |word: &OsString| word.to_string_lossy().starts_with('-');
        let at = arguments.iter().take_while(|word| is_flag(word)).count();
        let (before, behind) = arguments.split_at(at);
        let mut call = Self {
            before: before.to_vec(),
            ..Self::default()
        };
        let Some((command, rest)) = behind.split_first() else {
            return call;
        };
        call.command = command.to_string_lossy().into_owned();
        call.rest = rest.to_vec();
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            if !is_flag(word) {
                call.named.push(word.clone());
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

    /// Returns the folder that Terraform changes to.
    pub(crate) fn chdir(&self) -> Option<PathBuf> {
        let flags = self.before.iter().map(|word| Flag::read(word));
        let mut folders = flags.filter(|flag| flag.name == "chdir");
        folders.next()?.value.map(PathBuf::from)
    }

    /// Tells whether a switch is on, here or in what Terraform adds to every
    /// command line from its environment; what stands here counts last.
    pub(crate) fn has(&self, name: &str) -> bool {
        let added = self.added();
        let mut flags = added.iter().chain(&self.flags).rev();
        let last = flags.find(|flag| flag.name == name);
        last.is_some_and(|flag| flag.value.as_deref().is_none_or(is_true))
    }

    /// Tells whether a switch is turned off.
    pub(crate) fn has_not(&self, name: &str) -> bool {
        let added = self.added();
        let mut flags = added.iter().chain(&self.flags).rev();
        let last = flags.find(|flag| flag.name == name);
        last.is_some_and(|flag| flag.value.as_deref().is_some_and(|value| !is_true(value)))
    }

    /// Returns the value of a flag.
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        let added = self.added();
        let mut flags = added.iter().chain(&self.flags).rev();
        flags.find(|flag| flag.name == name)?.value.clone()
    }

    /// Returns the words to plan with what is to be applied.
    pub(crate) fn to_plan(&self) -> Vec<OsString> {
        self.words(|name| !NOT_OF_PLANNING.contains(&name))
    }

    /// Returns the words to apply with what was planned.
    pub(crate) fn to_apply(&self) -> Vec<OsString> {
        self.words(|name| OF_APPLYING.contains(&name))
    }

    fn words(&self, wanted: impl Fn(&str) -> bool) -> Vec<OsString> {
        let flags = self.flags.iter().filter(|flag| wanted(&flag.name));
        flags.flat_map(|flag| flag.words.clone()).collect()
    }

    /// Returns the values of variables that stand on the command line.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let variables = self.flags.iter().filter(|flag| flag.name == "var");
        let values = variables.filter_map(|flag| flag.value.as_deref()?.split_once('='));
        values.flat_map(|(_, value)| pieces(value)).collect()
    }

    /// Reads what `TF_CLI_ARGS` and `TF_CLI_ARGS_command` add.
    fn added(&self) -> Vec<Flag> {
        let own = format!("TF_CLI_ARGS_{}", self.command);
        ["TF_CLI_ARGS", &own]
            .iter()
            .filter_map(|name| std::env::var(name).ok())
            .flat_map(|words| {
                let words = words.split_whitespace();
                words
                    .filter(|word| word.starts_with('-'))
                    .map(|word| Flag::read(OsStr::new(word)))
                    .collect::<Vec<_>>()
            })
            .collect()
    }
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

/// Finds the program: the one that is named, or what the search path has.
pub(crate) fn program() -> Option<OsString> {
    if let Some(named) = std::env::var_os("CHLOG_TERRAFORM").filter(|name| !name.is_empty()) {
        return Some(named);
    }
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let has = |name: &str| {
        let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        folders.iter().any(|folder| folder.join(&name).is_file())
    };
    ["terraform", "tofu"]
        .into_iter()
        .find(|name| has(name))
        .map(Into::into)
}

/// Returns the providers that a folder's lock file has chosen, with versions.
pub(crate) fn providers(folder: &Path) -> Vec<String> {
    let path = folder.join(".terraform.lock.hcl");
    let small = fs::metadata(&path).is_ok_and(|file| file.len() <= MAX_LOCK_FILE);
    let text = if small {
        fs::read_to_string(&path)
    } else {
        return Vec::new();
    };
    providers_of(&text.unwrap_or_default())
}

fn providers_of(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut provider = None;
    for line in text.lines() {
        let quoted = line.split('"').nth(1).unwrap_or_default();
        if line.starts_with("provider ") {
            // Without the host that it came from.
            provider = quoted.split_once('/').map(|(_, name)| name);
        } else if line.trim_start().starts_with("version ")
            && let Some(name) = provider.take()
        {
            let clean = |text: &str| {
                text.chars()
                    .filter(|c| c.is_ascii_alphanumeric() || "/._-+".contains(*c))
                    .take(60)
                    .collect::<String>()
            };
            found.push(format!("{} {}", clean(name), clean(quoted)));
        }
    }
    found.truncate(MAX_PROVIDERS);
    found
}

/// Returns what of the environment is a variable of Terraform or named like a
/// secret.
pub(crate) fn secrets_of(environment: impl Iterator<Item = (OsString, OsString)>) -> Vec<String> {
    let secret = [
        "SECRET",
        "TOKEN",
        "PASSWORD",
        "PASSPHRASE",
        "API_KEY",
        "PRIVATE_KEY",
    ];
    let mut found: Vec<String> = environment
        .filter(|(name, _)| {
            let name = name.to_string_lossy().to_ascii_uppercase();
            name.starts_with("TF_VAR_") || secret.iter().any(|word| name.contains(word))
        })
        .flat_map(|(_, value)| pieces(&value.to_string_lossy()))
        .collect();
    // A value that is the beginning of another must not leave its end behind.
    found.sort_by_key(|value| std::cmp::Reverse(value.len()));
    found
}

/// Returns a value, and the texts in it if it is a list or an object.
fn pieces(value: &str) -> Vec<String> {
    let mut pieces = vec![value.trim().to_owned()];
    if value.contains('"') {
        pieces.extend(value.split('"').skip(1).step_by(2).map(str::to_owned));
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> Call {
        let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        Call::read(&words)
    }

    fn joined(words: &[OsString]) -> String {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn a_command_line_is_taken_apart() {
        let call = call(
            "-chdir=infra apply -auto-approve -var a=hunter2 --lock-timeout=5s -parallelism 3 \
             -target module.x -lock=false tfplan",
        );
        assert_eq!(call.command, "apply");
        assert_eq!(call.chdir(), Some(PathBuf::from("infra")));
        assert_eq!(call.named, ["tfplan"]);
        assert!(call.has("auto-approve") && !call.has("json") && call.has_not("lock"));
        assert_eq!(call.secrets(), ["hunter2"]);
        assert_eq!(
            joined(&call.to_plan()),
            "-var a=hunter2 --lock-timeout=5s -parallelism 3 -target module.x -lock=false"
        );
        assert_eq!(
            joined(&call.to_apply()),
            "--lock-timeout=5s -parallelism 3 -lock=false"
        );
        let off = super::Call::read(&["apply".into(), "-auto-approve=false".into()]);
        assert!(!off.has("auto-approve"));
        assert_eq!(super::Call::read(&[]), Call::default());
    }

    #[test]
    fn providers_are_named_without_the_host() {
        let text = "# made\nprovider \"registry.example.com/acme/cloud\" {\n  version     = \"5.1.0\"\n  \
                    constraints = \"~> 5.0\"\n  hashes = [\n    \"h1:abc=\",\n  ]\n}\n";
        assert_eq!(providers_of(text), ["acme/cloud 5.1.0"]);
    }

    #[test]
    fn secrets_of_the_environment_are_known() {
        let variables = [
            ("TF_VAR_list", "[\"first-one\", \"second-one\"]"),
            ("CLOUD_SECRET_ACCESS_KEY", "abcdef"),
            ("HOME", "/home/ada"),
        ];
        let found = secrets_of(
            variables
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value))),
        );
        for secret in ["first-one", "second-one", "abcdef"] {
            assert!(found.iter().any(|value| value == secret), "{found:?}");
        }
        assert!(!found.iter().any(|value| value.contains("home")));
    }
}

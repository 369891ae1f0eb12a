//! What the help and the manual pages of all commands have in common: examples, and where
//! the global options are listed.

use clap::builder::StyledStr;
use clap::{Arg, Command};

/// The examples of each command that has none in its own help.
const EXAMPLES: [(&str, &[&str]); 37] = [
    (
        "log",
        &[
            "chlog log \"Deploy api 2.3\" --service api --tag deploy",
            "chlog log --risk high  # asks for the title in a terminal",
            "git log -1 --format=%B | chlog log -F -  # title, then description",
            "chlog log \"Deploy api 2.3\" -F notes.md --web",
            "chlog log \"Move DNS\" --scheduled-for 'tomorrow 04:00' --host ns1",
            "chlog log --recover  # the text that was not recorded",
        ],
    ),
    (
        "run",
        &[
            "chlog run -- ./deploy.sh prod",
            "chlog run --service api --tag deploy --fail-risk high -- make release",
            "chlog run --ok-codes 0,2 -- terraform plan -detailed-exitcode",
        ],
    ),
    (
        "list",
        &[
            "chlog list deploy pay  # words, names or the start of an ID",
            "chlog list --risk high,medium --since 7d --service payments",
            "chlog list --columns id,title,duration,by",
            "chlog list --jq '.data[] | select(.outcome == \"failed\") | .title'",
        ],
    ),
    (
        "upcoming",
        &["chlog upcoming", "chlog upcoming --format ids"],
    ),
    (
        "watch",
        &[
            "chlog watch --risk high",
            "chlog watch --since 1h --updates  # also the last hour, and all updates",
            "chlog watch | jq -r .title  # one JSON record per line in a pipe",
        ],
    ),
    (
        "around",
        &[
            "chlog around now --service payments",
            "chlog around 08:30 --symptom 'card payments time out' --env prod",
            "chlog around '2026-11-21 08:30' --window 6h",
        ],
    ),
    (
        "show",
        &[
            "chlog show 018f4e9a",
            "chlog show @last --web",
            "chlog show 018f4e9a --jq .data.links",
        ],
    ),
    (
        "history",
        &["chlog history 018f4e9a", "chlog history @last --json"],
    ),
    (
        "start",
        &[
            "chlog start 018f4e9a",
            "chlog start  # offers the planned changes",
        ],
    ),
    (
        "done",
        &[
            "chlog done @last",
            "chlog done  # offers the changes in progress",
        ],
    ),
    (
        "rollback",
        &[
            "chlog rollback @last --reason 'Errors rose to 5 %'",
            "chlog rollback 018f4e9a --failed",
        ],
    ),
    (
        "service",
        &["chlog service list", "chlog service create search"],
    ),
    (
        "service list",
        &["chlog service list --columns name,depends_on"],
    ),
    ("service show", &["chlog service show payments"]),
    (
        "service create",
        &["chlog service create search --color '#6366f1' --depends-on ledger"],
    ),
    (
        "host",
        &[
            "chlog host list",
            "chlog host create web-2 --environment prod",
        ],
    ),
    ("host list", &["chlog host list --format csv"]),
    ("host show", &["chlog host show web-2"]),
    (
        "host create",
        &["chlog host create web-2 --environment prod --platform aws --roles web,cache"],
    ),
    ("host update", &["chlog host update web-2 --os 'Debian 13'"]),
    ("spool", &["chlog spool status", "chlog spool flush"]),
    (
        "spool status",
        &["chlog spool status --columns id,title,reason"],
    ),
    (
        "spool flush",
        &[
            "chlog spool flush",
            "chlog spool flush --from https://old.example.com",
        ],
    ),
    (
        "spool retry",
        &["chlog service create search && chlog spool retry"],
    ),
    ("spool drop", &["chlog spool drop --rejected"]),
    (
        "auth",
        &[
            "chlog auth login --url https://changes.example.com",
            "chlog auth status",
        ],
    ),
    (
        "auth login",
        &[
            "chlog auth login --url https://changes.example.com",
            "chlog auth login --profile eu --with-token < key.txt",
        ],
    ),
    ("auth list", &["chlog auth list"]),
    ("auth switch", &["chlog auth switch eu"]),
    ("auth status", &["chlog auth status --profile eu"]),
    ("auth logout", &["chlog auth logout --profile eu"]),
    (
        "import",
        &[
            "chlog import changes.ndjson --dry-run",
            "chlog import changes.csv --create-missing",
            "chlog import --git  # the tags and merges of this repository",
        ],
    ),
    (
        "export",
        &[
            "chlog export --since 30d > changes.ndjson",
            "chlog export --format csv > changes.csv",
        ],
    ),
    ("doctor", &["chlog doctor", "chlog doctor --json"]),
    (
        "health",
        &["chlog health --url https://changes.example.com"],
    ),
    (
        "completions",
        &[
            "source <(chlog completions bash)  # in ~/.bashrc",
            "chlog completions fish > ~/.config/fish/completions/chlog.fish",
        ],
    ),
    (
        "man",
        &[
            "chlog man | man -l -",
            "chlog man service create | man -l -",
            "chlog man --out ~/.local/share/man/man1  # a page for each command",
        ],
    ),
];

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

fn with_examples(mut command: Command, path: &str, globals: &[Arg]) -> Command {
    // An argument of the same name is not replaced by the global one.
    command = command.args(globals.iter().cloned());
    let own = command.get_after_help().map(StyledStr::to_string);
    let mut help = own.unwrap_or_default();
    let examples = EXAMPLES.iter().find(|(of, _)| *of == path);
    if let Some((_, lines)) = examples.filter(|_| !help.contains(EXAMPLES_HEADING)) {
        if !help.is_empty() {
            help.push_str("\n\n");
        }
        help.push_str(EXAMPLES_HEADING);
        for line in *lines {
            help.push_str("\n  ");
            help.push_str(line);
        }
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

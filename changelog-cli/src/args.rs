//! The command line: what can be said, and how it is explained.

use std::ffi::OsString;

use clap::builder::{PossibleValue, PossibleValuesParser, Styles, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueEnum};

use anstyle::AnsiColor;
use changelog_core::{Link, RiskLevel, Status};

use crate::commands::around::AroundArgs;
use crate::commands::auth::AuthCommand;
use crate::commands::completions::CompletionsArgs;
use crate::commands::export::ExportArgs;
use crate::commands::host::HostCommand;
use crate::commands::import::ImportArgs;
use crate::commands::list::ListArgs;
use crate::commands::log::LogArgs;
use crate::commands::man::ManArgs;
use crate::commands::run::RunArgs;
use crate::commands::service::ServiceCommand;
use crate::commands::show::ShowArgs;
use crate::commands::spool::SpoolCommand;
use crate::commands::terraform::TerraformArgs;
use crate::commands::update::{MoveArgs, UpdateArgs};
use crate::commands::watch::WatchArgs;
use crate::complete;
use crate::config::Defaults;
use crate::failure::{Failure, Outcome, warn};
use crate::moment::{self, Moment};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Shown at the end of `chlog --help`.
const AFTER_HELP: &str = "\
Environment:
  CHLOG_URL           where the service is
  CHLOG_API_KEY       the key; or CHLOG_API_KEY_FILE, a file with the key in it
  CHLOG_PROFILE       the profile of config.toml to use
  CHLOG_SPOOL_DIR     where changes wait while the service is away
  CHLOG_TERRAFORM     the program that `chlog terraform run` runs
  NO_COLOR            no colour

Files:
  $XDG_CONFIG_HOME/chlog/config.toml   url, profile, service, host, tags, risk, [profiles.NAME]
  .chlog.toml                          service, host, tags, risk of a project, here or upwards
                                       to the repository's root

Exit codes:
  0 done   1 other   2 usage   3 not found   4 not authorized   5 conflict
  6 refused by validation   7 service unavailable, and not kept   130 cancelled

Examples:
  chlog log \"Deploy api 2.3\" --status completed --service api --tag deploy
  git log -1 --format=%B | chlog log -F - --status completed
  chlog list --risk high --since 7d
  chlog done 018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";

/// Records infrastructure changes, and lists them.
#[derive(Debug, Parser)]
#[command(name = "chlog", version, styles = STYLES, after_help = AFTER_HELP)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Where the service is (or `CHLOG_URL`)
    #[arg(
        long,
        global = true,
        value_name = "URL",
        help_heading = "Global options"
    )]
    pub(crate) url: Option<String>,
    /// The profile of config.toml to use (or `CHLOG_PROFILE`)
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        help_heading = "Global options"
    )]
    pub(crate) profile: Option<String>,
    /// How results are written
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        help_heading = "Global options"
    )]
    format: Format,
    /// The same as --format json
    #[arg(
        long,
        global = true,
        conflicts_with = "format",
        help_heading = "Global options"
    )]
    json: bool,
}

impl Global {
    /// Says no more than whom to speak to.
    pub(crate) fn connection(url: Option<String>, profile: Option<String>) -> Self {
        Self {
            url,
            profile,
            format: Format::default(),
            json: false,
        }
    }

    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// The service's own JSON
    Json,
    /// One JSON record a line
    Ndjson,
    /// Comma-separated values with a header
    Csv,
    /// Only the ids, one a line
    Ids,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Record a change
    Log(Box<LogArgs>),
    /// Run a command, and record how it ended
    Run(Box<RunArgs>),
    /// List changes, newest first
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show changes as they are recorded
    Watch(WatchArgs),
    /// Show what changed before a moment, the most suspicious first
    Around(AroundArgs),
    /// Show one change in full
    Show(ShowArgs),
    /// Edit a change
    Update(Box<UpdateArgs>),
    /// Set a change's status to `in_progress`
    Start(MoveArgs),
    /// Set a change's status to completed
    Done(MoveArgs),
    /// Set a change's status to `rolled_back`
    Rollback(MoveArgs),
    /// Record what Terraform did, or would do
    Terraform(Box<TerraformArgs>),
    /// List, show and create services
    #[command(subcommand)]
    Service(ServiceCommand),
    /// List, show and create hosts
    #[command(subcommand)]
    Host(HostCommand),
    /// List, send and drop the changes that wait for the service
    #[command(subcommand)]
    Spool(SpoolCommand),
    /// Store the API key, check it, forget it
    #[command(subcommand)]
    Auth(AuthCommand),
    /// Record changes out of a file or a repository, each once
    Import(ImportArgs),
    /// Write all changes that match, for `chlog import`
    Export(ExportArgs),
    /// Check everything that recording a change takes
    Doctor,
    /// Ask how the service is
    Health,
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man(ManArgs),
}

impl Command {
    /// Tells whether a signal is for the command that is run, and not for us.
    pub(crate) fn outlives_signals(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Terraform(_))
    }
}

/// The fields that `log` and `update` share.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "The change")]
pub(crate) struct ChangeFields {
    /// How dangerous it is
    #[arg(long, value_name = "RISK", ignore_case = true, value_parser = risk())]
    pub(crate) risk: Option<RiskLevel>,
    /// Where it stands
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = status())]
    pub(crate) status: Option<Status>,
    /// The service it is made to; an empty name is none
    #[arg(long, value_name = "NAME|ID", add = complete::services())]
    pub(crate) service: Option<String>,
    /// The host it is made on; an empty name is none
    #[arg(long, value_name = "HOSTNAME|ID", add = complete::hosts())]
    pub(crate) host: Option<String>,
    /// A tag; repeatable, or several separated by commas
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    pub(crate) tags: Option<Vec<String>>,
    /// What is done, in full
    #[arg(short = 'm', long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// What to expect from it
    #[arg(long, value_name = "TEXT")]
    pub(crate) impact: Option<String>,
    /// Something to look at beside it, such as pipeline=https://…; repeatable
    #[arg(long = "link", value_name = "LABEL=URL", value_parser = link)]
    pub(crate) links: Option<Vec<Link>>,
    /// When it is scheduled: RFC 3339, or a date
    #[arg(long, value_name = "TIME", value_parser = moment::parse_ahead)]
    pub(crate) scheduled_for: Option<Moment>,
    /// Make the named service and host if they do not exist
    #[arg(long, help_heading = "Behaviour")]
    pub(crate) create_missing: bool,
}

impl ChangeFields {
    /// Fills what is not said from the settings.
    pub(crate) fn or(self, defaults: &Defaults) -> Self {
        Self {
            risk: self.risk.or_else(|| defaults.risk.clone()),
            service: self.service.or_else(|| defaults.service.clone()),
            host: self.host.or_else(|| defaults.host.clone()),
            tags: self.tags.or_else(|| defaults.tags.clone()),
            ..self
        }
    }
}

/// Takes the words of a risk level.
pub(crate) fn risk() -> impl TypedValueParser<Value = RiskLevel> {
    PossibleValuesParser::new(RiskLevel::WORDS).try_map(|word| word.to_lowercase().parse())
}

/// Takes the words of a status, also with a hyphen.
pub(crate) fn status() -> impl TypedValueParser<Value = Status> {
    let words = Status::WORDS.iter().map(|word| {
        PossibleValue::new(*word).aliases(match *word {
            "in_progress" => Some("in-progress"),
            "rolled_back" => Some("rolled-back"),
            _ => None,
        })
    });
    PossibleValuesParser::new(words).try_map(|word| word.to_lowercase().replace('-', "_").parse())
}

/// Reads `label=address`.
pub(crate) fn link(text: &str) -> Result<Link, String> {
    match text.split_once('=') {
        Some((label, url)) if !label.trim().is_empty() && !url.trim().is_empty() => Ok(Link {
            label: label.to_owned(),
            url: url.to_owned(),
        }),
        _ => Err("must be LABEL=URL, such as pipeline=https://ci.example.com/runs/42".to_owned()),
    }
}

/// What only reading knows, and people type behind `log` all the same.
const READING_FLAGS: [&str; 8] = [
    "--since", "--until", "--search", "-q", "--limit", "-L", "--page", "--all",
];

/// Explains a flag that belongs to `list` and was given to `log`.
pub(crate) fn misplaced(error: &clap::Error, arguments: &[String]) -> Option<Failure> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let flag = flag.split([' ', '=']).next().unwrap_or(flag);
    let known = READING_FLAGS
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

/// Returns whether a command line means `chlog terraform` at the end of a pipe:
/// not one of its subcommands, which say what is wrong before anything is done.
pub(crate) fn reads_terraform(arguments: &[String]) -> bool {
    let mut words = arguments.iter().map(String::as_str);
    command(arguments) == Some("terraform")
        && !words.any(|word| matches!(word, "run" | "plan" | "help"))
}

/// Parses a command line without the words that cannot be understood, each of
/// which is reported.
pub(crate) fn tolerant(mut arguments: Vec<OsString>) -> Outcome<Cli> {
    loop {
        let error = match Cli::try_parse_from(&arguments) {
            Ok(cli) => return Ok(cli),
            Err(error) => error,
        };
        let said = error.to_string();
        let said = said.lines().next().unwrap_or_default();
        warn(&format!(
            "{}; it is left out, and the change is recorded",
            said.trim_start_matches("error: ")
        ));
        let count = arguments.len();
        remove_wrong(&error, &mut arguments);
        if arguments.len() == count {
            // It does not say which: then without any.
            arguments = vec!["chlog".into(), "terraform".into()];
            return Cli::try_parse_from(&arguments)
                .map_err(|error| Failure::usage(error.to_string()));
        }
    }
}

/// Removes what an error complains of: a flag with its value, or a word.
fn remove_wrong(error: &clap::Error, arguments: &mut Vec<OsString>) {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let wrong = text(ContextKind::InvalidArg).or_else(|| text(ContextKind::InvalidSubcommand));
    let Some(wrong) = wrong.and_then(|wrong| wrong.split([' ', '=']).next()) else {
        return;
    };
    // The last: given twice, it is the second that is wrong.
    let at = arguments.iter().rposition(|argument| {
        let argument = argument.to_string_lossy();
        let is_short = wrong.len() == 2 && wrong.starts_with('-') && wrong != "--";
        argument == wrong
            || argument
                .strip_prefix(wrong)
                .is_some_and(|rest| rest.starts_with('='))
            || (is_short && argument.starts_with(wrong) && !argument.starts_with("--"))
    });
    // The program and the command stay.
    let Some(at) = at.filter(|at| *at >= 1 && arguments[*at] != "terraform") else {
        return;
    };
    let flag = arguments.remove(at);
    let value = text(ContextKind::InvalidValue).filter(|_| flag == wrong);
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
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    fn advice(line: &str) -> Option<String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let error = parse(line).unwrap_err();
        misplaced(&error, &arguments).map(|failure| format!("{failure:?}"))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_reading_flag_behind_log_is_explained() {
        for line in [
            "chlog log --since 2h",
            "chlog log -q x",
            "chlog log -qx",
            "chlog log title --until=2026-11-21",
            "chlog log --all",
            "chlog log -L 5",
            "chlog --json log --page 2",
            "chlog --profile list log --limit 2",
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
    fn what_cannot_be_understood_is_left_out_and_the_rest_counts() {
        let read = |words: &[&str]| {
            let mut all = vec!["chlog", "terraform", "--title", "Network"];
            all.extend(words);
            let arguments: Vec<String> = all.iter().map(|word| (*word).to_owned()).collect();
            assert!(reads_terraform(&arguments), "{words:?}");
            let cli = tolerant(all.iter().map(OsString::from).collect()).unwrap();
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

    #[test]
    fn words_are_taken_in_any_case_and_with_hyphens() {
        let Command::Log(log) =
            parse("chlog log x --risk HIGH --status In-Progress --tag a,b --tag c")
                .unwrap()
                .command
        else {
            panic!("not log");
        };
        assert_eq!(log.fields.risk, Some(RiskLevel::High));
        assert_eq!(log.fields.status, Some(Status::InProgress));
        assert_eq!(log.fields.tags.unwrap(), ["a", "b", "c"]);
        assert!(parse("chlog log x --risk extreme").is_err());
    }

    #[test]
    fn links_are_a_label_and_an_address() {
        let link = link("run=https://ci.example.com/?a=b").unwrap();
        assert_eq!(
            (link.label.as_str(), link.url.as_str()),
            ("run", "https://ci.example.com/?a=b")
        );
        for bad in ["", "run", "=https://x", "run="] {
            assert!(super::link(bad).is_err(), "{bad}");
        }
    }
}

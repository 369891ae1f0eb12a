//! The command line: its commands, and the function that runs each.

mod help;
pub(crate) mod mistakes;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::Styles;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use anstyle::AnsiColor;
use changelog_core::{
    Change, ChangeCreated, HistoryEntry, Host, Incident, Service, Status, Suspect,
};

use crate::base::debug;
use crate::base::failure::{Failure, Outcome, silence_notes};
use crate::commands::auth::{AuthCommand, ProfileRow};
use crate::commands::incident::IncidentCommand;
use crate::commands::spool::SpoolCommand;
use crate::commands::{
    api, around, auth, completions, doctor, export, health, history, host, import, incident, list,
    log, man, mcp, run, service, show, spool, terraform, upcoming, update, watch,
};
use crate::environment::app::App;
use crate::environment::global::Global;
use crate::output::Output;
use crate::output::format::Format;
use crate::output::record::column_names;
use crate::output::watched::Watched;
use crate::recording::spool::delivery::Delivery;
use crate::recording::spool::item::SpoolItem;
use crate::recording::spool::queued::Queued;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Printed at the end of `chlog --help`.
const AFTER_HELP: &str = include_str!("after_help.txt");

/// Record and browse infrastructure changes.
#[derive(Debug, Parser)]
#[command(name = "chlog", version, styles = STYLES, after_help = AFTER_HELP.trim_end())]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Record a change
    Log(Box<log::LogArgs>),
    /// Run a command and record its outcome
    Run(Box<run::RunArgs>),
    /// List changes, newest first
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    /// List scheduled changes, overdue ones first
    Upcoming(upcoming::UpcomingArgs),
    /// Stream new changes
    Watch(watch::WatchArgs),
    /// Rank recent changes by how likely they caused an incident
    Around(around::AroundArgs),
    /// Open, resolve, list and show incidents, and mark their cause
    #[command(subcommand)]
    Incident(incident::IncidentCommand),
    /// Show a change in full
    Show(show::ShowArgs),
    /// Show what was done to a change, when and by whom
    History(history::HistoryArgs),
    /// Edit a change
    Update(Box<update::UpdateArgs>),
    /// Append a note to the description of a change
    Note(update::NoteArgs),
    /// Mark a change as in progress
    Start(update::StatusArgs),
    /// Mark a change as completed
    Done(update::StatusArgs),
    /// Mark a change as rolled back or failed
    Rollback(update::RollbackArgs),
    /// Record a Terraform apply, destroy or plan
    Terraform(Box<terraform::TerraformArgs>),
    /// List, show, create and edit services
    #[command(subcommand)]
    Service(service::ServiceCommand),
    /// List, show, create and edit hosts
    #[command(subcommand)]
    Host(host::HostCommand),
    /// Manage changes queued while the server was unreachable
    #[command(subcommand)]
    Spool(spool::SpoolCommand),
    /// Log in and out, and check the API key
    #[command(subcommand)]
    Auth(auth::AuthCommand),
    /// Import changes from a file or git history (safe to repeat)
    Import(import::ImportArgs),
    /// Export matching changes in a form that `chlog import` can read
    Export(export::ExportArgs),
    /// Send a request to the API and print the response
    Api(api::ApiArgs),
    /// Serve the tools of the change log to an agent (Model Context Protocol)
    Mcp(mcp::McpArgs),
    /// Diagnose configuration and connectivity
    Doctor,
    /// Check the server's health
    Health,
    /// Generate a shell completion script
    Completions(completions::CompletionsArgs),
    /// Print a manual page, or write all of them
    Man(man::ManArgs),
}

/// Returns the command line with its complete help.
pub(crate) fn command() -> clap::Command {
    help::complete(Cli::command())
}

/// Parses a command line.
pub(crate) fn parse<T: Into<OsString> + Clone>(
    arguments: impl IntoIterator<Item = T>,
) -> Result<Cli, clap::Error> {
    let matches = command().try_get_matches_from(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command()))
}

impl Command {
    /// Returns whether the command handles signals itself: they are meant for the
    /// program that it runs.
    pub(crate) fn handles_signals(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Terraform(_))
    }

    fn writes_markdown(&self) -> bool {
        matches!(self, Self::Incident(IncidentCommand::Show(_)))
    }

    /// Returns the columns of the records that the command prints; `None` if it prints
    /// none, or must not fail because of a wrong one.
    fn columns(&self) -> Option<Vec<&'static str>> {
        // A change that waits in the spool is printed in place of a recorded one.
        let or_queued = |mut columns: Vec<&'static str>| {
            columns.extend(column_names::<Queued>().last());
            columns
        };
        Some(match self {
            Self::List(_) | Self::Upcoming(_) | Self::Show(_) | Self::Export(_) => {
                column_names::<Change>()
            }
            Self::Watch(args) if args.updates || args.incidents => column_names::<Watched>(),
            Self::Watch(_) => column_names::<Change>(),
            Self::Around(_) => column_names::<Suspect>(),
            Self::History(_) => column_names::<HistoryEntry>(),
            Self::Log(_) => or_queued(column_names::<ChangeCreated>()),
            Self::Update(_)
            | Self::Note(_)
            | Self::Start(_)
            | Self::Done(_)
            | Self::Rollback(_) => or_queued(column_names::<Change>()),
            Self::Incident(_) => column_names::<Incident>(),
            Self::Service(_) => column_names::<Service>(),
            Self::Host(_) => column_names::<Host>(),
            Self::Spool(SpoolCommand::Status) => column_names::<SpoolItem>(),
            Self::Auth(AuthCommand::List) => column_names::<ProfileRow>(),
            _ => return None,
        })
    }
}

/// Runs the command and returns the exit code.
pub(crate) async fn run(cli: Cli) -> Outcome<ExitCode> {
    debug::start(cli.global.debug);
    if cli.global.quiet {
        silence_notes();
    }
    let flags = cli.global.output.clone();
    if matches!(cli.command, Command::Run(_)) && flags.is_set() {
        return Err(Failure::usage(
            "the output of `chlog run` is that of the command: --format, --json, --jq, --template \
             and --columns cannot be used",
        )
        .hint("`chlog show $CHLOG_CHANGE_ID --json` prints the recorded change"));
    }
    if flags.chosen_format() == Some(Format::Md) && !cli.command.writes_markdown() {
        return Err(Failure::usage(
            "--format md: only `chlog incident show` writes Markdown",
        ));
    }
    if let Some(columns) = cli.command.columns() {
        flags.check_columns(&columns)?;
    }
    cli.global.apply();
    if let Command::Log(args) = &cli.command
        && let Some(title) = args.title()
    {
        mistakes::refuse_command_as_title(title)?;
    }
    let app = || App::new(cli.global);
    match cli.command {
        Command::Run(args) => return Box::pin(run::run(app(), *args)).await,
        Command::Terraform(args) => return Box::pin(terraform::run(app, *args)).await,
        Command::Completions(args) => completions::run(&mut Output::new(&flags)?, &args)?,
        Command::Man(args) => man::run(&mut Output::new(&flags)?, command(), &args)?,
        Command::Spool(command) => spool::run(app()?, command).await?,
        Command::Auth(command) => auth::run(app()?, command).await?,
        Command::Doctor => doctor::run(Output::new(&flags)?, app()).await?,
        Command::Health => health::run(app()?).await?,
        command => {
            let mut app = app()?;
            let done = dispatch(&mut app, command).await;
            done.map_err(|failure| app.explain(failure))?;
            Delivery::after(&app).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a command after which waiting changes are sent.
async fn dispatch(app: &mut App, command: Command) -> Outcome {
    match command {
        Command::Log(args) => log::run(app, *args).await,
        Command::List(args) => list::run(app, args).await,
        Command::Upcoming(args) => upcoming::run(app, &args).await,
        Command::Watch(args) => watch::run(app, args).await,
        Command::Around(args) => around::run(app, args).await,
        Command::Show(args) => show::run(app, &args).await,
        Command::Incident(command) => incident::run(app, command).await,
        Command::History(args) => history::run(app, &args).await,
        Command::Update(args) => update::run(app, *args).await,
        Command::Note(args) => update::add_note(app, args).await,
        Command::Start(args) => update::set_status(app, &args, Status::InProgress).await,
        Command::Done(args) => update::set_status(app, &args, Status::Completed).await,
        Command::Rollback(args) => update::roll_back(app, args).await,
        Command::Service(command) => service::run(app, command).await,
        Command::Import(args) => import::run(app, args).await,
        Command::Api(args) => api::run(app, args).await,
        Command::Mcp(args) => mcp::run(app, args).await,
        Command::Export(args) => export::run(app, args).await,
        Command::Host(command) => host::run(app, command).await,
        // The other commands are handled by `run`.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}

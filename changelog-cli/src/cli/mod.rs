//! The command line: its commands, and the function that runs each.

pub(crate) mod mistakes;

use std::process::ExitCode;

use clap::builder::Styles;
use clap::{CommandFactory, Parser, Subcommand};

use anstyle::AnsiColor;
use changelog_core::Status;

use crate::base::failure::Outcome;
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
use crate::commands::{
    around, auth, completions, doctor, export, health, host, import, list, log, man, run, service,
    show, spool, terraform, update, watch,
};
use crate::environment::app::App;
use crate::environment::global::Global;
use crate::output::Output;
use crate::recording::spool::delivery::Delivery;
use crate::recording::spool::reminder::remind;

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

/// Does what was asked, and returns what the process ends with.
pub(crate) async fn run(cli: Cli) -> Outcome<ExitCode> {
    let format = cli.global.format();
    let app = || App::new(cli.global);
    match cli.command {
        Command::Run(args) => return run::run(app(), *args).await,
        Command::Terraform(args) => return terraform::run(app, *args).await,
        Command::Completions(args) => completions::run(&mut Output::new(format), &args)?,
        Command::Man(args) => man::run(&mut Output::new(format), Cli::command(), &args)?,
        Command::Spool(command) => spool::run(app()?, command).await?,
        Command::Auth(command) => auth::run(app()?, command).await?,
        Command::Doctor => doctor::run(format, app()).await?,
        Command::Health => health::run(app()?).await?,
        command => {
            let app = app()?;
            let away = app.away();
            let delivery = Delivery::in_passing(&app);
            speak(app, command).await?;
            if let Some(delivery) = delivery.filter(|_| !away.get()) {
                delivery.spare_time().await;
            }
            remind();
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Does what is asked of the service.
async fn speak(app: App, command: Command) -> Outcome {
    match command {
        Command::Log(args) => log::run(app, *args).await,
        Command::List(args) => list::run(app, args).await,
        Command::Watch(args) => watch::run(app, args).await,
        Command::Around(args) => around::run(app, args).await,
        Command::Show(args) => show::run(app, &args).await,
        Command::Update(args) => update::run(app, *args).await,
        Command::Start(args) => update::set_status(app, &args, Status::InProgress).await,
        Command::Done(args) => update::set_status(app, &args, Status::Completed).await,
        Command::Rollback(args) => update::set_status(app, &args, Status::RolledBack).await,
        Command::Service(command) => service::run(app, command).await,
        Command::Import(args) => import::run(app, args).await,
        Command::Export(args) => export::run(app, args).await,
        Command::Host(command) => host::run(app, command).await,
        // Those that do not belong here are done above.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}

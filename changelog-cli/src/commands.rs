//! The commands, one file a verb or noun.

pub(crate) mod around;
pub(crate) mod auth;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod health;
pub(crate) mod host;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod run;
pub(crate) mod service;
pub(crate) mod show;
pub(crate) mod spool;
pub(crate) mod terraform;
pub(crate) mod update;
pub(crate) mod watch;

use std::process::ExitCode;

use changelog_core::Status;

use crate::args::{Cli, Command};
use crate::failure::Outcome;
use crate::output::Output;
use crate::session::Session;
use crate::spool::delivery::Delivery;
use crate::spool::reminder::remind;

/// Does what was asked, and returns what the process ends with.
pub(crate) async fn run(cli: Cli) -> Outcome<ExitCode> {
    let format = cli.global.format();
    let session = || Session::new(cli.global);
    match cli.command {
        Command::Run(args) => return run::run(session(), *args).await,
        Command::Terraform(args) => return terraform::run(session, *args).await,
        Command::Completions(args) => completions::run(&mut Output::new(format), &args)?,
        Command::Man(args) => man::run(&mut Output::new(format), &args)?,
        Command::Spool(command) => spool::run(session()?, command).await?,
        Command::Auth(command) => auth::run(session()?, command).await?,
        Command::Doctor => doctor::run(format, session()).await?,
        Command::Health => health::run(session()?).await?,
        command => {
            let session = session()?;
            let away = session.away();
            let delivery = Delivery::in_passing(&session);
            speak(session, command).await?;
            if let Some(delivery) = delivery.filter(|_| !away.get()) {
                delivery.spare_time().await;
            }
            remind();
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Does what is asked of the service.
async fn speak(session: Session, command: Command) -> Outcome {
    match command {
        Command::Log(args) => log::run(session, *args).await,
        Command::List(args) => list::run(session, args).await,
        Command::Watch(args) => watch::run(session, args).await,
        Command::Around(args) => around::run(session, args).await,
        Command::Show(args) => show::run(session, &args).await,
        Command::Update(args) => update::run(session, *args).await,
        Command::Start(args) => update::set_status(session, &args, Status::InProgress).await,
        Command::Done(args) => update::set_status(session, &args, Status::Completed).await,
        Command::Rollback(args) => update::set_status(session, &args, Status::RolledBack).await,
        Command::Service(command) => service::run(session, command).await,
        Command::Import(args) => import::run(session, args).await,
        Command::Export(args) => export::run(session, args).await,
        Command::Host(command) => host::run(session, command).await,
        // Those that do not belong here are done above.
        _ => Ok(()),
    }
}

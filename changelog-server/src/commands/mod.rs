//! One file a command; what they print and how they fail.

mod backup;
mod demo;
mod key;
mod org;
mod secret;
mod serve;
mod table;
mod user;

use std::io::Write;
use std::process::ExitCode;

use changelog_core::{Invalid, Organization};
use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::clock::Clock;
use crate::config::{Arguments, Command, Common};
use crate::service::StartError;
use crate::store::{BackupError, Capacity, OpenError, Purpose, Store, StoreError, Tenant};

/// Why a command failed; its text goes to standard error.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Invalid(#[from] Invalid),
    #[error("{0}")]
    Start(#[from] StartError),
    #[error("{0}")]
    Open(#[from] OpenError),
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("{0}")]
    Backup(#[from] BackupError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Client(#[from] changelog_client::Error),
}

/// Runs a command to its end: 0 done, 1 failed, 2 used wrongly.
pub fn run(arguments: Arguments) -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    match runtime.block_on(dispatch(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure),
    }
}

fn fail(failure: &Failure) -> ExitCode {
    // Standard error may be gone; there is nobody else to tell.
    let _ = writeln!(std::io::stderr(), "error: {failure}");
    match failure {
        Failure::Usage(_) | Failure::Invalid(_) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    }
}

async fn dispatch(arguments: Arguments) -> Result<(), Failure> {
    let common = arguments.common;
    match arguments.command {
        Command::Serve(serve) => serve::run(&common, serve).await,
        Command::Demo(demo) => demo::run(demo).await,
        Command::Org(command) => org::run(&common, command).await,
        Command::Key(command) => key::run(&common, command).await,
        Command::User(command) => user::run(&common, command).await,
        Command::Backup { path } => backup::run(&common, &path).await,
        Command::Openapi => print(crate::api::document()),
    }
}

/// Opens the database for one admin command.
async fn open(common: &Common) -> Result<Store, Failure> {
    let (store, _) = Store::open(
        &common.database_url,
        Purpose::Administer,
        Capacity::default(),
    )
    .await?;
    Ok(store)
}

/// Finds the one organization that the operator means.
async fn organization(store: &Store, named: &str) -> Result<(Tenant, Organization), Failure> {
    let mut found = store.organizations_named(named).await?;
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Failure::Usage(format!(
            "there is no organization {named:?}; `changelog-server org list` shows them"
        ))),
        _ => {
            let ids: Vec<String> = found
                .iter()
                .map(|(tenant, _)| tenant.id().to_string())
                .collect();
            let ids = ids.join(", ");
            Err(Failure::Usage(format!(
                "several organizations are named {named:?}; use the id: {ids}"
            )))
        }
    }
}

/// Returns the time now.
fn now() -> DateTime<Utc> {
    Clock::system().now()
}

/// Prints a line of result.
fn print(line: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout(), "{line}") {
        // Whoever reads has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Prints a result as JSON.
fn print_json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value).map_err(std::io::Error::from)?;
    print(&json)
}

/// Tells the operator something beside the result.
fn note(line: &str) {
    // Standard error may be gone; then nobody wants to know.
    let _ = writeln!(std::io::stderr(), "{line}");
}

//! One file per command, and how commands print and fail.

mod backup;
mod check;
mod demo;
mod health;
mod integration;
mod key;
mod man;
mod moving;
mod org;
mod restore;
mod schema;
mod secret;
mod secrets;
mod serve;
mod source;
mod sso;
mod status;
mod table;
mod user;
mod workload;

use std::io::Write;
use std::process::ExitCode;

use changelog_core::{Invalid, Organization};
use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::clock::Clock;
use crate::config::{Arguments, Command, Common, SecretsFile};
use crate::integrations::key_file::{self, KeyFileError, Opener};
use crate::secrets::{Secrets, SecretsError};
use crate::service::StartError;
use crate::store::{
    BackupError, Capacity, CheckError, MoveError, OpenError, Purpose, RestoreError, Store,
    StoreError, Tenant,
};

/// Why a command failed; printed to standard error.
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
    Restore(#[from] RestoreError),
    #[error("{0}")]
    Check(#[from] CheckError),
    #[error("{0}")]
    Move(#[from] MoveError),
    #[error("the database is not sound; {hint}")]
    Unsound { hint: &'static str },
    #[error("the service is not ready: {0}")]
    NotReady(String),
    #[error("the receiver did not take it: {0}")]
    NotDelivered(String),
    #[error("{0}")]
    Secrets(#[from] SecretsError),
    #[error("{0}")]
    KeyFile(#[from] KeyFileError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Client(#[from] changelog_client::Error),
}

/// Runs a command. The exit code is 0 on success, 1 on failure and 2 on wrong usage.
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
    // If standard error is closed, the failure cannot be reported.
    let _ = writeln!(std::io::stderr(), "error: {failure}");
    match failure {
        Failure::Usage(_) | Failure::Invalid(_) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    }
}

async fn dispatch(arguments: Arguments) -> Result<(), Failure> {
    let common = arguments.common;
    match arguments.command {
        Command::Serve(serve) => serve::run(&common, *serve).await,
        Command::Demo(demo) => Box::pin(demo::run(demo)).await,
        Command::Org(command) => org::run(&common, command).await,
        Command::Key(command) => key::run(&common, command).await,
        Command::User(command) => user::run(&common, command).await,
        Command::Integration(command) => integration::run(&common, command).await,
        Command::Source(command) => source::run(&common, command).await,
        Command::Workload(command) => workload::run(&common, command).await,
        Command::Sso(command) => sso::run(&common, command).await,
        Command::Secrets(command) => secrets::run(&common, &command).await,
        Command::Health(health) => health::run(&common, &health).await,
        Command::Backup { path } => backup::run(&common, &path).await,
        Command::Restore { path } => restore::run(&common, &path).await,
        Command::Check { repair } => check::run(&common, repair).await,
        Command::Move(addresses) => moving::run(&common, &addresses).await,
        Command::Status(arguments) => status::run(&common, &arguments).await,
        Command::Openapi => print(crate::api::document()),
        Command::Schema(command) => schema::run(&common, &command),
        Command::Man { out } => man::run(&out),
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

/// Opens the key file of the database for one admin command about an organization.
async fn key_file(
    common: &Common,
    store: &Store,
    tenant: Tenant,
    file: &SecretsFile,
) -> Result<Secrets, Failure> {
    let address = &common.database_url;
    let opener = Opener::Command { tenant, address };
    Ok(key_file::open(store, &file.path(address), opener).await?)
}

/// Finds an organization by its name or id; exactly one must match.
async fn organization(
    common: &Common,
    store: &Store,
    name: &str,
) -> Result<(Tenant, Organization), Failure> {
    let mut found = store.organizations_named(name).await?;
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            // The URL of another database may have a password.
            let database = &common.database_url;
            let place = if database.starts_with("sqlite:") {
                format!(" in {database}")
            } else {
                String::new()
            };
            Err(Failure::Usage(format!(
                "there is no organization {name:?}{place}; `changelog-server org list` lists them"
            )))
        }
        _ => {
            let ids: Vec<String> = found
                .iter()
                .map(|(tenant, _)| tenant.id().to_string())
                .collect();
            let ids = ids.join(", ");
            Err(Failure::Usage(format!(
                "several organizations are named {name:?}; use the id: {ids}"
            )))
        }
    }
}

/// Returns the current time.
fn now() -> DateTime<Utc> {
    Clock::system().now()
}

/// Prints a line to standard output.
fn print(line: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout(), "{line}") {
        // The reader has closed the pipe, as `head` does.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Prints a result as JSON to standard output.
fn print_json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value).map_err(std::io::Error::from)?;
    print(&json)
}

/// Prints a line that is not part of the result, to standard error.
fn note(line: &str) {
    // If standard error is closed, the line is lost.
    let _ = writeln!(std::io::stderr(), "{line}");
}

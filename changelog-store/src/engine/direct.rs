//! One connection without limits of time, for commands that read or write everything.

use std::str::FromStr;
use std::time::Duration;

use sqlx::{ConnectOptions, Connection};
use sqlx_postgres::{PgConnectOptions, PgConnection};
use sqlx_sqlite::{SqliteConnectOptions, SqliteConnection};

use super::backend::Engine;
use super::data_file;
use super::open::{OpenError, ServeLock, VERSION, version_of};

/// A connection without limits of time.
pub(crate) type Direct = Engine<SqliteConnection, PgConnection>;

/// Runs the same code on a [`Direct`] connection to either database.
macro_rules! unlimited {
    ($target:expr, |$db:ident| $body:expr) => {
        match $target {
            $crate::engine::Engine::Sqlite($db) => $body.await,
            $crate::engine::Engine::Postgres($db) => $body.await,
        }
    };
}
pub(crate) use unlimited;

/// The same for a statement of whose result only an error matters.
macro_rules! run_unlimited {
    ($target:expr, |$db:ident| $body:expr) => {
        match $target {
            $crate::engine::Engine::Sqlite($db) => $body.await.map(drop),
            $crate::engine::Engine::Postgres($db) => $body.await.map(drop),
        }
    };
}
pub(crate) use run_unlimited;

/// Ends the limits of a PostgreSQL session; those of a pooler stay.
const NO_LIMITS: &str = "SET statement_timeout = 0; SET lock_timeout = 0; \
                         SET idle_in_transaction_session_timeout = 0";
/// How long a statement waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Connects to a database that exists. What is sorted is written to temporary files.
pub(crate) async fn connect(address: &str) -> Result<Direct, OpenError> {
    if address.starts_with("sqlite:") {
        let options = SqliteConnectOptions::from_str(address)
            .map_err(OpenError::MalformedAddress)?
            .create_if_missing(false)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT);
        let path = options.get_filename().to_owned();
        if !path.exists() {
            return Err(OpenError::Missing(path));
        }
        let connection = options.connect().await.map_err(OpenError::Connect)?;
        return Ok(Engine::Sqlite(connection));
    }
    let options = PgConnectOptions::from_str(address).map_err(OpenError::MalformedAddress)?;
    let mut connection: PgConnection = options
        .application_name("changelog-server command")
        .extra_float_digits(None)
        .connect()
        .await
        .map_err(OpenError::Connect)?;
    sqlx::raw_sql(NO_LIMITS)
        .execute(&mut connection)
        .await
        .map_err(OpenError::Connect)?;
    Ok(Engine::Postgres(connection))
}

/// Keeps every process from serving a SQLite database while the result is held. On PostgreSQL
/// nothing does: stop the servers.
///
/// # Errors
/// [`OpenError::Served`] if a process serves it.
pub(crate) fn lock_out_servers(address: &str) -> Result<ServeLock, OpenError> {
    if !address.starts_with("sqlite:") {
        return Ok(None);
    }
    let options = SqliteConnectOptions::from_str(address).map_err(OpenError::MalformedAddress)?;
    let path = options.get_filename().to_owned();
    match data_file::serve_lock(&path) {
        Ok(None) => Err(OpenError::Served(path)),
        Ok(lock) => Ok(lock),
        Err(source) => Err(OpenError::File { path, source }),
    }
}

/// Returns the version of the schema of a database; 0 if it has none.
pub(crate) async fn schema_version(connection: &mut Direct) -> Result<i64, OpenError> {
    version_of(unlimited!(connection, |db| sqlx::query_as(VERSION).fetch_one(&mut *db)))
}

/// Closes a connection.
pub(crate) async fn close(connection: Direct) {
    // What cannot be closed in order is closed with the process.
    let _ = match connection {
        Engine::Sqlite(db) => db.close().await,
        Engine::Postgres(db) => db.close().await,
    };
}

//! Opening the database: from an address to connections to the newest schema.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection};

use super::backend::Engine;
use super::checkpoint::Checkpoints;
use super::connections::{Connections, ReaderGroups, SqliteParts};
use super::data_file::{self, DataFile};
use super::error::StoreError;
use super::fair_share::FairShare;
use super::generation::Generations;
use super::open_postgres::open_postgres;
use super::readers::Readers;
use super::wal_index::WalIndex;
use super::writer::Writer;
use super::{files, write_lock};

/// How long an opening process waits for PostgreSQL to answer at all.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of the database each connection keeps in memory, as SQLite takes it:
/// 4,000 KiB. The connections share the system's cache of the file.
const CACHE_KIB: &str = "-4000";
/// Connections for health checks, for keys and sessions, and for single rows.
pub(super) const HEALTH_CONNECTIONS: usize = 1;
pub(super) const SYSTEM_CONNECTIONS: usize = 2;
pub(super) const POINT_CONNECTIONS: usize = 2;
/// SQLite's transactions that wait for the writer or have it; the others wait in
/// the queues of their organizations.
const SQLITE_WRITE_PERMITS: usize = 16;

/// How much of the database this process uses, and how much of that is for one
/// organization.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// PostgreSQL's connections, at least [`Capacity::MIN_CONNECTIONS`].
    pub postgres_connections: u32,
    /// The share of lists, searches and writes under way that one organization
    /// may have, in percent.
    pub organization_share: u8,
}

impl Default for Capacity {
    fn default() -> Self {
        Self {
            postgres_connections: Self::DEFAULT_CONNECTIONS,
            organization_share: Self::DEFAULT_SHARE,
        }
    }
}

impl Capacity {
    /// PostgreSQL's connections by default.
    pub const DEFAULT_CONNECTIONS: u32 = 24;
    /// The fewest connections that every kind of work has one of.
    pub const MIN_CONNECTIONS: u32 = 10;
    /// An organization's share by default, in percent.
    pub const DEFAULT_SHARE: u8 = 50;

    /// Returns how many of `all` are for one organization.
    pub(super) fn share_of(self, all: usize) -> usize {
        (all * usize::from(self.organization_share) / 100).clamp(1, all)
    }

    /// Returns how many connections SQLite reads lists on: enough that the share of
    /// one organization keeps the processors busy.
    fn sqlite_lists() -> usize {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        (4 * processors).clamp(8, 32)
    }
}

/// What a process opens the database for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To serve it: on SQLite only one process may.
    Serve,
    /// To write the first rows, perhaps: the schema is created and brought up to
    /// date.
    Create,
    /// To run one command, perhaps while a process serves. On PostgreSQL, where this
    /// cannot be known, the schema must be up to date.
    Administer,
    /// To copy it as it is: a database that does not exist must not be created.
    Copy,
}

/// Why the database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is neither of SQLite nor of PostgreSQL.
    #[error(
        "the database address must begin with sqlite:// (such as sqlite://changelog.db) or \
         postgres:// (such as postgres://user@host/name)"
    )]
    Address,
    /// The address is malformed.
    #[error("the database address is malformed: {0}")]
    MalformedAddress(#[source] sqlx::Error),
    /// Another process serves this file.
    #[error(
        "another changelog-server is serving {0}; stop it first, or use PostgreSQL to run several"
    )]
    Served(PathBuf),
    /// The file, or one next to it, cannot be used.
    #[error("{path}: {source}")]
    File {
        /// The database file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The database refuses the connection.
    #[error("the database cannot be opened: {0}")]
    Connect(#[source] sqlx::Error),
    /// PostgreSQL does not answer.
    #[error("the database did not answer within {} seconds", CONNECT_TIMEOUT.as_secs())]
    NoAnswer,
    /// The schema is not one that this program can bring up to date.
    #[error("the database's schema cannot be used: {0}")]
    Schema(#[source] sqlx::migrate::MigrateError),
    /// The schema is older, and servers that use it may be running.
    #[error(
        "the database has the schema {found} of an older changelog-server, this one needs \
         {needed}; start `changelog-server serve` of this version, which brings it up to date"
    )]
    OldSchema {
        /// Its number; 0 for an empty database.
        found: i64,
        /// The number that is needed.
        needed: i64,
    },
    /// A pooler gives a session to several clients, and does not know which of them
    /// prepared a statement.
    #[error(
        "the pooler in front of the database confuses the prepared statements of its clients; \
         use pgbouncer 1.21 or later with max_prepared_statements above 0, or pool_mode = session"
    )]
    Pooler,
    /// The store could not begin to work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OpenError {
    /// Returns whether a later attempt may succeed: the database does not answer,
    /// is starting, or is recovering.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            // A proxy in front of a database that is down may close connections
            // that it has accepted.
            Self::NoAnswer | Self::Connect(sqlx::Error::Protocol(_)) => true,
            Self::Connect(error)
            | Self::Schema(
                MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _),
            ) => StoreError::is_transient(error),
            Self::Store(error) => matches!(error, StoreError::Unavailable(_)),
            _ => false,
        }
    }
}

/// SQLite's serve lock, held by the process that serves the database.
pub(crate) type ServeLock = Option<std::fs::File>;

/// Opens the database at an address and migrates its schema. The lock that is
/// returned with it must be held for as long as the process serves. On PostgreSQL
/// at most `write_batches` batches of writes run at the same time.
pub(crate) async fn open(
    address: &str,
    purpose: Purpose,
    capacity: Capacity,
    write_batches: usize,
) -> Result<(Connections, ServeLock), OpenError> {
    if address.starts_with("sqlite:") {
        open_sqlite(address, purpose, capacity).await
    } else if address.starts_with("postgres://") || address.starts_with("postgresql://") {
        let connections = open_postgres(address, purpose, capacity, write_batches).await?;
        Ok((connections, None))
    } else {
        Err(OpenError::Address)
    }
}

async fn open_sqlite(
    address: &str,
    purpose: Purpose,
    capacity: Capacity,
) -> Result<(Connections, ServeLock), OpenError> {
    let options = SqliteConnectOptions::from_str(address)
        .map_err(OpenError::MalformedAddress)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
        .pragma("cache_size", CACHE_KIB)
        .pragma("temp_store", "memory");
    let path = options.get_filename().to_owned();
    let in_path = |source| OpenError::File {
        path: path.clone(),
        source,
    };

    if purpose == Purpose::Copy {
        std::fs::metadata(&path).map_err(in_path)?;
    } else {
        files::prepare(&path).map_err(in_path)?;
    }
    let serve_lock = match purpose {
        Purpose::Create | Purpose::Administer | Purpose::Copy => None,
        Purpose::Serve => match data_file::serve_lock(&path).map_err(in_path)? {
            None => return Err(OpenError::Served(path)),
            lock => lock,
        },
    };
    if purpose != Purpose::Copy {
        migrate_sqlite(&options, &path, serve_lock.is_some()).await?;
    }
    let file = Arc::new(DataFile::open(&path).map_err(in_path)?);
    // Keeps the database open from here on, and with it the index of its log. The
    // log is copied into the database by a task of its own.
    let writing = options.clone().pragma("wal_autocheckpoint", "0");
    let writer = writing.connect().await.map_err(OpenError::Connect)?;
    let wal_index = Arc::new(WalIndex::open(&path).map_err(in_path)?);
    let generations = Arc::new(Generations::new(Arc::clone(&wal_index)));
    let checkpoints =
        Checkpoints::start(options.clone(), Arc::clone(&file), wal_index).map_err(in_path)?;
    let writer = Writer::start(
        writing,
        writer,
        Arc::clone(&file),
        Arc::clone(&generations),
        checkpoints,
    );
    let reading = options.read_only(true).create_if_missing(false);
    let group = |connections, share| Readers::sqlite(&reading, connections, share);
    let lists = Capacity::sqlite_lists();
    let connections = Connections {
        readers: ReaderGroups {
            health: group(HEALTH_CONNECTIONS, HEALTH_CONNECTIONS),
            system: group(SYSTEM_CONNECTIONS, SYSTEM_CONNECTIONS),
            points: group(POINT_CONNECTIONS, capacity.share_of(POINT_CONNECTIONS)),
            lists: group(lists, capacity.share_of(lists)),
        },
        writes: Engine::Sqlite(writer),
        write_permits: FairShare::new(
            SQLITE_WRITE_PERMITS,
            capacity.share_of(SQLITE_WRITE_PERMITS / 2),
        ),
        // There is one writer.
        write_batches: (1, 1),
        joins_scripts: false,
        sqlite: Some(SqliteParts { file, generations }),
    };
    Ok((connections, serve_lock))
}

/// Brings the schema of a SQLite database up to date, unless another process
/// serves it: that one knows only the schema that it started with.
async fn migrate_sqlite(
    options: &SqliteConnectOptions,
    path: &Path,
    is_ours: bool,
) -> Result<(), OpenError> {
    let in_path = |source| OpenError::File {
        path: path.to_owned(),
        source,
    };
    // sqlx's own migration lock does nothing on SQLite.
    let _guard = write_lock::acquire(path).await?;
    let mut connection = options.connect().await.map_err(OpenError::Connect)?;
    let migrator = sqlx::migrate!("migrations/sqlite");
    let needed = newest(&migrator);
    let found: Result<(Option<i64>,), _> = sqlx::query_as(VERSION).fetch_one(&mut connection).await;
    let found = version_of(found)?;
    let mut lock = None;
    if found < needed && !is_ours {
        // Held until the schema is up to date, so that no process begins to serve.
        lock = data_file::serve_lock(path).map_err(in_path)?;
        if lock.is_none() {
            return Err(OpenError::OldSchema { found, needed });
        }
    }
    migrator
        .run(&mut connection)
        .await
        .map_err(OpenError::Schema)?;
    connection.close().await.map_err(OpenError::Connect)?;
    drop(lock);
    Ok(())
}

/// Returns the number of the newest schema that this program knows.
pub(super) fn newest(migrator: &Migrator) -> i64 {
    let versions = migrator.iter().map(|migration| migration.version);
    versions.max().unwrap_or(0)
}

/// Selects the number of the schema that a database has.
const VERSION: &str = "SELECT MAX(version) FROM _sqlx_migrations WHERE success";

/// Returns the result of [`VERSION`]: 0 for a database without a schema.
fn version_of(found: Result<(Option<i64>,), sqlx::Error>) -> Result<i64, OpenError> {
    match found {
        Ok((version,)) => Ok(version.unwrap_or(0)),
        // There is no such table. Another error appears again when migrating.
        Err(sqlx::Error::Database(_)) => Ok(0),
        Err(error) => Err(OpenError::Connect(error)),
    }
}

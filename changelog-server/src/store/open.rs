//! Opening the database: from an address to a store with the newest schema.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection};

use super::checkpoint::Checkpoints;
use super::engine::Engine;
use super::feed::Feed;
use super::file::{self, DataFile};
use super::key_cache::KeyCache;
use super::version::Versions;
use super::writer::Writer;
use super::{Database, Quotas, Store, StoreError, carry_over};

/// How long a caller waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an opening process waits for PostgreSQL to answer at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// SQLite's readers: one for the keys, one for changes by id, four for lists,
/// and some for the rest.
const READERS: u32 = 8;
/// How much of the database each connection keeps in memory, in KiB; the
/// system's cache, which they share, is right behind it.
const CACHE_KIB: &str = "-4000";
/// PostgreSQL's connections of one server.
const POSTGRES_CONNECTIONS: u32 = 20;

/// What a process opens the database for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To serve it: on SQLite only one process may.
    Serve,
    /// To do one thing and leave, perhaps beside a process that serves.
    Administer,
    /// To copy it: what is not there cannot be copied, and must not be made.
    Copy,
}

/// Why the database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is not one of SQLite or PostgreSQL.
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
    /// The file or its companions cannot be used.
    #[error("{path}: {source}")]
    File {
        /// The database file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The database does not let us in.
    #[error("the database cannot be opened: {0}")]
    Connect(#[source] sqlx::Error),
    /// PostgreSQL does not answer.
    #[error("the database did not answer within {} seconds", CONNECT_TIMEOUT.as_secs())]
    NoAnswer,
    /// The schema is not one that this program can bring up to date.
    #[error("the database's schema cannot be used: {0}")]
    Schema(#[source] sqlx::migrate::MigrateError),
    /// The store could not begin its work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a served store holds on to besides itself: SQLite's serve lock.
type ServeLock = Option<std::fs::File>;

impl Store {
    /// Opens the database at an address and migrates its schema. The lock that
    /// comes with it must be held for as long as the process serves.
    pub async fn open(address: &str, purpose: Purpose) -> Result<(Self, ServeLock), OpenError> {
        if address.starts_with("sqlite:") {
            open_sqlite(address, purpose).await
        } else if address.starts_with("postgres://") || address.starts_with("postgresql://") {
            Ok((open_postgres(address).await?, None))
        } else {
            Err(OpenError::Address)
        }
    }
}

async fn open_sqlite(address: &str, purpose: Purpose) -> Result<(Store, ServeLock), OpenError> {
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

    if purpose != Purpose::Copy {
        file::prepare(&path).map_err(in_path)?;
    }
    let serve_lock = match purpose {
        Purpose::Administer => None,
        Purpose::Copy => {
            std::fs::metadata(&path).map_err(in_path)?;
            None
        }
        Purpose::Serve => match file::serve_lock(&path).map_err(in_path)? {
            None => return Err(OpenError::Served(path)),
            lock => lock,
        },
    };
    {
        // sqlx's own migration lock does nothing on SQLite.
        let _turn = file::turn_of(&path).await?;
        let mut connection = options.connect().await.map_err(OpenError::Connect)?;
        sqlx::migrate!("migrations/sqlite")
            .run(&mut connection)
            .await
            .map_err(OpenError::Schema)?;
        connection.close().await.map_err(OpenError::Connect)?;
    }
    let file = Arc::new(DataFile::open(&path).map_err(in_path)?);
    // Keeps the database open from here on, and with it the index of its log,
    // which a task of its own copies into the database.
    let writing = options.clone().pragma("wal_autocheckpoint", "0");
    let writer = writing.connect().await.map_err(OpenError::Connect)?;
    let known_keys = Versions::open(&path).map_err(in_path)?;
    let known_keys = Arc::new(KeyCache::new(known_keys));
    let checkpoints = Checkpoints::start(
        options.clone(),
        Arc::clone(&file),
        Arc::clone(&known_keys),
    )
    .map_err(in_path)?;
    let writer = Writer::start(
        writing,
        writer,
        Arc::clone(&file),
        Arc::clone(&known_keys),
        checkpoints,
    );
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .min_connections(0)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // A connection to a file does not go away by itself.
        .test_before_acquire(false)
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_lazy_with(options.read_only(true).create_if_missing(false));
    let database = Database {
        pool: Engine::Sqlite(readers),
        writes: Engine::Sqlite(writer),
        feed: Feed::default(),
        quotas: Quotas::default(),
    };
    carry_over::run(&database).await?;
    Ok((
        Store::new(database, Some(file), Some(known_keys)),
        serve_lock,
    ))
}

async fn open_postgres(address: &str) -> Result<Store, OpenError> {
    let options = PgConnectOptions::from_str(address)
        .map_err(OpenError::MalformedAddress)?
        .application_name("changelog-server")
        // The client gives up earlier; these end what it left behind.
        .options([
            ("statement_timeout", "10s"),
            ("lock_timeout", "2s"),
            ("idle_in_transaction_session_timeout", "15s"),
        ]);
    let pool = PgPoolOptions::new()
        .max_connections(POSTGRES_CONNECTIONS)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_lazy_with(options.clone());
    let patient = options.options([("statement_timeout", "0"), ("lock_timeout", "0")]);
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, patient.connect());
    let mut connection = match connecting.await {
        Ok(connection) => connection.map_err(OpenError::Connect)?,
        Err(_) => return Err(OpenError::NoAnswer),
    };
    // Not bounded: counting millions of changes takes as long as it takes, and
    // whoever opens meanwhile waits for it.
    sqlx::migrate!("migrations/postgres")
        .run(&mut connection)
        .await
        .map_err(OpenError::Schema)?;
    connection.close().await.map_err(OpenError::Connect)?;
    let database = Database {
        pool: Engine::Postgres(pool),
        writes: Engine::Postgres(()),
        feed: Feed::default(),
        quotas: Quotas::default(),
    };
    carry_over::run(&database).await?;
    Ok(Store::new(database, None, None))
}

//! Opening the database: from an address to a store with the newest schema.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection};

use super::engine::{Engine, STATEMENT_TIMEOUT};
use super::fair::FairShare;
use super::feed::Feed;
use super::file::{self, DataFile};
use super::key_cache::KeyCache;
use super::readers::{READ_TIMEOUT, Readers};
use super::version::Versions;
use super::writer::Writer;
use super::{Database, Groups, Store, StoreError, carry_over, counts};

/// How long a caller waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an opening process waits for PostgreSQL to answer at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of the database each connection keeps in memory, in KiB; the
/// system's cache, which they share, is right behind it.
const CACHE_KIB: &str = "-4000";
/// At so many pages of write-ahead log (16 MiB) a COMMIT folds it into the
/// database. Fewer, and pages that are written all the time are folded in all
/// the time; more, and the write that meets it waits longer.
const WAL_PAGES: &str = "4000";
/// Connections for health checks, for keys and sessions, and for single rows.
const HEALTH_CONNECTIONS: usize = 1;
const SYSTEM_CONNECTIONS: usize = 2;
const POINT_CONNECTIONS: usize = 2;
/// SQLite's transactions that wait for the writer or have it; the rest waits in
/// the queues of their organizations.
const SQLITE_WRITE_TURNS: usize = 16;

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
    /// PostgreSQL's connections when nothing is said.
    pub const DEFAULT_CONNECTIONS: u32 = 24;
    /// The fewest connections that every kind of work has one of.
    pub const MIN_CONNECTIONS: u32 = 10;
    /// An organization's share when nothing is said, in percent.
    pub const DEFAULT_SHARE: u8 = 50;

    /// Returns how many of something are for one organization.
    fn share_of(self, all: usize) -> usize {
        (all * usize::from(self.organization_share) / 100).clamp(1, all)
    }

    /// Returns how many connections SQLite reads lists on: more than there are
    /// processors only take turns on them.
    fn sqlite_lists() -> usize {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        (2 * processors).clamp(4, 16)
    }
}

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
    pub async fn open(
        address: &str,
        purpose: Purpose,
        capacity: Capacity,
    ) -> Result<(Self, ServeLock), OpenError> {
        if address.starts_with("sqlite:") {
            open_sqlite(address, purpose, capacity).await
        } else if address.starts_with("postgres://") || address.starts_with("postgresql://") {
            Ok((open_postgres(address, capacity).await?, None))
        } else {
            Err(OpenError::Address)
        }
    }
}

async fn open_sqlite(
    address: &str,
    purpose: Purpose,
    capacity: Capacity,
) -> Result<(Store, ServeLock), OpenError> {
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
        let _turn = file::turn_of(&path).await.map_err(in_path)?;
        let mut connection = options.connect().await.map_err(OpenError::Connect)?;
        sqlx::migrate!("migrations/sqlite")
            .run(&mut connection)
            .await
            .map_err(OpenError::Schema)?;
        connection.close().await.map_err(OpenError::Connect)?;
    }
    let file = Arc::new(DataFile::open(&path).map_err(in_path)?);
    // Keeps the database open from here on, and with it the index of its log.
    let writing = options.clone().pragma("wal_autocheckpoint", WAL_PAGES);
    let writer = writing.connect().await.map_err(OpenError::Connect)?;
    let known_keys = Versions::open(&path).map_err(in_path)?;
    let known_keys = Arc::new(KeyCache::new(known_keys));
    let writer = Writer::start(writing, writer, Arc::clone(&file), Arc::clone(&known_keys));
    let reading = options.read_only(true).create_if_missing(false);
    let group = |connections| {
        let share = capacity.share_of(connections);
        Readers::sqlite(&reading, connections, share)
    };
    let database = Database {
        readers: Groups {
            health: group(HEALTH_CONNECTIONS),
            system: group(SYSTEM_CONNECTIONS),
            points: group(POINT_CONNECTIONS),
            lists: group(Capacity::sqlite_lists()),
        },
        writes: Engine::Sqlite(writer),
        write_turns: FairShare::new(
            SQLITE_WRITE_TURNS,
            capacity.share_of(SQLITE_WRITE_TURNS / 2),
        ),
        // One writer, for all of them together.
        creation_batches: (1, 1),
        feed: Feed::default(),
    };
    carry_over::run(&database).await?;
    Ok((
        Store::new(database, Some(file), Some(known_keys)),
        serve_lock,
    ))
}

async fn open_postgres(address: &str, capacity: Capacity) -> Result<Store, OpenError> {
    let options = PgConnectOptions::from_str(address)
        .map_err(OpenError::MalformedAddress)?
        .application_name("changelog-server")
        .options([
            ("lock_timeout", "2s"),
            ("idle_in_transaction_session_timeout", "15s"),
        ]);
    let patient = options
        .clone()
        .options([("statement_timeout", "0"), ("lock_timeout", "0")]);
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

    let pool = |connections: usize, limit: Duration| {
        let limit = format!("{}ms", limit.as_millis());
        PgPoolOptions::new()
            .max_connections(u32::try_from(connections).unwrap_or(u32::MAX))
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_lazy_with(options.clone().options([("statement_timeout", limit)]))
    };
    let group = |connections: usize| {
        let pool = pool(connections, READ_TIMEOUT);
        Readers::postgres(pool, connections, capacity.share_of(connections))
    };
    let connections = capacity
        .postgres_connections
        .max(Capacity::MIN_CONNECTIONS)
        .try_into()
        .unwrap_or(usize::MAX);
    let rest = connections - HEALTH_CONNECTIONS - SYSTEM_CONNECTIONS - POINT_CONNECTIONS;
    let writing = rest / 2;
    // One batch more than an organization may have is for the others.
    let creation_batches = writing.div_ceil(2).min(counts::SLOTS + 1);
    let transactions = writing - creation_batches;
    let database = Database {
        readers: Groups {
            health: group(HEALTH_CONNECTIONS),
            system: group(SYSTEM_CONNECTIONS),
            points: group(POINT_CONNECTIONS),
            lists: group(rest - writing),
        },
        // The client gives up at the same moment; this ends what it left behind.
        writes: Engine::Postgres(pool(writing, STATEMENT_TIMEOUT)),
        write_turns: FairShare::new(transactions, capacity.share_of(transactions)),
        creation_batches: (creation_batches, (creation_batches - 1).max(1)),
        feed: Feed::default(),
    };
    carry_over::run(&database).await?;
    Ok(Store::new(database, None, None))
}

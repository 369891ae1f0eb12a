//! Opening SQLite: the lock of the serving process, the newest schema, the connections.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::{ConnectOptions, Connection};
use sqlx_sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use crate::engine::backend::Engine;
use crate::engine::checkpoint::Checkpoints;
use crate::engine::connections::{Connections, ReaderGroups, SqliteParts};
use crate::engine::data_file::{self, DataFile};
use crate::engine::fair_share::FairShare;
use crate::engine::generation::Generations;
use crate::engine::readers::Readers;
use crate::engine::wal_index::WalIndex;
use crate::engine::writer::Writer;
use crate::engine::{files, write_lock};

use super::capacity::{Capacity, HEALTH_CONNECTIONS, POINT_CONNECTIONS, SYSTEM_CONNECTIONS};
use super::error::{OpenError, Purpose};
use super::schema::{VERSION, newest, version_of};

/// How much of the database each connection keeps in memory, as SQLite takes it:
/// 4,000 KiB. The connections share the system's cache of the file.
const CACHE_KIB: &str = "-4000";
/// SQLite's transactions that wait for the writer or have it; the others wait in
/// the queues of their organizations.
const SQLITE_WRITE_PERMITS: usize = 16;

/// SQLite's serve lock, held by the process that serves the database.
pub(crate) type ServeLock = Option<std::fs::File>;

/// Opens a file; only one process may serve it.
pub(super) async fn open(
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

    // A new database has nothing to copy or to administer: the path is wrong.
    let is_needed = purpose.leaves_it_as_it_is() || purpose == Purpose::Administer;
    if is_needed && !path.try_exists().map_err(in_path)? {
        return Err(OpenError::Missing(path));
    }
    if !purpose.leaves_it_as_it_is() {
        files::prepare(&path).map_err(in_path)?;
    }
    let serve_lock = match purpose {
        Purpose::Create
        | Purpose::Move
        | Purpose::Administer
        | Purpose::Copy
        | Purpose::Inspect => None,
        Purpose::Serve => match data_file::serve_lock(&path).map_err(in_path)? {
            None => return Err(OpenError::Served(path)),
            lock => lock,
        },
    };
    if !purpose.leaves_it_as_it_is() {
        migrate_sqlite(&options, &path, serve_lock.is_some()).await?;
    }
    let file = Arc::new(DataFile::open(&path).map_err(in_path)?);
    // Keeps the database open from here on, and with it the index of its log. The
    // log is copied into the database by a task of its own.
    let writing = options.clone().pragma("wal_autocheckpoint", "0");
    let mut writer = writing.connect().await.map_err(OpenError::Connect)?;
    // The first read of a file that had no log creates the index.
    sqlx::raw_sql("SELECT 1 FROM sqlite_schema")
        .execute(&mut writer)
        .await
        .map_err(OpenError::Connect)?;
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
        write_outcomes: Arc::default(),
        sqlite: Some(SqliteParts { file, generations }),
    };
    Ok((connections, serve_lock))
}

/// Returns the migrations.
pub(super) fn migrator() -> Migrator {
    sqlx::migrate!("migrations/sqlite")
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
    let migrator = migrator();
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

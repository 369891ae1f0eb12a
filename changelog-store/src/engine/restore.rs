//! Puts a backup in the place of a SQLite database.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::{ConnectOptions, Connection};
use sqlx_sqlite::SqliteConnectOptions;

use super::backup::{BackupError, copy_checked, sync_folder_of};
use super::files::{self, companion};
use super::open::OpenError;
use super::{data_file, direct};
use crate::StoreError;

/// SQLite's code for a file of another kind.
const NOT_A_DATABASE: &str = "26";

/// What was restored.
#[derive(Clone, Debug, Serialize)]
pub struct Restored {
    /// The database.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Where the database is that was there before; `None` if there was none.
    pub replaced: Option<PathBuf>,
}

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The database is PostgreSQL, which has tools of its own.
    #[error("restore replaces SQLite databases; for PostgreSQL use pg_restore or psql")]
    Postgres,
    /// A process serves the database.
    #[error("a changelog-server is serving {0}; stop it first")]
    Served(PathBuf),
    /// The backup is not one of a change log.
    #[error("{0} is not a backup of a change log: it has no schema")]
    NotABackup(PathBuf),
    /// The backup is newer than this program.
    #[error(
        "the backup has the schema {found}, and this changelog-server knows up to {known}; use \
         the version that wrote it, or a newer one"
    )]
    Newer {
        /// The number of its schema.
        found: i64,
        /// The newest that is known.
        known: i64,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: Error,
    },
    /// The backup cannot be copied, or is not sound.
    #[error("{0}")]
    Copy(#[from] BackupError),
    /// The address is malformed.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Checks a backup, copies it next to the database at an address, and exchanges the two. The
/// database that was there is kept, with the time in its name.
pub async fn restore(
    address: &str,
    backup: &Path,
    now: DateTime<Utc>,
) -> Result<Restored, RestoreError> {
    if !address.starts_with("sqlite:") {
        return Err(RestoreError::Postgres);
    }
    let options = SqliteConnectOptions::from_str(address).map_err(OpenError::MalformedAddress)?;
    let path = options.get_filename().to_owned();
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| RestoreError::File { path, source }
    };
    let is_same = |one: &Path| std::fs::canonicalize(one).ok();
    if !backup.is_file() {
        let missing = Error::new(ErrorKind::NotFound, "there is no such file");
        return Err(at(backup)(missing));
    }
    if is_same(backup) == is_same(&path) {
        let same = Error::new(ErrorKind::InvalidInput, "this is the database itself");
        return Err(at(backup)(same));
    }
    // Held until the end: no process serves or begins to.
    let _lock = data_file::serve_lock(&path)
        .map_err(at(&path))?
        .ok_or_else(|| RestoreError::Served(path.clone()))?;
    check_schema(backup, address).await?;
    let copy = companion(&path, "restoring");
    match std::fs::remove_file(&copy) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(at(&copy)(error)),
        _ => {}
    }
    let mut connection = read(backup).await?;
    let bytes = copy_checked(&mut connection, &copy).await?;
    // What cannot be closed in order is closed with the process.
    let _ = connection.close().await;
    // Of the database that is replaced, or of its folder.
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let owned = if path.exists() {
        path.as_path()
    } else {
        folder.unwrap_or(Path::new("."))
    };
    files::give_to_owner_of(owned, &copy);
    let replaced = set_aside(&path, now).map_err(at(&path))?;
    std::fs::rename(&copy, &path).map_err(at(&path))?;
    sync_folder_of(&path).map_err(at(&path))?;
    Ok(Restored {
        path,
        bytes,
        replaced,
    })
}

/// Opens a backup, which may be on a medium that cannot be written to.
async fn read(backup: &Path) -> Result<sqlx_sqlite::SqliteConnection, RestoreError> {
    let has_log = companion(backup, "wal").exists();
    let options = SqliteConnectOptions::new()
        .filename(backup)
        .read_only(true)
        .immutable(!has_log);
    let connection = options.connect().await;
    Ok(connection
        .map_err(StoreError::from)
        .map_err(BackupError::from)?)
}

/// Makes sure that this program knows the schema of a backup.
async fn check_schema(backup: &Path, address: &str) -> Result<(), RestoreError> {
    let mut connection = super::Engine::Sqlite(read(backup).await?);
    let found = direct::schema_version(&mut connection).await;
    direct::close(connection).await;
    let known = super::newest_schema(address);
    let found = match found {
        Err(OpenError::Connect(sqlx::Error::Database(error)))
            if error.code().as_deref() == Some(NOT_A_DATABASE) =>
        {
            0
        }
        found => found?,
    };
    match found {
        0 => Err(RestoreError::NotABackup(backup.to_owned())),
        found if found > known => Err(RestoreError::Newer { found, known }),
        _ => Ok(()),
    }
}

/// Renames a database with its write-ahead log, if there is one. Returns its new name.
fn set_aside(path: &Path, now: DateTime<Utc>) -> std::io::Result<Option<PathBuf>> {
    if !path.try_exists()? {
        return Ok(None);
    }
    let purpose = now.format("before-restore-%Y%m%dT%H%M%S%.3fZ").to_string();
    let aside = companion(path, &purpose);
    // The log first: after a crash between the two, the database is without its last writes
    // until the log is renamed back, and is not opened with the log of another one.
    for log in ["wal", "shm"] {
        let from = companion(path, log);
        if from.try_exists()? {
            std::fs::rename(from, companion(&aside, log))?;
        }
    }
    std::fs::rename(path, &aside)?;
    files::prepare(&aside)?;
    Ok(Some(aside))
}

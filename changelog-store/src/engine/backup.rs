//! A consistent copy of a SQLite database that is in use.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use sqlx::{ConnectOptions, Connection};
use sqlx_sqlite::{SqliteConnectOptions, SqliteConnection};

use super::connections::Connections;
use super::error::StoreError;
use super::files;

/// Why no copy was made.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The database is PostgreSQL, which has tools of its own.
    #[error("backup copies SQLite databases; for PostgreSQL use pg_dump")]
    Postgres,
    /// The copy cannot be written there.
    #[error("{0}")]
    File(#[from] Error),
    /// The database could not be read, or the copy is not sound.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Connections {
    /// Writes a copy under a temporary name, checks it, makes it durable, and
    /// only then gives it its name. Only its owner can read it. Returns its size
    /// in bytes.
    pub(crate) async fn backup(&self, path: &Path) -> Result<u64, BackupError> {
        let Some(mut connection) = self.readers.lists.unbounded().await? else {
            return Err(BackupError::Postgres);
        };
        copy_checked(&mut connection, path).await
    }
}

/// Returns where a copy is written before it has its name.
pub fn partial_path(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    partial.into()
}

/// Makes the names of the files in the folder of a file durable.
pub(super) fn sync_folder_of(path: &Path) -> std::io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Does what [`Connections::backup`] says, by a connection to the database.
pub(super) async fn copy_checked(
    connection: &mut SqliteConnection,
    path: &Path,
) -> Result<u64, BackupError> {
    if path.exists() {
        let message = format!(
            "{} exists; a backup never overwrites a file",
            path.display()
        );
        return Err(Error::new(ErrorKind::AlreadyExists, message).into());
    }
    let partial = partial_path(path);
    let partial = partial.as_path();
    match std::fs::remove_file(partial) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let target = partial.to_str().ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidInput,
            "the path of a backup must be valid UTF-8",
        )
    })?;
    // SQLite writes into a file that is empty, and leaves its mode.
    drop(files::create_new(partial)?);
    // Unbounded in time, unlike every other statement: it reads everything.
    // Writes continue meanwhile; their log cannot be reused, and grows.
    sqlx::query("VACUUM INTO $1")
        .bind(target)
        .execute(&mut *connection)
        .await
        .map_err(StoreError::from)?;
    check(partial).await?;
    File::open(partial)?.sync_all()?;
    std::fs::rename(partial, path)?;
    sync_folder_of(path)?;
    Ok(std::fs::metadata(path)?.len())
}

async fn check(path: &Path) -> Result<(), StoreError> {
    let mut copy = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .connect()
        .await?;
    let (verdict,): (String,) = sqlx::query_as("PRAGMA integrity_check")
        .fetch_one(&mut copy)
        .await?;
    copy.close().await?;
    if verdict == "ok" {
        Ok(())
    } else {
        Err(StoreError::Unavailable(format!(
            "the copy is not sound: {verdict}"
        )))
    }
}

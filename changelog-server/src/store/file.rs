//! The SQLite database as a file: who may serve it, whose turn it is to write,
//! and whether it is still where it was.
//!
//! Three companions stand beside it. `NAME-serve` is locked by the one process
//! that serves the file. `NAME-turn` is locked by whichever process writes:
//! SQLite's own lock is polled, so that under steady load an admin command
//! would hardly ever find it free, while the kernel wakes who waits for a file
//! lock. `NAME-next` is locked by whichever process waits for its turn, so that
//! the service, which gives its turn back only to take it again, cannot pass
//! by whoever waits.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::StoreError;

/// A database file that is open.
#[derive(Debug)]
pub(crate) struct DataFile {
    path: PathBuf,
    /// Device and inode at the time of opening.
    identity: (u64, u64),
    turns: Turns,
}

impl DataFile {
    /// Remembers which file this path names now.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        // Absolute, so that it stays true whatever the process does later.
        let path = std::path::absolute(path)?;
        let identity = identity(&path)?;
        let turns = Turns::open(&path)?;
        Ok(Self {
            path,
            identity,
            turns,
        })
    }

    /// Fails when the path no longer names the file that was opened: SQLite
    /// would go on writing into a file that nobody will ever find.
    pub(crate) fn is_in_place(&self) -> Result<(), StoreError> {
        match identity(&self.path) {
            Ok(now) if now == self.identity => Ok(()),
            _ => Err(StoreError::Unavailable(
                "the database file was moved or replaced".into(),
            )),
        }
    }

    /// Waits for the turn to write; it ends when what is returned is dropped.
    pub(crate) async fn turn(&self) -> Result<Turn, StoreError> {
        self.turns.take().await.map_err(|error| {
            StoreError::Unavailable(format!("the turn to write could not be taken: {error}"))
        })
    }

    /// Returns the size of the write-ahead log in bytes.
    pub(crate) fn wal_bytes(&self) -> u64 {
        companion(&self.path, "wal")
            .metadata()
            .map_or(0, |found| found.len())
    }
}

/// Waits for the turn to write the database at `path`.
pub(crate) async fn turn_of(path: &Path) -> std::io::Result<Turn> {
    Turns::open(path)?.take().await
}

/// The locks that pass the turn to write from process to process.
#[derive(Debug)]
struct Turns {
    next: Arc<File>,
    turn: Arc<File>,
}

impl Turns {
    fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            next: Arc::new(open_lock(&companion(path, "next"))?),
            turn: Arc::new(open_lock(&companion(path, "turn"))?),
        })
    }

    /// Waits to be the next, then for the turn.
    async fn take(&self) -> std::io::Result<Turn> {
        let next = Turn(lock(&self.next).await?);
        let turn = Turn(lock(&self.turn).await?);
        drop(next);
        Ok(turn)
    }
}

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Arc<File>);

impl Drop for Turn {
    fn drop(&mut self) {
        // It goes with the process at the latest.
        let _ = self.0.unlock();
    }
}

async fn lock(file: &Arc<File>) -> std::io::Result<Arc<File>> {
    let file = Arc::clone(file);
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(error)) => Err(error),
        Err(TryLockError::WouldBlock) => tokio::task::spawn_blocking(move || {
            file.lock()?;
            Ok(file)
        })
        .await
        .unwrap_or_else(|stopped| Err(std::io::Error::other(stopped))),
    }
}

/// Becomes the one process that serves the database at `path`, until the
/// returned file is dropped; `None` when another process is it already.
pub(crate) fn serve_lock(path: &Path) -> std::io::Result<Option<File>> {
    let file = open_lock(&companion(path, "serve"))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn open_lock(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
}

pub(super) fn companion(path: &Path, purpose: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-");
    name.push(purpose);
    name.into()
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

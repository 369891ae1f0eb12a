//! The SQLite database as a file: which process may serve it, whether it is
//! still where it was, and which process may write.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::StoreError;
use super::files::{self, companion};
use super::write_lock::{LockGuard, WriteLock};

/// A database file that is open.
#[derive(Debug)]
pub(crate) struct DataFile {
    path: PathBuf,
    /// Device and inode at the time of opening.
    identity: (u64, u64),
    write_lock: WriteLock,
}

impl DataFile {
    /// Remembers which file a path names now.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        // Absolute, so that it names the same file when the working directory
        // changes.
        let path = std::path::absolute(path)?;
        let identity = identity(&path)?;
        let write_lock = WriteLock::open(&path)?;
        Ok(Self {
            path,
            identity,
            write_lock,
        })
    }

    /// Fails when the path no longer names the file that was opened: SQLite
    /// would continue to write into a file that has no name.
    pub(crate) fn check_in_place(&self) -> Result<(), StoreError> {
        match identity(&self.path) {
            Ok(now) if now == self.identity => Ok(()),
            _ => Err(StoreError::Unavailable(
                "the database file was moved or replaced".into(),
            )),
        }
    }

    /// Waits for the write lock, like [`WriteLock::acquire`].
    pub(crate) async fn lock_for_writing(&self) -> Result<LockGuard, StoreError> {
        self.write_lock.acquire().await
    }

    /// Fails when writes are blocked, like [`WriteLock::check_not_blocked`].
    pub(crate) fn check_writable(&self) -> Result<(), StoreError> {
        self.write_lock.check_not_blocked()
    }

    /// Opens the write lock again, for another task of this process.
    pub(crate) fn another_write_lock(&self) -> std::io::Result<WriteLock> {
        WriteLock::open(&self.path)
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.path.metadata().map_or(0, |found| found.len())
    }

    /// Returns the size of the write-ahead log in bytes.
    pub(crate) fn wal_bytes(&self) -> u64 {
        companion(&self.path, "wal")
            .metadata()
            .map_or(0, |found| found.len())
    }
}

/// Makes this process the one that serves the database at `path`, until the
/// returned file is dropped; `None` when another process serves it.
pub(crate) fn serve_lock(path: &Path) -> std::io::Result<Option<File>> {
    let (_, file) = files::open_lock(path, "serve-lock")?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

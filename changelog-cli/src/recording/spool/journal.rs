//! What runs now, so that nothing stays `in_progress` for ever: a run writes
//! down what is to be said should it never come back, and holds a lock on that
//! as long as it lives. Whoever finds the lock free says it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::{Entry, directory, new_path, no_directory, paths};
use crate::base::private_fs;

/// A run that goes on.
pub(crate) struct Journal {
    path: PathBuf,
    /// Holds the lock as long as it is open.
    lock: File,
}

impl Journal {
    /// Writes down what is to be said of a run that does not come back.
    pub(crate) fn begin(entry: &Entry) -> io::Result<Self> {
        let path = new_path(&runs(&directory().ok_or_else(no_directory)?));
        let file = written(&path, entry)?;
        Ok(Self { path, lock: file })
    }

    /// Replaces it.
    pub(crate) fn update(&mut self, entry: &Entry) -> io::Result<()> {
        self.lock = written(&self.path, entry)?;
        Ok(())
    }

    /// Takes it back: the run has come back.
    pub(crate) fn end(self) {
        // Left behind, it would be found by its free lock.
        let _ = fs::remove_file(&self.path);
    }
}

/// Writes a file that is locked before it has its name.
fn written(path: &Path, entry: &Entry) -> io::Result<File> {
    let file = private_fs::write_private(path, entry.to_json().as_bytes(), File::lock)?;
    Ok(file)
}

fn runs(spool: &Path) -> PathBuf {
    spool.join("runs")
}

/// Tells whether there may be runs that did not come back.
pub(super) fn any(spool: &Path) -> bool {
    paths(&runs(spool)).is_ok_and(|paths| !paths.is_empty())
}

/// Puts what is to be said of runs that did not come back to what waits.
pub(super) fn recover(spool: &Path) -> io::Result<()> {
    for path in paths(&runs(spool))? {
        let file = match File::open(&path) {
            Ok(file) => file,
            // It has just come back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if !is_at(&file, &path) {
            continue;
        }
        if let Some(name) = path.file_name() {
            fs::rename(&path, spool.join(name))?;
        }
    }
    Ok(())
}

/// Tells whether a file still has its name: its owner may have replaced it.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

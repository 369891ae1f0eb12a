//! The commands that run now. Before `chlog run` starts a command, it writes an
//! entry that marks the change as ended with an unknown outcome, and locks it
//! while it lives. If `chlog` is killed, the lock is free and the next process
//! sends the entry, so that no change stays `in_progress` forever.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::entry::SpoolEntry;
use super::folder;
use crate::base::private_fs;

/// The entry of a running command.
pub(crate) struct Journal {
    path: PathBuf,
    /// Holds the lock while it is open.
    lock: File,
}

impl Journal {
    /// Writes and locks the entry to send if this process is killed.
    pub(crate) fn begin(entry: &SpoolEntry) -> io::Result<Self> {
        let path = folder::new_path(&runs(&folder::required_directory()?));
        let lock = write_locked(&path, entry)?;
        Ok(Self { path, lock })
    }

    /// Replaces the entry.
    pub(crate) fn update(&mut self, entry: &SpoolEntry) -> io::Result<()> {
        self.lock = write_locked(&self.path, entry)?;
        Ok(())
    }

    /// Removes the entry: the outcome of the command is known.
    pub(crate) fn end(self) {
        // A file that stays would be sent by the next process.
        let _ = fs::remove_file(&self.path);
    }
}

/// Writes a file that is locked before it gets its name.
fn write_locked(path: &Path, entry: &SpoolEntry) -> io::Result<File> {
    private_fs::write(path, entry.to_json().as_bytes(), File::lock)
}

fn runs(spool: &Path) -> PathBuf {
    spool.join("runs")
}

/// Returns whether there are entries of running or killed commands.
pub(super) fn any(spool: &Path) -> bool {
    folder::paths(&runs(spool)).is_ok_and(|paths| !paths.is_empty())
}

/// Moves the entries of killed commands to the waiting changes.
pub(super) fn recover(spool: &Path) -> io::Result<()> {
    for path in folder::paths(&runs(spool))? {
        let file = match File::open(&path) {
            Ok(file) => file,
            // The command has just ended.
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

/// Returns whether a path still names this file: [`Journal::update`] may have
/// replaced it.
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

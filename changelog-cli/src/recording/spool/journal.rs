//! The commands that run now. Before `chlog run` starts a command, it writes an
//! entry that marks the change as ended with an unknown outcome, and locks it
//! while it lives. If `chlog` is killed, the lock is free. The first process that finds
//! it free after the command has ended sends the entry, so that no change stays
//! `in_progress` forever.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{DateTime, Utc};

use super::delivery::warn_of_unread;
use super::entry::{SpoolEntry, SpoolFile};
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

    /// Returns the id of the entry.
    pub(crate) fn id(&self) -> String {
        folder::id_of(&self.path)
    }

    /// Stores the process of the command. It does not outlive this machine's uptime, so the
    /// file need not survive a loss of power.
    pub(crate) fn set_process(&self, pid: u32) {
        if let Some(started) = start_of(pid) {
            // On failure the entry is sent when this process is killed.
            let _ = fs::write(process_file(&self.path), format!("{pid} {started}"));
        }
    }

    /// Stores that this process lives: if it is killed, its change has ended about now.
    pub(crate) fn touch(&self) {
        // On failure the change has an earlier end.
        let _ = self.lock.set_modified(SystemTime::now());
    }

    /// Removes the entry: the outcome of the command is known.
    pub(crate) fn end(self) {
        let _ = fs::remove_file(process_file(&self.path));
        // A file that stays would be sent by the next process.
        let _ = fs::remove_file(&self.path);
    }
}

/// Writes a file that is locked before it gets its name.
fn write_locked(path: &Path, entry: &SpoolEntry) -> io::Result<File> {
    private_fs::write_prepared(path, entry.to_json().as_bytes(), File::lock)
}

pub(super) fn runs(spool: &Path) -> PathBuf {
    spool.join("runs")
}

/// Returns whether there are entries of running or killed commands.
pub(super) fn any(spool: &Path) -> bool {
    folder::paths(&runs(spool)).is_ok_and(|paths| !paths.is_empty())
}

/// Moves the entries of killed commands to the waiting changes. One that cannot be moved, such
/// as another user's, stays.
pub(super) fn recover(spool: &Path) -> io::Result<()> {
    for path in folder::paths(&runs(spool))? {
        match recover_one(spool, &path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => warn_of_unread(&path, &error),
            // If it is not found, the command has just ended.
            _ => {}
        }
    }
    Ok(())
}

/// Moves an entry to the waiting changes if its command was killed.
fn recover_one(spool: &Path, path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    if !is_at(&file, path) {
        return Ok(());
    }
    if is_running(path) {
        let _ = file.set_modified(SystemTime::now());
        return Ok(());
    }
    if let Some(name) = path.file_name() {
        move_ended(&file, path, &spool.join(name))?;
    }
    let _ = fs::remove_file(process_file(path));
    Ok(())
}

/// Moves an entry whose command has ended: when it was last known to run.
fn move_ended(file: &File, path: &Path, target: &Path) -> io::Result<()> {
    let known = DateTime::<Utc>::from(file.metadata()?.modified()?);
    if let Some(SpoolFile {
        entry: Ok(mut entry),
        ..
    }) = SpoolFile::read(path.to_owned())
        && let Some(update) = &mut entry.update
    {
        update.made_at = Some(known.into());
        entry.write_to(target)?;
        return fs::remove_file(path);
    }
    // One that cannot be read is reported when it is to be sent.
    fs::rename(path, target)
}

/// Returns the file that has the process of an entry's command: its id, and its start.
fn process_file(entry: &Path) -> PathBuf {
    entry.with_extension("process")
}

/// Returns whether the command of an entry still runs.
fn is_running(entry: &Path) -> bool {
    let text = fs::read_to_string(process_file(entry)).unwrap_or_default();
    let Some((pid, started)) = text.split_once(' ') else {
        return false;
    };
    pid.parse()
        .is_ok_and(|pid| start_of(pid).as_deref() == Some(started))
}

/// Returns the start of a running process in ticks since the machine was started, which
/// distinguishes it from a later process with the same id. None if the process has ended,
/// or if the system does not report it.
fn start_of(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may contain anything. After it come the
    // state and 18 other fields.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?;
    (!matches!(state, "Z" | "X")).then(|| started.to_owned())
}

/// Returns whether a path still names this file: [`Journal::update`] may have
/// replaced it.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_is_recognized_by_its_start() {
        let folder = tempfile::tempdir().unwrap();
        let entry = folder.path().join("entry.json");
        assert!(!is_running(&entry));
        let pid = std::process::id();
        let started = start_of(pid).unwrap();
        assert!(started.parse::<u64>().is_ok(), "{started}");
        fs::write(process_file(&entry), format!("{pid} {started}")).unwrap();
        assert!(is_running(&entry));
        fs::write(process_file(&entry), format!("{pid} 1")).unwrap();
        assert!(!is_running(&entry));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = child.id();
        child.wait().unwrap();
        assert_eq!(start_of(id), None);
    }
}

//! Files next to a SQLite database: their names, their owner and their mode.
//!
//! All of them, and the database, are for their owner only (mode 0600): a lock
//! that another user can open is a lock that another user can hold.

use std::fs::{File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// The mode of the database and of the files next to it: the database holds
/// hashes of passwords and the changes of every organization.
const OWNER_ONLY: u32 = 0o600;

/// Returns the path of a file next to the database: `NAME-PURPOSE`.
pub(crate) fn companion(path: &Path, purpose: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-");
    name.push(purpose);
    name.into()
}

/// Creates the database file if there is none, and removes the access of other
/// users to it. SQLite gives its log and the index of the log the same mode.
pub(crate) fn prepare(path: &Path) -> std::io::Result<()> {
    match create_new(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for path in [
        path.to_owned(),
        companion(path, "wal"),
        companion(path, "shm"),
    ] {
        restrict(&path)?;
    }
    Ok(())
}

/// Creates an empty file that only its owner can read and write.
pub(crate) fn create_new(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(OWNER_ONLY)
        .open(path)
}

/// Gives a file that root has created to the owner of the database, who could not open it
/// otherwise; SQLite does the same.
pub(crate) fn give_to_owner_of(database: &Path, created: &Path) {
    if let (Ok(owner), Ok(now)) = (std::fs::metadata(database), std::fs::metadata(created))
        && owner.uid() != now.uid()
    {
        // Only root may, and only root needs to.
        let _ = chown(created, Some(owner.uid()), Some(owner.gid()));
    }
}

/// Opens the lock file `NAME-PURPOSE`, and creates it if there is none.
pub(crate) fn open_lock(path: &Path, purpose: &str) -> std::io::Result<(PathBuf, File)> {
    let name = companion(path, purpose);
    let file = match create_new(&name) {
        Ok(file) => {
            give_to_owner_of(path, &name);
            file
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let file = OpenOptions::new().write(true).open(&name)?;
            restrict(&name)?;
            file
        }
        Err(error) => return Err(error),
    };
    Ok((name, file))
}

/// Removes the access of other users to a file, if it exists and is ours. By its
/// path, because closing an open database file would release SQLite's locks on
/// it.
fn restrict(path: &Path) -> std::io::Result<()> {
    let mode = match std::fs::metadata(path) {
        Ok(found) if found.is_file() => found.mode() & 0o777,
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let restricted = mode & 0o700;
    if mode == restricted {
        return Ok(());
    }
    let file = path.display();
    match std::fs::set_permissions(path, Permissions::from_mode(restricted)) {
        Ok(()) => {
            tracing::warn!(%file, was = format!("{mode:o}"), "other users can no longer open this file");
        }
        // It may be deleted by now, or belong to another user.
        Err(error) => {
            tracing::warn!(%file, mode = format!("{mode:o}"), %error, "other users can open this file");
        }
    }
    Ok(())
}

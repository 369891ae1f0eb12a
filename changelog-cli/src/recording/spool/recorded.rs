//! The ids under which queued changes were recorded. The id that is printed for a queued
//! change is that of its entry; once the change is recorded, a file has its real id:
//!
//! ```text
//! $XDG_STATE_HOME/chlog/spool/recorded/ID   the id of the recorded change
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use changelog_core::ChangeId;

use super::entry::SpoolFile;
use super::{folder, journal};
use crate::base::private_fs;

/// How long the id of a queued change is accepted after it was recorded.
const KEEP_FOR: Duration = Duration::from_hours(30 * 24);

/// What an id stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// A change of the server.
    Change(ChangeId),
    /// A change that waits in the spool, or was rejected.
    Queued,
}

impl Target {
    /// Finds what an id that a user gives stands for.
    pub(crate) fn of(id: ChangeId) -> Self {
        let Some(spool) = folder::directory() else {
            return Self::Change(id);
        };
        // The real id is written before the file of the entry is removed, so it is looked
        // for again.
        match find(&spool, id) {
            Some(recorded) => Self::Change(recorded),
            None if queued(&spool, id).is_some() => Self::Queued,
            None => Self::Change(find(&spool, id).unwrap_or(id)),
        }
    }
}

/// Returns the entry of a queued change that is not recorded, also of a running command.
pub(super) fn queued(spool: &Path, id: ChangeId) -> Option<SpoolFile> {
    [
        journal::runs(spool),
        spool.to_owned(),
        folder::rejected(spool),
    ]
    .iter()
    .find_map(|directory| SpoolFile::read(folder::path_of(directory, &id.to_string())))
}

/// Returns the only queued change, recorded or not, whose id begins with these
/// hexadecimal digits.
pub(crate) fn queued_with_prefix(digits: &str) -> Option<ChangeId> {
    let spool = folder::directory()?;
    let folders = [
        spool.clone(),
        folder::rejected(&spool),
        spool.join("recorded"),
    ];
    let names = folders.iter().flat_map(fs::read_dir).flatten().flatten();
    let mut ids: Vec<ChangeId> = names
        .filter_map(|name| folder::id_of(&name.path()).parse().ok())
        .filter(|id: &ChangeId| id.0.simple().to_string().starts_with(digits))
        .collect();
    // An entry that is sent at this moment has two files.
    ids.sort_unstable();
    ids.dedup();
    match ids[..] {
        [only] => Some(only),
        _ => None,
    }
}

/// Returns the real id of a queued change that was recorded.
pub(super) fn find(spool: &Path, id: ChangeId) -> Option<ChangeId> {
    let text = fs::read_to_string(path(spool, &id.to_string())).ok()?;
    text.trim().parse().ok()
}

/// Remembers under which id a queued change was recorded. The file is not forced to the
/// disk, which would slow down the delivery of many changes: after a loss of power, the
/// change is found by its own id only.
pub(in crate::recording) fn remember(spool: &Path, queued: &str, id: ChangeId) -> io::Result<()> {
    private_fs::create_directory(&spool.join("recorded"))?;
    fs::write(path(spool, queued), id.to_string())
}

/// Removes the ids that are no longer accepted.
pub(super) fn remove_old(spool: &Path) {
    let Ok(entries) = fs::read_dir(spool.join("recorded")) else {
        return;
    };
    for entry in entries.flatten() {
        let age = entry.metadata().and_then(|file| file.modified());
        let is_old = age.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > KEEP_FOR));
        if is_old {
            // On failure it is removed the next time.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn path(spool: &Path, queued: &str) -> PathBuf {
    spool.join("recorded").join(queued)
}

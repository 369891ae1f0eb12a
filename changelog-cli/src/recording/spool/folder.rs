//! The directories of the spool and the names of its files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::base::failure::{Exit, Failure};
use crate::environment::dirs;

/// The variable that names the directory of the spool.
const DIRECTORY_VARIABLE: &str = "CHLOG_SPOOL_DIR";
/// The extension of the files.
const EXTENSION: &str = "json";

/// Returns the directory of the spool; none without a home directory.
pub(crate) fn directory() -> Option<PathBuf> {
    match chosen() {
        Some(directory) => Some(directory),
        None => Some(dirs::state()?.join("spool")),
    }
}

/// Returns whether the user chose the directory, and so knows how long it
/// lasts.
pub(crate) fn is_chosen() -> bool {
    chosen().is_some()
}

fn chosen() -> Option<PathBuf> {
    let directory = std::env::var_os(DIRECTORY_VARIABLE)?;
    (!directory.is_empty()).then(|| directory.into())
}

/// Returns the directory of the spool, or the error that there is none.
pub(crate) fn required_directory() -> io::Result<PathBuf> {
    directory().ok_or_else(|| {
        io::Error::other(format!(
            "there is no home directory; set HOME, XDG_STATE_HOME or {DIRECTORY_VARIABLE}"
        ))
    })
}

/// Returns the directory of the changes that the server rejected.
pub(crate) fn rejected(spool: &Path) -> PathBuf {
    spool.join("rejected")
}

/// Returns a new path whose name sorts after all earlier ones.
pub(super) fn new_path(directory: &Path) -> PathBuf {
    directory.join(format!("{}.{EXTENSION}", Uuid::now_v7()))
}

/// Returns the path of the file with an id.
pub(super) fn path_of(directory: &Path, id: &str) -> PathBuf {
    directory.join(format!("{id}.{EXTENSION}"))
}

/// Returns the id of a file: its name without the extension.
pub(crate) fn id_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// Lists the files of a directory, oldest first; none if the directory does not
/// exist.
pub(crate) fn paths(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !is_hidden && path.extension().is_some_and(|found| found == EXTENSION) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns the failure for a spool that cannot be read or written.
pub(crate) fn unusable(error: &io::Error) -> Failure {
    Failure::new(Exit::Other, format!("cannot use the spool: {error}"))
}

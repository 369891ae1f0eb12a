//! Files of this machine that are nobody else's business.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

/// Returns the directory for what lasts on this machine and is no setting, if
/// this machine has a home.
pub(crate) fn state_directory() -> Option<PathBuf> {
    let strategy = etcetera::choose_base_strategy().ok()?;
    let state = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
    Some(state.join("chlog"))
}

/// Makes a directory, and those above it, that only its owner can look into.
#[cfg(unix)]
pub(crate) fn create_private(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

#[cfg(not(unix))]
pub(crate) fn create_private(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)
}

/// Writes a file that nobody else can read at any moment, and that is there
/// whole or not at all, also after a loss of power. Returns it, still open.
///
/// `prepare` sees the file before it gets its name.
pub(crate) fn write_private(
    path: &Path,
    content: &[u8],
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<File> {
    let directory = path.parent().unwrap_or(Path::new("."));
    create_private(directory)?;
    // tempfile opens its files with mode 0600 and O_EXCL.
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .tempfile_in(directory)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    prepare(file.as_file())?;
    let file = file.persist(path).map_err(|error| error.error)?;
    sync_directory(directory)?;
    Ok(file)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

//! Files that only their owner can read.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::failure::{Failure, Outcome};

/// Creates a directory, and its missing parents, that only its owner can read.
pub(crate) fn create_directory(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

/// Reads a text file; `None` if it does not exist.
pub(crate) fn read(path: &Path) -> Outcome<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::unreadable(path, error)),
    }
}

/// Writes a file that is private from its creation on and that appears
/// atomically, also after a loss of power.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    write_prepared(path, content, |_| Ok(())).map(drop)
}

/// Writes a file like [`write()`], and returns the open file. `prepare` is called with the
/// file before the file gets its name.
pub(crate) fn write_prepared(
    path: &Path,
    content: &[u8],
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<File> {
    let directory = path.parent().unwrap_or(Path::new("."));
    create_directory(directory)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_and_directories_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/file");
        write(&path, b"secret").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&folder.path().join("deep")), 0o700);
        assert_eq!(fs::read(&path).unwrap(), b"secret");
    }
}

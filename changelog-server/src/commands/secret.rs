//! Reading a password from a file or from standard input.

use std::io::Read;
use std::path::Path;

use super::Failure;

/// The longest file that is read, in bytes: far more than any password.
const MOST: u64 = 4_096;

/// Reads a password; a line feed at the end is not part of it.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(MOST).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MOST).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::Usage(format!("the password file {}: {error}", path.display())))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

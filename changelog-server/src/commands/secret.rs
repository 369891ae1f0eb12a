//! Reading a password or a token from a file or from standard input.

use std::io::Read;
use std::path::Path;

use super::Failure;

/// The limit on the file, in bytes.
const MAX_FILE_BYTES: u64 = 4_096;

/// Reads a secret, without the line break at its end.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin()
            .lock()
            .take(MAX_FILE_BYTES)
            .read_to_string(&mut text)
    } else {
        std::fs::File::open(path)
            .and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::Usage(format!("the file {}: {error}", path.display())))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

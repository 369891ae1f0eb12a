//! The file of the lines that cannot be imported. The user corrects them there
//! and imports that file.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Rejected;
use crate::base::failure::{Failure, warn};

/// The file of rejected lines; created with the first one.
pub(crate) struct RejectsFile<'a> {
    path: PathBuf,
    /// The whole input.
    bytes: &'a [u8],
    header: Option<&'a [u8]>,
    file: Option<File>,
    /// Why lines could not be written.
    unsaved: Option<String>,
    pub(crate) count: u64,
}

impl<'a> RejectsFile<'a> {
    pub(crate) fn new(path: PathBuf, bytes: &'a [u8], header: Option<&'a [u8]>) -> Self {
        Self {
            path,
            bytes,
            header,
            file: None,
            unsaved: None,
            count: 0,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns why the file does not have all rejected lines.
    pub(crate) fn unsaved(&self) -> Option<&str> {
        self.unsaved.as_deref()
    }

    /// Prints why lines are rejected, and writes them to the file if `write`. That the file
    /// cannot be written stops nothing: the other lines are to be imported.
    pub(crate) fn add(&mut self, rejected: &[Rejected], write: bool) {
        for one in rejected {
            for reason in &one.reasons {
                warn(&format!("line {}: {reason}", one.line));
            }
            self.count += 1;
            if write
                && self.unsaved.is_none()
                && let Err(error) = self.write(one)
            {
                let failure = Failure::unwritable(&self.path, &error);
                self.unsaved = Some(failure.message().to_owned());
            }
        }
    }

    /// Creates the file; under another name if there is one already, whose lines may not
    /// have been corrected yet.
    fn create(&mut self) -> io::Result<File> {
        let first = self.path.clone();
        for number in 2.. {
            match File::create_new(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let mut name = first.as_os_str().to_owned();
                    name.push(format!(".{number}"));
                    self.path = name.into();
                }
                created => return created,
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn write(&mut self, rejected: &Rejected) -> io::Result<()> {
        let bytes = self.bytes.get(rejected.span.clone()).unwrap_or_default();
        let mut file = if let Some(file) = self.file.take() {
            file
        } else {
            let mut file = self.create()?;
            if let Some(header) = self.header {
                write_line(&mut file, header)?;
            }
            file
        };
        let written = write_line(&mut file, bytes);
        self.file = Some(file);
        written
    }
}

/// Writes a line; the last one of the input may lack its line feed.
fn write_line(file: &mut File, line: &[u8]) -> io::Result<()> {
    file.write_all(line)?;
    if line.ends_with(b"\n") {
        return Ok(());
    }
    file.write_all(b"\n")
}

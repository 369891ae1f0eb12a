//! Lines that cannot be imported, set aside as they are, to be mended and
//! imported from there.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Rejected;
use crate::base::failure::{Exit, Failure, Outcome, warn};

/// The file that takes what is refused; made when the first line comes.
pub(crate) struct Aside<'a> {
    path: PathBuf,
    /// What all of the input is.
    bytes: &'a [u8],
    header: Option<&'a [u8]>,
    file: Option<File>,
    pub(crate) count: u64,
}

impl<'a> Aside<'a> {
    pub(crate) fn new(path: PathBuf, bytes: &'a [u8], header: Option<&'a [u8]>) -> Self {
        Self {
            path,
            bytes,
            header,
            file: None,
            count: 0,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Says what is wrong with lines, and sets them aside.
    pub(crate) fn put(&mut self, rejected: &[Rejected], is_kept: bool) -> Outcome {
        for one in rejected {
            for reason in &one.reasons {
                warn(&format!("line {}: {reason}", one.line));
            }
            self.count += 1;
            if is_kept {
                self.write(one).map_err(|error| {
                    let path = self.path.display();
                    Failure::new(Exit::Other, format!("cannot write {path}: {error}"))
                })?;
            }
        }
        Ok(())
    }

    fn write(&mut self, rejected: &Rejected) -> io::Result<()> {
        let bytes = self.bytes.get(rejected.span.clone()).unwrap_or_default();
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut file = File::create(&self.path)?;
                if let Some(header) = self.header {
                    write_line(&mut file, header)?;
                }
                none.insert(file)
            }
        };
        write_line(file, bytes)
    }
}

/// Writes a line as it is; the last one of a file may lack its end.
fn write_line(file: &mut File, line: &[u8]) -> io::Result<()> {
    file.write_all(line)?;
    if line.ends_with(b"\n") {
        return Ok(());
    }
    file.write_all(b"\n")
}

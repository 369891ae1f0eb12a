//! Whether anything was committed to a SQLite database, without a statement.
//!
//! Each process that commits to a database with a write-ahead log first writes
//! the header of the log's index, in the file `NAME-shm`
//! (<https://www.sqlite.org/walformat.html>, section 2.1), and only then returns.
//! While the header is unchanged, nothing was committed. Reading it costs half a
//! microsecond; a statement costs two switches of thread, 70 µs on an idle
//! machine.
//!
//! A header of another layout is reported as no header, so that a newer SQLite
//! could make reads slower, never wrong.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::files::companion;

/// The bytes of the header, of which the file begins with two copies.
const HEADER_BYTES: usize = 48;
/// The version of the layout: the same since SQLite 3.7.0.
const LAYOUT: u32 = 3_007_000;

/// The header at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header([u8; HEADER_BYTES]);

impl Header {
    /// Reads a header from its two copies; `None` while one is being written.
    fn of_copies(copies: &[u8; 2 * HEADER_BYTES]) -> Option<Self> {
        let (first, second) = copies.split_first_chunk()?;
        let header = Self(*first);
        (first == second && header.number(0) == LAYOUT).then_some(header)
    }

    /// Returns whether exactly one transaction was committed since another
    /// header.
    pub(crate) fn is_next_after(&self, before: &Self) -> bool {
        self.commits() == before.commits().wrapping_add(1)
    }

    /// Returns how many pages the log holds, including those that were copied
    /// into the database (`mxFrame`).
    pub(crate) fn log_pages(&self) -> u32 {
        self.number(16)
    }

    /// Returns the counter of transactions (`iChange`).
    fn commits(&self) -> u32 {
        self.number(8)
    }

    /// Returns the number at a byte of the header.
    fn number(&self, at: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.0[at..at + 4]);
        u32::from_ne_bytes(bytes)
    }
}

/// The index of the write-ahead log of one database.
#[derive(Debug)]
pub(crate) struct WalIndex {
    /// Never closed: when a process closes any descriptor of this file, it loses
    /// the locks that SQLite holds on it (POSIX advisory locks).
    file: ManuallyDrop<File>,
}

impl WalIndex {
    /// Opens the index of a database that is open already, and stays open.
    pub(crate) fn open(database: &Path) -> std::io::Result<Self> {
        let file = File::open(companion(database, "shm"))?;
        Ok(Self {
            file: ManuallyDrop::new(file),
        })
    }

    /// Returns the header now; `None` when it cannot be read, or when the file is
    /// no longer the one that SQLite uses.
    pub(crate) fn header(&self) -> Option<Header> {
        if self.file.metadata().ok()?.nlink() == 0 {
            return None;
        }
        let mut copies = [0; 2 * HEADER_BYTES];
        self.file.read_exact_at(&mut copies, 0).ok()?;
        Header::of_copies(&copies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(layout: u32, commits: u32) -> [u8; 2 * HEADER_BYTES] {
        let mut copies = [0; 2 * HEADER_BYTES];
        for copy in copies.chunks_mut(HEADER_BYTES) {
            copy[..4].copy_from_slice(&layout.to_ne_bytes());
            copy[8..12].copy_from_slice(&commits.to_ne_bytes());
        }
        copies
    }

    #[test]
    fn a_header_counts_when_it_is_complete_and_of_the_known_layout() {
        assert!(Header::of_copies(&copies(LAYOUT, 1)).is_some());
        assert!(Header::of_copies(&copies(LAYOUT + 1, 1)).is_none());
        let mut written = copies(LAYOUT, 1);
        written[HEADER_BYTES + 8] += 1;
        assert!(Header::of_copies(&written).is_none(), "a copy is newer");
    }

    #[test]
    fn one_commit_is_told_from_several() {
        let [one, two, three] =
            [u32::MAX, 0, 1].map(|commits| Header::of_copies(&copies(LAYOUT, commits)).unwrap());
        assert!(two.is_next_after(&one) && three.is_next_after(&two));
        assert!(!three.is_next_after(&one) && !one.is_next_after(&one));
    }
}

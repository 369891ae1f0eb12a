//! Texts that a user has typed, saved in files until they are recorded or kept
//! in the spool: a wrong flag, a rejected key or an interruption must not lose
//! them.
//!
//! ```text
//! $XDG_STATE_HOME/chlog/drafts/ID.txt   the first line is the title
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::base::failure::{Exit, Failure, Outcome, note};
use crate::base::private_fs;
use crate::environment::dirs;

/// The largest number of saved texts.
const MAX_TEXTS: usize = 20;
/// The extension of the files.
const EXTENSION: &str = "txt";

/// Text in its file. If it is dropped before it is discarded, the file stays
/// and its path is printed.
pub(crate) struct SavedText {
    path: PathBuf,
    is_discarded: bool,
}

impl SavedText {
    /// Saves text in a new private file.
    pub(crate) fn new(text: &str) -> Outcome<Self> {
        let directory = directory();
        let path = directory.join(format!("{}.{EXTENSION}", Uuid::now_v7()));
        write(&path, text)?;
        let texts = texts(&directory);
        for old in texts.iter().rev().skip(MAX_TEXTS) {
            // One text too many does no harm.
            let _ = fs::remove_file(old);
        }
        Ok(Self {
            path,
            is_discarded: false,
        })
    }

    /// Opens the text that was saved last.
    pub(crate) fn last() -> Outcome<Self> {
        let last = texts(&directory()).pop();
        let path = last.ok_or_else(|| {
            Failure::new(Exit::NotFound, "there is no text to recover")
                .hint("a typed text is kept only until it is recorded")
        })?;
        Ok(Self {
            path,
            is_discarded: false,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the text.
    pub(crate) fn write(&self, text: &str) -> Outcome {
        write(&self.path, text)
    }

    /// Removes the file: the text is recorded or empty.
    pub(crate) fn discard(mut self) {
        self.is_discarded = true;
        // A file that stays does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for SavedText {
    fn drop(&mut self) {
        if !self.is_discarded {
            let path = self.path.display();
            note(&format!(
                "your text is kept in {path}; record it with `chlog log --recover`, or with \
                 `chlog log -F {path}`"
            ));
        }
    }
}

fn write(path: &Path, text: &str) -> Outcome {
    private_fs::write(path, text.as_bytes()).map_err(|error| Failure::unwritable(path, &error))
}

/// Lists the texts, oldest first.
fn texts(directory: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = names
        .map(|name| name.path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == EXTENSION))
        .collect();
    paths.sort();
    paths
}

fn directory() -> PathBuf {
    let state = dirs::state();
    state.unwrap_or_else(std::env::temp_dir).join("drafts")
}

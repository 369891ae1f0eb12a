//! What a person has typed, in a file until it is recorded or kept for later: a
//! mistake in a flag, a key that is not accepted or an interruption must not cost
//! ten minutes of writing.
//!
//! ```text
//! $XDG_STATE_HOME/chlog/drafts/ID.txt   the first line is the title
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::base::failure::{Exit, Failure, Outcome, note};
use crate::base::private_fs;

/// How many texts are kept at most.
const MAX_TEXTS: usize = 20;
/// How the names of the files end.
const SUFFIX: &str = "txt";

/// A text in its file. Dropped before it is recorded, it stays there, and the
/// user is told where.
pub(crate) struct Typed {
    path: PathBuf,
    is_done: bool,
}

impl Typed {
    /// Makes a file for a text, readable by its owner only.
    pub(crate) fn new(text: &str) -> Outcome<Self> {
        let directory = directory();
        let path = directory.join(format!("{}.{SUFFIX}", Uuid::now_v7()));
        write(&path, text)?;
        let texts = texts(&directory);
        for old in texts.iter().rev().skip(MAX_TEXTS) {
            // One too many does no harm.
            let _ = fs::remove_file(old);
        }
        Ok(Self {
            path,
            is_done: false,
        })
    }

    /// Opens the text that was kept last.
    pub(crate) fn last() -> Outcome<Self> {
        let last = texts(&directory()).pop();
        let path = last.ok_or_else(|| {
            Failure::new(Exit::NotFound, "there is no text to recover")
                .hint("what was typed is kept only until it is recorded")
        })?;
        Ok(Self {
            path,
            is_done: false,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the text.
    pub(crate) fn write(&self, text: &str) -> Outcome {
        write(&self.path, text)
    }

    /// Removes the file: the text is recorded, or there is none.
    pub(crate) fn discard(mut self) {
        self.is_done = true;
        // Left behind, it can be recovered, which is no harm.
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Typed {
    fn drop(&mut self) {
        if !self.is_done {
            let path = self.path.display();
            note(&format!(
                "your text is kept in {path}; record it with `chlog log --recover`, or with \
                 `chlog log -F {path}`"
            ));
        }
    }
}

fn write(path: &Path, text: &str) -> Outcome {
    let written = private_fs::write_private(path, text.as_bytes(), |_| Ok(()));
    written.map(drop).map_err(|error| {
        let path = path.display();
        Failure::new(Exit::Other, format!("cannot write {path}: {error}"))
    })
}

/// Lists the texts, oldest first.
fn texts(directory: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = names
        .map(|name| name.path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == SUFFIX))
        .collect();
    paths.sort();
    paths
}

fn directory() -> PathBuf {
    let state = private_fs::state_directory();
    state.unwrap_or_else(std::env::temp_dir).join("drafts")
}

//! Importing changes: reading a file or a repository's history, comparing with
//! the existing changes, and sending what is missing in bulk.

pub(crate) mod bulk;
pub(crate) mod events;
pub(crate) mod existing;
pub(crate) mod git;
mod json;
pub(crate) mod lines;
pub(crate) mod rejects;
pub(crate) mod resolve;

use std::ops::Range;

use changelog_core::ImportedChange;

/// A change to import, and its place in the input.
#[derive(Clone, Debug)]
pub(crate) struct ImportRecord {
    /// The number of the line, from 1.
    pub(crate) line: u64,
    /// The bytes of the input.
    pub(crate) span: Range<usize>,
    pub(crate) record: ImportedChange,
}

/// A line that cannot be imported.
#[derive(Clone, Debug)]
pub(crate) struct Rejected {
    pub(crate) line: u64,
    pub(crate) span: Range<usize>,
    /// The broken rules.
    pub(crate) reasons: Vec<String>,
}

impl ImportRecord {
    /// Returns the record as a line that cannot be imported.
    pub(crate) fn rejected(&self, reasons: Vec<String>) -> Rejected {
        Rejected {
            line: self.line,
            span: self.span.clone(),
            reasons,
        }
    }
}

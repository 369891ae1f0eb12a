//! Changes that come from elsewhere: read from a file or a repository's history,
//! compared with what the service has, and sent in bulk.

pub(crate) mod existing;
pub(crate) mod git;
pub(crate) mod lines;
pub(crate) mod rejects;
pub(crate) mod resolve;

use std::ops::Range;

use changelog_core::ExportRow;

/// A change that is to be imported.
#[expect(
    clippy::struct_field_names,
    reason = "beside its place stands the record itself"
)]
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// The number of its line, from 1.
    pub(crate) line: u64,
    /// Where it stands in the input.
    pub(crate) span: Range<usize>,
    pub(crate) record: ExportRow,
}

/// A line that cannot be imported.
#[derive(Clone, Debug)]
pub(crate) struct Rejected {
    pub(crate) line: u64,
    pub(crate) span: Range<usize>,
    /// Each broken rule.
    pub(crate) reasons: Vec<String>,
}

impl Record {
    /// Takes it out of what is imported.
    pub(crate) fn rejected(&self, reasons: Vec<String>) -> Rejected {
        Rejected {
            line: self.line,
            span: self.span.clone(),
            reasons,
        }
    }
}

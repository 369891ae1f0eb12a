//! The formats of results.

use clap::ValueEnum;

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// The service's own JSON
    Json,
    /// One JSON record a line
    Ndjson,
    /// Comma-separated values with a header
    Csv,
    /// Only the ids, one a line
    Ids,
}

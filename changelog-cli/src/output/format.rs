//! The formats of results.

use clap::ValueEnum;

/// The format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Table for people
    #[default]
    Table,
    /// JSON of the API
    Json,
    /// One JSON record per line
    Ndjson,
    /// Comma-separated values with a header
    Csv,
    /// Only the IDs, one per line
    Ids,
}

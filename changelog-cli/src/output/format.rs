//! The formats of results.

use clap::ValueEnum;

/// The format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Table for people
    #[default]
    Table,
    /// JSON as the API returns it
    Json,
    /// One JSON record per line
    Ndjson,
    /// Comma-separated values with a header
    Csv,
    /// YAML with the content of the JSON
    Yaml,
    /// IDs only, one per line
    Ids,
    /// Markdown; only of `incident show`
    Md,
}

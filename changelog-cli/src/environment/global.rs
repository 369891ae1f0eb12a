//! The flags that every command takes.

use clap::Args;

use crate::output::format::Format;

/// The flags that every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// URL of the server (or `CHLOG_URL`)
    #[arg(
        long,
        global = true,
        value_name = "URL",
        help_heading = "Global options"
    )]
    pub(crate) url: Option<String>,
    /// Profile of config.toml (or `CHLOG_PROFILE`)
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        help_heading = "Global options"
    )]
    pub(crate) profile: Option<String>,
    /// Output format
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        help_heading = "Global options"
    )]
    format: Format,
    /// Same as --format json
    #[arg(
        long,
        global = true,
        conflicts_with = "format",
        help_heading = "Global options"
    )]
    json: bool,
}

impl Global {
    /// Returns flags that set the connection only.
    pub(crate) fn connection(url: Option<String>, profile: Option<String>) -> Self {
        Self {
            url,
            profile,
            format: Format::default(),
            json: false,
        }
    }

    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

//! `source`: sources, to which other systems send what changes.

use std::path::PathBuf;

use changelog_core::{Environment, SourceEventId, SourceId, SourceKind};
use clap::{Args, Subcommand};

use super::SecretsFile;

/// Sources, to which other systems send what changes.
#[derive(Debug, Subcommand)]
pub enum SourceCommand {
    /// Make a source, and print the path that the sender posts to
    Create(CreateSource),
    /// List the sources of an organization
    List {
        /// The organization's id or name
        #[arg(long)]
        org: String,
    },
    /// List the last events of a source and what became of them, newest first
    Events {
        /// The source's id, as `source list` shows it
        id: SourceId,
        /// The number of events
        #[arg(long, value_name = "N", default_value_t = 200,
            value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
    },
    /// Read an event again, for example after its settings were corrected
    Replay {
        /// The event, as `source events` shows it
        event: SourceEventId,
    },
    /// Make a new address; the present one is no longer valid
    Renew {
        /// The source's id
        id: SourceId,
    },
    /// Delete a source; its changes stay
    Delete {
        /// The source's id
        id: SourceId,
    },
}

/// The arguments of `source create`.
#[derive(Debug, Args)]
pub struct CreateSource {
    /// The organization's id or name
    #[arg(long)]
    pub org: String,
    /// What sends to it: github, gitlab, argocd, cloudtrail or another kind
    #[arg(long, value_name = "KIND")]
    pub kind: SourceKind,
    /// A name for the source
    #[arg(long)]
    pub name: String,
    /// The service of changes for which the sender names none
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// The environment of changes for which the sender names none
    #[arg(long, value_name = "ENV")]
    pub environment: Option<Environment>,
    /// A file with the secret by which the sender proves its requests, or -; required for
    /// senders that always sign
    #[arg(long, value_name = "PATH")]
    pub secret_file: Option<PathBuf>,
    /// Create the services that the sender names and the organization lacks
    #[arg(long)]
    pub create_missing: bool,
    /// The key of stored secrets.
    #[command(flatten)]
    pub secrets: SecretsFile,
}

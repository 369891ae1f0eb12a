//! `key`: API keys.

use changelog_core::{ApiKeyId, Environment, Scope, Timestamp};
use clap::{Args, Subcommand};

/// API keys.
#[derive(Debug, Subcommand)]
pub enum Key {
    /// Create a key; its value is shown only now
    Create(CreateKey),
    /// List the keys of an organization, masked
    List {
        /// The organization's id or name
        #[arg(long)]
        org: String,
    },
    /// Revoke a key: it stops working at the next request
    Revoke {
        /// The key's id, as `key list` shows it
        id: ApiKeyId,
    },
}

/// A key to create.
#[derive(Debug, Args)]
pub struct CreateKey {
    /// The organization's id or name
    #[arg(long)]
    pub org: String,
    /// A name for the key: who will use it
    #[arg(long)]
    pub name: String,
    /// When the key expires
    #[arg(long, value_name = "RFC3339")]
    pub expires_at: Option<Timestamp>,
    /// What the key may do: read (everything), record (create and update changes and incidents) or admin
    /// (create and update hosts and services); several times for several, all when absent
    #[arg(long = "scope", value_name = "read|record|admin")]
    pub scopes: Vec<Scope>,
    /// An environment that the key may record changes in, several times for several; any
    /// when absent
    #[arg(long = "environment", value_name = "ENVIRONMENT")]
    pub environments: Vec<Environment>,
    /// The name of a service that the key may record changes of, several times for several;
    /// any when absent
    #[arg(long = "service", value_name = "NAME")]
    pub services: Vec<String>,
}

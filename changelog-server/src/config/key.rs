//! `key`: API keys.

use changelog_core::{ApiKeyId, Timestamp};
use clap::Subcommand;

/// API keys.
#[derive(Debug, Subcommand)]
pub enum Key {
    /// Create a key; its value is shown only now
    Create {
        /// The organization's id or name
        #[arg(long)]
        org: String,
        /// A name for the key: who will use it
        #[arg(long)]
        name: String,
        /// When the key expires
        #[arg(long, value_name = "RFC3339")]
        expires_at: Option<Timestamp>,
    },
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

//! The key of stored secrets: where it is, and how it is replaced.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::secrets::Secrets;

/// The key of stored secrets.
#[derive(Clone, Debug, Default, Args)]
pub struct SecretsFile {
    /// The file with the key that encrypts stored secrets; made if there is none
    #[arg(
        long = "secrets-key-file",
        help = "The file with the key that encrypts the secrets of connections, made if there is \
                none [default: the SQLite file with .key after its name, or \
                changelog-secrets.key]",
        env = "CHANGELOG_SECRETS_KEY_FILE",
        value_name = "PATH"
    )]
    pub path: Option<PathBuf>,
}

impl SecretsFile {
    /// Returns the path of the file for a database.
    pub fn path(&self, database_url: &str) -> PathBuf {
        let path = self.path.clone();
        path.unwrap_or_else(|| Secrets::default_path(database_url))
    }
}

/// The key that encrypts stored secrets.
#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// Make a new key, encrypt everything by it, and delete the old one
    Rotate {
        /// The key of stored secrets.
        #[command(flatten)]
        secrets: SecretsFile,
    },
}

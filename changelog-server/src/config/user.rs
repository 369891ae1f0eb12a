//! `user`: people.

use std::path::PathBuf;

use clap::Subcommand;

/// People.
#[derive(Debug, Subcommand)]
pub enum User {
    /// Set a person's password and end their sessions
    SetPassword {
        /// The address that they sign in with
        #[arg(long)]
        email: String,
        /// The organization, by id or name, that the person is a member of; needed where the
        /// address has several accounts
        #[arg(long)]
        org: Option<String>,
        /// A file with the password, or - for standard input
        #[arg(long, value_name = "PATH")]
        password_file: PathBuf,
    },
}

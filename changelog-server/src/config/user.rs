//! `user`: people.

use std::path::PathBuf;

use changelog_core::{FurtherNames, UserId};
use clap::{ArgGroup, Subcommand};

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
    /// Replace a person's name by a pseudonym in everything that an organization has recorded
    ///
    /// A member is removed first. The account is deleted unless it belongs to other organizations.
    /// What people have written in titles and texts stays as it is.
    #[command(group = ArgGroup::new("person").required(true))]
    Erase {
        /// The organization, by id or name
        #[arg(long)]
        org: String,
        /// The person's address
        #[arg(long, group = "person")]
        email: Option<String>,
        /// The person's id, as the activity log has it
        #[arg(long, group = "person")]
        id: Option<UserId>,
        /// Further names by which changes may call the person, such as a login, with commas
        /// between them
        #[arg(
            long,
            value_name = "NAMES",
            default_value = "",
            hide_default_value = true
        )]
        also: FurtherNames,
    },
}

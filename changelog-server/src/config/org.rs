//! `org`: organizations.

use std::path::PathBuf;

use changelog_core::Plan;
use clap::Subcommand;

/// Organizations.
#[derive(Debug, Subcommand)]
pub enum Org {
    /// Create an organization, with its owner
    Create {
        /// Its name
        #[arg(long)]
        name: String,
        /// Its plan: free (dashboard only) or pro (API as well)
        #[arg(long, default_value = "free", value_name = "free|pro")]
        plan: Plan,
        /// The email address of its owner
        #[arg(long, value_name = "E", requires_all = ["owner_name", "owner_password_file"])]
        owner_email: Option<String>,
        /// The name of its owner
        #[arg(long, value_name = "N", requires = "owner_email")]
        owner_name: Option<String>,
        /// A file with its owner's password, or - for standard input
        #[arg(long, value_name = "PATH", requires = "owner_email")]
        owner_password_file: Option<PathBuf>,
    },
    /// List the organizations
    List,
    /// Set the plan of an organization
    SetPlan {
        /// The organization's id or name
        org: String,
        /// free (dashboard only) or pro (API as well)
        #[arg(value_name = "free|pro")]
        plan: Plan,
    },
}

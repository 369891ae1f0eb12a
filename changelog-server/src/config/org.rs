//! `org`: organizations.

use std::path::PathBuf;

use changelog_core::{Plan, RetentionMonths};
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
    /// Show or set for how many months an organization keeps what it has recorded
    Retention {
        /// The organization's id or name
        org: String,
        /// Delete changes, resolved incidents and activity that are older than this many months;
        /// off keeps them forever
        #[arg(value_name = "MONTHS|off")]
        months: Option<KeepFor>,
        /// Only show what would be deleted
        #[arg(long, requires = "months")]
        dry_run: bool,
    },
}

/// For how many months records are kept; `None` forever.
#[derive(Clone, Copy, Debug)]
pub struct KeepFor(pub Option<RetentionMonths>);

impl std::str::FromStr for KeepFor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "off" {
            return Ok(Self(None));
        }
        let months = text.parse::<RetentionMonths>();
        months
            .map(|months| Self(Some(months)))
            .map_err(|bad| format!("{bad}; off keeps everything"))
    }
}

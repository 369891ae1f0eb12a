//! `sso`: sign-in by the identity provider of an organization.

use std::path::PathBuf;

use changelog_core::{GroupRole, Role};
use clap::{Args, Subcommand};

use super::{AllowedReceivers, SecretsFile};

/// Sign-in by the identity provider of an organization.
#[derive(Debug, Subcommand)]
pub enum SsoCommand {
    /// Connect the identity provider of an organization, or replace its settings
    Set(Box<SetSso>),
    /// Show the identity provider of an organization
    Show {
        /// The organization's id or name
        #[arg(long)]
        org: String,
    },
    /// Disconnect the identity provider; its sessions end, and passwords work again
    Remove {
        /// The organization's id or name
        #[arg(long)]
        org: String,
    },
}

/// The role of people who are in none of the groups.
#[derive(Clone, Debug)]
pub struct DefaultRole(pub Option<Role>);

impl std::str::FromStr for DefaultRole {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        if word == "none" {
            return Ok(Self(None));
        }
        let role = word.parse::<Role>();
        role.map(|role| Self(Some(role)))
            .map_err(|bad| format!("{bad}, or none"))
    }
}

/// The arguments of `sso set`.
#[derive(Debug, Args)]
pub struct SetSso {
    /// The organization's id or name
    #[arg(long)]
    pub org: String,
    /// The issuer, exactly as the provider names itself
    #[arg(long, value_name = "URL")]
    pub issuer: String,
    /// The id of the service at the provider
    #[arg(long, value_name = "ID")]
    pub client_id: String,
    /// A file with the client secret, or -
    #[arg(long, value_name = "PATH")]
    pub client_secret_file: PathBuf,
    /// The role of people without a group that has one; none refuses them
    #[arg(long, value_name = "ROLE", default_value = "none")]
    pub default_role: DefaultRole,
    /// The claim with a person's groups
    #[arg(long, value_name = "NAME", default_value = changelog_core::sso::DEFAULT_GROUPS_CLAIM)]
    pub groups_claim: String,
    /// The role of a group, such as changelog-admins=admin; repeatable
    #[arg(long = "group", value_name = "GROUP=ROLE")]
    pub groups: Vec<GroupRole>,
    /// Passwords no longer work in the organization, except that of one owner
    #[arg(long)]
    pub required: bool,
    /// The address of the owner whose password still works then
    #[arg(
        long,
        value_name = "EMAIL",
        help = "The address of the owner whose password still works then; by default the one who \
                was chosen before, or the first owner who has a password"
    )]
    pub emergency_owner: Option<String>,
    /// The provider returns people to an address of the organization's own
    #[arg(
        long,
        help = "The provider returns people to /sso/callback/ORGANIZATION-ID instead of \
                /sso/callback; needed on a server with several organizations if the provider does not \
                name itself when it returns people (RFC 9207)"
    )]
    pub own_redirect: bool,
    /// The issuer may be http, and in networks that only the server reaches; for trials
    #[arg(long)]
    pub allow_insecure_issuer: bool,
    /// The key of stored secrets.
    #[command(flatten)]
    pub secrets: SecretsFile,
    /// Networks in which the issuer may be.
    #[command(flatten)]
    pub receivers: AllowedReceivers,
}

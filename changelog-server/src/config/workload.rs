//! `workload`: pipelines that may act without a key.

use changelog_core::{ClaimPattern, Environment, Scope, WorkloadId};
use clap::{Args, Subcommand};

use super::AllowedReceivers;

/// Workload identities: pipelines that may act without a key, by the tokens that their own
/// system signs for each job.
#[derive(Debug, Subcommand)]
pub enum WorkloadCommand {
    /// Let the jobs of a pipeline act for an organization
    Create(CreateWorkload),
    /// List the workload identities of an organization
    List {
        /// The organization's id or name
        #[arg(long)]
        org: String,
    },
    /// Delete a workload identity: its tokens stop working at the next request
    Delete {
        /// The id, as `workload list` shows it
        id: WorkloadId,
    },
}

/// The arguments of `workload create`.
#[derive(Debug, Args)]
pub struct CreateWorkload {
    /// The organization's id or name
    #[arg(long)]
    pub org: String,
    /// A name for the workload identity
    #[arg(long)]
    pub name: String,
    /// The issuer of the tokens, exactly as they name it, such as
    /// <https://token.actions.githubusercontent.com>
    #[arg(
        long,
        value_name = "URL",
        help = "The issuer of the tokens, exactly as they name it, such as \
                https://token.actions.githubusercontent.com"
    )]
    pub issuer: String,
    /// The only audience of the tokens; `chlog` asks for the URL of this service
    #[arg(long, value_name = "AUDIENCE")]
    pub audience: String,
    /// What tokens must claim, such as repository=acme/shop; * stands for any characters;
    /// several times for several, which must all match
    #[arg(long = "claim", value_name = "NAME=PATTERN", required = true)]
    pub claims: Vec<ClaimPattern>,
    /// What the pipeline may do: read (everything), record (create and update changes and
    /// incidents) or admin (create and update hosts and services); several times for several,
    /// all when absent
    #[arg(long = "scope", value_name = "read|record|admin")]
    pub scopes: Vec<Scope>,
    /// The name of a service that the pipeline may record changes of, several times for
    /// several; any when absent
    #[arg(long = "service", value_name = "NAME")]
    pub services: Vec<String>,
    /// An environment that the pipeline may record changes in, several times for several; any
    /// when absent
    #[arg(long = "environment", value_name = "ENVIRONMENT")]
    pub environments: Vec<Environment>,
    /// Reach the issuer also by plain http and in private networks; for trials only
    #[arg(long)]
    pub allow_insecure_issuer: bool,
    /// Networks in which the issuer may be.
    #[command(flatten)]
    pub receivers: AllowedReceivers,
}

//! The command line and the environment: a file for each command with flags, and for the flags
//! that commands share.

mod demo;
mod health;
mod integration;
mod key;
mod moving;
mod org;
mod quotas;
mod receivers;
mod schema;
mod secrets;
mod serve;
mod source;
mod sso;
mod status;
mod user;
mod workload;

use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

pub use demo::Demo;
pub use health::Health;
pub use integration::{CreateIntegration, Integration};
pub use key::{CreateKey, Key};
pub use moving::Move;
pub use org::{KeepFor, Org};
pub use quotas::QuotaSettings;
pub use receivers::AllowedReceivers;
pub use schema::Schema;
pub use secrets::{SecretsCommand, SecretsFile};
pub use serve::{Serve, Settings};
pub use source::{CreateSource, SourceCommand};
pub use sso::{SetSso, SsoCommand};
pub use status::Status;
pub use user::User;
pub use workload::{CreateWorkload, WorkloadCommand};

/// The change log service.
#[derive(Debug, Parser)]
#[command(name = "changelog-server", version, about, propagate_version = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Flags of every command.
    #[command(flatten)]
    pub common: Common,
}

/// Commands that use no database, or name theirs otherwise.
const WITHOUT_DATABASE: [&str; 5] = ["demo", "health", "move", "openapi", "man"];

impl Arguments {
    /// Returns the command line, in which the help of a command lists the flags that it uses.
    pub fn described() -> clap::Command {
        let database = clap::Arg::new("database_url").long("database-url");
        WITHOUT_DATABASE.iter().fold(Self::command(), |all, name| {
            let hidden = database.clone().hide(true);
            all.mut_subcommand(name, |command| command.arg(hidden))
        })
    }

    /// Reads the arguments of the process, or ends it with what is wrong with them.
    pub fn read() -> Self {
        let matches = Self::described().get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// Flags of every command.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The database
    #[arg(
        long,
        global = true,
        help = "The database: sqlite://PATH or postgres://USER@HOST/NAME",
        env = "CHANGELOG_DATABASE_URL",
        hide_env_values = true,
        default_value = "sqlite://changelog.db",
        value_name = "URL"
    )]
    pub database_url: String,
    /// Print results as JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the service
    Serve(Box<Serve>),
    /// Try the service: a database in a folder, sample changes, and a key for chlog
    Demo(Demo),
    /// Create organizations and set their plans
    #[command(subcommand)]
    Org(Org),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Key(Key),
    /// Manage users
    #[command(subcommand)]
    User(User),
    /// Connect Slack, Teams, Grafana, PagerDuty and webhooks
    #[command(subcommand)]
    Integration(Integration),
    /// Let other systems send what changes: GitHub, Argo CD, clouds and others
    #[command(subcommand)]
    Source(SourceCommand),
    /// Workload identities: pipelines that may act without a key
    #[command(subcommand)]
    Workload(WorkloadCommand),
    /// Connect the identity provider of an organization, by which its people sign in
    #[command(subcommand)]
    Sso(SsoCommand),
    /// Manage the key that encrypts stored secrets
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// Ask the running service whether it is ready; the exit code is 0 if it is
    Health(Health),
    /// Write a consistent copy of the SQLite database, even while it is being served
    Backup {
        /// The file to write; it must not exist
        path: PathBuf,
    },
    /// Put a backup in the place of the SQLite database; no process may serve it
    Restore {
        /// The backup
        path: PathBuf,
    },
    /// Verify the database: its file, counts, search, activity and events
    Check {
        /// Correct counts, names and search; no process may serve the database
        #[arg(long)]
        repair: bool,
    },
    /// Move everything from SQLite to PostgreSQL or back, and prove it; no server may run
    Move(Move),
    /// Print versions, sizes, organizations, queues and the slowest SQL statements
    Status(Status),
    /// Print the OpenAPI document
    Openapi,
    /// Print SQL for the operator of the database
    #[command(subcommand)]
    Schema(Schema),
    /// Write a manual page for each command
    Man {
        /// The directory to write them into
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

//! `integration`: connections to receivers.

use std::path::PathBuf;

use changelog_core::{ConnectionId, ConnectionKind, RiskLevel};
use clap::{Args, Subcommand};

use super::{AllowedReceivers, SecretsFile};
use crate::store::DeliveryId;

/// Connections to receivers.
#[derive(Debug, Subcommand)]
pub enum Integration {
    /// Connect a receiver: it is sent what happens to changes from now on
    Create(Box<CreateIntegration>),
    /// List the connections of an organization
    List {
        /// The organization's id or name
        #[arg(long)]
        org: String,
    },
    /// Send a sample event, and print the receiver's answer
    Test {
        /// The connection's id, as `integration list` shows it
        id: ConnectionId,
        /// The key of stored secrets.
        #[command(flatten)]
        secrets: SecretsFile,
        /// Networks whose receivers are allowed.
        #[command(flatten)]
        receivers: AllowedReceivers,
    },
    /// List the last deliveries of a connection, newest first
    Deliveries {
        /// The connection's id
        id: ConnectionId,
        /// Only those that failed and are not sent again by themselves
        #[arg(long)]
        dead: bool,
    },
    /// Send a delivery again
    Replay {
        /// The delivery, as `integration deliveries` shows it
        delivery: DeliveryId,
    },
    /// Let a connection send again that was disabled
    Enable {
        /// The connection's id
        id: ConnectionId,
    },
    /// Delete a connection; what is queued for it is not sent
    Delete {
        /// The connection's id
        id: ConnectionId,
    },
}

/// The arguments of `integration create`.
#[derive(Debug, Args)]
pub struct CreateIntegration {
    /// The organization's id or name
    #[arg(long)]
    pub org: String,
    /// What to connect: webhook, slack, teams, grafana or pagerduty
    #[arg(long, value_name = "KIND")]
    pub kind: ConnectionKind,
    /// A name for the connection
    #[arg(long)]
    pub name: String,
    /// The address of the receiver; for Grafana, its base URL
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// A file with the token of a Slack bot or Grafana, or PagerDuty's routing key, or -
    #[arg(long, value_name = "PATH")]
    pub token_file: Option<PathBuf>,
    /// The id of the channel that a Slack bot writes to
    #[arg(long, value_name = "ID")]
    pub channel: Option<String>,
    /// A file with a key of PagerDuty's REST API, for notes with suspects on its incidents
    #[arg(long, value_name = "PATH", requires = "from")]
    pub api_token_file: Option<PathBuf>,
    /// The email address of the PagerDuty user who writes these notes
    #[arg(long, value_name = "EMAIL", requires = "api_token_file")]
    pub from: Option<String>,
    /// Send only changes of at least this risk
    #[arg(long, value_name = "RISK")]
    pub min_risk: Option<RiskLevel>,
    /// Send only changes of this service, by name; repeatable
    #[arg(long = "service", value_name = "NAME")]
    pub services: Vec<String>,
    /// Networks whose receivers are allowed.
    #[command(flatten)]
    pub receivers: AllowedReceivers,
    /// The key of stored secrets.
    #[command(flatten)]
    pub secrets: SecretsFile,
}

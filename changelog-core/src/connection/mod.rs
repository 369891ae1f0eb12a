//! Connections: receivers outside the service that are sent what happens to changes,
//! sources and incidents.

mod event;
mod filter;
mod input;
mod receiver;

use crate::wire_enum::wire_enum;

pub use event::{Event, EventKind, EventOfChange, EventOfIncident, EventOfSource, SilentSource};
pub use filter::EventFilter;
pub use input::{ConnectionPatch, NewConnection, ReceiverInput};
pub use receiver::Receiver;

wire_enum! {
    /// The kind of a connection: what it sends to, and in which format.
    ConnectionKind, "a kind of connection", example "webhook" {
        /// Any HTTP server, in the format of Standard Webhooks.
        Webhook = "webhook",
        /// A Slack channel, by an incoming webhook or by a bot's token.
        Slack = "slack",
        /// A Microsoft Teams channel, by a Workflows webhook.
        Teams = "teams",
        /// Annotations in Grafana.
        Grafana = "grafana",
        /// Change events in PagerDuty.
        PagerDuty = "pagerduty",
    }
}

impl ConnectionKind {
    /// Returns its name for people.
    pub fn label(&self) -> &str {
        match self {
            Self::Webhook => "Webhook",
            Self::Slack => "Slack",
            Self::Teams => "Microsoft Teams",
            Self::Grafana => "Grafana",
            Self::PagerDuty => "PagerDuty",
            Self::Unknown(word) => word,
        }
    }

    /// Returns whether people read what it sends one by one, so that bursts are grouped.
    pub fn is_chat(&self) -> bool {
        matches!(self, Self::Slack | Self::Teams)
    }
}

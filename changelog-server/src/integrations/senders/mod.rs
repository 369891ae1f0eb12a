//! Sends messages to receivers: one file for each kind of connection.

mod answer;
mod grafana;
mod pagerduty;
mod render;
mod request;
mod sample;
mod secrets;
pub(crate) mod slack;
mod teams;
pub mod webhook;

use std::time::Instant;

use changelog_core::{ConnectionKind, Event, EventKind, Status};

use super::http::ReceiverClient;
use super::message::{Attempt, Message};
pub use pagerduty::DEFAULT_URL as PAGERDUTY_URL;
pub use sample::test_event;
pub use slack::DEFAULT_API_URL as SLACK_API_URL;

use answer::Outcome;
use secrets::Secrets;

/// Sends a message to a receiver. It may take several requests, each of which takes at
/// most [`REQUEST_TIMEOUT`](super::http::REQUEST_TIMEOUT).
pub async fn send(http: &ReceiverClient, kind: &ConnectionKind, message: &Message<'_>) -> Attempt {
    let started = Instant::now();
    let outcome = match (kind, message.event) {
        (ConnectionKind::Webhook, _) => webhook::send(http, message).await,
        (ConnectionKind::Slack, _) => slack::send(http, message).await,
        (ConnectionKind::Teams, _) => teams::send(http, message).await,
        (ConnectionKind::Grafana, Event::Change(event)) => {
            grafana::send(http, message, event).await
        }
        (ConnectionKind::PagerDuty, Event::Change(event)) => {
            pagerduty::send(http, message, event).await
        }
        (ConnectionKind::PagerDuty, Event::Incident(event)) => {
            pagerduty::note::send(http, message, event).await
        }
        (ConnectionKind::Grafana, Event::Source(_) | Event::Incident(_))
        | (ConnectionKind::PagerDuty, Event::Source(_)) => Outcome::nothing_to_send(),
        _ => Outcome::refused(format!("This server cannot send to {}.", kind.label())),
    };
    let secrets = Secrets::of(message.target);
    Attempt {
        verdict: outcome.verdict,
        status: outcome.status,
        answer: outcome
            .answer
            .map(|answer| secrets.mask(&answer))
            .unwrap_or_default(),
        duration: started.elapsed(),
        reference: outcome.reference,
    }
}

/// Returns whether connections of a kind send an event at all, if their filter lets it
/// through.
pub fn takes(kind: &ConnectionKind, event: &Event) -> bool {
    match (kind, event) {
        // A change event of PagerDuty can be neither updated nor recognized again.
        (ConnectionKind::PagerDuty, Event::Change(event)) => event.ends_the_change(),
        // What has not happened does not explain a graph; what is planned again is removed.
        (ConnectionKind::Grafana, Event::Change(event)) => {
            event.change.status != Status::Planned || event.kind != EventKind::Created
        }
        (ConnectionKind::PagerDuty, Event::Incident(event)) => pagerduty::note::is_of(event),
        // It knows of changes only.
        (ConnectionKind::Grafana, Event::Source(_) | Event::Incident(_))
        | (ConnectionKind::PagerDuty, Event::Source(_))
        | (ConnectionKind::Unknown(_), _) => false,
        _ => true,
    }
}

//! What `senders::send` sends to each kind of receiver, and what follows from answers.

mod addresses;
mod chats;
mod grafana;
mod limits;
mod misbehaving;
mod pagerduty;
mod webhook;

use changelog_core::activity::Difference;
use changelog_core::{
    Agent, AgentMode, Author, AuthorType, Change, ConnectionKind, Environment, Event, EventKind,
    EventOfChange, EventOfSource, HostRef, Outcome, RiskLevel, ServiceRef, SilentSource, Status,
    Timestamp,
};
use changelog_server::integrations::http::ReceiverClient;
use changelog_server::integrations::message::{Attempt, Message, Verdict};
use changelog_server::integrations::senders;
use changelog_server::integrations::target::{SigningSecret, Target};
use serde_json::Value;
use uuid::Uuid;

const DASHBOARD: &str = "https://changes.example.com";

/// Returns a client that may send to the receivers of the tests.
fn client() -> ReceiverClient {
    ReceiverClient::new(vec!["127.0.0.0/8".parse().expect("a network")])
}

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn now() -> Timestamp {
    time("2026-01-15T08:40:00Z")
}

/// Returns a change that has ended, with every field.
fn change() -> Change {
    let service = |number: u128, name: &str| ServiceRef {
        id: Uuid::from_u128(number).into(),
        name: name.to_owned(),
        color: "#6366f1".to_owned(),
    };
    let tested = senders::test_event(Uuid::from_u128(1).into(), time("2026-01-15T08:30:00Z"));
    let mut change = change_of(&tested);
    change.id = Uuid::from_u128(2).into();
    "Deploy payments 2.3".clone_into(&mut change.title);
    change.description = Some("Rolls out the new *rate limiter*.\nUndo: `deploy 2.2`.".to_owned());
    change.risk_level = RiskLevel::High;
    change.environment = Some(Environment::Prod);
    change.host_ref = Some(HostRef {
        id: Uuid::from_u128(3).into(),
        hostname: "web-1".to_owned(),
        environment: Some(Environment::Prod),
    });
    change.set_services(vec![service(4, "payments"), service(5, "checkout")]);
    change.tags = vec!["release".to_owned()];
    change.started_at = Some(time("2026-01-15T08:26:00Z"));
    change.ended_at = Some(time("2026-01-15T08:30:00Z"));
    change.on_behalf_of = Some("ada@example.com".to_owned());
    change.agent = Some(Agent {
        name: "deploy-bot".to_owned(),
        mode: Some(AgentMode::Autonomous),
        run: None,
    });
    change.commit = Some("1a2b3c4d5e6f7890".to_owned());
    change.created_by = Some(Author {
        kind: AuthorType::ApiKey,
        name: "ci".to_owned(),
        id: Uuid::from_u128(6),
        verified: None,
    });
    change
}

/// Returns the change of an event.
fn change_of(event: &Event) -> Change {
    event.of_change().expect("a change").change.clone()
}

fn event_of(kind: EventKind, change: Change) -> EventOfChange {
    EventOfChange {
        id: Uuid::from_u128(7),
        kind,
        at: time("2026-01-15T08:30:01Z"),
        actor: "API key: ci".to_owned(),
        actor_id: None,
        change,
        changes: std::collections::BTreeMap::new(),
        reason: None,
    }
}

fn event(kind: EventKind, change: Change) -> Event {
    event_of(kind, change).into()
}

/// Returns the event of a source that fell silent, or was heard again.
fn event_of_source(name: &str, is_silent: bool) -> EventOfSource {
    EventOfSource {
        id: Uuid::from_u128(8),
        kind: if is_silent {
            EventKind::SourceSilent
        } else {
            EventKind::SourceHeard
        },
        at: time("2026-01-15T08:30:01Z"),
        source: SilentSource {
            id: Uuid::from_u128(9),
            name: name.to_owned(),
            kind: "github".to_owned(),
            since: time("2026-01-15T02:10:00Z"),
            until: (!is_silent).then(|| time("2026-01-15T08:30:00Z")),
        },
    }
}

/// Returns the event of a change whose status became another one.
fn moved(mut change: Change, from: &str, to: Status, outcome: Option<Outcome>) -> Event {
    let difference = Difference {
        from: from.into(),
        to: to.as_str().into(),
    };
    change.status = to;
    change.outcome = outcome;
    if !change.status.is_ended() {
        change.ended_at = None;
    }
    let mut event = event_of(EventKind::StatusChanged, change);
    event.changes.insert("status".to_owned(), difference);
    event.into()
}

fn message<'m>(target: &'m Target, event: &'m Event) -> Message<'m> {
    Message {
        target,
        event,
        grouped: &[],
        dashboard: DASHBOARD,
        organization: "Example",
        reference: None,
        now: now(),
    }
}

/// Sends an event, with the reference that an earlier attempt returned.
async fn send(
    kind: &ConnectionKind,
    target: &Target,
    event: &Event,
    reference: Option<&Value>,
) -> Attempt {
    let message = Message {
        reference,
        ..message(target, event)
    };
    senders::send(&client(), kind, &message).await
}

fn webhook_target(url: String) -> Target {
    Target {
        url,
        signing_secrets: vec![SigningSecret {
            secret: senders::webhook::new_signing_secret(),
            valid_until: None,
        }],
        ed25519_seed: Some(senders::webhook::new_ed25519_seed()),
        ..Target::default()
    }
}

fn with_token(url: String, token: &str) -> Target {
    Target {
        url,
        token: Some(token.to_owned()),
        channel: Some("C0123456789".to_owned()),
        ..Target::default()
    }
}

/// Returns which verdict an attempt has: `delivered`, `retry`, `refused`, `disabled`.
fn verdict(attempt: &Attempt) -> &'static str {
    match attempt.verdict {
        Verdict::Delivered => "delivered",
        Verdict::Retry { .. } => "retry",
        Verdict::Refused { .. } => "refused",
        Verdict::Disabled { .. } => "disabled",
    }
}

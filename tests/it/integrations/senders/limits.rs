//! Any change within the limits of the API is within the limits of every receiver.

use changelog_core::activity::Difference;
use changelog_core::limits::{
    MAX_LINKS, MAX_LONG_TEXT_CHARS, MAX_NAME_CHARS, MAX_SENDER_ID_CHARS, MAX_SERVICES, MAX_TAGS,
    MAX_TITLE_CHARS, MAX_URL_CHARS,
};
use changelog_core::{
    Agent, Change, ConnectionKind, Event, EventKind, EventOfIncident, Link, ServiceRef, Status,
};
use changelog_server::integrations::message::Message;
use changelog_server::integrations::senders;
use changelog_tests::receivers::{pagerduty, slack, teams, webhook};
use changelog_tests::{Answer, Receiver};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{change, client, event_of, event_of_source, message, webhook_target};

/// The suspects and the gaps that an incident keeps, and more characters than a reason has.
const MAX_SUSPECTS: usize = 10;
const MAX_GAPS: usize = 10;
const MAX_REASON_CHARS: usize = 400;

/// Strings of up to a number of characters that take much space in some format, or are
/// formatting.
fn text(min: usize, max: usize) -> impl Strategy<Value = String> {
    let units = [
        "a",
        "&",
        "<",
        ">",
        "\"",
        "\\",
        "é",
        "😀",
        "\u{202e}",
        "*b* ",
        "_",
        "`",
        "[x](y) ",
        "- ",
        "> ",
        "<!channel> ",
        "{{DATE()}}",
        "|",
        "1. ",
        "@here ",
    ];
    let lengths = prop_oneof![Just(min), Just(max), min..=max];
    (prop::sample::select(units.to_vec()), lengths, "\\PC{0,20}").prop_map(
        move |(unit, length, start)| {
            let text = start.chars().chain(unit.chars().cycle());
            text.take(length).collect()
        },
    )
}

fn changes() -> impl Strategy<Value = Change> {
    let names = prop::collection::vec(text(1, MAX_NAME_CHARS), 0..=MAX_TAGS);
    let services = prop::collection::vec(text(2, MAX_NAME_CHARS), 0..=MAX_SERVICES);
    let links = prop::collection::vec(
        (text(1, MAX_NAME_CHARS), text(0, MAX_URL_CHARS - 20)),
        0..=MAX_LINKS,
    );
    let long = || prop::option::of(text(1, MAX_LONG_TEXT_CHARS));
    let name = || prop::option::of(text(1, MAX_NAME_CHARS));
    let statuses = prop::sample::select(Status::ALL.to_vec());
    (
        (text(3, MAX_TITLE_CHARS), long(), long(), statuses),
        (names, services, links),
        (name(), name(), prop::option::of(text(1, MAX_URL_CHARS))),
    )
        .prop_map(|(texts, lists, people)| {
            let mut change = change();
            (
                change.title,
                change.description,
                change.impact,
                change.status,
            ) = texts;
            let (tags, services, links) = lists;
            change.tags = tags;
            let services = services
                .into_iter()
                .enumerate()
                .map(|(number, name)| ServiceRef {
                    id: uuid::Uuid::from_u128(number as u128).into(),
                    name,
                    color: "#6366f1".to_owned(),
                });
            change.set_services(services.collect());
            let links = links.into_iter().map(|(label, path)| Link {
                label,
                url: format!("https://example.com/{path}"),
            });
            change.links = links.collect();
            let (person, agent, run) = people;
            change.on_behalf_of = person;
            change.agent = agent.map(|name| Agent {
                name,
                mode: None,
                run,
            });
            change
        })
}

fn events() -> impl Strategy<Value = Event> {
    let kinds = EventKind::ALL.iter();
    let kinds = kinds.filter(|kind| !kind.is_of_source() && !kind.is_of_incident());
    let kinds = prop::sample::select(kinds.cloned().collect::<Vec<_>>());
    let of_changes = (changes(), changes(), kinds).prop_map(|(before, change, kind)| {
        let mut event = event_of(kind, change);
        if event.kind == EventKind::Updated {
            let before = serde_json::to_value(before).expect("JSON");
            let after = serde_json::to_value(&event.change).expect("JSON");
            for name in ["title", "links", "tags", "services", "agent"] {
                let value = |change: &Value| change.get(name).cloned().unwrap_or_default();
                let difference = Difference {
                    from: value(&before),
                    to: value(&after),
                };
                event.changes.insert(name.to_owned(), difference);
            }
        }
        Event::from(event)
    });
    let of_sources = (any::<String>(), any::<bool>())
        .prop_map(|(name, is_silent)| Event::Source(event_of_source(&name, is_silent)));
    prop_oneof![4 => of_changes, 1 => of_sources, 2 => incidents()]
}

/// Incidents with as many suspects, reasons and gaps as are kept, each with long texts.
fn incidents() -> impl Strategy<Value = Event> {
    let kinds = EventKind::ALL.iter().filter(|kind| kind.is_of_incident());
    let kinds = prop::sample::select(kinds.cloned().collect::<Vec<_>>());
    let names = || prop::collection::vec(text(1, MAX_NAME_CHARS), 0..=MAX_GAPS);
    let suspects = prop::collection::vec(
        (
            text(3, MAX_TITLE_CHARS),
            prop::collection::vec(text(1, MAX_REASON_CHARS), 1..8),
        ),
        0..=MAX_SUSPECTS,
    );
    let title = text(3, MAX_TITLE_CHARS);
    let url = prop::option::of(text(0, MAX_URL_CHARS - 20));
    (title, kinds, names(), suspects, url).prop_map(|(title, kind, names, suspects, url)| {
        let id = uuid::Uuid::from_u128(1);
        let at = "2026-01-15T08:30:00.000Z";
        let suspects = suspects.into_iter().map(|(title, reasons)| {
            let reasons = reasons
                .into_iter()
                .map(|text| json!({ "code": "same_service", "points": 64, "text": text }));
            json!({
                "score": 154, "reasons": reasons.collect::<Vec<_>>(),
                "change": {
                    "id": id, "title": title, "risk_level": "high", "status": "completed",
                    "outcome": null, "service": null, "environment": null, "at": at,
                    "created_by": null, "on_behalf_of": null,
                },
            })
        });
        let suspects: Vec<Value> = suspects.collect();
        let service = names
            .first()
            .map(|name| json!({ "id": id, "name": name, "color": "#fff" }));
        let gaps = names
            .iter()
            .map(|name| json!({ "name": name, "since": at, "until": null }));
        let resolved_at = (kind == EventKind::IncidentResolved).then_some(at);
        let sender_id: Option<String> = url
            .as_ref()
            .map(|path| path.chars().take(MAX_SENDER_ID_CHARS).collect());
        let incident = json!({
            "id": id, "title": title, "severity": "critical",
            "status": if resolved_at.is_some() { "resolved" } else { "open" },
            "service_id": service.as_ref().map(|_| id), "service": service, "environment": "prod",
            "started_at": at, "resolved_at": resolved_at,
            "url": url.map(|path| format!("https://example.com/{path}")), "source": null,
            "sender_id": sender_id, "created_by": null, "suspects": suspects,
            "first_suspects": suspects, "ranked_at": at,
            "gaps": gaps.collect::<Vec<_>>(), "cause_change_id": null, "cause": null,
            "created_at": at, "updated_at": at,
        });
        Event::Incident(Box::new(EventOfIncident {
            id,
            kind,
            at: at.parse().expect("a time"),
            actor: "source: Alerts".to_owned(),
            actor_id: None,
            again: false,
            incident: serde_json::from_value(incident).expect("an incident"),
        }))
    })
}

#[test]
fn every_change_is_within_the_limits_of_receivers() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let receiver = runtime.block_on(Receiver::start());
    receiver.answer_by(|_| Answer::text(200, "ok"));
    let client = client();
    let mut target = webhook_target(receiver.url());
    target.channel = Some("C0123456789".to_owned());
    let secret = target.signing_secrets[0].secret.clone();
    let mut with_key = target.clone();
    with_key.token = Some("0".repeat(32));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(64));
    let strategy = prop::collection::vec(events(), 1..6);
    let result = runner.run(&strategy, |events| {
        for (kind, target) in [
            (ConnectionKind::Webhook, &target),
            (ConnectionKind::Slack, &target),
            (ConnectionKind::Teams, &target),
            (ConnectionKind::PagerDuty, &with_key),
        ] {
            if !kind.is_chat() && kind != ConnectionKind::Webhook && events[0].of_change().is_none()
            {
                continue;
            }
            let grouped = if kind.is_chat() { &events[1..] } else { &[] };
            for grouped in [&[], grouped] {
                let message = Message {
                    grouped,
                    ..message(target, &events[0])
                };
                runtime.block_on(senders::send(&client, &kind, &message));
                let request = receiver.requests().pop().expect("a request");
                let result = match kind {
                    ConnectionKind::Webhook => webhook::check(&request, &secret).map(drop),
                    ConnectionKind::Slack => slack::check(&request.json()),
                    ConnectionKind::Teams => teams::check(&request.body),
                    _ => pagerduty::check(&request.json()),
                };
                prop_assert!(result.is_ok(), "{kind}: {result:?}");
            }
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(receiver.requests().len() > 300);
    let truncated = receiver.requests().into_iter().any(|request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        body["data"]["truncated"] != json!(null)
    });
    assert!(truncated, "no body was too long");
}

//! Change events of PagerDuty.

use changelog_core::{ConnectionKind, Event, EventKind, EventOfIncident, Outcome, Status};
use changelog_server::integrations::senders;
use changelog_server::integrations::target::Target;
use changelog_tests::receivers::pagerduty::{check, check_note};
use changelog_tests::{Answer, Receiver};
use serde_json::json;
use uuid::Uuid;

use super::{change, event, moved, now, send, verdict, with_token};

const KIND: ConnectionKind = ConnectionKind::PagerDuty;
const KEY: &str = "0123456789abcdef0123456789abcdef";

#[tokio::test]
async fn an_ended_change_is_sent_with_its_own_time() {
    let receiver = Receiver::start().await;
    receiver.answer_with(Answer::status(202));
    let target = with_token(receiver.url(), KEY);
    let failed = moved(
        change(),
        "in_progress",
        Status::RolledBack,
        Some(Outcome::Failed),
    );
    let attempt = send(&KIND, &target, &failed, None).await;
    assert_eq!(verdict(&attempt), "delivered");
    let body = receiver.requests()[0].json();
    check(&body).expect("a change event");
    insta::assert_json_snapshot!("pagerduty", body);
}

#[tokio::test]
async fn only_the_end_of_a_change_is_sent() {
    let ended = change();
    let mut running = change();
    running.status = Status::InProgress;
    for (event, is_sent) in [
        (event(EventKind::Created, ended.clone()), true),
        (event(EventKind::Created, running.clone()), false),
        (event(EventKind::Updated, ended.clone()), false),
        (event(EventKind::Deleted, ended.clone()), false),
        (
            moved(ended.clone(), "in_progress", Status::Completed, None),
            true,
        ),
        (moved(ended, "completed", Status::RolledBack, None), false),
        (moved(running, "planned", Status::InProgress, None), false),
    ] {
        assert_eq!(senders::takes(&KIND, &event), is_sent, "{event:?}");
    }
}

#[tokio::test]
async fn answers_have_their_verdicts() {
    let receiver = Receiver::start().await;
    let target = with_token(receiver.url(), KEY);
    let ended = event(EventKind::Created, change());
    for (status, expected) in [
        (202, "delivered"),
        (400, "refused"),
        (429, "retry"),
        (500, "retry"),
    ] {
        receiver.answer_with(Answer::text(status, KEY));
        let attempt = send(&KIND, &target, &ended, None).await;
        assert_eq!(
            (attempt.status, verdict(&attempt)),
            (Some(status), expected)
        );
        assert_eq!(attempt.answer, "***");
    }
}

/// Returns an event of an incident that a source of some kind has opened.
fn incident(kind: EventKind, source: &str) -> Event {
    let (id, at) = (Uuid::from_u128(7), now());
    let incident = json!({
        "id": id, "title": "Down", "severity": "critical", "status": "open",
        "service_id": null, "service": null, "environment": null, "started_at": at,
        "resolved_at": null, "url": null, "source": { "id": id, "kind": source, "name": "P" },
        "sender_id": "P/1", "created_by": null, "ranked_at": at, "cause_change_id": null,
        "cause": null, "created_at": at, "updated_at": at,
    });
    Event::Incident(Box::new(EventOfIncident {
        id,
        kind,
        at,
        actor: "source: P".to_owned(),
        actor_id: None,
        again: false,
        incident: serde_json::from_value(incident).expect("an incident"),
    }))
}

#[tokio::test]
async fn a_refused_note_leaves_the_connection_as_it_is() {
    const FROM: &str = "oncall@example.com";
    let receiver = Receiver::start().await;
    let target = Target {
        api_token: Some("u+secret".to_owned()),
        from: Some(FROM.to_owned()),
        ..with_token(receiver.url(), KEY)
    };
    let ranked = incident(EventKind::IncidentSuspects, "pagerduty");
    for (status, expected) in [
        (201, "delivered"),
        (400, "refused"),
        (401, "refused"),
        (403, "refused"),
        (404, "refused"),
        (429, "retry"),
        (500, "retry"),
    ] {
        receiver.answer_with(Answer::text(status, "u+secret"));
        let attempt = send(&KIND, &target, &ranked, None).await;
        let shown = (attempt.status, verdict(&attempt), attempt.answer.as_str());
        assert_eq!(shown, (Some(status), expected, "***"));
        assert_eq!(attempt.reference.is_some(), status == 201);
    }
    let requests = receiver.requests();
    let (of, note) = check_note(&requests[0], "u+secret", FROM).expect("a note");
    assert_eq!(of, "P%2F1");
    assert!(
        note.starts_with("Suspects: No change was recorded before it"),
        "{note}"
    );

    // Nothing is sent without a key, or twice of the same first suspect.
    let said = json!({ "notes": 1, "first": null });
    let without = with_token(receiver.url(), KEY);
    for (target, reference) in [(&without, None), (&target, Some(&said))] {
        let attempt = send(&KIND, target, &ranked, reference).await;
        assert_eq!((attempt.status, verdict(&attempt)), (None, "delivered"));
    }
    assert_eq!(receiver.count(), requests.len());
    for (kind, source) in [
        (EventKind::IncidentOpened, "pagerduty"),
        (EventKind::IncidentResolved, "pagerduty"),
        (EventKind::IncidentSuspects, "alertmanager"),
    ] {
        assert!(!senders::takes(&KIND, &incident(kind, source)));
    }
    assert!(senders::takes(&KIND, &ranked));
}

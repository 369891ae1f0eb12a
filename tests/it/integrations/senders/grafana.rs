//! Annotations in Grafana, in both forms of its API.

use changelog_core::{ConnectionKind, EventKind, Status};
use changelog_server::integrations::senders;
use changelog_server::integrations::target::Target;
use changelog_tests::receivers::grafana::Grafana;
use changelog_tests::{Answer, Receiver};
use serde_json::{Value, json};

use super::{change, change_of, event, moved, now, send, time, verdict, with_token};

const KIND: ConnectionKind = ConnectionKind::Grafana;

/// A change is started, ends and is deleted; `spec` returns what an annotation shows.
async fn lives(target: &Target, grafana: &Grafana, spec: fn(&Value) -> &Value) {
    let mut started = change();
    started.status = Status::InProgress;
    started.ended_at = None;
    let created = event(EventKind::Created, started.clone());
    let attempt = send(&KIND, target, &created, None).await;
    assert_eq!(verdict(&attempt), "delivered", "{attempt:?}");
    let reference = attempt.reference.expect("a reference");
    let all = grafana.all();
    let annotation = spec(all.values().next().expect("an annotation"));
    let start = time("2026-01-15T08:26:00Z").millis();
    assert_eq!(annotation["time"], start);
    assert_eq!(annotation.get("timeEnd"), None);

    // The end is in the future of the service's clock.
    let mut ended = change();
    ended.ended_at = Some(time("2026-01-15T08:41:00Z"));
    let ended = moved(ended, "in_progress", Status::Completed, None);
    let attempt = send(&KIND, target, &ended, Some(&reference)).await;
    assert_eq!(verdict(&attempt), "delivered", "{attempt:?}");
    assert_eq!(attempt.reference.as_ref(), Some(&reference));
    let all = grafana.all();
    assert_eq!(all.len(), 1);
    let annotation = spec(all.values().next().expect("an annotation"));
    assert_eq!(annotation["timeEnd"], now().millis());
    let tags = json!(["high", "completed", "prod", "payments", "checkout"]);
    assert_eq!(annotation["tags"], tags);

    // People have removed it: it is created again.
    grafana.clear();
    let attempt = send(&KIND, target, &ended, Some(&reference)).await;
    assert_eq!((verdict(&attempt), grafana.all().len()), ("delivered", 1));
    let reference = attempt.reference.expect("a reference");
    let deleted = event(EventKind::Deleted, change_of(&ended));
    for _ in 0..2 {
        let attempt = send(&KIND, target, &deleted, Some(&reference)).await;
        assert_eq!((verdict(&attempt), grafana.all().len()), ("delivered", 0));
    }
}

#[tokio::test]
async fn annotations_follow_their_changes() {
    let receiver = Receiver::start().await;
    let grafana = Grafana::serve(&receiver);
    let mut target = with_token(receiver.base(), "glsa_test");
    target.dashboard_uid = Some("dash".to_owned());
    target.panel_id = Some(4);
    lives(&target, &grafana, |annotation| annotation).await;
    insta::assert_json_snapshot!("grafana_annotation", receiver.requests()[0].json());
    let methods: Vec<String> = receiver
        .requests()
        .into_iter()
        .map(|it| it.method)
        .collect();
    let expected = ["POST", "PATCH", "PATCH", "POST", "DELETE", "DELETE"];
    assert_eq!(methods, expected);
}

#[tokio::test]
async fn annotations_follow_their_changes_as_resources() {
    let receiver = Receiver::start().await;
    let grafana = Grafana::serve_resources(&receiver);
    let mut target = with_token(format!("{}/", receiver.base()), "glsa_test");
    target.grafana_namespace = Some("default".to_owned());
    target.panel_id = Some(4);
    lives(&target, &grafana, |annotation| &annotation["spec"]).await;
    insta::assert_json_snapshot!("grafana_resource", receiver.requests()[0].json());

    // An attempt whose answer was lost is repeated: one annotation.
    let created = event(EventKind::Created, change());
    for _ in 0..2 {
        let attempt = send(&KIND, &target, &created, None).await;
        assert_eq!((verdict(&attempt), grafana.all().len()), ("delivered", 1));
    }
}

#[tokio::test]
async fn planned_changes_are_not_annotated() {
    let receiver = Receiver::start().await;
    let grafana = Grafana::serve(&receiver);
    let target = with_token(receiver.base(), "glsa_test");
    let mut planned = change();
    planned.status = Status::Planned;
    let planned = event(EventKind::Created, planned);
    assert!(!senders::takes(&KIND, &planned));
    let attempt = send(&KIND, &target, &planned, None).await;
    assert_eq!(
        (verdict(&attempt), receiver.requests().len()),
        ("delivered", 0)
    );
    let created = event(EventKind::Created, change());
    let reference = send(&KIND, &target, &created, None).await.reference;
    let postponed = moved(change(), "in_progress", Status::Planned, None);
    assert!(senders::takes(&KIND, &postponed));
    send(&KIND, &target, &postponed, reference.as_ref()).await;
    assert_eq!((receiver.requests().len(), grafana.all().len()), (2, 0));
}

#[tokio::test]
async fn answers_have_their_verdicts() {
    let receiver = Receiver::start().await;
    let target = with_token(receiver.base(), "glsa_test");
    let created = event(EventKind::Created, change());
    for (status, expected) in [
        (400, "refused"),
        (401, "disabled"),
        (403, "disabled"),
        (404, "retry"),
        (429, "retry"),
        (500, "retry"),
    ] {
        receiver.answer_with(Answer::status(status));
        let attempt = send(&KIND, &target, &created, None).await;
        assert_eq!(
            (attempt.status, verdict(&attempt)),
            (Some(status), expected)
        );
    }
}

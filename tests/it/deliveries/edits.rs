//! Receivers that keep one message or annotation for each change, which later events edit.

use std::time::{Duration, Instant};

use changelog_tests::receivers::grafana::Grafana;
use changelog_tests::receivers::slack::Channel;
use changelog_tests::receivers::{Answer, Receiver};
use changelog_tests::{TestApp, on_both};
use serde_json::{Value, json};

use super::{Connection, TIMEOUT, allow_receivers, connect_as, text};

on_both!(
    a_bot_edits_its_messages_also_in_a_burst,
    an_old_event_does_not_replace_a_later_one,
    another_receiver_keeps_what_is_there,
);

/// Connects a receiver with a token.
fn connect_with_token(
    app: &TestApp,
    kind: &str,
    receiver: &Receiver,
    token: &str,
    flags: &[&str],
) -> Connection {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, token).expect("written");
    let file = file.to_str().expect("UTF-8");
    let flags = [&["--token-file", file], flags].concat();
    connect_as(app, kind, kind, &receiver.base(), &flags)
}

/// Moves the clock on in small steps until something is as expected.
async fn wait_until(app: &TestApp, is_expected: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_expected() {
        assert!(Instant::now() < deadline, "it did not happen in time");
        app.clock.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn a_bot_edits_its_messages_also_in_a_burst(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let receiver = Receiver::start().await;
    let channel = Channel::serve(&receiver);
    let flags = ["--channel", "C0123456789"];
    connect_with_token(&app, "slack", &receiver, "xoxb-test", &flags);
    let key = app.key();
    let service = key.service("payments").await;
    let mut ids = Vec::new();
    for number in 0..7 {
        let body = json!({
            "title": format!("Deploy {number}"), "status": "in_progress", "service_id": service,
        });
        ids.push(key.create("/api/changes", body).await);
        wait_until(&app, || channel.messages().len() > number).await;
        app.clock.advance(Duration::from_mins(2));
    }
    // All of them end within a minute.
    for id in &ids {
        let body = json!({ "status": "rolled_back", "outcome": "failed" });
        key.update(&format!("/api/changes/{id}"), body).await;
    }
    wait_until(&app, || channel.replies().len() == ids.len()).await;
    let messages = channel.messages();
    assert_eq!(messages.len(), ids.len(), "no further message");
    for message in messages.values() {
        let message = message.to_string();
        assert!(message.contains("Failed"), "{message}");
    }
}

async fn an_old_event_does_not_replace_a_later_one(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let receiver = Receiver::start().await;
    let grafana = Grafana::serve(&receiver);
    let connection = connect_with_token(&app, "grafana", &receiver, "glsa_test", &[]);
    let key = app.key();
    let body = json!({ "title": "Deploy", "status": "in_progress", "risk_level": "high" });
    let id = key.create("/api/changes", body).await;
    connection
        .newest(&app, |one| one["state"] == "delivered")
        .await;
    let body = json!({ "status": "completed" });
    key.update(&format!("/api/changes/{id}"), body).await;
    let completed = connection
        .newest(&app, |one| {
            one["state"] == "delivered" && one["event"] != "change.created"
        })
        .await;
    let before = grafana.all();
    assert_eq!(before.len(), 1);
    let requests = receiver.count();
    let deliveries = connection.deliveries(&app);
    let created: &Value = deliveries.last().expect("the first one");
    assert_ne!(created["id"], completed["id"]);
    app.admin(&["integration", "replay", &text(&created["id"])]);
    let is_done = |all: &[Value]| all.iter().all(|one| one["state"] == "delivered");
    let deadline = Instant::now() + TIMEOUT;
    while !is_done(&connection.deliveries(&app)) {
        assert!(Instant::now() < deadline, "it was not sent again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(receiver.count(), requests, "the annotation was changed");
    assert_eq!(grafana.all(), before);

    // A later event still changes it, and its removal is not undone by an earlier one.
    receiver.answer_next(Answer::status(500));
    let body = json!({ "status": "planned" });
    key.update(&format!("/api/changes/{id}"), body).await;
    wait_until(&app, || grafana.all().is_empty()).await;
    app.admin(&["integration", "replay", &text(&completed["id"])]);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(grafana.all().is_empty(), "it is there again");
}

async fn another_receiver_keeps_what_is_there(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let (first, second) = (Receiver::start().await, Receiver::start().await);
    let (before, after) = (Grafana::serve(&first), Grafana::serve(&second));
    let connection = connect_with_token(&app, "grafana", &first, "glsa_test", &[]);
    let key = app.key();
    let body = json!({ "title": "Deploy", "status": "in_progress", "risk_level": "high" });
    let id = key.create("/api/changes", body).await;
    connection
        .newest(&app, |one| one["state"] == "delivered")
        .await;
    assert_eq!(before.all().len(), 1);
    // Others have written one there that has the same number.
    let foreign = json!({ "text": "Of others", "time": 1, "tags": [] });
    let request = reqwest::Client::new().post(format!("{}/api/annotations", second.base()));
    let request = request.header("authorization", "Bearer glsa_test");
    let written = request.json(&foreign).send().await.expect("an answer");
    assert_eq!(written.status(), 200);
    let foreign = after.all();
    assert_eq!(foreign.keys().next(), before.all().keys().next());
    let page = format!("/settings/integrations/{}", connection.id);
    let second_url = second.base();
    let events = ["change.created", "change.status_changed"];
    let mut fields = vec![
        ("name", "grafana"),
        ("url", &second_url),
        ("token", "glsa_test"),
    ];
    fields.extend(events.map(|event| ("events", event)));
    app.browser().await.submit(&page, &fields).await;
    let body = json!({ "status": "completed" });
    key.update(&format!("/api/changes/{id}"), body).await;
    connection
        .newest(&app, |one| {
            one["state"] == "delivered" && one["event"] != "change.created"
        })
        .await;
    assert_eq!(after.all().len(), 2);
    for (number, annotation) in foreign {
        assert_eq!(after.all()[&number], annotation);
    }
}

//! Many changes at once are one message of a chat.

use std::time::{Duration, Instant};

use changelog_tests::receivers::Receiver;
use changelog_tests::{TestApp, on_both, text};
use serde_json::{Value, json};

use super::{Connection, allow_receivers, connect_as};

on_both!(
    bursts_are_one_message,
    a_storm_of_alerts_is_summarized,
    a_few_changes_are_messages_of_their_own
);

async fn record(app: &TestApp, service: &str, count: usize) {
    let changes: Vec<Value> = (0..count)
        .map(|number| json!({ "title": format!("Deploy {number}"), "service_id": service }))
        .collect();
    app.key().create_changes(changes).await;
}

async fn connected(app: &mut TestApp) -> (Receiver, Connection, String) {
    allow_receivers(app).await;
    let receiver = Receiver::start().await;
    let chat = connect_as(app, "slack", "chat", &receiver.url(), &[]);
    let service = json!({ "name": "payments" });
    let service = app.key().create("/api/services", service).await;
    (receiver, chat, service)
}

/// Stops the clock at the beginning of the next minute.
fn begin_minute(app: &TestApp) {
    app.clock.stop();
    let past = app.clock.now().timestamp_millis().rem_euclid(60_000);
    let rest = u64::try_from(60_001 - past).expect("a positive number");
    app.clock.advance(Duration::from_millis(rest));
}

async fn bursts_are_one_message(mut app: TestApp) {
    let (receiver, chat, service) = connected(&mut app).await;
    begin_minute(&app);
    record(&app, &service, 12).await;
    chat.newest(&app, |_| chat.deliveries(&app).len() == 12)
        .await;
    assert_eq!(
        receiver.requests().len(),
        0,
        "not before the minute is over"
    );
    app.clock.advance(Duration::from_mins(1));
    let requests = receiver.wait_for(1).await;
    let message = requests[0].json().to_string();
    assert!(message.contains("12 changes"), "{message}");
    assert!(message.contains("payments"), "{message}");
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(receiver.requests().len(), 1);
}

async fn a_few_changes_are_messages_of_their_own(mut app: TestApp) {
    let (receiver, _, service) = connected(&mut app).await;
    record(&app, &service, 3).await;
    // One a second, by the clock that the test moves.
    for number in 1..=3 {
        receiver.wait_for(number).await;
        app.clock.advance(Duration::from_secs(1));
    }
    let titles: Vec<String> = receiver
        .requests()
        .iter()
        .map(|request| request.json().to_string())
        .collect();
    for (number, message) in titles.iter().enumerate() {
        assert!(message.contains(&format!("Deploy {number}")), "{message}");
    }
}

/// 2,000 alerts of 300 groups, of as many services.
async fn a_storm_of_alerts_is_summarized(mut app: TestApp) {
    let (receiver, chat, _) = connected(&mut app).await;
    let source = app.source("alertmanager", "Alerts", None);
    begin_minute(&app);
    let starts = app.clock.now().to_rfc3339();
    let alerts = (0..2_000).map(|number| {
        let group = number % 300;
        let labels =
            json!({ "alertname": format!("Alert {group}"), "service": format!("s{group}") });
        json!({
            "version": "4", "groupKey": format!("group {group}"), "status": "firing",
            "receiver": "changes", "groupLabels": {}, "commonLabels": labels,
            "externalURL": "http://am.example.com", "commonAnnotations": {},
            "alerts": [{ "status": "firing", "labels": labels, "annotations": {},
                "startsAt": starts, "endsAt": "0001-01-01T00:00:00Z",
                "generatorURL": "http://prometheus.example.com" }],
        })
    });
    let alerts: Vec<Value> = alerts.collect();
    for some in alerts.chunks(20) {
        futures_util::future::join_all(some.iter().map(|alert| source.send(alert))).await;
    }
    source.events().await;
    // The clock stands still until everything is queued.
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let incidents = all_incidents(&app).await;
        assert_eq!(incidents.len(), 300);
        if incidents.iter().all(|one| !one["ranked_at"].is_null()) {
            break;
        }
        assert!(Instant::now() < deadline, "not all were ranked");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Advance the clock until the first messages and then the summary have been sent.
    let mut summary = None;
    let deadline = Instant::now() + Duration::from_mins(1);
    while Instant::now() < deadline {
        app.clock.advance(Duration::from_secs(2));
        tokio::time::sleep(Duration::from_millis(50)).await;
        let requests = receiver.requests();
        let mut messages = requests.iter().map(|request| request.json().to_string());
        summary = messages.rfind(|message| message.contains(" incidents within a minute"));
        if summary.is_some()
            && chat
                .deliveries(&app)
                .iter()
                .all(|one| one["state"] != "pending")
        {
            break;
        }
    }
    let messages = receiver.requests().len();
    assert!(summary.is_some(), "no summary among {messages} messages");
    assert!(messages <= 80, "{messages} messages");
}

async fn all_incidents(app: &TestApp) -> Vec<Value> {
    let mut incidents: Vec<Value> = Vec::new();
    let mut path = "/api/incidents?limit=100".to_owned();
    loop {
        let page = app.key().read(&path).await;
        let page = page.as_array().expect("a list");
        let Some(last) = page.last() else {
            return incidents;
        };
        path = format!("/api/incidents?limit=100&before={}", text(&last["id"]));
        incidents.extend_from_slice(page);
    }
}

//! Many changes at once are one message of a chat.

use std::time::Duration;

use changelog_tests::receivers::Receiver;
use changelog_tests::{TestApp, on_both};
use chrono::Utc;
use serde_json::{Value, json};

use super::{Connection, allow_receivers, connect_as};

on_both!(
    bursts_are_one_message,
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

/// Moves the clock to the beginning of the next minute.
fn begin_minute(app: &TestApp) {
    let ahead = i64::try_from(app.clock.ahead().as_millis()).expect("a small number");
    let past = (Utc::now().timestamp_millis() + ahead).rem_euclid(60_000);
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

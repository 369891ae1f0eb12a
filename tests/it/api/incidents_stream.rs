//! Incidents in `/api/changes/stream`, the SDK and `chlog watch`.

use changelog_client::ChangeQuery;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::changes_stream::{ChlogWatch, first_line};
use super::sdk;
use changelog_tests::event_stream::{Event, EventStream};
use changelog_tests::{TestApp, TestClient, keys, on_both, on_postgres, shapes, text};

const PATH: &str = "/api/changes/stream?events=incident";

on_both!(
    an_incident_is_sent_as_it_is_opened_ranked_and_resolved,
    a_stream_has_the_incidents_that_it_asks_for,
    a_position_continues_among_changes_and_incidents,
    the_sdk_receives_incidents,
    chlog_watch_prints_incidents,
);
on_postgres!(process: incidents_of_another_server_are_sent);

async fn open(caller: &TestClient, path: &str) -> EventStream {
    let mut events = EventStream::open(caller.request("GET", path)).await;
    events.next().await.expect("a position");
    events
}

async fn opened(caller: &TestClient, body: Value) -> String {
    caller.create("/api/incidents", body).await
}

/// Waits for the next incident with ranked suspects.
async fn ranked(events: &mut EventStream) -> Event {
    loop {
        let event = events.incident().await;
        if event.data["ranked_at"].is_string() {
            return event;
        }
    }
}

async fn an_incident_is_sent_as_it_is_opened_ranked_and_resolved(app: TestApp) {
    let key = app.key();
    let other = app.second_organization();
    let mut others = open(&app.with_key(&other.key), PATH).await;
    let service = key.service("payments").await;
    let before = chrono::Utc::now() - chrono::TimeDelta::minutes(10);
    let deploy = json!({
        "title": "Deploy payments 4.2", "service_id": service, "status": "completed",
        "started_at": before,
    });
    let change = key.create("/api/changes", deploy).await;
    let mut events = open(&key, PATH).await;
    let body = json!({ "title": "Checkout is down", "service_id": service });
    let id = opened(&key, body).await;
    let path = format!("/api/incidents/{id}");
    let event = ranked(&mut events).await;
    assert_eq!(keys(&event.data), shapes::INCIDENT);
    assert_eq!(event.data["suspects"][0]["change"]["id"], change.as_str());
    key.put(&format!("{path}/cause"), json!({ "change_id": change }))
        .await
        .is(200);
    assert_eq!(
        events.incident().await.data["cause_change_id"],
        change.as_str()
    );
    key.update(&path, json!({ "status": "resolved" })).await;
    let event = events.incident().await;
    assert_eq!(event.data["status"], "resolved");
    assert!(event.id > id, "{event:?}");
    // Another organization has received nothing.
    app.with_key(&other.key)
        .create("/api/incidents", json!({ "title": "Elsewhere" }))
        .await;
    assert_eq!(others.incident().await.data["title"], "Elsewhere");
}

async fn a_stream_has_the_incidents_that_it_asks_for(app: TestApp) {
    let key = app.key();
    let service = key.service("payments").await;
    let of_service =
        format!("{PATH}&service_id={service}&environment=prod,staging&risk_level=high");
    let mut selected = open(&key, &of_service).await;
    let mut changes = open(&key, "/api/changes/stream?events=created,updated").await;
    opened(&key, json!({ "title": "Elsewhere" })).await;
    opened(&key, json!({ "title": "Nowhere", "service_id": service })).await;
    let body = json!({ "title": "Here", "service_id": service, "environment": "prod" });
    opened(&key, body).await;
    assert_eq!(selected.incident().await.data["title"], "Here");
    key.change("after them").await;
    assert_eq!(changes.titles(1).await, ["after them"]);
    key.get("/api/changes/stream?events=incidents")
        .await
        .violates_query(&[("?events", "unknown_value")]);
}

async fn a_position_continues_among_changes_and_incidents(app: TestApp) {
    let key = app.key();
    let all = "/api/changes/stream?events=created,incident";
    let position = {
        let mut events = EventStream::open(key.request("GET", all)).await;
        events.next().await.expect("a position").id
    };
    key.change("one").await;
    opened(&key, json!({ "title": "two" })).await;
    key.change("three").await;
    let request = key.request("GET", all).header("last-event-id", position);
    let mut events = EventStream::open(request).await;
    let mut received = Vec::new();
    while received.len() < 3 {
        let event = events.event().await;
        // The ranking may be an event of its own.
        if event.data["ranked_at"].is_null() || received.len() == 1 {
            received.push((event.name, text(&event.data["title"])));
        }
    }
    let named = |name: &str, title: &str| (name.to_owned(), title.to_owned());
    let expected = [
        named("change", "one"),
        named("incident", "two"),
        named("change", "three"),
    ];
    assert_eq!(received, expected);
}

async fn the_sdk_receives_incidents(app: TestApp) {
    let client = sdk::client(&app);
    let service = client.services().create("payments").await;
    let service = service.expect("a service");
    let before = client
        .incidents()
        .open("Before")
        .await
        .expect("an incident");
    let query = ChangeQuery::new().service(service.id);
    let watch = client.incidents().watch().matching(query);
    let mut watched = watch.since(before.created_at).stream();
    let incident = client.incidents().open("Down").service(service.id).await;
    let incident = incident.expect("an incident");
    let first = watched
        .next()
        .await
        .expect("an event")
        .expect("an incident");
    assert_eq!(first.incident.id, incident.id);
    client
        .incidents()
        .resolve(incident.id)
        .await
        .expect("an incident");
    while watched
        .next()
        .await
        .expect("an event")
        .expect("an incident")
        .incident
        .is_open()
    {}
    let prefix = incident.id.to_string()[..13].parse().expect("a prefix");
    let found = client
        .incidents()
        .list()
        .id_prefix(prefix)
        .await
        .expect("a list");
    assert!(found.iter().any(|one| one.id == incident.id));
}

async fn incidents_of_another_server_are_sent(app: TestApp) {
    let server = app.another_server(&[]).await;
    let other = TestClient::new(&server.address).with("x-api-key", &app.organization.key);
    let mut events = open(&app.key(), PATH).await;
    let id = opened(&other, json!({ "title": "Down" })).await;
    assert_eq!(events.incident().await.data["id"], id.as_str());
}

async fn chlog_watch_prints_incidents(app: TestApp) {
    let key = app.key();
    let watching = ChlogWatch::start(&app, &["--incidents", "-q", "deploy"]);
    let line = first_line(&app, &watching, json!({ "title": "Deploy" })).await;
    let created: Value = serde_json::from_str(&line).expect("NDJSON");
    assert_eq!(created["event"], "created");
    // The stream of incidents may not be open yet.
    let incident = loop {
        opened(&key, json!({ "title": "Down" })).await;
        let line: Value = serde_json::from_str(&watching.line()).expect("NDJSON");
        if line["event"] != "created" {
            break line;
        }
    };
    assert_eq!(
        (&incident["event"], &incident["title"]),
        (&json!("incident"), &json!("Down"))
    );
}

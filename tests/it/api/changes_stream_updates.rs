//! Updates in `/api/changes/stream`, the SDK and `chlog watch`: none is missed, and none
//! is sent that no client has asked for.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::{Value, json};

use super::changes_stream::{ChlogWatch, first_line};
use super::{patch, sdk};
use changelog_tests::event_stream::{Event, EventStream};
use changelog_tests::shapes::assert_id;
use changelog_tests::{TestApp, TestClient, keys, on_both, on_postgres, text};

const PATH: &str = "/api/changes/stream";
const BOTH: &str = "/api/changes/stream?events=created,updated";

on_both!(
    updates_are_sent_with_what_they_changed,
    a_stream_has_the_events_that_it_asks_for,
    a_filter_compares_the_present_state,
    updates_of_deleted_changes_are_not_sent,
    updates_are_sent_at_once,
    large_updates_are_sent_within_the_memory_budget,
    the_sdk_receives_updates,
    chlog_watch_prints_updates;
    process:
    a_reconnected_stream_misses_no_event_after_a_kill,
);
on_postgres!(process: updates_by_another_server_are_sent_at_once);

async fn open(caller: &TestClient, path: &str) -> EventStream {
    let mut events = EventStream::open(caller.request("GET", path)).await;
    events.next().await.expect("a position");
    events
}

async fn open_after(caller: &TestClient, path: &str, id: &str) -> EventStream {
    EventStream::open(caller.request("GET", path).header("last-event-id", id)).await
}

async fn updates_are_sent_with_what_they_changed(app: TestApp) {
    let key = app.key();
    let other = app.second_organization();
    let stranger = app.with_key(&other.key);
    let mut events = open(&key, BOTH).await;
    let mut others = open(&stranger, BOTH).await;
    let id = key.change("Switch payments").await;
    assert_eq!(events.change().await.data["id"], id.as_str());
    // Several updates before the first is received.
    let mut bodies = vec![
        json!({ "status": "in_progress", "risk_level": "high" }),
        json!({ "status": "completed" }),
        json!({ "description": "d".repeat(400), "tags": ["deploy"] }),
    ];
    // One that changes nothing is none.
    bodies.push(bodies[1].clone());
    for body in bodies {
        patch(&key, &id, body).await;
    }
    let mut received = Vec::new();
    for _ in 0..3 {
        let event = events.update().await;
        assert_id(&json!(event.id));
        assert_eq!(keys(&event.data), ["change", "changes"]);
        received.push(event);
    }
    let changes: Vec<&Value> = received
        .iter()
        .map(|event| &event.data["changes"])
        .collect();
    assert_eq!(
        changes[0]["status"],
        json!({ "from": "planned", "to": "in_progress" })
    );
    assert_eq!(
        changes[0]["risk_level"],
        json!({ "from": "low", "to": "high" })
    );
    assert_eq!(
        changes[1]["status"],
        json!({ "from": "in_progress", "to": "completed" })
    );
    assert_eq!(changes[2]["tags"], json!({ "from": [], "to": ["deploy"] }));
    let excerpt = json!({ "excerpt": "d".repeat(200), "length": 400 });
    assert_eq!(
        changes[2]["description"],
        json!({ "from": null, "to": excerpt })
    );
    let now = key.read(&format!("/api/changes/{id}")).await;
    assert_eq!(received[2].data["change"], now);
    // In the order of recording, which is that of the ids.
    assert!(received.is_sorted_by_key(|event| event.id.clone()));

    // Updates in the dashboard, too.
    let browser = app.browser().await;
    let form = [("title", "Switch payments back"), ("status", "rolled_back")];
    browser.submit(&format!("/changes/{id}"), &form).await;
    let event = events.update().await;
    assert_eq!(event.data["changes"]["title"]["to"], "Switch payments back");
    assert_eq!(event.data["change"]["status"], "rolled_back");

    // Not those of another organization.
    stranger.change("elsewhere").await;
    assert_eq!(others.titles(1).await, ["elsewhere"]);
}

async fn a_stream_has_the_events_that_it_asks_for(app: TestApp) {
    let key = app.key();
    let mut by_default = open(&key, PATH).await;
    let mut created = open(&key, &format!("{PATH}?events=created")).await;
    let mut updated = open(&key, &format!("{PATH}?events=updated")).await;
    let id = key.change("first").await;
    patch(&key, &id, json!({ "title": "renamed" })).await;
    key.change("second").await;
    for events in [&mut by_default, &mut created] {
        assert_eq!(events.change().await.data["id"], id.as_str());
        assert_eq!(events.titles(1).await, ["second"]);
    }
    let event = updated.update().await;
    assert_eq!(event.data["change"]["title"], "renamed");
    // Updates from before a stream of updates was opened are not sent late.
    drop(updated);
    patch(&key, &id, json!({ "title": "not seen" })).await;
    key.change("third").await;
    assert_eq!(by_default.titles(1).await, ["third"]);
    let mut updated = open(&key, &format!("{PATH}?events=updated,updated")).await;
    patch(&key, &id, json!({ "title": "seen" })).await;
    let event = updated.update().await;
    assert_eq!(
        event.data["changes"]["title"],
        json!({ "from": "not seen", "to": "seen" })
    );
    // But a stream that continues from before has them.
    let mut again = open_after(&key, &format!("{PATH}?events=updated"), &event.id).await;
    for title in ["renamed", "not seen", "seen"] {
        let event = again.update().await;
        assert_eq!(event.data["changes"]["title"]["to"], title);
    }

    for events in ["", "deleted", "created,", "created,,updated", "Updated"] {
        let answer = key.get(&format!("{PATH}?events={events}")).await;
        answer.violates_query(&[("?events", "unknown_value")]);
        assert!(answer.text.contains("created, updated"), "{}", answer.text);
    }
    // As generated clients send a list.
    let mut both = open(&key, &format!("{PATH}?events=created&events=updated")).await;
    let id = key.change("third").await;
    patch(&key, &id, json!({ "title": "third, renamed" })).await;
    assert_eq!(both.titles(1).await, ["third"]);
    assert_eq!(both.update().await.data["change"]["id"], id.as_str());
}

async fn a_filter_compares_the_present_state(app: TestApp) {
    let key = app.key();
    let mut events = open(&key, &format!("{BOTH}&status=completed&q=deploy")).await;
    let planned = key.change("Deploy one").await;
    let other = key.change("Something else").await;
    // When this stream has an update, its change was read.
    let mut all = open(&key, &format!("{PATH}?events=updated")).await;
    let mut update = async |id: &str, body: Value| {
        patch(&key, id, body).await;
        all.update().await;
    };
    for id in [&planned, &other] {
        update(id, json!({ "status": "in_progress" })).await;
    }
    // It matches from now on.
    update(&planned, json!({ "status": "completed" })).await;
    let event = events.update().await;
    assert_eq!(event.data["changes"]["status"]["to"], "completed");
    let body = json!({ "status": "completed", "title": "Deploy two" });
    update(&other, body).await;
    let event = events.update().await;
    assert_eq!(event.data["change"]["id"], other.as_str());
    // It matches no longer.
    update(&planned, json!({ "status": "rolled_back" })).await;
    update(&other, json!({ "risk_level": "high" })).await;
    let event = events.update().await;
    assert_eq!(event.data["change"]["id"], other.as_str());
}

async fn updates_of_deleted_changes_are_not_sent(app: TestApp) {
    let key = app.key();
    let beginning = EventStream::open(key.request("GET", PATH))
        .await
        .next()
        .await;
    let beginning = beginning.expect("a position").id;
    let [gone, kept] = [key.change("gone").await, key.change("kept").await];
    for id in [&gone, &kept, &gone] {
        patch(&key, id, json!({ "tags": [uuid::Uuid::now_v7()] })).await;
    }
    let browser = app.browser().await;
    let delete = format!("/changes/{gone}/delete");
    browser.submit(&delete, &[]).await;
    let mut events = open_after(&key, BOTH, &beginning).await;
    assert_eq!(events.titles(1).await, ["kept"]);
    assert_eq!(events.update().await.data["change"]["title"], "kept");
    key.change("next").await;
    assert_eq!(events.titles(1).await, ["next"]);
}

/// Without notifications, each update would be sent by the read of the next second.
async fn updates_are_sent_at_once(app: TestApp) {
    let key = app.key();
    let mut events = open(&key, BOTH).await;
    let id = key.change("change").await;
    events.change().await;
    assert_sent_at_once(&[&key], &id, &mut [events]).await;
}

async fn updates_by_another_server_are_sent_at_once(app: TestApp) {
    let server = app.another_server(&[]).await;
    let other = TestClient::new(&server.address).with("x-api-key", &app.organization.key);
    let key = app.key();
    let mut streams = [open(&key, BOTH).await, open(&other, BOTH).await];
    let id = key.change("change").await;
    for events in &mut streams {
        events.change().await;
    }
    assert_sent_at_once(&[&key, &other], &id, &mut streams).await;
}

/// Requires that each of 20 updates, one after the other, is received by all streams, in
/// half the time that it would take by reading once a second.
async fn assert_sent_at_once(callers: &[&TestClient], id: &str, streams: &mut [EventStream]) {
    let started = Instant::now();
    for round in 0..20 {
        let title = format!("update {round}");
        let caller = callers[round % callers.len()];
        patch(caller, id, json!({ "title": title })).await;
        for events in &mut *streams {
            let event = events.update().await;
            assert_eq!(event.data["changes"]["title"]["to"], title.as_str());
        }
    }
    let took = started.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// More large documents than are buffered for a stream.
async fn large_updates_are_sent_within_the_memory_budget(app: TestApp) {
    let key = app.key();
    let body = json!({ "title": "large", "description": "d".repeat(5_000) });
    let id = key.create("/api/changes", body).await;
    let mut streams = [open(&key, BOTH).await, open(&key, BOTH).await];
    for round in 0..40 {
        patch(&key, &id, json!({ "title": format!("large {round}") })).await;
    }
    for events in &mut streams {
        for round in 0..40 {
            let event = events.update().await;
            let title = format!("large {round}");
            assert_eq!(event.data["changes"]["title"]["to"], title.as_str());
        }
    }
}

async fn a_reconnected_stream_misses_no_event_after_a_kill(mut app: TestApp) {
    let key = app.key();
    let mut events = EventStream::open(key.request("GET", BOTH)).await;
    let position = events.next().await.expect("a position").id;
    let id = key.change("one").await;
    patch(&key, &id, json!({ "title": "two" })).await;
    let first = events.change().await;
    let second = events.update().await;
    app.restart().await;
    let key = app.key();
    patch(&key, &id, json!({ "title": "three" })).await;
    key.change("four").await;
    patch(&key, &id, json!({ "title": "five" })).await;

    // What of an event identifies it for this test.
    let what = |event: &Event| match event.name.as_str() {
        "change" => text(&event.data["id"]),
        _ => text(&event.data["changes"]["title"]["to"]),
    };
    let mut complete = Vec::new();
    for after in [&position, &first.id, &second.id] {
        // Events of the minute before the position are repeated, each once.
        let mut events = open_after(&key, BOTH, after).await;
        let mut received = Vec::new();
        for _ in 0..5 {
            received.push(events.event().await);
        }
        let ids: BTreeSet<&String> = received.iter().map(|event| &event.id).collect();
        assert_eq!(ids.len(), 5);
        assert!(ids.contains(&first.id) && ids.contains(&second.id));
        let names: Vec<&str> = received.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["change", "updated", "updated", "change", "updated"]);
        let all: Vec<String> = received.iter().map(what).collect();
        assert_eq!((&*all[1], &*all[2], &*all[4]), ("two", "three", "five"));
        complete.push(events);
    }
    patch(&key, &id, json!({ "title": "six" })).await;
    for events in &mut complete {
        assert_eq!(what(&events.update().await), "six");
    }
}

async fn the_sdk_receives_updates(app: TestApp) {
    let client = sdk::client(&app);
    let key = app.key();
    let events = EventStream::open(key.request("GET", PATH))
        .await
        .next()
        .await;
    let beginning = events.expect("a position").id;
    let id = key.change("watched").await;
    patch(&key, &id, json!({ "status": "completed" })).await;
    let watch = |updates| {
        let watch = client.changes().watch().after(&beginning);
        watch.updates(updates).stream()
    };
    let mut changes = watch(true);
    let created = changes.next().await.expect("a change").expect("no error");
    assert_eq!(
        (created.change.title.as_str(), &created.update),
        ("watched", &None)
    );
    let updated = changes.next().await.expect("an update").expect("no error");
    assert_eq!(updated.change.id, created.change.id);
    let differences = updated.update.as_ref().expect("differences");
    assert_eq!(differences["status"].from, "planned");
    assert_eq!(differences["status"].to, "completed");
    assert_ne!(updated.cursor, created.cursor);
    // Another stream continues from the update, and receives each event once.
    let mut again = client
        .changes()
        .watch()
        .updates(true)
        .after(&updated.cursor)
        .stream();
    patch(&key, &id, json!({ "status": "rolled_back" })).await;
    for expected in [&created.cursor, &updated.cursor] {
        let repeated = again.next().await.expect("an event").expect("no error");
        assert_eq!(&repeated.cursor, expected);
    }
    for stream in [&mut changes, &mut again] {
        let updated = stream.next().await.expect("an update").expect("no error");
        assert_eq!(
            updated.update.expect("differences")["status"].to,
            "rolled_back"
        );
    }
    // Without updates there are new changes only.
    let mut created_only = watch(false);
    key.change("second").await;
    for title in ["watched", "second"] {
        let watched = created_only
            .next()
            .await
            .expect("a change")
            .expect("no error");
        assert_eq!(
            (watched.change.title.as_str(), watched.update),
            (title, None)
        );
    }
}

async fn chlog_watch_prints_updates(app: TestApp) {
    let key = app.key();
    let watching = ChlogWatch::start(&app, &["--updates", "-q", "deploy"]);
    let line = first_line(&app, &watching, json!({ "title": "Deploy" })).await;
    let created: Value = serde_json::from_str(&line).expect("NDJSON");
    assert_eq!(created["event"], "created");
    assert_eq!(created.get("changes"), None);
    let id = text(&created["id"]);
    patch(
        &key,
        &id,
        json!({ "status": "in_progress", "impact": "None" }),
    )
    .await;
    let updated = loop {
        let line: Value = serde_json::from_str(&watching.line()).expect("NDJSON");
        if line["event"] != "created" {
            break line;
        }
    };
    assert_eq!(updated["event"], "updated");
    assert_eq!(updated["id"], id);
    assert_eq!(updated["title"], "Deploy");
    assert_eq!(updated["status"], "in_progress");
    let status = json!({ "from": "planned", "to": "in_progress" });
    assert_eq!(updated["changes"]["status"], status);

    let watching = ChlogWatch::start(&app, &["--updates", "--format", "csv"]);
    let header = watching.line();
    assert!(
        header.starts_with("event,id,") && header.ends_with(",changes"),
        "{header}"
    );
    let line = first_line(&app, &watching, json!({ "title": "A row" })).await;
    assert!(
        line.starts_with("created,") && line.ends_with(','),
        "{line}"
    );
    patch(&key, &id, json!({ "status": "completed" })).await;
    let line = loop {
        let line = watching.line();
        if !line.starts_with("created,") {
            break line;
        }
    };
    assert!(line.starts_with(&format!("updated,{id},")), "{line}");
    assert!(line.contains("status in_progress → completed"), "{line}");
}

//! `/api/changes/stream`, the SDK and `chlog watch`: no change is missed, even when the
//! server is killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use changelog_client::{ChangeQuery, Client, ErrorKind};
use futures_util::StreamExt;
use serde_json::{Value, json};
use uuid::Uuid;

use changelog_tests::event_stream::EventStream;
use changelog_tests::{TestApp, TestClient, each, on_both, on_postgres, send, signal, text};

const PATH: &str = "/api/changes/stream";
/// The limit on streams of one organization.
const MAX_STREAMS_PER_ORGANIZATION: usize = 50;

on_both!(
    changes_are_sent_as_they_are_recorded,
    stream_filters_match_like_list_filters,
    an_invalid_position_is_refused,
    an_ended_key_closes_its_streams,
    the_number_of_streams_is_limited;
    process:
    a_reconnected_stream_misses_nothing_after_a_kill,
    a_shutdown_closes_streams,
    the_sdk_reconnects_after_a_kill,
    chlog_watch_reconnects_after_a_kill,
);
on_postgres!(process: a_stream_sends_changes_recorded_by_another_server);

async fn open(caller: &TestClient, query: &str) -> EventStream {
    EventStream::open(caller.request("GET", &format!("{PATH}?{query}"))).await
}

async fn open_after(caller: &TestClient, id: &str) -> EventStream {
    EventStream::open(caller.request("GET", PATH).header("last-event-id", id)).await
}

async fn changes_are_sent_as_they_are_recorded(app: TestApp) {
    let key = app.key();
    key.change("before").await;
    let other = app.second_organization();
    let stranger = app.with_key(&other.key);
    let mut events = open(&key, "").await;
    let mut others = open(&stranger, "").await;
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-store"),
        ("x-accel-buffering", "no"),
    ] {
        assert_eq!(events.response.headers()[name], value);
    }
    let first = events.next().await.expect("a position");
    assert_eq!((first.name.as_str(), &first.data), ("position", &json!({})));

    // In the order of recording, not of `occurred_at`.
    let late = json!({ "title": "late", "occurred_at": "2020-01-01T00:00:00Z" });
    let id = key.change("first").await;
    key.create("/api/changes", late).await;
    let many = json!({ "changes": [{ "title": "one of two" }, { "title": "two of two" }] });
    key.post("/api/changes/bulk", many).await.is(201);
    stranger.change("elsewhere").await;
    let event = events.change().await;
    assert_eq!(event.data, key.read(&format!("/api/changes/{id}")).await);
    assert_eq!(events.titles(3).await, ["late", "one of two", "two of two"]);
    // Changes from the dashboard are sent too; updates are not.
    let patch = json!({ "status": "completed" });
    key.update(&format!("/api/changes/{id}"), patch).await;
    let browser = app.browser().await;
    browser
        .submit("/changes", &[("title", "by a person")])
        .await;
    assert_eq!(events.titles(1).await, ["by a person"]);
    assert_eq!(others.titles(1).await, ["elsewhere"]);

    let head = send(key.request("HEAD", PATH)).await;
    head.is(200);
    assert_eq!(head.header("content-type"), "text/event-stream");
    let answer = key.post(PATH, json!({})).await;
    answer.problem(405, "method_not_allowed");
    assert_eq!(answer.header("allow"), "GET, HEAD");
    app.anonymous().get(PATH).await.problem(401, "unauthorized");
    for (query, pointer, code) in [
        ("page=2", "?page", "unknown_field"),
        ("since=2026-01-01T00:00:00Z", "?since", "unknown_field"),
        ("risk_level=extreme", "?risk_level", "unknown_value"),
    ] {
        let answer = key.get(&format!("{PATH}?{query}")).await;
        answer.violates_query(&[(pointer, code)]);
    }
    app.admin(&["org", "set-plan", &other.id, "free"]);
    stranger.get(PATH).await.problem(403, "plan_required");
    assert!(others.rest().await.is_empty());
}

async fn stream_filters_match_like_list_filters(app: TestApp) {
    let key = app.key();
    let service = key.service("payments");
    let service = service.await;
    let host = key.host("web-1");
    let host = host.await;
    let beginning = open(&key, "").await.next().await.expect("a position").id;
    for body in [
        json!({ "title": "Überlauf im Payment-Dienst" }),
        json!({ "title": "deploy payments", "risk_level": "high", "tags": ["a"] }),
        json!({ "title": "Deploy: API 2.3", "status": "rolled_back", "tags": ["a", "b c"] }),
        json!({ "title": "redeploy", "service_id": service, "tags": ["A"] }),
        json!({ "title": "deploy", "service_id": service, "host_id": host, "status": "in_progress" }),
        json!({ "title": "r high s planned", "host_id": host, "risk_level": "medium" }),
    ] {
        key.create("/api/changes", body).await;
    }
    let mut found = 0;
    for query in [
        String::new(),
        "q=deploy".to_owned(),
        "q=PAY".to_owned(),
        "q=uberlauf+dienst".to_owned(),
        "q=2+api".to_owned(),
        "q=--".to_owned(),
        "q=nothing".to_owned(),
        "q=high".to_owned(),
        "risk_level=high".to_owned(),
        "risk_level=low&q=deploy".to_owned(),
        "status=rolled_back".to_owned(),
        "status=in_progress&risk_level=low".to_owned(),
        "tag=a".to_owned(),
        "tag=a&tag=b+c".to_owned(),
        "tag=b".to_owned(),
        format!("service_id={service}"),
        format!("host_id={host}"),
        format!("host_id={host}&service_id={service}&q=dep"),
        format!("service_id={}", Uuid::now_v7()),
    ] {
        let list = key.body(&format!("/api/changes?{query}")).await;
        let mut expected: Vec<&Value> = each(&list["data"], "title");
        // The list has the newest first.
        expected.reverse();
        found += expected.len();
        let request = key.request("GET", &format!("{PATH}?{query}"));
        let mut events = EventStream::open(request.header("last-event-id", &beginning)).await;
        let titles = events.titles(expected.len()).await;
        assert_eq!(json!(titles), json!(expected), "{query}");
    }
    assert!(found > 25, "too few matches: {found}");
}

async fn a_reconnected_stream_misses_nothing_after_a_kill(mut app: TestApp) {
    let key = app.key();
    let mut events = open(&key, "").await;
    let position = events.next().await.expect("a position").id;
    key.change("one").await;
    key.change("two").await;
    let one = events.change().await;
    assert_eq!(one.data["title"], "one");
    app.restart().await;
    let key = app.key();
    key.change("three").await;
    // Changes of the minute before the position may be repeated.
    let mut events = open_after(&key, &one.id).await;
    let mut titles = Vec::new();
    while titles.last().is_none_or(|title| title != "three") {
        titles.extend(events.titles(1).await);
    }
    assert_eq!(titles, ["one", "two", "three"]);
    key.change("four").await;
    assert_eq!(events.titles(1).await, ["four"]);
    // A client that was disconnected before the first change misses nothing either.
    let mut events = open_after(&key, &position).await;
    assert_eq!(events.titles(4).await, ["one", "two", "three", "four"]);
}

async fn an_invalid_position_is_refused(app: TestApp) {
    let key = app.key();
    key.change("something").await;
    let get = |id: &str| send(key.request("GET", PATH).header("last-event-id", id));
    for id in [
        "x",
        "42",
        "00000000-0000-0000-0000-000000000000",
        "018f4e9a-7b1c-4d3e-9a51-2f6c8b7d1e90",
        // More than 7 days old.
        "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90",
    ] {
        let problem = get(id).await.problem(400, "malformed_header");
        let detail = text(&problem["detail"]);
        assert!(detail.contains("last-event-id"), "{detail}");
    }
    let twice = key.request("GET", PATH).header("last-event-id", "a");
    let twice = twice.header("last-event-id", "b");
    send(twice).await.problem(400, "malformed_header");
    // A position in the future means now.
    let mut events = open_after(&key, "03bb2cc3-d800-7000-8000-000000000000").await;
    assert_eq!(events.titles(1).await, ["something"]);
    key.change("after that").await;
    assert_eq!(events.titles(1).await, ["after that"]);
    open(&key, "").await.next().await.expect("a position");
}

async fn an_ended_key_closes_its_streams(app: TestApp) {
    let soon = chrono::Utc::now() + chrono::TimeDelta::seconds(4);
    for arguments in [&[][..], &["--expires-at", &soon.to_rfc3339()]] {
        let key = app.create_key(arguments);
        let caller = app.with_key(&text(&key["key"]));
        let mut events = open(&caller, "").await;
        app.key().change("before the end").await;
        assert_eq!(events.titles(1).await, ["before the end"]);
        let mut ends = soon;
        if arguments.is_empty() {
            app.admin(&["key", "revoke", &text(&key["id"])]);
            ends = chrono::Utc::now();
        }
        assert!(events.rest().await.is_empty());
        let late = chrono::Utc::now() - ends;
        assert!(late < chrono::TimeDelta::seconds(3), "{late}");
        caller.get(PATH).await.problem(401, "unauthorized");
    }
}

async fn a_shutdown_closes_streams(mut app: TestApp) {
    let events = open(&app.key(), "").await;
    app.server.terminate();
    let status = app.server.wait_for_exit(Duration::from_secs(5)).await;
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    assert!(events.rest().await.is_empty());
}

async fn the_number_of_streams_is_limited(app: TestApp) {
    let key = app.key();
    let mut all = Vec::new();
    for _ in 0..MAX_STREAMS_PER_ORGANIZATION {
        all.push(open(&key, "").await);
    }
    let answer = key.get(PATH).await;
    answer.problem(429, "too_many_requests");
    assert_eq!(answer.header("retry-after"), "10");
    // Other organizations and other requests are not affected.
    let other = app.second_organization();
    open(&app.with_key(&other.key), "").await;
    key.change("sent to all").await;
    for events in &mut all {
        assert_eq!(events.titles(1).await, ["sent to all"]);
    }
    // A new stream can be opened when one has ended.
    drop(all.pop());
    let deadline = Instant::now() + Duration::from_secs(20);
    while key
        .request("GET", PATH)
        .send()
        .await
        .expect("a response")
        .status()
        == 429
    {
        assert!(Instant::now() < deadline, "no stream can be opened");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn a_stream_sends_changes_recorded_by_another_server(app: TestApp) {
    let server = app.another_server(&[]).await;
    let other = TestClient::new(&server.address).with("x-api-key", &app.organization.key);
    let key = app.key();
    let mut here = open(&key, "").await;
    let mut there = open(&other, "").await;
    for index in 0..20 {
        let title = format!("number {index}");
        let recording = if index % 2 == 0 { &key } else { &other };
        recording.change(&title).await;
        for events in [&mut here, &mut there] {
            assert_eq!(events.titles(1).await, [title.as_str()]);
        }
    }
}

async fn the_sdk_reconnects_after_a_kill(mut app: TestApp) {
    app.move_to_own_address().await;
    let key = app.create_key(&[]);
    let client = Client::builder()
        .url(app.url())
        .api_key(text(&key["key"]))
        .build()
        .expect("a client");
    // Recorded before the watch began: it is not received, not even after a reconnection.
    app.key().change("watched before").await;
    let (lost, interruptions) = channel();
    let mut changes = client
        .changes()
        .watch()
        .matching(ChangeQuery::new().q("watched"))
        .on_disconnect(move |error| {
            let _ = lost.send(error.to_string());
        })
        .stream();
    let first = {
        let caller = app.key();
        // The stream connects when it is polled.
        let record = async {
            loop {
                caller.change("watched first").await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        tokio::select! {
            () = record => unreachable!("the loop does not end"),
            first = changes.next() => first.expect("a change").expect("no error"),
        }
    };
    assert_eq!(first.change.title, "watched first");
    for round in 0..2 {
        app.restart_in_place().await;
        let caller = app.key();
        caller.change("not this one").await;
        let title = format!("watched in round {round}");
        caller.change(&title).await;
        loop {
            let watched = changes.next().await.expect("a change").expect("no error");
            if watched.change.title != "watched first" {
                assert_eq!(watched.change.title, title);
                break;
            }
            assert_ne!(watched.change.id, first.change.id, "duplicate change");
        }
    }
    let messages: Vec<String> = interruptions.try_iter().collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    // Another stream continues from a cursor.
    let mut again = client.changes().watch().after(first.cursor).stream();
    let watched = again.next().await.expect("a change").expect("no error");
    assert!(watched.change.title.starts_with("watched"));
    app.admin(&["key", "revoke", &text(&key["id"])]);
    for stream in [&mut changes, &mut again] {
        let error = loop {
            match stream.next().await.expect("an error") {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), Some(ErrorKind::Unauthorized), "{error}");
        assert!(stream.next().await.is_none());
    }
}

/// A running `chlog watch`.
pub(super) struct ChlogWatch {
    child: Child,
    lines: Receiver<String>,
    stderr: Receiver<String>,
}

impl ChlogWatch {
    pub(super) fn start(app: &TestApp, arguments: &[&str]) -> Self {
        let mut command = Command::new(changelog_tests::programs::chlog());
        let mut child = command
            .env_clear()
            .env("HOME", app.folder())
            .env("CHLOG_URL", app.url())
            .env("CHLOG_API_KEY", &app.organization.key)
            .current_dir(app.folder())
            .arg("watch")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("chlog runs");
        let stderr = lines(child.stderr.take().expect("a pipe"));
        let lines = lines(child.stdout.take().expect("a pipe"));
        Self {
            child,
            lines,
            stderr,
        }
    }

    pub(super) fn line(&self) -> String {
        let line = self.lines.recv_timeout(Duration::from_secs(30));
        line.expect("a line")
    }
}

impl Drop for ChlogWatch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    lines
}

/// Creates changes until a line is printed, so that the stream is known to be open.
pub(super) async fn first_line(app: &TestApp, watching: &ChlogWatch, body: Value) -> String {
    let key = app.key();
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        key.post("/api/changes", body.clone()).await.is(201);
        if let Ok(line) = watching.lines.recv_timeout(Duration::from_millis(500)) {
            return line;
        }
        assert!(Instant::now() < deadline, "no line is printed");
    }
}

async fn chlog_watch_reconnects_after_a_kill(mut app: TestApp) {
    app.move_to_own_address().await;
    let key = app.key();
    key.service("payments").await;
    crate::chlog::chlog(&app, &["watch", "--service", "nobody"]).exits_with(3);
    crate::chlog::chlog(&app, &["watch", "--risk", "extreme"]).exits_with(2);

    let mut watching = ChlogWatch::start(&app, &["--risk", "high", "-q", "deploy"]);
    let body = json!({ "title": "Deploy first", "risk_level": "high" });
    let line = first_line(&app, &watching, body).await;
    let first: Value = serde_json::from_str(&line).expect("NDJSON");
    assert_eq!(first["title"], "Deploy first");
    // A busy server may have refused the first connection.
    watching.stderr.try_iter().for_each(drop);
    app.restart_in_place().await;
    let key = app.key();
    key.change("Deploy low").await;
    let body = json!({ "title": "Deploy second", "risk_level": "high" });
    let second = key.create("/api/changes", body).await;
    loop {
        let change: Value = serde_json::from_str(&watching.line()).expect("NDJSON");
        assert_ne!(change["id"], first["id"], "duplicate change");
        if change["id"] == second {
            break;
        }
        assert_eq!(change["title"], "Deploy first");
    }
    let messages: Vec<String> = watching.stderr.try_iter().collect();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].contains("; reconnecting"), "{messages:?}");
    signal(watching.child.id(), "INT");
    let status = watching.child.wait().expect("an exit");
    assert_eq!(status.code(), Some(130));

    let watching = ChlogWatch::start(&app, &["--format", "ids"]);
    let line = first_line(&app, &watching, json!({ "title": "an id" })).await;
    assert!(Uuid::try_parse(&line).is_ok(), "{line}");
    // Interrupted while the server is down.
    let mut watching = ChlogWatch::start(&app, &["--format", "csv"]);
    assert!(watching.line().starts_with("id,"));
    // The header is printed before chlog connects, and the first connection is not retried
    // for long.
    first_line(&app, &watching, json!({ "title": "a row" })).await;
    app.server.terminate();
    app.server.wait_for_exit(Duration::from_secs(10)).await;
    signal(watching.child.id(), "INT");
    assert_eq!(watching.child.wait().expect("an exit").code(), Some(130));
}

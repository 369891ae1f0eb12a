//! Responses that clients do not read: each organization has a share of the memory.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use changelog_tests::event_stream::EventStream;
use changelog_tests::{RawConnection, TestApp, TestClient, on_both};

on_both!(
    process:
    unread_responses_are_limited_per_organization,
    downloads_wait_for_memory,
    streams_wait_for_memory,
);

const TIMEOUT: Duration = Duration::from_secs(20);
/// The number of large changes: 7 MB in all, more than a socket buffers.
const CHANGES: usize = 45;

/// Creates changes of 160 KB each.
async fn record_large(key: &TestClient) {
    let long = "🚀".repeat(20_000);
    let change = json!({ "title": "large", "description": long, "impact": long });
    let requests = (0..CHANGES).map(|_| key.create("/api/changes", change.clone()));
    futures_util::future::join_all(requests).await;
}

/// Sends a request and reads only the head of the response.
async fn request_without_reading(app: &TestApp, key: &str, path: &str) -> (RawConnection, String) {
    let mut connection =
        RawConnection::connect_with_receive_buffer(&app.server.address, 4096).await;
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{key}\r\n\r\n");
    assert!(connection.send(request).await);
    let received = connection.receive_until("\r\n\r\n", TIMEOUT).await;
    (connection, received.text.to_lowercase())
}

async fn unread_responses_are_limited_per_organization(mut app: TestApp) {
    let other = app.second_organization();
    record_large(&app.key()).await;
    record_large(&app.with_key(&other.key)).await;
    let all = "/api/changes?per_page=100";
    let own = format!("x-api-key: {}", app.organization.key);
    let others = format!("x-api-key: {}", other.key);
    // One response fits into the share of an organization, two do not.
    app.restart_with(&["--response-memory", "40"]).await;
    let (unread, first) = request_without_reading(&app, &own, all).await;
    assert!(first.starts_with("http/1.1 200"), "{first}");
    assert!(first.contains("content-length: 7"), "{first}");
    let (_, refused) = request_without_reading(&app, &own, all).await;
    assert!(refused.starts_with("http/1.1 429"), "{refused}");
    assert!(refused.contains("retry-after: 1\r\n"), "{refused}");
    assert!(refused.contains("application/problem+json"), "{refused}");
    // Small responses are sent, and the other organization has its own share.
    app.key().body("/api/changes?per_page=1").await;
    let list = app.with_key(&other.key).body(all).await;
    assert_eq!(list["count"], CHANGES);
    assert_eq!(list["data"].as_array().map(Vec::len), Some(CHANGES));
    assert_eq!(list["total_pages"], 1);
    // The share is free again when the connection is closed.
    drop(unread);
    wait_until_served(&app.key(), all).await;
    // When the whole budget is used, the status is 503.
    app.restart_with(&["--response-memory", "12"]).await;
    let (unread, first) = request_without_reading(&app, &own, all).await;
    assert!(first.starts_with("http/1.1 200"), "{first}");
    let (_, refused) = request_without_reading(&app, &others, all).await;
    assert!(refused.starts_with("http/1.1 503"), "{refused}");
    assert!(refused.contains("retry-after: 1\r\n"), "{refused}");
    drop(unread);
    wait_until_served(&app.with_key(&other.key), all).await;
}

/// Repeats a request until it is not refused for lack of memory.
async fn wait_until_served(key: &TestClient, path: &str) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let answer = key.get(path).await;
        if answer.status == 200 {
            return;
        }
        assert!(matches!(answer.status, 429 | 503), "{}", answer.text);
        assert!(Instant::now() < deadline, "{}", answer.text);
    }
}

/// Returns the resident memory of the service, in MiB.
fn memory(app: &TestApp) -> u64 {
    let pid = app.server.pid().to_string();
    let output = Command::new("ps").args(["-o", "rss=", "-p", &pid]).output();
    let output = output.expect("ps is there").stdout;
    let kibibytes = String::from_utf8_lossy(&output).trim().parse::<u64>();
    kibibytes.expect("a number") / 1024
}

async fn downloads_wait_for_memory(mut app: TestApp) {
    record_large(&app.key()).await;
    // A download reads eight changes at a time, and two parts fit into the share.
    app.restart_with(&["--response-memory", "16"]).await;
    let cookie = app.cookie_of(&app.organization).await;
    let header = format!("cookie: {cookie}");
    let before = memory(&app);
    let mut unread = Vec::new();
    for _ in 0..40 {
        let (connection, head) = request_without_reading(&app, &header, "/changes.ndjson").await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        unread.push(connection);
    }
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        app.key().body("/api/changes?per_page=1").await;
        let more = memory(&app).saturating_sub(before);
        assert!(more < 120, "40 unread downloads take {more} MiB");
    }
    // One more download waits until the others are closed, and is complete.
    let browser = app.anonymous().with("cookie", &cookie);
    let download = browser.get("/changes.ndjson");
    let (answer, ()) = futures_util::join!(download, async { drop(unread) });
    answer.is(200);
    assert_eq!(answer.text.lines().count(), CHANGES);
}

/// An unread stream uses little memory, and loses nothing.
async fn streams_wait_for_memory(mut app: TestApp) {
    // A share of 1 MiB has room for six of these changes.
    app.restart_with(&["--response-memory", "4"]).await;
    let key = app.key();
    let watch = || EventStream::open(key.request("GET", "/api/changes/stream"));
    let (mut one, mut other) = (watch().await, watch().await);
    record_large(&key).await;
    key.change("small").await;
    for events in [&mut one, &mut other] {
        let mut titles = events.titles(CHANGES + 1).await;
        titles.sort();
        assert_eq!(titles[CHANGES], "small");
        assert!(titles[..CHANGES].iter().all(|title| title == "large"));
    }
}

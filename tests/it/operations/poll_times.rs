//! No request blocks an async worker: no poll computes for long.
//!
//! The programs under test are built without optimization, which makes this code ten to
//! thirty times slower than in a release, where a poll may take 1 ms. The test finds work
//! that grows with the input and belongs on the blocking pool: it takes longer than the
//! limit here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use changelog_tests::{Engine, Server, TestApp, TestClient, send};

/// The limit on a poll, in microseconds of processor time.
const MAX_POLL_MICROS: u64 = 30_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_poll_takes_long() {
    // What a virtual machine loses to its neighbours counts as processor time. It rarely
    // hits the same request twice.
    let rounds = [polls_of_new_server().await, polls_of_new_server().await];
    let mut longest: BTreeMap<&str, u64> = BTreeMap::new();
    for ((route, first), (same_route, second)) in rounds[0].iter().zip(&rounds[1]) {
        assert_eq!(route, same_route);
        let longest = longest.entry(route).or_default();
        *longest = (*first).min(*second).max(*longest);
    }
    eprintln!("the longest polls, in microseconds: {longest:#?}");
    longest.retain(|_, micros| *micros > MAX_POLL_MICROS);
    assert!(longest.is_empty(), "{longest:#?}");
}

/// Starts a server, sends the requests, and returns the route and the longest poll of
/// each, in microseconds.
async fn polls_of_new_server() -> Vec<(String, u64)> {
    let app = TestApp::with_process(Engine::Sqlite).await;
    let mut app = app.expect("SQLite is always there");
    let mut command = app.serve_command();
    command.env("CHANGELOG_LOG", "warn,changelog_server::polls=debug");
    command.env("CHANGELOG_LOG_FORMAT", "json");
    app.server.kill9();
    let server = Server::start(command).await;
    app.server = server.unwrap_or_else(|log| panic!("the server exited: {log}"));
    let sent = send_worst_requests(&app).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let polls: Vec<_> = app.server.log().lines().filter_map(poll).collect();
        if polls.len() >= sent {
            return polls;
        }
        assert!(
            Instant::now() < deadline,
            "{} of {sent} in the log",
            polls.len()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the route and the longest poll that a line of the log reports.
fn poll(line: &str) -> Option<(String, u64)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let fields = &line["fields"];
    let micros = fields["longest_poll_us"].as_u64()?;
    let is_id = |part: &str| part.len() == 36 && part.matches('-').count() == 4;
    let path = fields["path"].as_str()?.split('/');
    let path: Vec<&str> = path
        .map(|part| if is_id(part) { ":id" } else { part })
        .collect();
    let route = format!("{} {}", fields["method"].as_str()?, path.join("/"));
    Some((route, micros))
}

/// Returns deeply nested Markdown of the maximum length.
fn nested() -> String {
    format!("{}{}", "> ".repeat(5_000), "1. ".repeat(3_333))
}

/// Sends the most expensive input to each endpoint and page, and returns the number of
/// requests.
async fn send_worst_requests(app: &TestApp) -> usize {
    let key = app.key();
    let owner = app.browser().await;
    let (change, written) = send_worst_bodies(&key).await;
    let read = send_worst_reads(&key, &owner, &change).await;
    let static_content = read_static_content(&owner).await;
    1 + written + read + static_content + send_worst_forms(&owner).await
}

/// Sends bodies to the API; returns the id of a change with expensive text, and the
/// number of requests.
async fn send_worst_bodies(key: &TestClient) -> (String, usize) {
    let mut sent = 0;
    let long = "\u{1f680}".repeat(20_000);
    let nested = nested();
    let tags: Vec<String> = (0..20).map(|n| format!("{n}{}", "t".repeat(97))).collect();
    let links: Vec<Value> = (0..10)
        .map(|n| json!({ "label": "l".repeat(100), "url": format!("https://e.com/{n}{}", "u".repeat(2_000)) }))
        .collect();
    let mut change = String::new();
    for (description, impact) in [(&long, &long), (&nested, &nested)] {
        let body = json!({
            "title": "\u{fdfa}".repeat(300), "description": description, "impact": impact,
            "tags": tags, "links": links,
        });
        change = key.create("/api/changes", body).await;
        sent += 1;
    }
    let of_bulk = json!({ "title": "t ".repeat(100) + "end", "tags": ["a", "b"] });
    let bulk = json!({ "changes": vec![of_bulk; 500] });
    let host = json!({ "hostname": "h", "roles": vec!["r".repeat(100); 50], "description": "d".repeat(1_000) });
    let service = json!({ "name": "svc", "description": "\u{1f680}".repeat(20_000) });
    let numbers = format!(
        "{{\"title\":\"abc\",\"tags\":[{}]}}",
        vec!["1"; 131_000].join(",")
    );
    let unknown: Vec<String> = (0..22_000).map(|n| format!("\"f{n}\":0")).collect();
    let deep = "[".repeat(250_000);
    for (path, body) in [
        ("/api/changes/bulk", bulk.to_string()),
        ("/api/hosts", host.to_string()),
        ("/api/services", service.to_string()),
        ("/api/changes", numbers),
        ("/api/changes", format!("{{{}}}", unknown.join(","))),
        ("/api/changes", deep),
        (
            "/api/changes",
            format!("{{\"title\":\"{}\"}}", "x".repeat(250_000)),
        ),
    ] {
        let answer = key.post_bytes(path, body).await;
        assert!(answer.status < 500, "{path}: {}", answer.status);
        sent += 1;
    }
    // The newest changes, which lists show.
    for _ in 0..100 {
        let body = json!({ "title": "w".repeat(300), "description": long, "impact": long });
        key.create("/api/changes", body).await;
        sent += 1;
    }
    let patch = json!({ "description": nested, "impact": "y".repeat(20_000) });
    key.update(&format!("/api/changes/{change}"), patch).await;
    sent += 1;
    (change, sent)
}

/// Reads from the API and the dashboard; returns the number of requests.
async fn send_worst_reads(key: &TestClient, owner: &TestClient, change: &str) -> usize {
    let mut sent = 0;
    let words: Vec<String> = (0..16)
        .map(|n| format!("{n}{}", "\u{fdfa}".repeat(50)))
        .collect();
    let query: Vec<String> = (0..1_500).map(|n| format!("a{n}=b")).collect();
    for path in [
        "/api/changes?per_page=100".to_owned(),
        format!("/api/changes?q={}", words.join("+")),
        format!("/api/changes?{}", query.join("&")),
        format!("/api/changes?q={}", "%CC%80".repeat(2_000)),
        format!("/api/changes/{change}"),
        "/api/hosts".to_owned(),
        "/api/services".to_owned(),
    ] {
        sent += get(key, &path).await;
    }
    for path in [
        "/".to_owned(),
        "/changes?per_page=100".to_owned(),
        format!("/changes/{change}"),
        // Rendered from the cache.
        format!("/changes/{change}"),
        format!("/changes/{change}/edit"),
        "/changes/new".to_owned(),
        format!("/changes?{}", "service=x&".repeat(1_400)),
        "/hosts".to_owned(),
        "/services".to_owned(),
        "/activity".to_owned(),
        "/api/activity?limit=100".to_owned(),
        "/settings/members".to_owned(),
        "/settings/api-keys".to_owned(),
        "/account".to_owned(),
    ] {
        sent += get(owner, &path).await;
    }
    sent
}

/// Sends forms; returns the number of requests.
async fn send_worst_forms(owner: &TestClient) -> usize {
    let mut sent = 0;
    let nested = nested();
    let leet = "4@8({[<369!1|0$5+7%2".repeat(13);
    let commas = "\u{1},".repeat(30_000);
    let quotes = format!("{}a{}", " ".repeat(60_000), "\"".repeat(50_000));
    for (path, fields) in [
        (
            "/changes",
            vec![("title", "abc"), ("tags", commas.as_str())],
        ),
        (
            "/changes",
            vec![("title", "abc"), ("tags", quotes.as_str())],
        ),
        (
            "/changes",
            vec![("title", "abc"), ("description", nested.as_str())],
        ),
        (
            "/account/password",
            vec![("current_password", "wrong"), ("password", &leet[..256])],
        ),
        (
            "/sign-in",
            vec![("email", "a@b.c"), ("password", &leet[..256])],
        ),
        (
            "/sign-in",
            vec![("email", commas.as_str()), ("password", "x")],
        ),
    ] {
        let answer = owner.post_form(path, &fields).await;
        assert!(answer.status < 500, "{path}: {}", answer.status);
        sent += 1;
    }
    sent
}

/// Reads the static content in each encoding, which is compressed at the first request;
/// returns the number of requests.
async fn read_static_content(owner: &TestClient) -> usize {
    let mut sent = 0;
    let page = owner.get("/").await.text;
    sent += 1;
    let assets = page.split('"').filter(|part| part.starts_with("/assets/"));
    let assets: BTreeSet<&str> = assets.collect();
    assert_eq!(assets.len(), 3, "{assets:?}");
    for path in assets.into_iter().chain(["/api/openapi.json", "/api/docs"]) {
        for encoding in ["br", "gzip"] {
            let request = owner.request("GET", path);
            let answer = send(request.header("accept-encoding", encoding)).await;
            assert_eq!(answer.status, 200, "{path}");
            sent += 1;
        }
    }
    sent
}

async fn get(caller: &TestClient, path: &str) -> usize {
    let answer = send(caller.request("GET", path)).await;
    assert!(answer.status < 500, "{path}: {}", answer.status);
    1
}

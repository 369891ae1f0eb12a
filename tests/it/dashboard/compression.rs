//! Pages, assets and large JSON are compressed; pages with secrets are not.

use std::io::Read;

use changelog_tests::{TestApp, TestClient, on_one, send};
use serde_json::json;

use super::between;

on_one!(
    pages_and_assets_are_compressed,
    secrets_are_not_compressed,
    large_json_is_compressed_for_those_who_ask,
    a_busy_overview_is_small,
);

/// A response as it was sent.
struct Sent {
    status: u16,
    encoding: Option<String>,
    varies: bool,
    body: Vec<u8>,
}

async fn get(client: &TestClient, path: &str, accepted: &str) -> Sent {
    let request = client
        .request("GET", path)
        .header("accept-encoding", accepted);
    let response = request.send().await.expect("a response");
    let header = |name| {
        let value = response.headers().get(name)?;
        Some(value.to_str().expect("text").to_owned())
    };
    Sent {
        status: response.status().as_u16(),
        encoding: header("content-encoding"),
        varies: header("vary").is_some_and(|vary| vary == "accept-encoding"),
        body: response.bytes().await.expect("a body").to_vec(),
    }
}

fn decompressed(sent: &Sent) -> String {
    let mut text = String::new();
    let read = match sent.encoding.as_deref() {
        Some("br") => brotli::Decompressor::new(&*sent.body, 4096).read_to_string(&mut text),
        Some("gzip") => flate2::read::GzDecoder::new(&*sent.body).read_to_string(&mut text),
        other => panic!("not compressed: {other:?}"),
    };
    read.expect("a compressed text");
    text
}

async fn pages_and_assets_are_compressed(app: TestApp) {
    app.key()
        .completed_change("Compressed & <escaped> zażółć")
        .await;
    let owner = app.browser().await;
    let page = owner.get("/changes").await;
    page.is(200);
    let page = page.text;
    let path = |before| format!("/assets/{}", between(&page, before, "\""));
    let (style, script) = (path("href=\"/assets/style"), path("src=\"/assets/app"));
    let style = style.replace("/assets/-", "/assets/style-");
    let script = script.replace("/assets/-", "/assets/app-");
    let document = "/api/openapi.json";
    for path in [
        "/changes",
        "/",
        "/activity",
        "/services",
        &style,
        &script,
        document,
        "/api/docs",
        "/problems/conflict",
    ] {
        let plain = get(&owner, path, "identity").await;
        assert_eq!((plain.status, &plain.encoding), (200, &None), "{path}");
        assert!(plain.varies, "{path}");
        for (accepted, encoding) in [("gzip, br", "br"), ("gzip", "gzip")] {
            let sent = get(&owner, path, accepted).await;
            assert_eq!(sent.encoding.as_deref(), Some(encoding), "{path}");
            assert!(sent.varies, "{path}");
            assert!(sent.body.len() * 2 < plain.body.len(), "{path}");
            let text = decompressed(&sent);
            assert_eq!(text.as_bytes(), plain.body, "{path}");
        }
    }
}

async fn secrets_are_not_compressed(app: TestApp) {
    let owner = app.browser().await;
    let fields = [("name", "ci"), ("expires_at", "")];
    let request = owner
        .request("POST", "/settings/api-keys")
        .header("accept-encoding", "gzip, br");
    let page = send(changelog_tests::form(request, &fields)).await;
    page.is(200);
    assert!(page.text.contains("id=\"new-api-key\""), "{}", page.text);
    assert_eq!(page.header("content-encoding"), "");
    let link = super::invite(&owner, "grace@example.com", "member").await;
    for path in [link.as_str(), "/setup?token=0123456789", "/sign-in"] {
        let sent = get(&app.anonymous(), path, "gzip, br").await;
        assert_eq!(sent.encoding, None, "{path}");
    }
}

async fn large_json_is_compressed_for_those_who_ask(app: TestApp) {
    let key = app.key();
    let changes: Vec<_> = (0..40)
        .map(|n| json!({ "title": format!("Deploy payments 4.{n}"), "status": "completed" }))
        .collect();
    let id = key.completed_change("Compressed & <escaped> zażółć").await;
    key.create_changes(changes).await;
    let now = chrono::Utc::now().format("%Y-%m-%dT%H:%M:%S%.3fZ");
    let around = format!("/api/changes/around?limit=40&at={now}");
    for path in ["/api/changes?per_page=100", &around] {
        let plain = get(&key, path, "identity").await;
        assert_eq!((plain.status, &plain.encoding), (200, &None), "{path}");
        assert!(plain.varies && plain.body.len() > 8 * 1024, "{path}");
        for (accepted, encoding) in [("gzip, br", "gzip"), ("br", "br"), ("gzip;q=0, br", "br")] {
            let sent = get(&key, path, accepted).await;
            assert_eq!(sent.encoding.as_deref(), Some(encoding), "{path}");
            assert!(
                sent.varies && sent.body.len() * 4 < plain.body.len(),
                "{path}"
            );
            assert_eq!(decompressed(&sent).as_bytes(), plain.body, "{path}");
        }
    }
    // What fits into few packets is not.
    for path in [&format!("/api/changes/{id}"), "/api/changes?per_page=1"] {
        let sent = get(&key, path, "gzip, br").await;
        assert_eq!((sent.status, sent.encoding), (200, None), "{path}");
    }
}

async fn a_busy_overview_is_small(app: TestApp) {
    let key = app.key();
    for part in 0..4 {
        let change = |number: usize| {
            let day = 1 + (part * 100 + number) % 27;
            let month = 1 + (part * 100 + number) / 40;
            json!({
                "title": format!("Deploy service number {part}{number}"),
                "status": "completed", "environment": "prod",
                "tags": ["deploy", format!("team-{}", number % 7)],
                "occurred_at": format!("2026-{month:02}-{day:02}T10:00:00Z"),
            })
        };
        let changes: Vec<_> = (0..100).map(change).collect();
        key.create_changes(changes).await;
    }
    let overview = get(&app.browser().await, "/", "gzip").await;
    assert_eq!(overview.status, 200);
    assert!(
        overview.body.len() < 30_000,
        "{} bytes",
        overview.body.len()
    );
}

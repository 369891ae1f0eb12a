//! Requests that no client library would send, and unusual strings.

use std::time::Duration;

use serde_json::json;

use changelog_tests::{RawConnection, TestApp, each, on_both, text};

on_both!(
    contradictory_lengths_are_refused,
    malformed_requests_are_refused,
    large_bodies_are_refused_before_they_are_read,
    an_incomplete_body_creates_nothing,
    control_characters_are_refused,
    strings_are_returned_unchanged,
    a_connection_serves_many_requests,
    unusual_targets_get_a_response;
    process:
    a_target_without_a_path_is_refused,
    a_nul_character_is_never_a_server_error,
);

const TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the head of a create with additional lines.
fn head(app: &TestApp, lines: &str) -> String {
    format!(
        "POST /api/changes HTTP/1.1\r\nx-api-key: {}\r\ncontent-type: application/json\r\n{lines}\r\n",
        app.organization.key
    )
}

const BODY: &str = r#"{"title":"smuggled"}"#;

async fn contradictory_lengths_are_refused(app: TestApp) {
    let length = BODY.len();
    let chunked = format!("{length:x}\r\n{BODY}\r\n0\r\n\r\n");
    for (what, lines, body) in [
        (
            "length and chunked",
            format!("host: x\r\ncontent-length: {length}\r\ntransfer-encoding: chunked\r\n"),
            chunked.as_str(),
        ),
        (
            "chunked and length",
            format!("host: x\r\ntransfer-encoding: chunked\r\ncontent-length: {length}\r\n"),
            &chunked,
        ),
        (
            "two lengths",
            format!("host: x\r\ncontent-length: {length}\r\ncontent-length: 5\r\n"),
            BODY,
        ),
        (
            "two lengths in one",
            format!("host: x\r\ncontent-length: {length}, 5\r\n"),
            BODY,
        ),
        (
            "a signed length",
            format!("host: x\r\ncontent-length: +{length}\r\n"),
            BODY,
        ),
        (
            "a negative length",
            "host: x\r\ncontent-length: -1\r\n".to_owned(),
            BODY,
        ),
        (
            "a length in words",
            "host: x\r\ncontent-length: twenty\r\n".to_owned(),
            BODY,
        ),
        ("no host", format!("content-length: {length}\r\n"), BODY),
        (
            "an unknown encoding",
            "host: x\r\ntransfer-encoding: rot13\r\n".to_owned(),
            &chunked,
        ),
        (
            "chunked, and then another",
            "host: x\r\ntransfer-encoding: chunked, identity\r\n".to_owned(),
            &chunked,
        ),
    ] {
        let mut connection = RawConnection::connect(&app.server.address).await;
        connection.send(head(&app, &lines)).await;
        connection.send(body).await;
        let received = connection.receive(TIMEOUT).await;
        assert_eq!(received.status(), Some(400), "{what}: {received:?}");
        assert!(received.closed, "{what}: the connection stays open");
    }
    assert_eq!(app.key().body("/api/changes").await["count"], 0);
}

async fn malformed_requests_are_refused(app: TestApp) {
    for (what, bytes) in [
        ("not HTTP", &b"hello\r\n\r\n"[..]),
        (
            "TLS",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        ),
        (
            "an unknown version",
            b"GET /api/health HTTP/3.7\r\nhost: x\r\n\r\n",
        ),
        (
            "HTTP/2 without negotiation",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ),
        (
            "a space before the colon",
            b"GET /api/health HTTP/1.1\r\nhost : x\r\n\r\n",
        ),
        (
            "a NUL in a header",
            b"GET /api/health HTTP/1.1\r\nhost: x\r\nx-api-key: a\0b\r\n\r\n",
        ),
        ("no target", b"GET HTTP/1.1\r\nhost: x\r\n\r\n"),
        (
            "two hosts",
            b"GET /api/health HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n",
        ),
    ] {
        let mut connection = RawConnection::connect(&app.server.address).await;
        connection.send(bytes).await;
        let received = connection.receive(TIMEOUT).await;
        assert!(received.closed, "{what}: {received:?}");
        let refused = received
            .status()
            .is_none_or(|status| (400..506).contains(&status) && status != 500);
        assert!(refused, "{what}: {received:?}");
    }
    app.anonymous().body("/api/health").await;
}

async fn large_bodies_are_refused_before_they_are_read(app: TestApp) {
    let mut connection = RawConnection::connect(&app.server.address).await;
    connection
        .send(head(&app, "host: x\r\ncontent-length: 100000000000\r\n"))
        .await;
    let received = connection.receive_until("payload_too_large", TIMEOUT).await;
    assert_eq!(received.status(), Some(413), "{received:?}");
    // Chunked bodies have the same limit.
    let mut connection = RawConnection::connect(&app.server.address).await;
    connection
        .send(head(&app, "host: x\r\ntransfer-encoding: chunked\r\n"))
        .await;
    let chunk = format!("8000\r\n{}\r\n", " ".repeat(0x8000));
    let mut sent = 0;
    while sent < 64 && connection.send(&chunk).await {
        sent += 1;
        if sent == 9 {
            // More than the limit was sent: the service must respond.
            let received = connection.receive_until("payload_too_large", TIMEOUT).await;
            assert_eq!(received.status(), Some(413), "{received:?}");
            break;
        }
    }
    assert_eq!(sent, 9);
}

async fn an_incomplete_body_creates_nothing(app: TestApp) {
    for (lines, part) in [
        ("host: x\r\ncontent-length: 20\r\n", "{\"title\":\"cut"),
        // A complete object, but not the whole body.
        ("host: x\r\ncontent-length: 30\r\n", BODY),
        (
            "host: x\r\ntransfer-encoding: chunked\r\n",
            "14\r\n{\"title\":\"smuggled\"}\r\n",
        ),
    ] {
        let mut connection = RawConnection::connect(&app.server.address).await;
        connection.send(head(&app, lines)).await;
        connection.send(part).await;
        drop(connection);
    }
    // The incomplete requests are handled before later ones.
    let key = app.key();
    for _ in 0..100 {
        key.body("/api/changes").await;
    }
    assert_eq!(key.body("/api/changes").await["count"], 0);
}

async fn control_characters_are_refused(app: TestApp) {
    let key = app.key();
    for bad in [
        "\u{0}", "\u{1}", "\u{7}", "\u{1b}", "\u{7f}", "\u{85}", "\u{9b}",
    ] {
        for (path, body, pointer) in [
            (
                "/api/changes",
                json!({ "title": format!("a{bad}b c") }),
                "/title",
            ),
            (
                "/api/changes",
                json!({ "title": "abc", "description": format!("a{bad}b") }),
                "/description",
            ),
            (
                "/api/changes",
                json!({ "title": "abc", "impact": format!("a{bad}b") }),
                "/impact",
            ),
            (
                "/api/changes",
                json!({ "title": "abc", "tags": [format!("a{bad}b")] }),
                "/tags/0",
            ),
            (
                "/api/hosts",
                json!({ "hostname": format!("a{bad}b") }),
                "/hostname",
            ),
            (
                "/api/hosts",
                json!({ "hostname": "h", "fqdn": format!("a{bad}b") }),
                "/fqdn",
            ),
            (
                "/api/hosts",
                json!({ "hostname": "h", "os": format!("a{bad}b") }),
                "/os",
            ),
            (
                "/api/hosts",
                json!({ "hostname": "h", "roles": [format!("a{bad}b")] }),
                "/roles/0",
            ),
            (
                "/api/hosts",
                json!({ "hostname": "h", "description": format!("a{bad}b") }),
                "/description",
            ),
            (
                "/api/services",
                json!({ "name": format!("a{bad}b") }),
                "/name",
            ),
            (
                "/api/services",
                json!({ "name": "svc", "description": format!("a{bad}b") }),
                "/description",
            ),
        ] {
            key.post(path, body)
                .await
                .violates(&[(pointer, "control_character")]);
        }
    }
    // Line feeds and tabs are allowed only in multi-line fields.
    for (field, status) in [("description", 201), ("impact", 201), ("title", 422)] {
        for inside in ["\n", "\t", "\r\n"] {
            let mut body = json!({ "title": "abc" });
            body[field] = json!(format!("one{inside}two"));
            let answer = key.post("/api/changes", body).await;
            assert_eq!(
                answer.status, status,
                "{inside:?} in {field}: {}",
                answer.text
            );
        }
    }
}

async fn strings_are_returned_unchanged(app: TestApp) {
    let key = app.key();
    for title in [
        "日本語のタイトル",
        "עברית مرحبا",
        "e\u{301} is not é",
        "👩‍👩‍👧‍👦 family",
        "zero\u{200b}width",
        "\u{202e}reversed",
        "<script>alert(1)</script>",
        "'; DROP TABLE changes; --",
        "\\ \" / \u{2028} \u{2029} end",
        "%s %n {} ${x} #{y} {{z}}",
        "the last \u{fffd}\u{10ffff}",
    ] {
        let body = json!({
            "title": title, "description": title, "impact": title, "tags": [title],
            "links": [{ "label": title, "url": "https://e.com" }],
        });
        let id = key.create("/api/changes", body.clone()).await;
        let change = key.read(&format!("/api/changes/{id}")).await;
        for field in ["title", "description", "impact", "tags", "links"] {
            assert_eq!(change[field], body[field], "{field}");
        }
        // Escaped characters are decoded.
        let units = title.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
        let escaped: String = units.collect();
        let answer = key
            .post_bytes("/api/changes", format!("{{\"title\":\"{escaped}\"}}"))
            .await;
        assert_eq!(answer.data(201)["title"], title);
    }
}

async fn a_connection_serves_many_requests(app: TestApp) {
    let mut connection = RawConnection::connect(&app.server.address).await;
    let request = format!(
        "GET /api/hosts HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\n\r\n",
        app.organization.key
    );
    for _ in 0..20 {
        connection.send(&request).await;
        let received = connection.receive_until("{\"data\":[]}", TIMEOUT).await;
        assert_eq!(received.status(), Some(200), "{received:?}");
    }
    // The connection can be used after a refused body.
    let bad = head(&app, "host: x\r\ncontent-length: 3\r\n") + "{x}";
    connection.send(bad).await;
    let received = connection.receive_until("malformed_body", TIMEOUT).await;
    assert_eq!(received.status(), Some(400), "{received:?}");
    connection.send(&request).await;
    let received = connection.receive_until("{\"data\":[]}", TIMEOUT).await;
    assert_eq!(received.status(), Some(200), "{received:?}");
    // An HTTP/1.0 connection is closed after the response.
    let mut connection = RawConnection::connect(&app.server.address).await;
    connection
        .send("GET /api/health HTTP/1.0\r\nhost: x\r\n\r\n")
        .await;
    let received = connection.receive(TIMEOUT).await;
    assert!(
        received.closed && received.text.contains("reachable"),
        "{received:?}"
    );
}

async fn unusual_targets_get_a_response(app: TestApp) {
    let key = app.key();
    key.change("fine").await;
    for (target, statuses) in [
        ("/api/../api/hosts", &[404, 400][..]),
        ("/api/hosts/..", &[404, 400]),
        ("/api/hosts%2F", &[404, 400]),
        ("/api%2Fhosts", &[404, 400]),
        ("/api/hosts;x=y", &[404, 400]),
        ("/api/hosts?", &[200]),
        ("/api/changes?&&", &[200, 400]),
        ("/api/changes?=", &[400]),
        ("/api/changes?page", &[400]),
        ("/api/changes?%70age=1", &[200]),
        ("/api/changes?q=%zz", &[200, 400]),
        ("/api/changes?q=%00", &[200]),
        ("*", &[404, 400]),
        ("http://elsewhere/api/health", &[200, 400, 404]),
    ] {
        let mut connection = RawConnection::connect(&app.server.address).await;
        let request = format!(
            "GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-api-key: {}\r\n\r\n",
            app.organization.key
        );
        connection.send(request).await;
        let received = connection.receive(TIMEOUT).await;
        let status = received.status().expect("a response");
        assert!(statuses.contains(&status), "{target}: {received:?}");
    }
    let list = key.body("/api/changes").await;
    assert_eq!(
        each(&list["data"], "title")
            .into_iter()
            .map(text)
            .collect::<Vec<_>>(),
        ["fine"]
    );
}

async fn a_nul_character_is_never_a_server_error(app: TestApp) {
    let key = app.key();
    for query in ["tag=%00", "tag=a&tag=b%00", "tag=%1b"] {
        let path = format!("/api/changes?{query}");
        key.get(&path).await.problem(400, "malformed_query");
    }
    key.get("/api/changes?q=%FF")
        .await
        .problem(400, "malformed_query");
    key.body("/api/changes?q=%00").await;
    let anonymous = app.anonymous();
    let answer = anonymous.try_sign_in("a\0@example.com", "whatever it is");
    answer.await.is(401);
}

async fn a_target_without_a_path_is_refused(app: TestApp) {
    for head in ["CONNECT a:1 HTTP/1.1", "GET api HTTP/1.1"] {
        let mut connection = RawConnection::connect(&app.server.address).await;
        connection.send(format!("{head}\r\nHost: a\r\n\r\n")).await;
        let received = connection.receive(Duration::from_secs(10)).await;
        assert_eq!(received.status(), Some(400), "{head}: {}", received.text);
    }
    assert!(!app.server.log().contains("panicked"));
}

//! Requests that are refused before their body is read, and clients that still send.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use changelog_tests::{RawConnection, TestApp, on_both};

on_both!(
    early_refusals_reach_clients_that_still_send,
    clients_that_keep_sending_are_disconnected,
    an_early_answer_keeps_the_connection,
    what_is_not_read_closes_the_connection_and_says_so,
    encoded_bodies_are_refused,
    a_split_head_does_not_hide_a_content_length,
);

const TIMEOUT: Duration = Duration::from_secs(10);
const BODY: &str = r#"{"title":"plain"}"#;

/// Returns the head of a create with additional lines.
fn head(key: &str, lines: &str) -> String {
    format!(
        "POST /api/changes HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n\
         content-type: application/json\r\n{lines}\r\n"
    )
}

/// Writes the whole request before it reads the response, as many clients do.
async fn write_then_read(address: &str, head: &str, body: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

async fn early_refusals_reach_clients_that_still_send(app: TestApp) {
    let key = app.organization.key.as_str();
    for (key, size, status) in [
        ("wrong", 270_000, "401"),
        (key, 270_000, "413"),
        (key, 600_000, "413"),
        (key, 5_000_000, "413"),
    ] {
        let body = vec![b' '; size];
        for attempt in 0..20 {
            let head = head(key, &format!("content-length: {size}\r\n"));
            let answer = write_then_read(&app.server.address, &head, &body).await;
            let answer =
                answer.unwrap_or_else(|error| panic!("{status}, {size}, {attempt}: {error}"));
            let expected = format!("HTTP/1.1 {status} ");
            assert!(answer.starts_with(&expected), "{size}, {attempt}: {answer}");
        }
    }
}

async fn clients_that_keep_sending_are_disconnected(app: TestApp) {
    let mut connection = RawConnection::connect(&app.server.address).await;
    connection
        .send(head("wrong", "transfer-encoding: chunked\r\n"))
        .await;
    let received = connection.receive_until("unauthorized", TIMEOUT).await;
    assert_eq!(received.status(), Some(401), "{received:?}");
    let began = tokio::time::Instant::now();
    while connection.send("1\r\n \r\n").await {
        assert!(began.elapsed() < TIMEOUT, "the connection stays open");
        tokio::task::yield_now().await;
    }
}

/// Returns the start of a request that is answered without its body.
fn early(method: &str, path: &str, key: &str, lines: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n{lines}\r\n")
}

/// How long a client waits between the head and the body.
const BETWEEN_PACKETS: Duration = Duration::from_millis(30);

async fn an_early_answer_keeps_the_connection(app: TestApp) {
    let key = app.organization.key.as_str();
    let length = BODY.len();
    let plain = format!("content-type: application/json\r\ncontent-length: {length}\r\n");
    let chunked = "content-type: application/json\r\ntransfer-encoding: chunked\r\n";
    let chunks = format!("{length:x}\r\n{BODY}\r\n0\r\n\r\n");
    let mut connection = RawConnection::connect(&app.server.address).await;
    for (method, path, key, status) in [
        ("PATCH", "/api/changes/no-id", key, 400),
        ("POST", "/api/changes", "wrong", 401),
        ("POST", "/sign-out", key, 303),
        ("POST", "/api/nothing", key, 404),
        ("PUT", "/api/changes", key, 405),
        ("GET", "/api/hosts", key, 200),
    ] {
        for (lines, body) in [(plain.as_str(), BODY), (chunked, &chunks)] {
            let what = format!("{method} {path} {lines}");
            connection.send(early(method, path, key, lines)).await;
            tokio::time::sleep(BETWEEN_PACKETS).await;
            assert!(connection.send(body).await, "{what}: it is closed");
            let get = early("GET", "/api/health", key, "");
            assert!(connection.send(get).await, "{what}: it is closed");
            let received = connection.receive_until("\"status\":\"ok\"", TIMEOUT).await;
            assert_eq!(received.status(), Some(status), "{what}: {received:?}");
            assert!(!received.closed, "{what}: {received:?}");
            assert!(!received.text.contains("connection: close"), "{received:?}");
        }
    }
}

async fn what_is_not_read_closes_the_connection_and_says_so(app: TestApp) {
    let chunk = format!("8000\r\n{}\r\n", " ".repeat(0x8000));
    for (what, lines, body) in [
        ("large", "content-length: 262145\r\n", String::new()),
        (
            "large chunks",
            "transfer-encoding: chunked\r\n",
            chunk.repeat(9),
        ),
        ("slow", "content-length: 20\r\n", "{".to_owned()),
        (
            "slow chunks",
            "transfer-encoding: chunked\r\n",
            "1\r\n{\r\n".to_owned(),
        ),
        // The client may leave out a body that was not asked for.
        (
            "awaited",
            "content-length: 20\r\nexpect: 100-continue\r\n",
            String::new(),
        ),
    ] {
        let mut connection = RawConnection::connect(&app.server.address).await;
        connection
            .send(early("POST", "/api/nothing", "", lines))
            .await;
        connection.send(body).await;
        let received = connection.receive(TIMEOUT).await;
        assert_eq!(received.status(), Some(404), "{what}: {received:?}");
        assert!(
            received.text.contains("connection: close"),
            "{what}: {received:?}"
        );
        assert!(received.closed, "{what}: {received:?}");
    }
}

async fn encoded_bodies_are_refused(app: TestApp) {
    let key = &app.organization.key;
    let length = BODY.len();
    let chunked = format!("{length:x}\r\n{BODY}\r\n0\r\n\r\n");
    let plain = format!("content-length: {length}\r\n");
    for (lines, body, status, named) in [
        (
            format!("{plain}content-encoding: gzip\r\n"),
            BODY,
            415,
            "accept-encoding: identity",
        ),
        (
            format!("{plain}content-encoding: identity\r\ncontent-encoding: br\r\n"),
            BODY,
            415,
            "unsupported_media_type",
        ),
        (
            format!("{plain}content-encoding: Identity\r\n"),
            BODY,
            201,
            "plain",
        ),
        (
            "transfer-encoding: gzip, chunked\r\n".to_owned(),
            chunked.as_str(),
            501,
            "not_implemented",
        ),
        (
            "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n".to_owned(),
            &chunked,
            501,
            "not_implemented",
        ),
        (
            "transfer-encoding: Chunked\r\n".to_owned(),
            &chunked,
            201,
            "plain",
        ),
    ] {
        let mut connection = RawConnection::connect(&app.server.address).await;
        let lines = format!("{lines}connection: close\r\n");
        connection.send(head(key, &lines) + body).await;
        let received = connection.receive(TIMEOUT).await;
        assert_eq!(received.status(), Some(status), "{lines}: {received:?}");
        assert!(received.text.contains(named), "{lines}: {received:?}");
    }
    assert_eq!(app.key().body("/api/changes").await["count"], 2);
}

/// `Content-Length` together with `Transfer-Encoding`, with the head in two packets of
/// which the second looks like a complete head.
async fn a_split_head_does_not_hide_a_content_length(app: TestApp) {
    let key = &app.organization.key;
    let get = format!("GET /api/hosts HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n\r\n");
    let length = BODY.len();
    let chunks = format!("{length:x}\r\n{BODY}\r\n0\r\n\r\n");
    let tail = format!(
        "POST /api/changes HTTP/1.1\r\nx-api-key: {key}\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{chunks}"
    );
    let first =
        format!("POST /api/changes HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\nx-split: ");
    let mut connection = RawConnection::connect(&app.server.address).await;
    connection.send(format!("{get}{first}")).await;
    let received = connection.receive_until("{\"data\":[]}", TIMEOUT).await;
    assert_eq!(received.status(), Some(200), "{received:?}");
    connection.send(tail).await;
    let received = connection.receive(TIMEOUT).await;
    assert_eq!(received.status(), Some(400), "{received:?}");
    assert!(received.closed, "{received:?}");
    assert_eq!(app.key().body("/api/changes").await["count"], 0);
    // Several chunked bodies on one connection are accepted, split or not.
    let mut connection = RawConnection::connect(&app.server.address).await;
    let plain = head(key, "transfer-encoding: chunked\r\n");
    for split in [0, 20, plain.len() - 1, plain.len()] {
        let request = format!("{plain}{chunks}");
        let (before, behind) = request.split_at(split);
        connection.send(before).await;
        tokio::task::yield_now().await;
        connection.send(behind).await;
        let received = connection
            .receive_until("\"title\":\"plain\"", TIMEOUT)
            .await;
        assert_eq!(received.status(), Some(201), "{split}: {received:?}");
        connection
            .receive_until("}}", Duration::from_millis(50))
            .await;
    }
}

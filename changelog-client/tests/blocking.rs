//! The client that waits, against a service in another thread.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

use changelog_client::{Change, Client, Error};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Returns a service with one change.
async fn service() -> MockServer {
    let server = MockServer::start().await;
    let id = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
    let change = json!({
        "id": id, "title": "Deploy", "description": null, "risk_level": "low",
        "status": "planned", "impact": null, "service": null, "host_ref": null, "tags": [],
        "links": [], "scheduled_for": null, "occurred_at": "2026-11-21T08:30:00.000Z",
        "organization_id": id, "created_at": "2026-11-21T08:30:00.000Z",
        "updated_at": "2026-11-21T08:30:00.000Z",
    });
    let page = json!({
        "data": [change], "count": 1, "page": 1, "per_page": 100, "total_pages": 1,
    });
    Mock::given(path("/api/changes"))
        .respond_with(ResponseTemplate::new(200).set_body_json(page))
        .mount(&server)
        .await;
    server
}

fn client(server: &MockServer) -> changelog_client::blocking::Client {
    let client = Client::builder().url(server.uri()).build();
    let client = client.expect("a client").blocking();
    client.expect("a blocking client")
}

#[test]
fn requests_block_and_lists_are_iterators() {
    let runtime = runtime();
    let server = runtime.block_on(service());
    let client = client(&server);
    assert_eq!(client.changes().list().send().unwrap().count, 1);
    let changes: Result<Vec<Change>, Error> = client.changes().list().iter().collect();
    assert_eq!(changes.unwrap()[0].title, "Deploy");
    let error = client.services().list().unwrap_err();
    assert_eq!(error.status(), Some(404));
    // Another thread may use it, and iterate.
    let title = std::thread::spawn(move || {
        let mut changes = client.changes().list().iter();
        changes.next().map(|change| change.unwrap().title)
    });
    assert_eq!(title.join().unwrap().as_deref(), Some("Deploy"));
}

#[test]
fn a_connection_that_the_server_has_closed_meanwhile_is_not_used() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (close, closing) = mpsc::channel();
    let (closed, is_closed) = mpsc::channel();
    let server = std::thread::spawn(move || {
        for _ in 0..3 {
            let (mut connection, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                connection.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            let body = r#"{"status": "ok", "db": "reachable"}"#;
            let length = body.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
            connection.write_all(answer.as_bytes()).unwrap();
            closing.recv().unwrap();
            drop(connection);
            closed.send(()).unwrap();
        }
    });
    let client = Client::builder().url(url).build().unwrap();
    let client = client.blocking().unwrap();
    for _ in 0..3 {
        // It is sent once.
        assert!(client.health().unwrap().is_ok());
        close.send(()).unwrap();
        is_closed.recv().unwrap();
    }
    server.join().unwrap();
}

#[test]
fn inside_a_runtime_requests_are_errors_and_nothing_panics() {
    let runtime = runtime();
    runtime.block_on(async {
        let server = service().await;
        let client = client(&server);
        let error = client.changes().list().send().unwrap_err();
        assert!(matches!(&error, Error::Builder(_)), "{error:?}");
        let mut changes = client.changes().list().iter();
        assert!(matches!(changes.next(), Some(Err(Error::Builder(_)))));
        assert!(changes.next().is_none());
        drop((changes, client));
    });
}

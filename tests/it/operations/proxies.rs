//! Behind a trusted proxy, clients are identified by the forwarded address, and limits
//! apply per client.

use std::time::Duration;

use changelog_tests::{RawConnection, TestApp, on_sqlite, send};

const TIMEOUT: Duration = Duration::from_secs(20);
/// The limit on concurrent requests of one client.
const MAX_CONCURRENT_REQUESTS: usize = 256;

/// This machine is trusted as a proxy.
const TRUSTED: [&str; 2] = ["--trusted-proxy", "127.0.0.1"];

on_sqlite!(process:
    a_proxy_may_have_more_connections_than_a_client,
    concurrent_requests_of_a_client_are_limited,
    sign_ins_are_counted_by_client,
);

/// The connections of a proxy are not those of one client.
async fn a_proxy_may_have_more_connections_than_a_client(mut app: TestApp) {
    app.restart_with(&TRUSTED).await;
    let key = &app.organization.key;
    let other = app.second_organization();
    let mut held = Vec::new();
    // Fifty streams of each organization, and more connections than one client may have.
    for number in 0..MAX_CONCURRENT_REQUESTS + 100 {
        let mut connection = RawConnection::connect(&app.server.address).await;
        let (path, key) = match number {
            0..50 => ("/api/changes/stream", key),
            50..100 => ("/api/changes/stream", &other.key),
            _ => ("/api/hosts", key),
        };
        let client = number % 7;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n\
             x-forwarded-for: 192.0.2.{client}\r\n\r\n"
        );
        connection.send(request).await;
        held.push(connection);
    }
    for (number, connection) in held.iter_mut().enumerate() {
        let wanted = if number < 100 {
            "event: position"
        } else {
            "{\"data\":[]}"
        };
        let received = connection.receive_until(wanted, TIMEOUT).await;
        assert_eq!(received.status(), Some(200), "{number}: {received:?}");
    }
    // One more stream of an organization exceeds its limit.
    let stream = app.key().request("GET", "/api/changes/stream");
    let answer = send(stream.header("x-forwarded-for", "192.0.2.99")).await;
    answer.problem(429, "too_many_requests");
    app.anonymous().body("/api/health").await;
    app.key().get("/api/hosts").await.is(200);
}

async fn concurrent_requests_of_a_client_are_limited(mut app: TestApp) {
    app.restart_with(&TRUSTED).await;
    let key = &app.organization.key;
    let request = |method: &str, path: &str, address: &str| {
        let request = app.key().request(method, path);
        send(request.header("x-forwarded-for", address))
    };
    // Requests with incomplete bodies are in progress.
    let mut held = Vec::new();
    for number in 0..MAX_CONCURRENT_REQUESTS {
        let mut connection = RawConnection::connect(&app.server.address).await;
        let lines = format!(
            "POST /api/changes HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n\
             content-type: application/json\r\ncontent-length: 100\r\n\
             expect: 100-continue\r\nx-forwarded-for: 2001:db8:1:2::{number:x}\r\n\r\n"
        );
        connection.send(lines).await;
        held.push(connection);
    }
    for connection in &mut held {
        let received = connection.receive_until("100 Continue", TIMEOUT).await;
        assert!(received.text.contains("100 Continue"), "{received:?}");
    }
    let answer = request("GET", "/api/hosts", "2001:db8:1:2:ffff::1").await;
    answer.problem(429, "too_many_requests");
    assert_eq!(answer.header("retry-after"), "1");
    // Other clients and health checks are served.
    request("GET", "/api/hosts", "2001:db8:1:3::1")
        .await
        .is(200);
    request("GET", "/api/hosts", "192.0.2.7").await.is(200);
    request("GET", "/api/health", "2001:db8:1:2::1")
        .await
        .is(200);
    // The client is served again when its requests have ended.
    drop(held);
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    while request("GET", "/api/hosts", "2001:db8:1:2::1").await.status != 200 {
        assert!(tokio::time::Instant::now() < deadline);
    }
}

/// Limits count the client, however its address is written.
async fn sign_ins_are_counted_by_client(mut app: TestApp) {
    app.restart_with(&TRUSTED).await;
    let sign_in = async |address: String| {
        let request = app.anonymous().request("POST", "/sign-in");
        let fields = [
            ("email", address.as_str()),
            ("password", "not the password"),
        ];
        let request = changelog_tests::form(request, &fields);
        send(request.header("x-forwarded-for", &address))
            .await
            .status
    };
    for client in [
        // Addresses of one network, and ports of one address.
        (|number| format!("2001:db8:9:9::{number:x}")) as fn(u32) -> String,
        |number| format!("192.0.2.7:{number}"),
    ] {
        let mut throttled = 0;
        for number in 1..=90 {
            match sign_in(client(number)).await {
                401 => {}
                429 => throttled += 1,
                status => panic!("{}: {status}", client(number)),
            }
        }
        assert!(throttled > 0, "{}", client(1));
    }
    // Other clients behind the same proxy are not throttled.
    for number in 1..=5 {
        assert_eq!(sign_in(format!("198.51.100.{number}:4711")).await, 401);
    }
}

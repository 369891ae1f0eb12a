//! Limits and deadlines of connections.

use std::process::Command;
use std::time::{Duration, Instant};

use changelog_tests::{RawConnection, Server, TestApp, on_sqlite};

on_sqlite!(process:
    slow_and_silent_connections_are_closed,
    one_address_cannot_take_all_connections,
    silent_connections_are_closed_to_make_room,
    a_full_service_responds_with_503,
    the_limit_of_open_files_is_raised,
);

/// Reads from a connection until it is closed, and sends `drip` every two seconds;
/// returns the duration and the received bytes.
async fn closed_after(
    mut connection: RawConnection,
    drip: Option<&'static str>,
) -> (Duration, String) {
    let began = Instant::now();
    let mut text = String::new();
    loop {
        let received = connection.receive(Duration::from_secs(2)).await;
        text.push_str(&received.text);
        if received.closed {
            return (began.elapsed(), text);
        }
        assert!(
            began.elapsed() < Duration::from_secs(90),
            "the connection stays open"
        );
        if let Some(drip) = drip {
            connection.send(drip).await;
        }
    }
}

async fn slow_and_silent_connections_are_closed(app: TestApp) {
    let address = app.server.address.clone();
    let key = &app.organization.key;
    let head = format!(
        "POST /api/changes HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n"
    );
    let whole = format!("GET /api/hosts HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n\r\n");
    let with_length = format!("{head}content-length: 1000\r\n\r\n{{");
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n1\r\n{{\r\n");
    let mut waiting = tokio::task::JoinSet::new();
    for (what, bytes, drip, min, max) in [
        ("silent", String::new(), None, 8, 13),
        ("half a header", "GET /api/hea".to_owned(), None, 8, 13),
        ("a slow header", head.clone(), Some("x-drop: 1\r\n"), 8, 13),
        ("half a body", with_length.clone(), None, 12, 18),
        ("a slow body", with_length, Some(" "), 12, 18),
        ("a slow chunked body", chunked, Some("1\r\n \r\n"), 12, 18),
        ("idle after a request", whole, None, 5, 63),
    ] {
        let mut connection = RawConnection::connect(&address).await;
        connection.send(bytes).await;
        waiting.spawn(async move { (what, closed_after(connection, drip).await, min, max) });
    }
    // Meanwhile other requests are served without delay.
    let key = app.key();
    let mut times = Vec::new();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(12) {
        let sent = Instant::now();
        key.get("/api/hosts").await.is(200);
        times.push(sent.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    times.sort();
    assert!(
        times[times.len() / 2] < Duration::from_millis(100),
        "{times:?}"
    );
    while let Some(ended) = waiting.join_next().await {
        let (what, (took, text), min, max) = ended.expect("an exit");
        let within = Duration::from_secs(min)..Duration::from_secs(max);
        assert!(
            within.contains(&took),
            "{what}: closed after {took:?}: {text}"
        );
        if what.contains("body") {
            // With a response or without, nothing was created.
            assert!(
                text.is_empty() || text.starts_with("HTTP/1.1 408"),
                "{what}: {text}"
            );
        }
        if what.contains("header") {
            let is_expected = text.is_empty() || text.starts_with("HTTP/1.1 408");
            assert!(is_expected, "{what}: {text}");
        }
    }
    assert_eq!(key.body("/api/changes").await["count"], 0);
}

/// An address may have 256 connections; more of them do not affect others.
async fn one_address_cannot_take_all_connections(app: TestApp) {
    let address = app.server.address.clone();
    let client = "127.0.0.2";
    let request = "GET /api/health HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut held = Vec::new();
    for _ in 0..256 {
        let mut connection = RawConnection::connect_from(client, &address).await;
        connection.send(request).await;
        held.push(connection);
    }
    for connection in &mut held {
        let received = connection
            .receive_until("reachable", Duration::from_secs(20))
            .await;
        assert_eq!(received.status(), Some(200), "{received:?}");
    }
    // One more connection of the address is not served; others are.
    let mut one_more = RawConnection::connect_from(client, &address).await;
    one_more.send(request).await;
    for _ in 0..20 {
        app.key().get("/api/hosts").await.is(200);
    }
    let received = one_more
        .receive_until("reachable", Duration::from_millis(500))
        .await;
    assert_ne!(received.status(), Some(200), "{received:?}");
    drop((held, one_more));
    // The address is served again when its connections are closed.
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let mut connection = RawConnection::connect_from(client, &address).await;
        connection.send(request).await;
        let received = connection
            .receive_until("reachable", Duration::from_secs(2))
            .await;
        if received.status() == Some(200) {
            break;
        }
        assert!(Instant::now() < deadline, "{received:?}");
    }
}

/// Starts a server with these limits on open files.
async fn server_with_files(app: &TestApp, soft: u32, hard: u32) -> Server {
    let serve = app.serve_command();
    let limit = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command
        .args(["-c", &limit])
        .arg(serve.get_program())
        .args(serve.get_args())
        .env_clear()
        .envs(
            serve
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .current_dir(app.folder());
    let server = Server::start(command).await;
    server.unwrap_or_else(|log| panic!("the server exited: {log}"))
}

/// Connections without a request are closed when the limit of connections is reached.
async fn silent_connections_are_closed_to_make_room(mut app: TestApp) {
    app.server.kill9();
    app.server = server_with_files(&app, 256, 256).await;
    let request = "GET /api/health HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut silent = Vec::new();
    for number in 0..400 {
        let source = format!("127.0.1.{}", number % 4);
        silent.push(RawConnection::connect_from(&source, &app.server.address).await);
    }
    for _ in 0..20 {
        let mut connection = RawConnection::connect(&app.server.address).await;
        connection.send(request).await;
        let received = connection
            .receive_until("reachable", Duration::from_secs(5))
            .await;
        assert_eq!(received.status(), Some(200), "{received:?}");
    }
    // A connection that was just used is not closed.
    let mut used = RawConnection::connect(&app.server.address).await;
    for _ in 0..10 {
        used.send(request).await;
        let received = used
            .receive_until("reachable", Duration::from_secs(5))
            .await;
        assert_eq!(received.status(), Some(200), "{received:?}");
        for number in 0..20 {
            let source = format!("127.0.1.{}", number % 4);
            silent.push(RawConnection::connect_from(&source, &app.server.address).await);
        }
    }
    let log = app.server.log();
    assert!(!log.contains("could not be accepted"), "{log}");
}

/// When all connections are busy, health checks are served, and other requests get 503.
async fn a_full_service_responds_with_503(mut app: TestApp) {
    app.server.kill9();
    // 128 files are not for connections, and one in eight of the others is reserved.
    app.server = server_with_files(&app, 192, 192).await;
    let request = format!(
        "POST /api/changes HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\nexpect: 100-continue\r\n\r\n",
        app.organization.key
    );
    let mut busy = Vec::new();
    for _ in 0..56 {
        let mut connection = RawConnection::connect(&app.server.address).await;
        connection.send(&request).await;
        let received = connection
            .receive_until("100 Continue", Duration::from_secs(5))
            .await;
        assert!(received.text.contains("100 Continue"), "{received:?}");
        busy.push(connection);
    }
    for _ in 0..20 {
        let answer = app.anonymous().get("/api/hosts").await;
        answer.problem(503, "unavailable");
        assert_eq!(answer.header("retry-after"), "1");
        app.anonymous().body("/api/health").await;
    }
    drop(busy);
    let deadline = Instant::now() + Duration::from_secs(10);
    while app.key().get("/api/hosts").await.status != 200 {
        assert!(Instant::now() < deadline);
    }
}

/// The server raises its soft limit, usually 1,024, to the hard limit.
async fn the_limit_of_open_files_is_raised(mut app: TestApp) {
    app.server.kill9();
    app.server = server_with_files(&app, 100, 700).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", app.server.pid()));
    // Only Linux has this file.
    let Ok(limits) = limits else { return };
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let files: Vec<_> = files.expect("a line").split_whitespace().collect();
    assert_eq!(files[3..5], ["700", "700"]);
}

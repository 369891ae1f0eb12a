//! What is retried, how often, and for how long.

use std::time::{Duration, Instant};

use changelog_client::{Client, Error, ErrorKind, RetryPolicy, Status, TransportErrorKind};
use serde_json::json;
use wiremock::matchers::{body_json, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::{
    ID, change, client, client_at, created, idempotency_keys, mock_responses, problem, requests,
};

#[tokio::test]
async fn a_create_is_retried_under_one_idempotency_key() {
    let server = MockServer::start().await;
    let down = || ResponseTemplate::new(503);
    mock_responses(&server, vec![down(), ResponseTemplate::new(502), created()]).await;
    let client = client(&server);
    client.changes().create("Deploy").send().await.unwrap();
    client.changes().create("Deploy").send().await.unwrap();
    let keys = idempotency_keys(&requests(&server).await);
    assert_eq!(keys.len(), 4);
    assert_eq!(keys[0], keys[1]);
    assert_eq!(keys[1], keys[2]);
    assert_ne!(keys[2], keys[3], "another create has another key");
    assert_eq!(keys[0].parse::<uuid::Uuid>().unwrap().get_version_num(), 7);
}

#[tokio::test]
async fn retries_end_and_the_error_has_their_number() {
    let server = MockServer::start().await;
    mock_responses(&server, vec![problem(503, "unavailable")]).await;
    let error = client(&server).changes().list().send().await.unwrap_err();
    assert_eq!(error.kind(), Some(ErrorKind::Unavailable));
    assert_eq!(error.response().unwrap().attempts, 4);
    assert!(
        !error.is_unconfirmed(),
        "the service said that it did nothing"
    );
    assert_eq!(requests(&server).await.len(), 4);
}

#[tokio::test]
async fn what_the_service_could_not_confirm_is_unconfirmed() {
    let server = MockServer::start().await;
    mock_responses(&server, vec![problem(503, "outcome_unknown")]).await;
    let create = client(&server).changes().create("Deploy").send();
    let error = create.await.unwrap_err();
    assert_eq!(error.kind(), Some(ErrorKind::Unavailable));
    assert!(error.is_transient());
    assert!(error.is_unconfirmed());
}

#[tokio::test]
async fn retry_after_is_respected() {
    let server = MockServer::start().await;
    let wait = problem(429, "too_many_requests").insert_header("retry-after", "1");
    mock_responses(&server, vec![wait, created()]).await;
    let start = Instant::now();
    client(&server)
        .changes()
        .create("Deploy")
        .send()
        .await
        .unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(requests(&server).await.len(), 2);
}

#[tokio::test]
async fn a_delay_beyond_the_total_timeout_is_not_started() {
    let server = MockServer::start().await;
    let wait = problem(429, "too_many_requests").insert_header("retry-after", "60");
    mock_responses(&server, vec![wait]).await;
    let start = Instant::now();
    let error = client(&server).changes().list().send().await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(error.kind(), Some(ErrorKind::RateLimited));
    assert_eq!(error.retry_after(), Some(Duration::from_mins(1)));
    assert_eq!(error.response().unwrap().attempts, 1);
}

#[tokio::test]
async fn the_longest_delays_and_timeouts_do_not_overflow() {
    let server = MockServer::start().await;
    let longest = u64::MAX.to_string();
    let wait = problem(429, "too_many_requests").insert_header("retry-after", &*longest);
    mock_responses(&server, vec![wait]).await;
    let error = client(&server).changes().list().send().await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(u64::MAX)));
    assert_eq!(error.response().unwrap().attempts, 1);

    let server = MockServer::start().await;
    let now = problem(503, "unavailable").insert_header("retry-after", "0");
    mock_responses(&server, vec![now, created()]).await;
    let client = |min_delay| {
        let builder = Client::builder().url(server.uri());
        let builder = builder.attempt_timeout(Duration::MAX).retry(RetryPolicy {
            max_retries: 1,
            min_delay,
            max_delay: Duration::MAX,
        });
        builder.total_timeout(Duration::MAX).build().unwrap()
    };
    let create = client(Duration::ZERO).changes().create("Deploy").send();
    create.await.unwrap();
    assert_eq!(requests(&server).await.len(), 2);

    server.reset().await;
    mock_responses(&server, vec![problem(503, "unavailable")]).await;
    let create = client(Duration::MAX).changes().create("Deploy").send();
    let error = create.await.unwrap_err();
    assert_eq!(error.response().unwrap().attempts, 1);
}

#[tokio::test]
async fn permanent_errors_are_not_retried() {
    for (status, code, kind) in [
        (400, "malformed_query", ErrorKind::Invalid),
        (401, "unauthorized", ErrorKind::Unauthorized),
        (403, "plan_required", ErrorKind::PlanRequired),
        (403, "scope_required", ErrorKind::ScopeRequired),
        (403, "out_of_bounds", ErrorKind::ScopeRequired),
        (403, "forbidden", ErrorKind::Forbidden),
        (404, "not_found", ErrorKind::NotFound),
        (409, "conflict", ErrorKind::Conflict),
        (413, "payload_too_large", ErrorKind::Other),
        (422, "validation_failed", ErrorKind::Invalid),
        (422, "idempotency_key_reused", ErrorKind::Invalid),
        (500, "internal", ErrorKind::Other),
    ] {
        let server = MockServer::start().await;
        mock_responses(&server, vec![problem(status, code)]).await;
        let result = client(&server).changes().create("Deploy").send().await;
        let error = result.unwrap_err();
        assert_eq!(error.kind(), Some(kind), "{code}: {error:?}");
        let violations = usize::from(code == "validation_failed");
        assert_eq!(error.violations().len(), violations, "{code}");
        assert_eq!(error.status(), Some(status));
        assert_eq!(error.request_id(), Some("from-the-body"));
        assert_eq!(
            error.problem().map(|problem| problem.code.as_str()),
            Some(code)
        );
        assert_eq!(requests(&server).await.len(), 1, "{code}");
    }
}

#[tokio::test]
async fn a_locked_idempotency_key_is_retried() {
    let server = MockServer::start().await;
    let running = problem(409, "idempotency_in_progress").insert_header("retry-after", "0");
    mock_responses(&server, vec![running, created()]).await;
    client(&server)
        .changes()
        .create("Deploy")
        .send()
        .await
        .unwrap();
    let keys = idempotency_keys(&requests(&server).await);
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test]
async fn an_update_is_retried() {
    let server = MockServer::start().await;
    let address = format!("/api/changes/{ID}");
    Mock::given(path(&address))
        .respond_with(ResponseTemplate::new(504))
        .up_to_n_times(1)
        .mount(&server)
        .await;
    Mock::given(method("PATCH"))
        .and(path(&address))
        .and(body_json(
            json!({"status": "completed", "description": null}),
        ))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({"data": change(ID)})))
        .mount(&server)
        .await;
    client(&server)
        .changes()
        .update(ID.parse().unwrap())
        .status(Status::Completed)
        .clear_description()
        .send()
        .await
        .unwrap();
    assert_eq!(requests(&server).await.len(), 2);
}

#[tokio::test]
async fn timeouts_are_retried_within_the_total_timeout() {
    let server = MockServer::start().await;
    let slow = created().set_delay(Duration::from_secs(30));
    mock_responses(&server, vec![slow]).await;
    let client = Client::builder()
        .url(server.uri())
        .attempt_timeout(Duration::from_millis(100))
        .total_timeout(Duration::from_millis(350))
        .retry(RetryPolicy {
            max_retries: 100,
            min_delay: Duration::from_millis(1),
            max_delay: Duration::from_millis(2),
        })
        .build()
        .unwrap();
    let start = Instant::now();
    let error = client.changes().create("Deploy").send().await.unwrap_err();
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
    assert!(error.is_unconfirmed());
    let Error::Transport(transport) = &error else {
        panic!("{error:?}");
    };
    assert_eq!(transport.kind, TransportErrorKind::Timeout);
    assert!((3..=4).contains(&transport.attempts), "{error}");
}

#[tokio::test]
async fn a_refused_connection_is_retried_and_is_not_unconfirmed() {
    // A free port without a listener.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let error = client_at(&url)
        .changes()
        .create("Deploy")
        .send()
        .await
        .unwrap_err();
    assert!(!error.is_unconfirmed());
    assert_eq!(error.status(), None);
    let Error::Transport(transport) = &error else {
        panic!("{error:?}");
    };
    assert_eq!(transport.kind, TransportErrorKind::Connect);
    assert_eq!(transport.attempts, 4);
    assert!(error.to_string().contains(&url), "{error}");
}

#[tokio::test]
async fn a_lost_response_stays_unconfirmed() {
    let server = MockServer::start().await;
    let slow = created().set_delay(Duration::from_secs(30));
    mock_responses(&server, vec![slow, problem(503, "unavailable")]).await;
    let error = client(&server)
        .changes()
        .create("Deploy")
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Some(ErrorKind::Unavailable), "{error:?}");
    assert!(error.is_unconfirmed());
}

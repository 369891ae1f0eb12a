//! What goes over the wire, against a service that misbehaves on request.

mod retries;

use std::time::Duration;

use changelog_client::{
    Change, ChangeId, ChangeQuery, Client, Error, ErrorKind, HealthStatus, Method, ProblemCode,
    RetryPolicy, RiskLevel, Status,
};
use futures_util::TryStreamExt;
use serde_json::{Value, json};
use wiremock::matchers::{body_json, header, method, path, query_param, query_param_is_missing};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

const ID: &str = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
const KEY: &str = "chlog_secret";

/// A client that does not wait long.
fn client(server: &MockServer) -> Client {
    client_at(&server.uri())
}

fn client_at(url: &str) -> Client {
    Client::builder()
        .url(url)
        .api_key(KEY)
        .attempt_timeout(Duration::from_millis(300))
        .total_timeout(Duration::from_secs(5))
        .retry(RetryPolicy {
            max_retries: 3,
            min_delay: Duration::from_millis(5),
            max_delay: Duration::from_millis(20),
        })
        .build()
        .expect("the client is built")
}

fn created() -> ResponseTemplate {
    ResponseTemplate::new(201).set_body_json(json!({"data": {
        "id": ID, "title": "Deploy", "risk_level": "low", "status": "planned",
        "organization_id": ID, "created_at": "2026-11-21T08:30:00.000Z",
    }}))
}

fn change(id: &str) -> Value {
    json!({
        "id": id, "title": "Deploy", "description": null, "risk_level": "low",
        "status": "planned", "impact": null, "service": null, "host_ref": null, "tags": [],
        "links": [], "scheduled_for": null, "occurred_at": "2026-11-21T08:30:00.000Z",
        "organization_id": ID, "created_at": "2026-11-21T08:30:00.000Z",
        "updated_at": "2026-11-21T08:30:00.000Z",
    })
}

fn problem(status: u16, code: &str) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_raw(
        json!({
            "type": format!("/problems/{code}"), "title": "A title", "status": status,
            "detail": "what went wrong", "code": code, "request_id": "from-the-body",
            "errors": if code == "validation_failed" {
                json!([{"pointer": "/title", "code": "too_short", "message": "is too short"}])
            } else {
                json!([])
            },
        })
        .to_string(),
        "application/problem+json",
    )
}

/// Answers with each of these once, and then with the last for ever.
async fn mock_responses(server: &MockServer, list: Vec<ResponseTemplate>) {
    let count = list.len();
    for (index, answer) in list.into_iter().enumerate() {
        let mock = Mock::given(path("/api/changes")).respond_with(answer);
        let mock = if index + 1 < count {
            mock.up_to_n_times(1)
        } else {
            mock
        };
        mock.mount(server).await;
    }
}

async fn requests(server: &MockServer) -> Vec<Request> {
    server
        .received_requests()
        .await
        .expect("requests are recorded")
}

fn idempotency_keys(requests: &[Request]) -> Vec<String> {
    requests
        .iter()
        .map(|request| {
            String::from_utf8_lossy(request.headers["idempotency-key"].as_bytes()).into()
        })
        .collect()
}

#[tokio::test]
async fn a_create_sends_the_key_the_body_and_the_chosen_idempotency_key() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/api/changes"))
        .and(header("x-api-key", KEY))
        .and(header("content-type", "application/json"))
        .and(header("idempotency-key", "run-42"))
        .and(body_json(json!({
            "title": "Deploy", "risk_level": "high", "status": "completed", "tags": ["a", "b"],
            "links": [{"label": "run", "url": "https://ci.example.com/42"}],
        })))
        .respond_with(created())
        .expect(1)
        .mount(&server)
        .await;
    let change = client(&server)
        .changes()
        .create("Deploy")
        .risk_level(RiskLevel::High)
        .status(Status::Completed)
        .tag("a")
        .tags(["b"])
        .link("run", "https://ci.example.com/42")
        .idempotency_key("run-42")
        .send()
        .await
        .unwrap();
    assert_eq!(change.id, ID.parse().unwrap());
}

#[tokio::test]
async fn an_error_that_is_not_json_has_an_excerpt_of_the_body() {
    let server = MockServer::start().await;
    let page = format!("<html>Bad gateway\u{1b}{}", "x".repeat(100_000));
    let answer = ResponseTemplate::new(502)
        .set_body_string(page)
        .insert_header("x-request-id", "from-the-header");
    mock_responses(&server, vec![answer]).await;
    let error = client(&server).changes().list().send().await.unwrap_err();
    assert_eq!(error.request_id(), Some("from-the-header"));
    assert!(error.is_unconfirmed(), "a gateway may have passed it on");
    assert!(!error.to_string().contains('\u{1b}'));
    assert_eq!(error.kind(), Some(ErrorKind::Unavailable));
    assert_eq!(error.problem(), None);
    let excerpt = error.response().unwrap().excerpt.clone().unwrap();
    assert!(excerpt.starts_with("<html>Bad gateway"));
    assert_eq!(excerpt.chars().count(), 500);
}

#[tokio::test]
async fn an_empty_success_is_null_where_it_is_expected() {
    let server = MockServer::start().await;
    for (method_name, status) in [("DELETE", 204), ("HEAD", 200)] {
        Mock::given(method(method_name))
            .and(path("/api/changes"))
            .respond_with(ResponseTemplate::new(status))
            .mount(&server)
            .await;
    }
    Mock::given(path("/mcp"))
        .respond_with(ResponseTemplate::new(202))
        .mount(&server)
        .await;
    let client = client(&server);
    for method in [Method::DELETE, Method::HEAD] {
        let answer = client.raw(method, "changes", None).await.unwrap();
        assert_eq!(answer, Value::Null);
    }
    let mut message = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let answer = client.mcp(&message, None, None).await.unwrap();
    assert_eq!(answer, Value::Null);
    message["id"] = json!(1);
    let error = client.mcp(&message, None, None).await.unwrap_err();
    assert!(matches!(error, Error::UnexpectedResponse(_)), "{error:?}");
}

#[tokio::test]
async fn an_answer_to_an_agent_that_is_no_json_rpc_is_an_error_of_the_response() {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let refused = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "no"}});
    for (answer, expected) in [
        (problem(400, "malformed_body"), Some(ErrorKind::Invalid)),
        (ResponseTemplate::new(404), Some(ErrorKind::NotFound)),
        (ResponseTemplate::new(200).set_body_json(json!({})), None),
    ] {
        let server = MockServer::start().await;
        let mock = Mock::given(path("/mcp")).respond_with(answer);
        mock.mount(&server).await;
        let error = client(&server).mcp(&message, None, None).await.unwrap_err();
        assert_eq!(error.kind(), expected, "{error:?}");
        assert!(error.status().is_some(), "{error:?}");
    }
    let server = MockServer::start().await;
    Mock::given(path("/mcp"))
        .respond_with(ResponseTemplate::new(400).set_body_json(&refused))
        .mount(&server)
        .await;
    let answer = client(&server).mcp(&message, None, None).await.unwrap();
    assert_eq!(answer, refused);
}

#[tokio::test]
async fn an_unexpected_success_is_a_separate_error() {
    for body in ["<html>Welcome", "", "{\"data\": {\"id\": 7}}", "[]"] {
        let server = MockServer::start().await;
        mock_responses(
            &server,
            vec![ResponseTemplate::new(200).set_body_string(body)],
        )
        .await;
        let error = client(&server).changes().list().send().await.unwrap_err();
        assert!(
            matches!(error, Error::UnexpectedResponse(_)),
            "{body}: {error:?}"
        );
        assert_eq!(error.status(), Some(200));
        assert_eq!(requests(&server).await.len(), 1);
    }
}

#[tokio::test]
async fn an_endless_response_is_not_read_completely() {
    let server = MockServer::start().await;
    let body = vec![b' '; 16 * 1024 * 1024 + 1];
    mock_responses(
        &server,
        vec![ResponseTemplate::new(200).set_body_bytes(body)],
    )
    .await;
    let client = Client::builder().url(server.uri()).build().unwrap();
    let error = client.changes().list().send().await.unwrap_err();
    assert!(matches!(&error, Error::UnexpectedResponse(_)), "{error:?}");
    assert!(error.to_string().contains("larger than"), "{error}");
    assert!(error.is_too_large());
}

#[tokio::test]
async fn lists_are_read_in_smaller_pages_if_they_are_too_large() {
    let host = |n: u32| {
        json!({
            "id": id(n), "hostname": format!("web-{n:04}"), "fqdn": null, "ip_address": null,
            "os": null, "platform": "on-prem", "environment": null, "roles": [],
            "description": null, "organization_id": ID, "created_at": "2026-11-21T08:30:00.000Z",
        })
    };
    let server = MockServer::start().await;
    let too_large = ResponseTemplate::new(200).set_body_bytes(vec![b' '; 16 * 1024 * 1024 + 1]);
    for (path_of_list, parameter, size) in [
        ("/api/hosts", "limit", "1000"),
        ("/api/changes", "per_page", "100"),
    ] {
        Mock::given(path(path_of_list))
            .and(query_param(parameter, size))
            .respond_with(too_large.clone())
            .mount(&server)
            .await;
    }
    let hosts = |numbers: std::ops::Range<u32>| {
        let data: Vec<Value> = numbers.map(host).collect();
        ResponseTemplate::new(200).set_body_json(json!({"data": data}))
    };
    let list = || Mock::given(path("/api/hosts")).and(query_param("limit", "500"));
    list()
        .and(query_param_is_missing("after"))
        .respond_with(hosts(0..500))
        .mount(&server)
        .await;
    list()
        .and(query_param("after", "web-0499"))
        .respond_with(hosts(500..503))
        .mount(&server)
        .await;
    Mock::given(path("/api/changes"))
        .and(query_param("per_page", "50"))
        .respond_with(page(0..3))
        .mount(&server)
        .await;
    let client = Client::builder().url(server.uri()).build().unwrap();
    let all = client.hosts().list().await.unwrap();
    let names: Vec<String> = all.into_iter().map(|host| host.hostname).collect();
    let expected: Vec<String> = (0..503).map(|n| format!("web-{n:04}")).collect();
    assert_eq!(names, expected);
    let found = client.hosts().find("WEB-0502").await.unwrap();
    assert_eq!(found.map(|host| host.hostname).as_deref(), Some("web-0502"));
    let changes = client.changes().list().stream();
    assert_eq!(changes.try_collect::<Vec<_>>().await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_list_that_repeats_is_not_read_without_an_end() {
    let service = |n: u32| {
        json!({
            "id": id(n), "name": format!("service-{n:04}"), "description": null,
            "color": "#6366f1", "depends_on": [], "organization_id": ID,
            "created_at": "2026-11-21T08:30:00.000Z",
        })
    };
    let server = MockServer::start().await;
    let data: Vec<Value> = (0..1000).map(service).collect();
    Mock::given(path("/api/services"))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({"data": data})))
        .mount(&server)
        .await;
    let client = Client::builder().url(server.uri()).build().unwrap();
    let error = client.services().list().await.unwrap_err();
    assert!(error.to_string().contains("does not continue"), "{error}");
    assert_eq!(requests(&server).await.len(), 2);
}

#[tokio::test]
async fn an_address_that_is_too_long_is_named() {
    let server = MockServer::start().await;
    mock_responses(&server, vec![ResponseTemplate::new(431)]).await;
    let error = client(&server).changes().list().send().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the request failed: the address or the headers of the request are too long (status 431)"
    );
}

#[tokio::test]
async fn unknown_enum_values_are_kept() {
    let server = MockServer::start().await;
    let mut newer = change(ID);
    newer["status"] = "paused".into();
    newer["risk_level"] = "catastrophic".into();
    newer["something_new"] = json!({"a": 1});
    Mock::given(path(format!("/api/changes/{ID}")))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({"data": newer})))
        .mount(&server)
        .await;
    let change = client(&server)
        .changes()
        .get(ID.parse().unwrap())
        .await
        .unwrap();
    assert_eq!(change.status, Status::Unknown("paused".into()));
    assert_eq!(change.risk_level.as_str(), "catastrophic");
    assert_eq!(serde_json::to_value(change).unwrap()["status"], "paused");
}

/// Answers with the changes of these numbers as one page of 100.
fn page(numbers: std::ops::Range<u32>) -> ResponseTemplate {
    let data: Vec<Value> = numbers.rev().map(|n| change(&id(n))).collect();
    ResponseTemplate::new(200).set_body_json(json!({
        "data": data, "count": 150, "page": 1, "per_page": 100, "total_pages": 2,
    }))
}

fn id(number: u32) -> String {
    format!("018f4e9a-7b1c-7d3e-9a51-{number:012x}")
}

#[tokio::test]
async fn a_stream_continues_after_the_last_change() {
    let server = MockServer::start().await;
    Mock::given(path("/api/changes"))
        .and(query_param("page", "1"))
        .and(query_param("per_page", "100"))
        .and(query_param("risk_level", "high"))
        .and(query_param_is_missing("before"))
        .respond_with(page(50..150))
        .expect(1)
        .mount(&server)
        .await;
    Mock::given(path("/api/changes"))
        .and(query_param(
            "before",
            format!("{}@2026-11-21T08:30:00.000Z", id(50)),
        ))
        .and(query_param("risk_level", "high"))
        .respond_with(page(0..50))
        .expect(1)
        .mount(&server)
        .await;
    let changes: Vec<Change> = client(&server)
        .changes()
        .list()
        .matching(ChangeQuery::new().risk_level(RiskLevel::High))
        .page(7)
        .stream()
        .try_collect()
        .await
        .unwrap();
    let seen: Vec<ChangeId> = changes.into_iter().map(|change| change.id).collect();
    let expected: Vec<ChangeId> = (0..150).rev().map(|n| id(n).parse().unwrap()).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_stream_ends_when_a_page_repeats() {
    let server = MockServer::start().await;
    mock_responses(&server, vec![page(0..100)]).await;
    let list = client(&server).changes().list();
    let error = list.stream().try_collect::<Vec<_>>().await.unwrap_err();
    assert!(matches!(error, Error::UnexpectedResponse(_)), "{error:?}");
    assert_eq!(requests(&server).await.len(), 2);
}

#[tokio::test]
async fn a_degraded_service_is_not_an_error() {
    let server = MockServer::start().await;
    Mock::given(path("/api/health"))
        .respond_with(ResponseTemplate::new(503).set_body_json(json!({
            "status": "degraded", "db": "unreachable", "error": "the database does not answer",
        })))
        .mount(&server)
        .await;
    let health = client(&server).health().await.unwrap();
    assert_eq!(health.status, HealthStatus::Degraded);
    let sent = requests(&server).await;
    assert_eq!(sent.len(), 1);
    assert!(!sent[0].headers.contains_key("x-api-key"));
}

#[tokio::test]
async fn a_gateway_error_is_not_a_health_report() {
    let server = MockServer::start().await;
    Mock::given(path("/api/health"))
        .respond_with(ResponseTemplate::new(503).set_body_string("no backend"))
        .mount(&server)
        .await;
    let error = client(&server).health().await.unwrap_err();
    assert_eq!(error.kind(), Some(ErrorKind::Unavailable), "{error:?}");
}

#[tokio::test]
async fn the_key_is_not_sent_to_a_redirect_target() {
    let elsewhere = MockServer::start().await;
    let server = MockServer::start().await;
    let away = ResponseTemplate::new(307).insert_header("location", elsewhere.uri());
    mock_responses(&server, vec![away]).await;
    let error = client(&server).changes().list().send().await.unwrap_err();
    assert_eq!(error.status(), Some(307));
    assert_eq!(requests(&elsewhere).await.len(), 0);
}

#[tokio::test]
async fn a_path_prefix_is_used_for_every_request() {
    let server = MockServer::start().await;
    Mock::given(path("/tools/changes/api/services"))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({"data": []})))
        .expect(2)
        .mount(&server)
        .await;
    for slash in ["", "/"] {
        let client = client_at(&format!("{}/tools/changes{slash}", server.uri()));
        assert_eq!(client.services().list().await.unwrap(), []);
    }
}

#[tokio::test]
async fn errors_and_debug_do_not_show_the_key() {
    let server = MockServer::start().await;
    mock_responses(&server, vec![problem(401, "unauthorized")]).await;
    let client = client(&server);
    let request = client.changes().create("Deploy");
    let shown = format!("{client:?} {request:?}");
    let error = request.send().await.unwrap_err();
    let shown = format!("{shown} {error} {error:?}");
    assert!(!shown.contains(KEY), "{shown}");
    let problem = error.problem().unwrap();
    assert_eq!(problem.code, ProblemCode::Unauthorized);
}

#[tokio::test]
async fn a_builder_is_a_future_of_its_response() {
    let server = MockServer::start().await;
    mock_responses(&server, vec![created()]).await;
    let created = client(&server).changes().create("Deploy").await.unwrap();
    assert_eq!(created.title, "Deploy");
}

#[tokio::test]
async fn a_create_in_full_reads_the_change_if_the_service_answers_in_brief() {
    let server = MockServer::start().await;
    mock_responses(&server, vec![created()]).await;
    Mock::given(path(format!("/api/changes/{ID}")))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({"data": change(ID)})))
        .mount(&server)
        .await;
    let create = client(&server).changes().create("Deploy");
    let change = create.send_in_full().await.unwrap();
    assert_eq!(change.occurred_at.to_string(), "2026-11-21T08:30:00.000Z");
    let sent = requests(&server).await;
    assert_eq!(sent[0].headers["prefer"], "return=representation");
    assert_eq!(sent.len(), 2);
}

#[tokio::test]
async fn the_causes_of_a_transport_error_can_be_downcast() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = client_at(&format!("http://{address}"));
    let error = client.changes().list().await.unwrap_err();
    let mut cause = std::error::Error::source(&error);
    let mut kinds = Vec::new();
    while let Some(inner) = cause {
        kinds.extend(inner.downcast_ref().map(std::io::Error::kind));
        cause = inner.source();
    }
    assert!(
        kinds.contains(&std::io::ErrorKind::ConnectionRefused),
        "{kinds:?}"
    );
}

#[tokio::test]
async fn requests_can_be_sent_by_a_client_of_the_application() {
    let server = MockServer::start().await;
    mock_responses(&server, vec![created()]).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().user_agent("of-the-application");
    let client = Client::builder()
        .url(server.uri())
        .http_client(http.build().unwrap())
        .build()
        .unwrap();
    client.changes().create("Deploy").await.unwrap();
    let sent = requests(&server).await;
    assert_eq!(sent[0].headers["user-agent"], "of-the-application");
}

#[tokio::test]
async fn names_are_found_regardless_of_case_and_created_once() {
    let server = MockServer::start().await;
    let payments = json!({
        "id": ID, "name": "payments", "description": null, "color": "#6366f1",
        "depends_on": [], "organization_id": ID, "created_at": "2026-11-21T08:30:00.000Z",
    });
    let list = json!({"data": [payments]});
    // Another client creates the service between the list and the create.
    Mock::given(method("GET"))
        .and(path("/api/services"))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({"data": []})))
        .up_to_n_times(1)
        .mount(&server)
        .await;
    Mock::given(method("GET"))
        .and(path("/api/services"))
        .respond_with(ResponseTemplate::new(200).set_body_json(list))
        .mount(&server)
        .await;
    Mock::given(method("POST"))
        .and(path("/api/services"))
        .respond_with(problem(409, "conflict"))
        .mount(&server)
        .await;
    let services = client(&server).services();
    assert_eq!(services.ensure("Payments").await.unwrap().name, "payments");
    let found = services.find(" PAYMENTS ").await.unwrap();
    assert_eq!(
        found.map(|service| service.name).as_deref(),
        Some("payments")
    );
    assert_eq!(services.find("other").await.unwrap(), None);
}

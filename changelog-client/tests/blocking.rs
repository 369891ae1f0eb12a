//! The client that waits, against a service in another thread.

use changelog_client::{Change, Client, Error, blocking};
use serde_json::json;
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

#[test]
fn requests_block_and_streams_are_iterators() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(MockServer::start());
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
    runtime.block_on(
        Mock::given(path("/api/changes"))
            .respond_with(ResponseTemplate::new(200).set_body_json(page))
            .mount(&server),
    );
    let client = Client::builder().url(server.uri()).build().unwrap();
    let client = blocking::Client::new(client).unwrap();

    let page = client
        .wait(|client| client.changes().list().send())
        .unwrap();
    assert_eq!(page.count, 1);
    let changes: Result<Vec<Change>, Error> = client
        .iter(|client| client.changes().list().stream())
        .collect();
    assert_eq!(changes.unwrap()[0].title, "Deploy");
    let error = client.wait(|client| client.services().list()).unwrap_err();
    assert_eq!(error.status(), Some(404));
}

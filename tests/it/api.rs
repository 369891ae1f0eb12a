//! The HTTP API, a file for each path or each rule that holds for all paths.

mod activity;
mod authentication;
mod bounded_work;
mod changes;
mod changes_annotations;
mod changes_around;
mod changes_around_window;
mod changes_bulk;
mod changes_history;
mod changes_list;
mod changes_list_model;
mod changes_moved;
mod changes_search;
mod changes_stream;
mod changes_stream_updates;
mod concurrent_updates;
mod early_refusals;
mod examples;
mod field_limits;
mod health;
mod hosts;
mod idempotency;
mod incidents;
mod incidents_stream;
mod json_snapshots;
mod list_model;
mod malformed_requests;
mod mcp;
mod mcp_clients;
mod mcp_size;
mod one_millisecond;
mod openapi;
mod openapi_tools;
mod organization_quotas;
mod pipeline_tokens;
mod pipelines;
mod problems;
mod scopes;
mod sdk;
mod sequences;
mod services;
mod tenant_isolation;

use serde_json::Value;

use changelog_tests::TestClient;

/// Returns the number of changes that a list finds.
async fn count(key: &TestClient, query: &str) -> u64 {
    let body = key.body(&format!("/api/changes?{query}")).await;
    body["count"].as_u64().expect("a count")
}

/// Updates a change, which must succeed, and returns it.
async fn patch(key: &TestClient, id: &str, body: Value) -> Value {
    key.update(&format!("/api/changes/{id}"), body).await
}

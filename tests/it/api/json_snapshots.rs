//! Snapshots of the JSON of the API, the same on both databases.

use insta::internals::Content;
use insta::{Settings, assert_json_snapshot};
use serde_json::{Value, json};

use changelog_tests::{TestApp, on_both, text};

on_both!(records_and_lists, activity, problems,);

/// Compares a value with its snapshot, without ids and times.
fn snapshot(name: &str, value: &Value) {
    let mut settings = Settings::clone_current();
    settings.set_sort_maps(true);
    for place in [
        ".**.id",
        ".**.organization_id",
        ".**.resource_id",
        ".**.actor_id",
        ".**.request_id",
    ] {
        settings.add_redaction(
            place,
            insta::dynamic_redaction(|value, _| match value {
                Content::None | Content::Unit => Content::None,
                _ => "[id]".into(),
            }),
        );
    }
    settings.add_redaction(".**.service_ids[]", "[id]");
    for place in [
        ".**.created_at",
        ".**.updated_at",
        ".**.timestamp",
        ".**.started_at.to",
        ".**.ended_at.to",
    ] {
        settings.add_redaction(place, "[time]");
    }
    settings.add_redaction(".**.latency_ms", "[milliseconds]");
    settings.bind(|| assert_json_snapshot!(name, value));
}

async fn records_and_lists(app: TestApp) {
    let key = app.key();
    let host = json!({ "hostname": "web-1", "environment": "prod", "roles": ["web"] });
    let host = key.post("/api/hosts", host).await;
    snapshot("host", &host.body(201));
    let service = key
        .post("/api/services", json!({ "name": "payments" }))
        .await;
    snapshot("service", &service.body(201));
    let body = json!({
        "title": "Deploy", "service_id": service.json()["data"]["id"],
        "host_id": host.json()["data"]["id"], "tags": ["a", "b"],
        "links": [{ "label": "run", "url": "https://e.com/1" }],
        "occurred_at": "2026-01-02T03:04:05+01:00",
    });
    let change = key.post("/api/changes", body).await;
    snapshot("change_created", &change.body(201));
    let path = format!("/api/changes/{}", text(&change.json()["data"]["id"]));
    snapshot("change", &key.body(&path).await);
    snapshot("changes", &key.body("/api/changes").await);
    snapshot("hosts", &key.body("/api/hosts").await);
    snapshot("services", &key.body("/api/services").await);
    snapshot("health", &key.body("/api/health").await);
}

async fn activity(app: TestApp) {
    let (key, browser) = (app.key(), app.browser().await);
    let id = key.change("Deploy").await;
    let path = format!("/api/changes/{id}");
    key.update(&path, json!({ "status": "completed", "tags": ["a"] }))
        .await;
    let entries = browser.body("/api/activity").await;
    snapshot("activity", &entries);
    snapshot("actors", &browser.body("/api/activity/actors").await);
}

async fn problems(app: TestApp) {
    let key = app.key();
    let refused = key
        .post("/api/changes", json!({ "title": "ab", "risk": "high" }))
        .await;
    snapshot(
        "validation_failed",
        &refused.problem(422, "validation_failed"),
    );
    let refused = app.anonymous().get("/api/hosts").await;
    snapshot("unauthorized", &refused.problem(401, "unauthorized"));
    let refused = key.get("/api/changes?page=0").await;
    snapshot("malformed_query", &refused.problem(400, "malformed_query"));
    key.host("web-1").await;
    let refused = key.post("/api/hosts", json!({ "hostname": "WEB-1" })).await;
    snapshot("conflict", &refused.problem(409, "conflict"));
    app.admin(&["org", "set-plan", &app.organization.id, "free"]);
    let refused = key.get("/api/hosts").await;
    snapshot("plan_required", &refused.problem(403, "plan_required"));
}

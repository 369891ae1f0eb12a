//! `/api/activity`: the entries of creates and updates, and how they are filtered.

use serde_json::{Value, json};
use uuid::Uuid;

use changelog_tests::shapes::{self, assert_id, assert_recent, assert_time};
use changelog_tests::{KEY_NAME, TestApp, TestClient, each, keys, on_both, text};

on_both!(
    every_create_adds_one_entry,
    every_update_records_the_changed_fields,
    refused_requests_add_no_entry,
    created_and_revoked_keys_are_recorded,
    limit_and_offset_select_a_page,
    resource_filters_by_type,
    actors_are_listed_and_filter,
    malformed_parameters_are_reported,
    only_a_session_may_read_the_log,
    entries_of_people_name_the_person,
    entries_of_one_millisecond_keep_their_order,
);

/// Returns the entries of one resource type, newest first.
async fn entries(browser: &TestClient, resource: &str) -> Vec<Value> {
    let path = format!("/api/activity?limit=100&resource={resource}");
    let mut body = browser.body(&path).await;
    assert_eq!(keys(&body), ["items"]);
    let Value::Array(items) = body["items"].take() else {
        panic!("items is not a list");
    };
    for entry in &items {
        assert_eq!(keys(entry), shapes::ACTIVITY);
        assert_eq!(entry["resource_type"], resource);
        assert_id(&entry["id"]);
        // The organization is as old as this run of the tests.
        assert_time(&entry["created_at"]);
        assert!(entry["metadata"].is_object(), "{entry}");
    }
    items
}

#[track_caller]
fn assert_entry(entry: &Value, action: &str, id: &str, label: &str, actor: &str) {
    let found = ["action", "resource_id", "resource_label", "actor_name"].map(|name| &entry[name]);
    assert_eq!(found, [action, id, label, actor]);
    assert_eq!(entry["actor_id"], Value::Null);
    assert_recent(&entry["created_at"]);
}

fn key_actor() -> String {
    format!("API key: {KEY_NAME}")
}

async fn every_create_adds_one_entry(app: TestApp) {
    let (key, browser) = (app.key(), app.browser().await);
    for (path, body, resource, label, metadata) in [
        (
            "/api/hosts",
            json!({ "hostname": "web-1" }),
            "host",
            "web-1",
            None,
        ),
        (
            "/api/services",
            json!({ "name": "payments" }),
            "service",
            "payments",
            None,
        ),
        (
            "/api/changes",
            json!({ "title": "Deploy", "risk_level": "high", "status": "completed" }),
            "change",
            "Deploy",
            Some(json!({ "risk_level": "high", "status": "completed" })),
        ),
    ] {
        let id = key.create(path, body).await;
        let found = entries(&browser, resource).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_entry(&found[0], "created", &id, label, &key_actor());
        if let Some(metadata) = metadata {
            assert_eq!(found[0]["metadata"], metadata);
        }
    }
    // Defaults are recorded as their values.
    key.change("Second").await;
    let found = entries(&browser, "change").await;
    assert_eq!(
        found[0]["resource_label"], "Second",
        "the newest comes first"
    );
    let metadata = json!({ "risk_level": "low", "status": "planned" });
    assert_eq!(found[0]["metadata"], metadata);
}

async fn every_update_records_the_changed_fields(app: TestApp) {
    let (key, browser) = (app.key(), app.browser().await);
    let host = key.host("web-1").await;
    let service = key.service("payments").await;
    let change = key
        .create("/api/changes", json!({ "title": "Deploy", "tags": ["a"] }))
        .await;
    for (path, id, resource, body, label, changes) in [
        (
            "/api/hosts",
            &host,
            "host",
            json!({ "hostname": "web-2", "os": "Debian 12", "roles": ["db"], "platform": "on-prem" }),
            "web-2",
            json!({
                "hostname": { "from": "web-1", "to": "web-2" },
                "os": { "from": null, "to": "Debian 12" },
                "roles": { "from": [], "to": ["db"] },
            }),
        ),
        (
            "/api/services",
            &service,
            "service",
            json!({ "name": "billing", "color": "#fff" }),
            "billing",
            json!({
                "name": { "from": "payments", "to": "billing" },
                "color": { "from": "#6366f1", "to": "#fff" },
            }),
        ),
        (
            "/api/changes",
            &change,
            "change",
            json!({
                "title": "Redeploy", "status": "rolled_back", "risk_level": "high", "tags": null,
                "impact": "some", "scheduled_for": "2027-01-01T00:00:00Z",
            }),
            "Redeploy",
            json!({
                "title": { "from": "Deploy", "to": "Redeploy" },
                "status": { "from": "planned", "to": "rolled_back" },
                "outcome": { "from": null, "to": "undone" },
                "risk_level": { "from": "low", "to": "high" },
                "tags": { "from": ["a"], "to": [] },
                "impact": { "from": null, "to": "some" },
                "scheduled_for": { "from": null, "to": "2027-01-01T00:00:00.000Z" },
            }),
        ),
    ] {
        let path = format!("{path}/{id}");
        key.update(&path, body.clone()).await;
        let found = entries(&browser, resource).await;
        assert_eq!(found.len(), 2, "{found:?}");
        assert_entry(&found[0], "updated", id, label, &key_actor());
        let mut recorded = found[0]["metadata"]["changes"].clone();
        if resource == "change" {
            let recorded = recorded.as_object_mut().expect("changes");
            // The times that the status implies.
            for field in ["started_at", "ended_at"] {
                let time = recorded.remove(field).expect("a time");
                assert_recent(&time["to"]);
            }
        }
        assert_eq!(recorded, changes);
        // Neither the same update again nor an empty one changes anything.
        key.update(&path, body).await;
        key.update(&path, json!({})).await;
        assert_eq!(entries(&browser, resource).await.len(), 2);
    }
    // Each status change is recorded.
    let path = format!("/api/changes/{change}");
    for status in ["planned", "in_progress", "completed"] {
        key.update(&path, json!({ "status": status })).await;
    }
    let found = entries(&browser, "change").await;
    let moves: Vec<&Value> = found[..3]
        .iter()
        .map(|entry| &entry["metadata"]["changes"]["status"]["to"])
        .collect();
    assert_eq!(moves, ["completed", "in_progress", "planned"]);
}

async fn refused_requests_add_no_entry(app: TestApp) {
    let (key, browser) = (app.key(), app.browser().await);
    let host = key.host("web-1").await;
    key.post("/api/hosts", json!({ "hostname": "WEB-1" }))
        .await
        .is(409);
    key.post("/api/hosts", json!({ "hostname": "" }))
        .await
        .is(422);
    key.patch(&format!("/api/hosts/{host}"), json!({ "platform": "x" }))
        .await
        .is(422);
    key.patch(
        &format!("/api/hosts/{}", Uuid::now_v7()),
        json!({ "os": "x" }),
    )
    .await
    .is(404);
    key.post(
        "/api/changes",
        json!({ "title": "unknown host", "host_id": Uuid::now_v7() }),
    )
    .await
    .is(422);
    key.get(&format!("/api/hosts/{host}")).await.is(200);
    assert_eq!(entries(&browser, "host").await.len(), 1);
    assert_eq!(entries(&browser, "change").await.len(), 0);
}

async fn created_and_revoked_keys_are_recorded(app: TestApp) {
    let browser = app.browser().await;
    let before = entries(&browser, "api_key").await.len();
    let made = app.create_key(&[]);
    let id = text(&made["id"]);
    let found = entries(&browser, "api_key").await;
    assert_eq!(found.len(), before + 1);
    assert_eq!(found[0]["action"], "created");
    assert_recent(&found[0]["created_at"]);
    assert_eq!(found[0]["resource_id"], id);
    assert_eq!(found[0]["resource_label"], "another");
    app.admin(&["key", "revoke", &id]);
    let found = entries(&browser, "api_key").await;
    assert_eq!(found.len(), before + 2);
    assert_eq!(found[0]["action"], "revoked");
    assert_recent(&found[0]["created_at"]);
    assert_eq!(found[0]["resource_id"], id);
    assert_eq!(found[0]["resource_label"], "another");
    for entry in &found {
        assert!(!entry.to_string().contains(&text(&made["key"])), "{entry}");
    }
}

async fn limit_and_offset_select_a_page(app: TestApp) {
    let (key, browser) = (app.key(), app.browser().await);
    for index in 0..101 {
        key.change(&format!("number {index}")).await;
    }
    for (query, first, count) in [
        ("", 100, 50),
        ("&limit=1", 100, 1),
        ("&limit=99", 100, 99),
        ("&limit=100", 100, 100),
        ("&limit=101", 100, 100),
        ("&limit=18446744073709551616", 100, 100),
        ("&offset=0", 100, 50),
        ("&offset=1", 99, 50),
        ("&limit=100&offset=2", 98, 99),
        ("&limit=5&offset=100", 0, 1),
        ("&offset=101", 0, 0),
        ("&offset=9223372036854775808", 0, 0),
    ] {
        let path = format!("/api/activity?resource=change{query}");
        let body = browser.body(&path).await;
        let labels = each(&body["items"], "resource_label");
        let expected: Vec<Value> = (0..count)
            .map(|n| json!(format!("number {}", first - n)))
            .collect();
        assert_eq!(labels, expected.iter().collect::<Vec<_>>(), "{query}");
    }
}

async fn resource_filters_by_type(app: TestApp) {
    let (key, browser) = (app.key(), app.browser().await);
    key.host("web-1").await;
    key.service("payments").await;
    key.change("Deploy").await;
    for (resource, label) in [
        ("host", "web-1"),
        ("service", "payments"),
        ("change", "Deploy"),
    ] {
        let found = entries(&browser, resource).await;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["resource_label"], label);
    }
    assert_eq!(
        entries(&browser, "api_key").await[0]["resource_label"],
        KEY_NAME
    );
    for resource in ["member", "subscription", "integration"] {
        entries(&browser, resource).await;
    }
    let all = browser.body("/api/activity").await;
    let newest: Vec<&Value> = each(&all["items"], "resource_label")[..3].to_vec();
    assert_eq!(newest, ["Deploy", "payments", "web-1"]);
}

async fn actors_are_listed_and_filter(app: TestApp) {
    let browser = app.browser().await;
    let other = app.create_key(&[]);
    app.key().change("by the first").await;
    app.with_key(&text(&other["key"]))
        .change("by the other")
        .await;
    app.key().change("by the first again").await;
    let body = browser.body("/api/activity/actors").await;
    assert_eq!(keys(&body), ["actors"]);
    let actors = body["actors"].as_array().expect("a list");
    for actor in actors {
        assert_eq!(keys(actor), ["actor_id", "actor_name"]);
    }
    for name in [key_actor(), "API key: another".to_owned()] {
        let with_name = actors.iter().filter(|actor| actor["actor_name"] == *name);
        let with_name: Vec<&Value> = with_name.collect();
        assert_eq!(
            with_name,
            [&json!({ "actor_id": null, "actor_name": name })]
        );
    }
    let body = browser
        .body("/api/activity?actor_id=__api_key__&resource=change")
        .await;
    let labels = each(&body["items"], "resource_label");
    assert_eq!(
        labels,
        ["by the first again", "by the other", "by the first"]
    );
    let body = browser.body("/api/activity?actor_id=__api_key__").await;
    assert!(
        each(&body["items"], "actor_id")
            .iter()
            .all(|id| id.is_null()),
        "{body}"
    );
    let path = format!("/api/activity?actor_id={}", Uuid::now_v7());
    assert_eq!(browser.body(&path).await["items"], json!([]));
    // The actors of all entries are the listed actors.
    let body = browser.body("/api/activity?limit=100").await;
    let mut of_entries: Vec<String> = body["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| format!("{} {}", entry["actor_id"], entry["actor_name"]))
        .collect();
    of_entries.sort();
    of_entries.dedup();
    let mut listed: Vec<String> = actors
        .iter()
        .map(|actor| format!("{} {}", actor["actor_id"], actor["actor_name"]))
        .collect();
    listed.sort();
    assert_eq!(of_entries, listed);
}

async fn malformed_parameters_are_reported(app: TestApp) {
    let browser = app.browser().await;
    for (query, pointer, code) in [
        ("limit=0", "?limit", "out_of_range"),
        ("limit=-1", "?limit", "invalid_format"),
        ("limit=ten", "?limit", "invalid_format"),
        ("limit=", "?limit", "invalid_format"),
        ("offset=-1", "?offset", "invalid_format"),
        ("offset=1.5", "?offset", "invalid_format"),
        ("resource=changes", "?resource", "unknown_value"),
        ("resource=", "?resource", "unknown_value"),
        ("actor_id=ada", "?actor_id", "invalid_format"),
        ("actor_id=__API_KEY__", "?actor_id", "invalid_format"),
        ("limit=1&limit=2", "?limit", "duplicate"),
        ("page=1", "?page", "unknown_field"),
    ] {
        let answer = browser.get(&format!("/api/activity?{query}")).await;
        answer.violates_query(&[(pointer, code)]);
    }
    let answer = browser.get("/api/activity/actors?limit=1").await;
    answer.problem(400, "malformed_query");
}

async fn only_a_session_may_read_the_log(app: TestApp) {
    for path in ["/api/activity", "/api/activity/actors"] {
        app.anonymous().get(path).await.problem(401, "unauthorized");
        app.key().get(path).await.problem(401, "unauthorized");
        let forged = app
            .anonymous()
            .with("cookie", "changelog_session=0123456789abcdef");
        forged.get(path).await.problem(401, "unauthorized");
        let both = app
            .key()
            .with("cookie", "changelog_session=0123456789abcdef");
        both.get(path).await.problem(401, "unauthorized");
        let cookie = app.cookie_of(&app.organization).await;
        let both = app.with_key("chlog_wrong").with("cookie", &cookie);
        both.body(path).await;
        let among_others = format!("theme=dark; {cookie}; other=1");
        app.anonymous()
            .with("cookie", &among_others)
            .body(path)
            .await;
        app.anonymous()
            .get("/api/activity/")
            .await
            .problem(404, "not_found");
    }
}

async fn entries_of_people_name_the_person(app: TestApp) {
    let browser = app.browser().await;
    let owner = &app.organization.owner_id;
    let found = browser
        .body(&format!("/api/activity?actor_id={owner}"))
        .await;
    let items = found["items"].as_array().expect("a list");
    let signed_in = items.iter().find(|entry| entry["action"] == "signed_in");
    let entry = signed_in.expect("the sign-in is recorded");
    assert_eq!(entry["actor_id"], json!(owner));
    assert_eq!(entry["actor_name"], app.organization.owner_name);
    for entry in items {
        assert_eq!(entry["actor_id"], json!(owner));
    }
    let actors = browser.body("/api/activity/actors").await;
    let actor = json!({ "actor_id": owner, "actor_name": app.organization.owner_name });
    let listed = actors["actors"].as_array().expect("a list");
    assert!(listed.contains(&actor), "{actors}");
    let keys_only = browser
        .body("/api/activity?actor_id=__api_key__&limit=100")
        .await;
    assert!(!keys_only.to_string().contains("signed_in"), "{keys_only}");
}

fn ids(records: &Value, member: &str) -> Vec<String> {
    each(records, member).into_iter().map(text).collect()
}

/// Several of these changes are created in the same millisecond.
async fn entries_of_one_millisecond_keep_their_order(app: TestApp) {
    let key = app.key();
    let mut made = Vec::new();
    for index in 0..100 {
        made.push(key.change(&format!("number {index}")).await);
    }
    made.reverse();
    let browser = app.browser().await;
    let body = browser
        .body("/api/activity?resource=change&limit=100")
        .await;
    assert_eq!(ids(&body["items"], "resource_id"), made);
    let list = key.body("/api/changes?per_page=100").await;
    assert_eq!(ids(&list["data"], "id"), made);
}

//! `/api/changes/{id}/history`: each move of a change with who and when, in the API, the
//! SDK and `chlog history`.

use changelog_client::ActorType;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{patch, sdk};
use changelog_tests::shapes::{assert_id, assert_time};
use changelog_tests::{TestApp, TestClient, each, keys, on_both, text};

on_both!(
    each_move_has_who_and_when,
    the_present_name_of_a_person_is_shown,
    a_history_has_the_last_200_updates_and_the_creation,
    only_changes_of_the_organization_have_a_history,
    the_sdk_and_chlog_show_the_history,
);

async fn history(caller: &TestClient, id: &str) -> Value {
    let path = format!("/api/changes/{id}/history");
    caller.read(&path).await
}

/// Returns the API key of an organization as an actor.
fn first_key(app: &TestApp) -> Value {
    json!({ "type": "api_key", "name": changelog_tests::KEY_NAME, "id": app.organization.key_id })
}

async fn each_move_has_who_and_when(app: TestApp) {
    let key = app.key();
    let id = key.change("Switch payments").await;
    let created = history(&key, &id).await;
    assert_eq!(keys(&created), ["created_by", "entries", "updated_by"]);
    assert_eq!(created["created_by"], first_key(&app));
    assert_eq!(created["updated_by"], Value::Null);
    assert_eq!(created["entries"][0]["changes"], json!({}));

    // By another key, which is revoked later, and by a person.
    let second = app.create_key(&[]);
    let caller = app.with_key(&text(&second["key"]));
    patch(
        &caller,
        &id,
        json!({ "status": "in_progress", "tags": ["a"] }),
    )
    .await;
    // These change nothing.
    patch(&caller, &id, json!({ "status": "in_progress" })).await;
    patch(&caller, &id, json!({ "reason": " " })).await;
    app.admin(&["key", "revoke", &text(&second["id"])]);
    let browser = app.browser().await;
    let form = [("title", "Switch payments"), ("status", "completed")];
    browser.submit(&format!("/changes/{id}"), &form).await;

    let second = json!({ "type": "api_key", "name": second["name"], "id": second["id"] });
    let organization = &app.organization;
    let owner = json!({
        "type": "person", "name": organization.owner_name, "id": organization.owner_id,
    });
    let all = history(&key, &id).await;
    assert_eq!(all["created_by"], first_key(&app));
    assert_eq!(all["updated_by"], owner);
    // Lists and exports have it on request; others do not.
    let untouched = key.change("Untouched").await;
    let list = key.body("/api/changes").await;
    assert!(list["data"][0].get("updated_by").is_none(), "{list}");
    let list = key.body("/api/changes?include=updated_by").await;
    let updaters = list["data"].as_array().expect("a list").iter();
    let updaters: Vec<_> = updaters
        .map(|change| (text(&change["id"]), change.get("updated_by").cloned()))
        .collect();
    assert_eq!(
        updaters,
        [(untouched, None), (id.clone(), Some(owner.clone()))]
    );
    let unknown = key.get("/api/changes?include=all").await;
    unknown.problem(400, "malformed_query");
    for (path, columns) in [("/changes.ndjson", false), ("/changes.csv", true)] {
        let download = browser.get(path).await.text;
        let name = &organization.owner_name;
        let expected = if columns {
            format!("\"{{\"\"type\"\":\"\"person\"\",\"\"name\"\":\"\"{name}\"\"")
        } else {
            format!("\"updated_by\":{{\"type\":\"person\",\"name\":\"{name}\"")
        };
        assert_eq!(download.matches(&expected).count(), 1, "{download}");
    }
    let entries = &all["entries"];
    assert_eq!(
        json!(each(entries, "by")),
        json!([owner, second, first_key(&app)])
    );
    assert_eq!(
        json!(each(entries, "action")),
        json!(["updated", "updated", "created"])
    );
    for entry in entries.as_array().expect("entries") {
        assert_eq!(
            keys(entry),
            ["action", "agent", "at", "by", "changes", "id", "reason"]
        );
        assert_id(&entry["id"]);
        assert_time(&entry["at"]);
        assert_eq!(entry["reason"], Value::Null);
    }
    let newest = &entries[0]["changes"];
    assert_eq!(
        newest["status"],
        json!({ "from": "in_progress", "to": "completed" })
    );
    assert_eq!(
        entries[1]["changes"]["tags"],
        json!({ "from": [], "to": ["a"] })
    );

    // The reason of a rollback, and the creator that the change itself shows.
    let body = json!({ "status": "rolled_back", "reason": "Errors doubled" });
    patch(&key, &id, body).await;
    let entries = &history(&key, &id).await["entries"];
    assert_eq!(entries[0]["reason"], "Errors doubled");
    let change = key.read(&format!("/api/changes/{id}")).await;
    assert_eq!(change["created_by"], first_key(&app));

    // The activity log is as the specification has it.
    let log = browser.body("/api/activity?resource=change").await;
    for entry in log["items"].as_array().expect("items") {
        assert_eq!(keys(entry), changelog_tests::shapes::ACTIVITY);
        if entry["actor_name"] != organization.owner_name.as_str() {
            assert_eq!(entry["actor_id"], Value::Null);
        }
    }
}

async fn the_present_name_of_a_person_is_shown(app: TestApp) {
    let browser = app.browser().await;
    let id = app.key().change("Deploy").await;
    let path = format!("/changes/{id}");
    let form = [("title", "Deploy one")];
    browser.submit(&path, &form).await;
    let form = [("name", "Ada C.")];
    browser.submit("/account", &form).await;
    let history = history(&app.key(), &id).await;
    let names: Vec<&Value> = each(&history["entries"], "by")
        .into_iter()
        .map(|by| &by["name"])
        .collect();
    assert_eq!(json!(names), json!(["Ada C.", changelog_tests::KEY_NAME]));
    assert_eq!(history["updated_by"]["name"], "Ada C.");
}

async fn a_history_has_the_last_200_updates_and_the_creation(app: TestApp) {
    let key = app.key();
    let id = key.change("Deploy 0").await;
    for round in 1..=202 {
        patch(&key, &id, json!({ "title": format!("Deploy {round}") })).await;
    }
    let history = history(&key, &id).await;
    let entries = history["entries"].as_array().expect("entries");
    assert_eq!(entries.len(), 201);
    assert_eq!(entries[0]["changes"]["title"]["to"], "Deploy 202");
    assert_eq!(entries[199]["changes"]["title"]["to"], "Deploy 3");
    assert_eq!(entries[200]["action"], "created");
    assert_eq!(history["created_by"], first_key(&app));
}

async fn only_changes_of_the_organization_have_a_history(app: TestApp) {
    let key = app.key();
    let id = key.change("Deploy").await;
    let other = app.with_key(&app.second_organization().key);
    let unknown = Uuid::now_v7().to_string();
    for (caller, id) in [(&other, &id), (&key, &unknown)] {
        let answer = caller.get(&format!("/api/changes/{id}/history")).await;
        answer.problem(404, "not_found");
    }
    let path = format!("/api/changes/{id}/history");
    key.get("/api/changes/x/history")
        .await
        .problem(400, "malformed_id");
    key.get(&format!("{path}?limit=1"))
        .await
        .violates_query(&[("?limit", "unknown_field")]);
    key.post(&path, json!({}))
        .await
        .problem(405, "method_not_allowed");
    let browser = app.browser().await;
    browser.get(&path).await.problem(401, "unauthorized");
    // A deleted change has none.
    browser.submit(&format!("/changes/{id}/delete"), &[]).await;
    key.get(&path).await.problem(404, "not_found");
}

async fn the_sdk_and_chlog_show_the_history(app: TestApp) {
    let key = app.key();
    let id = key.change("Deploy").await;
    let [first, second] = [json!({ "name": "payments" }), json!({ "name": "search" })];
    let first = key.create("/api/services", first).await;
    let second = key.create("/api/services", second).await;
    patch(&key, &id, json!({ "service_ids": [first, second] })).await;
    patch(&key, &id, json!({ "status": "in_progress" })).await;
    let client = sdk::client(&app);
    let change = id.parse().expect("an id");
    let found = client.changes().history(change).await.expect("a history");
    let raw = history(&key, &id).await;
    assert_eq!(serde_json::to_value(&found).expect("JSON"), raw);
    assert_eq!(found.entries[0].by.kind, ActorType::ApiKey);
    assert_eq!(found.entries[0].changes["status"].to, "in_progress");

    let output = crate::chlog::chlog(&app, &["history", &id, "--format", "table"]);
    let text = output.succeeds().stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(
        lines[2].ends_with("services nothing → payments, search"),
        "{text}"
    );
    assert!(
        lines[0].starts_with("WHEN") && lines[0].ends_with("WHAT"),
        "{text}"
    );
    let who = format!("{} (API key)", changelog_tests::KEY_NAME);
    assert!(lines[1].contains(&who), "{text}");
    assert!(lines[1].ends_with("status planned → in_progress"), "{text}");
    assert!(lines[3].ends_with("created"), "{text}");
    let output = crate::chlog::chlog(&app, &["history", &id, "--json"]).succeeds();
    let printed: Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(printed["data"], raw);
    let output = crate::chlog::chlog(&app, &["history", &id, "--format", "ndjson"]).succeeds();
    assert_eq!(output.stdout.lines().count(), 3);
    crate::chlog::chlog(&app, &["history", &Uuid::now_v7().to_string()]).exits_with(3);
}

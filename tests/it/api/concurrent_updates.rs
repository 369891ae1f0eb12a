//! Concurrent updates of the same changes: the counts stay exact, and no update is lost.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::{Value, json};

use changelog_tests::{Engine, TestApp, TestClient, each, on_both, text};

on_both!(
    process:
    counts_are_exact_after_concurrent_writes,
    concurrent_updates_are_serialized,
);

const RISKS: [&str; 3] = ["low", "medium", "high"];
const STATUSES: [&str; 4] = ["planned", "in_progress", "completed", "rolled_back"];

/// Returns an update that depends on the seed.
fn update(seed: usize, services: &[String], hosts: &[String]) -> Value {
    let risk = RISKS[seed % 3];
    let status = STATUSES[seed / 3 % 4];
    match seed % 5 {
        0 => json!({ "risk_level": risk }),
        1 => json!({ "status": status, "service_id": services.get(seed % 3) }),
        2 => json!({ "host_id": hosts.get(seed % 3), "risk_level": risk }),
        3 => json!({ "status": status, "title": format!("renamed {seed}") }),
        _ => json!({ "service_id": services.get(seed % 4), "host_id": null, "status": status }),
    }
}

async fn counts_are_exact_after_concurrent_writes(app: TestApp) {
    let key = app.key();
    let second = match app.engine {
        Engine::Postgres => Some(app.another_server(&[]).await),
        Engine::Sqlite => None,
    };
    let mut callers = vec![key.clone()];
    if let Some(second) = &second {
        let caller = TestClient::new(&second.address);
        callers.push(caller.with("x-api-key", &app.organization.key));
    }
    let (mut services, mut hosts, mut changes) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..2 {
        let name = json!({ "name": format!("service {index}") });
        services.push(key.create("/api/services", name).await);
        let name = json!({ "hostname": format!("host-{index}") });
        hosts.push(key.create("/api/hosts", name).await);
    }
    for index in 0..6 {
        changes.push(key.change(&format!("number {index}")).await);
    }
    let tasks = (0..8).map(|task| {
        let caller = &callers[task % callers.len()];
        let (services, hosts, changes) = (&services, &hosts, &changes);
        async move {
            for round in 0..12 {
                let seed = task * 31 + round * 7;
                let path = format!("/api/changes/{}", changes[seed % changes.len()]);
                caller.update(&path, update(seed, services, hosts)).await;
                if round % 4 == 0 {
                    let mut new = update(seed, services, hosts);
                    new["title"] = json!("one more");
                    caller.post("/api/changes", new).await.is(201);
                }
            }
        }
    });
    join_all(tasks).await;
    let all = key.body("/api/changes?per_page=100").await;
    let all = all["data"].as_array().expect("a list").clone();
    assert_eq!(all.len(), 6 + 8 * 3);
    for service in services.iter().map(Some).chain([None]) {
        for host in hosts.iter().map(Some).chain([None]) {
            for risk in RISKS.iter().map(Some).chain([None]) {
                for status in STATUSES.iter().map(Some).chain([None]) {
                    let mut query = vec![("per_page", "100")];
                    let mut expected = all.clone();
                    if let Some(id) = service {
                        query.push(("service_id", id.as_str()));
                        expected.retain(|change| change["service"]["id"] == **id);
                    }
                    if let Some(id) = host {
                        query.push(("host_id", id.as_str()));
                        expected.retain(|change| change["host_ref"]["id"] == **id);
                    }
                    if let Some(risk) = risk {
                        query.push(("risk_level", *risk));
                        expected.retain(|change| change["risk_level"] == **risk);
                    }
                    if let Some(status) = status {
                        query.push(("status", *status));
                        expected.retain(|change| change["status"] == **status);
                    }
                    let pairs = query.iter().map(|(name, value)| format!("{name}={value}"));
                    let path = format!("/api/changes?{}", pairs.collect::<Vec<_>>().join("&"));
                    let body = key.body(&path).await;
                    assert_eq!(body["data"], json!(expected), "{path}");
                    assert_eq!(body["count"], expected.len(), "{path}");
                }
            }
        }
    }
}

/// Each update starts from the result of another one: none is overwritten unseen.
async fn concurrent_updates_are_serialized(app: TestApp) {
    let key = app.key();
    let id = key.change("contended").await;
    let path = format!("/api/changes/{id}");
    let tasks = (0..40).map(|round| {
        let (key, path) = (&key, &path);
        async move {
            let body = json!({ "status": STATUSES[round % 4], "impact": format!("turn {round}") });
            key.update(path, body).await;
        }
    });
    join_all(tasks).await;
    let last = key.read(&path).await;
    let browser = app.browser().await;
    let entries = browser
        .body("/api/activity?resource=change&limit=100")
        .await;
    let updated = entries["items"].as_array().expect("a list");
    let updated: Vec<Value> = updated
        .iter()
        .filter(|entry| entry["action"] == "updated")
        .cloned()
        .collect();
    assert_eq!(updated.len(), 40, "some updates changed nothing");
    // Every value was written once, so the updates form one chain from the initial to the
    // current value.
    let mut after: BTreeMap<String, String> = BTreeMap::new();
    for changes in each(&json!(updated), "metadata") {
        let step = &changes["changes"]["impact"];
        let from = step["from"].as_str().unwrap_or_default().to_owned();
        let before = after.insert(from.clone(), text(&step["to"]));
        assert_eq!(before, None, "two updates started from {from:?}");
    }
    let mut at = String::new();
    for _ in 0..40 {
        at = after
            .remove(&at)
            .unwrap_or_else(|| panic!("no update started from {at:?}"));
    }
    assert_eq!(last["impact"], at);
}

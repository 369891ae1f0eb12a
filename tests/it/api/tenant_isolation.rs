//! An organization sees nothing of another one, by any endpoint, id or filter.

use futures_util::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use changelog_tests::{TestApp, TestResponse, each, on_both, text};

on_both!(
    records_of_another_organization_are_not_found,
    records_of_another_organization_cannot_be_linked,
    records_of_another_organization_are_not_listed,
    organizations_that_read_at_once_get_their_own,
    names_are_unique_per_organization,
    the_activity_log_is_separate_per_organization,
);

/// Returns a problem without the request id and the requested id, for comparison.
fn without_ids(answer: &TestResponse, id: &str) -> String {
    let mut problem = answer.json();
    problem["request_id"].take();
    problem.to_string().replace(id, "ID")
}

async fn records_of_another_organization_are_not_found(app: TestApp) {
    let key = app.key();
    let other = app.with_key(&app.second_organization().key);
    for (list, body, patch) in [
        (
            "/api/hosts",
            json!({ "hostname": "web-1" }),
            json!({ "os": "stolen" }),
        ),
        (
            "/api/services",
            json!({ "name": "payments" }),
            json!({ "color": "#bad" }),
        ),
        (
            "/api/changes",
            json!({ "title": "Deploy" }),
            json!({ "status": "rolled_back" }),
        ),
    ] {
        let id = key.create(list, body).await;
        let path = format!("{list}/{id}");
        let before = key.read(&path).await;
        let nowhere = Uuid::now_v7().to_string();
        let no_path = format!("{list}/{nowhere}");
        let answers = [
            (other.get(&path).await, other.get(&no_path).await),
            (
                other.patch(&path, patch.clone()).await,
                other.patch(&no_path, patch.clone()).await,
            ),
            (
                other.patch(&path, json!({})).await,
                other.patch(&no_path, json!({})).await,
            ),
        ];
        for (foreign, unknown) in answers {
            foreign.problem(404, "not_found");
            unknown.problem(404, "not_found");
            assert_eq!(
                without_ids(&foreign, &id),
                without_ids(&unknown, &nowhere),
                "{list}"
            );
        }
        assert_eq!(key.read(&path).await, before);
    }
}

async fn records_of_another_organization_cannot_be_linked(app: TestApp) {
    let key = app.key();
    let other = app.with_key(&app.second_organization().key);
    let service = key.service("payments").await;
    let host = key.host("web-1").await;
    let own = other.change("their own").await;
    let own = format!("/api/changes/{own}");
    for (field, id) in [("service_id", &service), ("host_id", &host)] {
        let nowhere = Uuid::now_v7().to_string();
        let pointer = format!("/{field}");
        let body = |id: &str| json!({ "title": "linked", field: id });
        let foreign = other.post("/api/changes", body(id)).await;
        foreign.violates(&[(&pointer, "not_found")]);
        let unknown = other.post("/api/changes", body(&nowhere)).await;
        assert_eq!(
            without_ids(&foreign, id),
            without_ids(&unknown, &nowhere),
            "{field}"
        );
        let foreign = other.patch(&own, json!({ field: id })).await;
        foreign.violates(&[(&pointer, "not_found")]);
        let unknown = other.patch(&own, json!({ field: nowhere })).await;
        assert_eq!(
            without_ids(&foreign, id),
            without_ids(&unknown, &nowhere),
            "{field}"
        );
    }
    assert_eq!(other.body("/api/changes").await["count"], 1);
    let change = other.read(&own).await;
    assert_eq!(change["service"], Value::Null);
    assert_eq!(change["host_ref"], Value::Null);
}

async fn records_of_another_organization_are_not_listed(app: TestApp) {
    let key = app.key();
    let other = app.with_key(&app.second_organization().key);
    let service = key.service("payments").await;
    let host = key.host("web-1").await;
    let body = json!({
        "title": "secret deploy", "service_id": service, "host_id": host, "tags": ["t"],
        "risk_level": "high", "status": "completed", "occurred_at": "2026-01-01T00:00:00Z",
    });
    let first = key.create("/api/changes", body).await;
    let second = key.change("secret second").await;
    assert_eq!(other.read("/api/hosts").await, json!([]));
    assert_eq!(other.read("/api/services").await, json!([]));
    for query in [
        String::new(),
        "q=secret".to_owned(),
        "risk_level=high".to_owned(),
        "status=completed".to_owned(),
        "tag=t".to_owned(),
        format!("service_id={service}"),
        format!("host_id={host}"),
        format!("service_id={service}&risk_level=high&q=secret"),
        "since=2025-01-01T00:00:00Z".to_owned(),
        "until=2030-01-01T00:00:00Z".to_owned(),
        format!("before={second}"),
    ] {
        let path = format!("/api/changes?{query}");
        let body = other.body(&path).await;
        assert_eq!(
            (&body["data"], &body["count"]),
            (&json!([]), &json!(0)),
            "{query}"
        );
        assert_eq!(body["total_pages"], 0, "{query}");
        assert_ne!(key.body(&path).await["data"], json!([]), "{query}");
    }
    // With changes of its own, filters still select only those.
    other.change("public deploy").await;
    let body = other.body("/api/changes?q=deploy").await;
    assert_eq!(each(&body["data"], "title"), ["public deploy"]);
    // The id of another organization's change as a cursor reveals nothing.
    let body = other.body(&format!("/api/changes?before={first}")).await;
    assert_eq!(body["data"], json!([]));
}

/// On PostgreSQL one statement reads the changes of all organizations that wait.
async fn organizations_that_read_at_once_get_their_own(app: TestApp) {
    let mut keys = vec![app.key()];
    for number in 1..5 {
        let organization = app.organization(&format!("Org {number}"), &format!("owner-{number}"));
        keys.push(app.with_key(&organization.key));
    }
    let mut ids = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let mut services = Vec::new();
        for name in ["payments", "ledger", "cards"] {
            services.push(key.service(&format!("{name}-{number}")).await);
        }
        let host = key.host(&format!("web-{number}")).await;
        let change = json!({
            "title": format!("of {number}"), "service_ids": services, "host_id": host,
        });
        let planned = json!({
            "title": format!("moved in {number}"), "scheduled_for": "2040-01-02T03:04:05Z",
        });
        let moved = key.create("/api/changes", planned).await;
        let started = json!({ "status": "in_progress" });
        key.update(&format!("/api/changes/{moved}"), started).await;
        ids.push([
            key.create("/api/changes", change).await,
            moved,
            Uuid::now_v7().to_string(),
        ]);
    }
    let all: Vec<&String> = ids.iter().flatten().collect();
    let mut expected = Vec::new();
    for key in &keys {
        for id in &all {
            let answer = key.get(&format!("/api/changes/{id}")).await;
            expected.push((answer.status, without_ids(&answer, id)));
        }
    }
    let found = expected.iter().filter(|(status, _)| *status == 200).count();
    assert_eq!(found, 2 * keys.len());
    for _ in 0..5 {
        let requests = keys.iter().flat_map(|key| {
            let paths = all.iter().map(|id| format!("/api/changes/{id}"));
            paths.map(async |path| key.get(&path).await)
        });
        let answers = join_all(requests).await;
        let ids = all.iter().cycle();
        let answers = answers.iter().zip(ids);
        let answers: Vec<_> = answers
            .map(|(answer, id)| (answer.status, without_ids(answer, id)))
            .collect();
        assert_eq!(answers, expected);
    }
}

async fn names_are_unique_per_organization(app: TestApp) {
    let key = app.key();
    let other = app.with_key(&app.second_organization().key);
    for caller in [&key, &other] {
        caller.host("web-1").await;
        caller.service("payments").await;
    }
    key.post("/api/hosts", json!({ "hostname": "web-1" }))
        .await
        .is(409);
    other
        .post("/api/services", json!({ "name": "payments" }))
        .await
        .is(409);
}

async fn the_activity_log_is_separate_per_organization(app: TestApp) {
    let second = app.second_organization();
    let (key, other_key) = (app.key(), app.with_key(&second.key));
    key.change("of the first").await;
    other_key.change("of the second").await;
    let (browser, other) = (app.browser().await, app.browser_of(&second).await);
    for (who, own, foreign, owner) in [
        (&browser, "of the first", "of the second", &second),
        (&other, "of the second", "of the first", &app.organization),
    ] {
        let body = who.body("/api/activity?limit=100").await;
        assert!(body.to_string().contains(own));
        assert!(!body.to_string().contains(foreign));
        for secret in [
            &owner.owner_id,
            &owner.key_id,
            &owner.owner_name,
            &owner.email,
        ] {
            assert!(!body.to_string().contains(secret.as_str()), "{secret}");
        }
        let path = format!("/api/activity?actor_id={}", owner.owner_id);
        assert_eq!(who.body(&path).await["items"], json!([]));
        let actors = who.body("/api/activity/actors").await;
        let names: Vec<String> = each(&actors["actors"], "actor_name")
            .into_iter()
            .map(text)
            .collect();
        assert!(!names.contains(&owner.owner_name), "{names:?}");
    }
}

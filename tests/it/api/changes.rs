//! `/api/changes` and `/api/changes/{id}`: creating, reading and updating changes.

use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use changelog_tests::shapes::{self, assert_id, assert_recent, assert_time, time};
use changelog_tests::{TestApp, TestClient, keys, on_both, send, text};

on_both!(
    all_fields_are_stored_and_returned,
    a_create_returns_the_whole_change_to_a_client_that_prefers_it,
    services_and_hosts_can_be_named,
    absent_fields_get_defaults,
    payloads_of_the_specification_are_accepted,
    every_risk_and_status_is_accepted,
    a_change_includes_its_service_and_host,
    duplicate_tags_are_merged,
    times_are_converted_to_utc,
    occurred_at_may_be_in_the_past,
    unknown_changes_are_not_found,
    every_field_can_be_updated,
    null_clears_optional_fields,
    a_new_commit_does_not_keep_the_time_of_the_old_one,
    any_status_transition_is_allowed,
    occurred_at_cannot_be_updated,
    api_keys_cannot_delete,
);

struct Linked {
    service: String,
    host: String,
    body: Value,
}

/// Creates a service and a host, and returns a change with every field.
async fn full(key: &TestClient) -> Linked {
    let service = json!({ "name": "payments", "color": "#0aF" });
    let service = key.create("/api/services", service).await;
    let host = json!({ "hostname": "web-1", "environment": "prod" });
    let host = key.create("/api/hosts", host).await;
    let body = json!({
        "title": "Deploy api 2.3",
        "description": "Rolls out\n\tthe limiter",
        "risk_level": "medium",
        "status": "in_progress",
        "impact": "Two minutes\nread-only",
        "service_id": service,
        "host_id": host,
        "tags": ["terraform", "prod"],
        "links": [{ "label": "run", "url": "https://ci.example.com/runs/42?a=b#c" }],
        "scheduled_for": "2027-01-02T03:04:05.678Z",
        "occurred_at": "2026-01-02T03:04:05.678Z",
    });
    Linked {
        service,
        host,
        body,
    }
}

async fn detail(key: &TestClient, id: &Value) -> Value {
    key.read(&format!("/api/changes/{}", text(id))).await
}

async fn all_fields_are_stored_and_returned(app: TestApp) {
    let key = app.key();
    let linked = full(&key).await;
    let answer = key.post("/api/changes", linked.body.clone()).await;
    let created = answer.data(201);
    assert_eq!(keys(&created), shapes::CHANGE_CREATED);
    assert_id(&created["id"]);
    assert_recent(&created["created_at"]);
    assert_eq!(created["title"], "Deploy api 2.3");
    assert_eq!(created["risk_level"], "medium");
    assert_eq!(created["status"], "in_progress");
    assert_eq!(created["organization_id"], app.organization.id);
    let path = format!("/api/changes/{}", text(&created["id"]));
    assert_eq!(answer.header("location"), path);

    let change = key.read(&path).await;
    assert_eq!(keys(&change), shapes::CHANGE);
    for field in shapes::CHANGE_CREATED {
        assert_eq!(change[field], created[field], "{field}");
    }
    for field in [
        "title",
        "description",
        "risk_level",
        "status",
        "impact",
        "tags",
        "links",
        "scheduled_for",
        "occurred_at",
    ] {
        assert_eq!(change[field], linked.body[field], "{field}");
    }
    let service = json!({ "id": linked.service, "name": "payments", "color": "#0aF" });
    assert_eq!(change["service"], service);
    let host = json!({ "id": linked.host, "hostname": "web-1", "environment": "prod" });
    assert_eq!(change["host_ref"], host);
    assert_recent(&change["updated_at"]);
    let listed = key.body("/api/changes").await;
    assert_eq!(listed["data"], json!([change]));
}

async fn a_create_returns_the_whole_change_to_a_client_that_prefers_it(app: TestApp) {
    let key = app.key();
    let body = full(&key).await.body;
    let create = async |prefer: &str| {
        let request = key.request("POST", "/api/changes");
        let request = request.header("idempotency-key", "once");
        send(request.header("prefer", prefer).json(&body)).await
    };
    for (prefer, is_replay) in [
        ("return=representation", ""),
        ("wait=5, Return=Representation", "true"),
        ("return=\"representation\"; foo=bar", "true"),
    ] {
        let answer = create(prefer).await;
        let created = answer.data(201);
        assert_eq!(answer.header("preference-applied"), "return=representation");
        assert_eq!(answer.header("idempotent-replayed"), is_replay);
        assert_eq!(answer.header("content-type"), "application/json");
        let path = answer.header("location");
        assert_eq!(key.read(path).await, created);
    }
    let answer = create("return=minimal").await;
    assert_eq!(answer.header("preference-applied"), "");
    assert_eq!(keys(&answer.data(201)), shapes::CHANGE_CREATED);
}

async fn services_and_hosts_can_be_named(app: TestApp) {
    let key = app.key();
    let linked = full(&key).await;
    let named = json!({ "title": "Named", "service_name": " Payments", "hostname": "WEB-1" });
    let created = key.post("/api/changes", named.clone()).await.data(201);
    let change = detail(&key, &created["id"]).await;
    assert_eq!(change["service"]["id"], linked.service);
    assert_eq!(change["service_ids"], json!([linked.service]));
    assert_eq!(change["host_ref"]["id"], linked.host);
    assert_eq!(change["environment"], "prod");
    let unset = json!({ "title": "Named", "service_name": "", "hostname": null });
    let list = json!({ "changes": [named, unset] });
    let created = key.post("/api/changes/bulk", list).await.data(201);
    let change = detail(&key, &created[1]["id"]).await;
    assert_eq!(change["service"], json!(null));
    assert_eq!(change["host_ref"], json!(null));

    let pointers = async |path: &str, body: Value| {
        let problem = key.post(path, body).await.problem(422, "validation_failed");
        let errors = problem["errors"].as_array().cloned().unwrap_or_default();
        let found = errors
            .iter()
            .map(|error| (text(&error["pointer"]), text(&error["message"])));
        found.collect::<Vec<_>>()
    };
    let unknown = json!({ "title": "Unknown", "service_name": "paymnts", "hostname": "db" });
    let errors = pointers("/api/changes", unknown.clone()).await;
    assert_eq!(errors[0].0, "/service_name");
    assert!(
        errors[0].1.contains("did you mean \"payments\"?"),
        "{errors:?}"
    );
    assert_eq!(errors[1].0, "/hostname");
    let list = json!({ "changes": [{ "title": "fine" }, unknown] });
    let errors = pointers("/api/changes/bulk", list).await;
    assert_eq!(errors[0].0, "/changes/1/service_name");
    let both = json!({ "title": "Both", "service_name": "payments", "service_id": linked.service });
    let errors = pointers("/api/changes", both).await;
    assert_eq!(errors[0].1, "cannot be given together with an id");
    // A repetition is answered as before, even if the names were changed since.
    let one = json!({ "title": "Once", "service_name": "payments", "hostname": "web-1" });
    let all = json!({ "changes": [one, { "title": "Twice", "hostname": "web-1" }] });
    let send = async |path: &str, body: &Value| {
        let keyed = key.clone().with("idempotency-key", "named once");
        keyed.post(path, body.clone()).await
    };
    for path in ["/api/changes", "/api/changes/bulk"] {
        let name = |path: &str, field: &str, name: &str| (path.to_owned(), json!({ field: name }));
        let body = if path == "/api/changes" { &one } else { &all };
        let first = send(path, body).await.data(201);
        let service = format!("/api/services/{}", linked.service);
        let host = format!("/api/hosts/{}", linked.host);
        for (path, patch) in [
            name(&service, "name", "billing"),
            name(&host, "hostname", "web-9"),
        ] {
            key.update(&path, patch).await;
        }
        let again = send(path, body).await;
        assert_eq!(again.header("idempotent-replayed"), "true", "{path}");
        assert_eq!(again.data(201), first, "{path}");
        // Another body, and a request that was not sent before.
        let mut other = body.clone();
        other["title"] = json!("Else");
        if path == "/api/changes" {
            send(path, &other)
                .await
                .problem(422, "idempotency_key_reused");
        }
        key.post(path, body.clone()).await.is(422);
        for (path, patch) in [
            name(&service, "name", "Payments"),
            name(&host, "hostname", "web-1"),
        ] {
            key.update(&path, patch).await;
        }
    }
    // Another organization's names are not found.
    let other = app.with_key(&app.second_organization().key);
    let body = json!({ "title": "Other", "service_name": "payments" });
    other
        .post("/api/changes", body)
        .await
        .problem(422, "validation_failed");
}

async fn absent_fields_get_defaults(app: TestApp) {
    let key = app.key();
    let nulls = json!({
        "title": "nulls", "description": null, "service_id": null, "host_id": null,
        "risk_level": null, "status": null, "impact": null, "tags": null, "links": null,
        "scheduled_for": null, "occurred_at": null,
    });
    for body in [json!({ "title": "bare" }), nulls] {
        let created = key.post("/api/changes", body).await.data(201);
        assert_eq!(created["risk_level"], "low");
        assert_eq!(created["status"], "planned");
        let change = detail(&key, &created["id"]).await;
        assert_eq!(keys(&change), shapes::CHANGE);
        for field in [
            "description",
            "impact",
            "service",
            "host_ref",
            "scheduled_for",
        ] {
            assert_eq!(change[field], Value::Null, "{field}");
        }
        for field in ["tags", "links"] {
            assert_eq!(change[field], json!([]), "{field}");
        }
        assert_recent(&change["occurred_at"]);
        assert_recent(&change["created_at"]);
        assert_recent(&change["updated_at"]);
    }
}

/// The payloads that the specification describes.
async fn payloads_of_the_specification_are_accepted(app: TestApp) {
    let key = app.key();
    for (status, risk) in [("completed", "low"), ("rolled_back", "high")] {
        let body = json!({
            "title": "terraform apply: 2 added", "risk_level": risk, "status": status,
            "tags": ["terraform"],
        });
        let created = key.post("/api/changes", body).await.data(201);
        assert_eq!(created["risk_level"], risk);
        assert_eq!(created["status"], status);
        assert_eq!(
            detail(&key, &created["id"]).await["tags"],
            json!(["terraform"])
        );
    }
}

async fn every_risk_and_status_is_accepted(app: TestApp) {
    let key = app.key();
    let statuses = ["planned", "in_progress", "completed", "rolled_back"];
    for (field, words) in [
        ("risk_level", &["low", "medium", "high"][..]),
        ("status", &statuses),
    ] {
        for word in words {
            let body = json!({ "title": "valid", field: word });
            let created = key.post("/api/changes", body).await.data(201);
            assert_eq!(created[field], **word);
            assert_eq!(detail(&key, &created["id"]).await[field], **word);
        }
        for word in ["", "HIGH", "done", "in progress", "critical", "unknown"] {
            let body = json!({ "title": "invalid", field: word });
            let answer = key.post("/api/changes", body).await;
            answer.violates(&[(&format!("/{field}"), "unknown_value")]);
        }
    }
}

async fn a_change_includes_its_service_and_host(app: TestApp) {
    let key = app.key();
    let linked = full(&key).await;
    let id = key.create("/api/changes", linked.body).await;
    let path = format!("/api/changes/{id}");
    // The change has their current names.
    let service = format!("/api/services/{}", linked.service);
    key.update(&service, json!({ "name": "billing", "color": "#fff" }))
        .await;
    let host = format!("/api/hosts/{}", linked.host);
    key.update(&host, json!({ "hostname": "web-2", "environment": null }))
        .await;
    let change = key.read(&path).await;
    let service = json!({ "id": linked.service, "name": "billing", "color": "#fff" });
    assert_eq!(change["service"], service);
    let host = json!({ "id": linked.host, "hostname": "web-2", "environment": null });
    assert_eq!(change["host_ref"], host);

    let nowhere = Uuid::now_v7();
    for (body, pointers) in [
        (json!({ "service_id": nowhere }), vec!["/service_id"]),
        (json!({ "host_id": nowhere }), vec!["/host_id"]),
        // The id of a host is not that of a service, and vice versa.
        (
            json!({ "service_id": linked.host, "host_id": linked.service }),
            vec!["/service_id", "/host_id"],
        ),
    ] {
        let expected: Vec<_> = pointers.iter().map(|at| (*at, "not_found")).collect();
        key.patch(&path, body.clone()).await.violates(&expected);
        let mut new = body;
        new["title"] = json!("unknown reference");
        key.post("/api/changes", new).await.violates(&expected);
    }
    let answer = key
        .post("/api/changes", json!({ "title": "bad", "service_id": "x" }))
        .await;
    answer.violates(&[("/service_id", "invalid_format")]);
    let answer = key
        .post("/api/changes", json!({ "title": "bad", "host_id": 7 }))
        .await;
    answer.violates(&[("/host_id", "wrong_type")]);
    assert_eq!(key.body("/api/changes").await["count"], 1);
}

async fn duplicate_tags_are_merged(app: TestApp) {
    let key = app.key();
    let tags = json!(["b", "a", " b ", "B", "a", "ä", "🚀"]);
    let id = key
        .create("/api/changes", json!({ "title": "tagged", "tags": tags }))
        .await;
    let path = format!("/api/changes/{id}");
    let expected = json!(["b", "a", "B", "ä", "🚀"]);
    assert_eq!(key.read(&path).await["tags"], expected);
    let answer = key.patch(&path, json!({ "tags": ["x", "x"] })).await;
    assert_eq!(answer.data(200)["tags"], json!(["x"]));
}

async fn times_are_converted_to_utc(app: TestApp) {
    let key = app.key();
    for (given, kept) in [
        ("2026-11-21T10:30:00+02:00", "2026-11-21T08:30:00.000Z"),
        ("2026-11-21T08:30:00.123999Z", "2026-11-21T08:30:00.123Z"),
        ("2026-02-28T23:59:59.9-01:00", "2026-03-01T00:59:59.900Z"),
    ] {
        let body = json!({ "title": "scheduled", "scheduled_for": given });
        let id = key.post("/api/changes", body).await.data(201)["id"].take();
        assert_eq!(detail(&key, &id).await["scheduled_for"], kept, "{given}");
    }
    for field in ["scheduled_for", "occurred_at"] {
        for bad in [
            "",
            "tomorrow",
            "2026-11-21",
            "2026-11-21T08:30:00",
            "2026-02-30T00:00:00Z",
        ] {
            let body = json!({ "title": "scheduled", field: bad });
            let answer = key.post("/api/changes", body).await;
            answer.violates(&[(&format!("/{field}"), "invalid_format")]);
        }
        let answer = key
            .post(
                "/api/changes",
                json!({ "title": "bad", field: 1_700_000_000 }),
            )
            .await;
        answer.violates(&[(&format!("/{field}"), "wrong_type")]);
    }
}

async fn occurred_at_may_be_in_the_past(app: TestApp) {
    let key = app.key();
    let soon = time(Utc::now() + TimeDelta::minutes(4));
    for at in [
        "1970-01-01T00:00:00.000Z",
        "2001-02-03T04:05:06.007Z",
        &soon,
    ] {
        let body = json!({ "title": "imported", "occurred_at": at });
        let change = key.post("/api/changes", body).await.data(201);
        assert_id(&change["id"]);
        assert_recent(&change["created_at"]);
        // The id contains the time, so that lists are ordered by id.
        let id: Uuid = text(&change["id"]).parse().expect("an id");
        let (seconds, nanos) = id.get_timestamp().expect("a time").to_unix();
        let moment = assert_time(&json!(at));
        assert_eq!(i64::try_from(seconds), Ok(moment.timestamp()), "{at}");
        assert_eq!(nanos / 1_000_000, moment.timestamp_subsec_millis(), "{at}");
        assert_eq!(detail(&key, &change["id"]).await["occurred_at"], at);
    }
    for bad in [
        time(Utc::now() + TimeDelta::minutes(6)),
        "1969-12-31T23:59:59.999Z".to_owned(),
    ] {
        let body = json!({ "title": "impossible", "occurred_at": bad });
        let answer = key.post("/api/changes", body).await;
        answer.violates(&[("/occurred_at", "out_of_range")]);
    }
}

async fn unknown_changes_are_not_found(app: TestApp) {
    let key = app.key();
    let path = format!("/api/changes/{}", Uuid::now_v7());
    key.get(&path).await.problem(404, "not_found");
    let answer = key.patch(&path, json!({ "status": "completed" })).await;
    answer.problem(404, "not_found");
}

async fn every_field_can_be_updated(app: TestApp) {
    let key = app.key();
    let linked = full(&key).await;
    let id = key.create("/api/changes", linked.body).await;
    let path = format!("/api/changes/{id}");
    let service = key.service("billing").await;
    let host = key.host("web-2").await;
    let mut expected = key.read(&path).await;
    for (field, value, shown, shown_value) in [
        ("title", json!("Deploy api 2.4"), "title", None),
        ("status", json!("completed"), "status", None),
        ("ended_at", json!(null), "ended_at", None),
        (
            "started_at",
            json!("2025-12-31T23:59:59.000Z"),
            "started_at",
            None,
        ),
        ("outcome", json!("unknown"), "outcome", None),
        ("environment", json!("dev"), "environment", None),
        ("on_behalf_of", json!("Ada"), "on_behalf_of", None),
        (
            "agent",
            json!({ "name": "bot", "mode": "interactive", "run": null }),
            "agent",
            None,
        ),
        ("commit", json!("1a2b3c"), "commit", None),
        (
            "committed_at",
            json!("2026-01-01T00:00:00.000Z"),
            "committed_at",
            None,
        ),
        ("description", json!("Again"), "description", None),
        ("risk_level", json!("high"), "risk_level", None),
        ("impact", json!("None"), "impact", None),
        ("tags", json!(["x"]), "tags", None),
        (
            "links",
            json!([{ "label": "l", "url": "http://e.com/" }]),
            "links",
            None,
        ),
        (
            "scheduled_for",
            json!("2028-01-01T00:00:00.000Z"),
            "scheduled_for",
            None,
        ),
        (
            "service_id",
            json!(service),
            "service",
            Some(json!({ "id": service, "name": "billing", "color": "#6366f1" })),
        ),
        (
            "host_id",
            json!(host),
            "host_ref",
            Some(json!({ "id": host, "hostname": "web-2", "environment": null })),
        ),
    ] {
        let answer = key.patch(&path, json!({ field: value })).await;
        let changed = answer.data(200);
        assert!(assert_time(&changed["updated_at"]) >= assert_time(&expected["updated_at"]));
        expected["updated_at"] = changed["updated_at"].clone();
        if field == "status" {
            assert_recent(&changed["ended_at"]);
            expected["ended_at"] = changed["ended_at"].clone();
        }
        if field == "service_id" {
            expected["service_ids"] = json!([value]);
        }
        expected[shown] = shown_value.unwrap_or(value);
        assert_eq!(changed, expected, "{field}");
        assert_eq!(key.read(&path).await, expected, "{field}");
    }
    let answer = key.patch(&path, json!({})).await;
    assert_eq!(answer.data(200), expected);
    let answer = key.patch(&path, json!({ "title": "Deploy api 2.4" })).await;
    assert_eq!(
        answer.data(200),
        expected,
        "the same update again changes nothing"
    );
}

async fn a_new_commit_does_not_keep_the_time_of_the_old_one(app: TestApp) {
    let key = app.key();
    let time = "2026-01-01T00:00:00.000Z";
    let body = json!({ "title": "Deploy", "commit": "1a2b3c", "committed_at": time });
    let path = format!("/api/changes/{}", key.create("/api/changes", body).await);
    for (patch, expected) in [
        (
            json!({ "commit": "1a2b3c", "title": "Deploy it" }),
            json!(time),
        ),
        (json!({ "commit": "4d5e6f" }), json!(null)),
        (
            json!({ "commit": "1a2b3c", "committed_at": time }),
            json!(time),
        ),
        (json!({ "commit": null }), json!(null)),
    ] {
        let changed = key.update(&path, patch.clone()).await;
        assert_eq!(changed["committed_at"], expected, "{patch}");
    }
}

async fn null_clears_optional_fields(app: TestApp) {
    let key = app.key();
    let linked = full(&key).await;
    let id = key.create("/api/changes", linked.body).await;
    let path = format!("/api/changes/{id}");
    for (field, shown, after) in [
        ("description", "description", Value::Null),
        ("impact", "impact", Value::Null),
        ("service_id", "service", Value::Null),
        ("host_id", "host_ref", Value::Null),
        ("scheduled_for", "scheduled_for", Value::Null),
        ("tags", "tags", json!([])),
        ("links", "links", json!([])),
        ("risk_level", "risk_level", json!("medium")),
        ("status", "status", json!("in_progress")),
    ] {
        let answer = key.patch(&path, json!({ field: null })).await;
        assert_eq!(answer.data(200)[shown], after, "{field}");
        assert_eq!(key.read(&path).await[shown], after, "{field}");
    }
    let answer = key.patch(&path, json!({ "title": null })).await;
    answer.violates(&[("/title", "required")]);
}

async fn any_status_transition_is_allowed(app: TestApp) {
    let key = app.key();
    let id = key.change("restless").await;
    let path = format!("/api/changes/{id}");
    let all = ["planned", "in_progress", "completed", "rolled_back"];
    for from in all {
        for to in all {
            key.update(&path, json!({ "status": from })).await;
            let answer = key.patch(&path, json!({ "status": to })).await;
            assert_eq!(answer.data(200)["status"], to, "from {from}");
        }
    }
}

async fn occurred_at_cannot_be_updated(app: TestApp) {
    let key = app.key();
    let id = key.change("once").await;
    let path = format!("/api/changes/{id}");
    for value in [json!("2026-01-01T00:00:00Z"), Value::Null] {
        let answer = key.patch(&path, json!({ "occurred_at": value })).await;
        answer.violates(&[("/occurred_at", "immutable")]);
    }
}

async fn api_keys_cannot_delete(app: TestApp) {
    let key = app.key();
    for (list, body) in [
        ("/api/changes", json!({ "title": "stays" })),
        ("/api/hosts", json!({ "hostname": "stays" })),
        ("/api/services", json!({ "name": "stays" })),
    ] {
        let id = key.create(list, body).await;
        let path = format!("{list}/{id}");
        let answer = changelog_tests::send(key.request("DELETE", &path)).await;
        answer.problem(405, "method_not_allowed");
        key.read(&path).await;
    }
}

//! `/api/incidents`, `/api/incidents/{id}` and `/api/incidents/{id}/cause`.

use changelog_tests::shapes::{self, assert_id, assert_recent};
use changelog_tests::{TestApp, each, keys, on_both, text};
use serde_json::{Value, json};

on_both!(
    an_incident_is_opened_and_resolved,
    what_is_wrong_is_refused,
    the_list_has_open_ones_first_and_goes_on,
    a_cause_is_marked_and_taken_away,
    a_repeated_create_opens_one,
    incidents_of_others_are_not_found,
);

const UNKNOWN: &str = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";

async fn an_incident_is_opened_and_resolved(app: TestApp) {
    let key = app.key();
    let service = key.service("Payments").await;
    let body = json!({
        "title": "Checkout returns 502", "severity": "critical", "service_name": "payments",
        "environment": "prod", "started_at": "2026-01-15T08:30:00.000Z",
        "url": "https://alerts.example.com/7",
    });
    let answer = key.post("/api/incidents", body).await;
    let incident = answer.data(201);
    assert_eq!(keys(&incident), shapes::INCIDENT);
    assert_id(&incident["id"]);
    let path = format!("/api/incidents/{}", text(&incident["id"]));
    assert_eq!(answer.header("location"), path);
    assert_eq!(incident["service_id"], json!(service));
    assert_eq!(incident["service"]["name"], "Payments");
    assert_eq!(
        (&incident["status"], &incident["source"]),
        (&json!("open"), &Value::Null)
    );
    assert_eq!(incident["created_by"]["type"], "api_key");
    let minimal = key
        .post("/api/incidents", json!({ "title": "Slow" }))
        .await
        .data(201);
    assert_eq!(keys(&minimal), shapes::INCIDENT);
    assert_eq!(minimal["severity"], "warning");
    assert_recent(&minimal["started_at"]);
    let resolution = json!({ "status": "resolved", "resolved_at": "2026-01-15T09:00:00.000Z" });
    let resolved = key.patch(&path, resolution).await.data(200);
    assert_eq!(resolved["resolved_at"], "2026-01-15T09:00:00.000Z");
    let clearing =
        json!({ "status": "open", "service_id": null, "environment": null, "url": null });
    let cleared = key.patch(&path, clearing).await.data(200);
    for field in ["resolved_at", "service_id", "service", "environment", "url"] {
        assert_eq!(cleared[field], Value::Null, "{field}");
    }
    // The new name of a service is that of its incidents.
    key.update(&path, json!({ "service_id": service })).await;
    let renamed = json!({ "name": "cards" });
    key.update(&format!("/api/services/{service}"), renamed)
        .await;
    assert_eq!(key.read(&path).await["service"]["name"], "cards");
    let log = app
        .browser()
        .await
        .body("/api/activity?resource=incident")
        .await;
    let actions = each(&log["items"], "action");
    assert_eq!(
        actions,
        ["updated", "updated", "updated", "created", "created"]
    );
    let differences = &log["items"][2]["metadata"]["changes"];
    assert_eq!(
        differences["status"],
        json!({ "from": "open", "to": "resolved" })
    );
    assert_eq!(keys(differences), ["resolved_at", "status"]);
}

async fn what_is_wrong_is_refused(app: TestApp) {
    let key = app.key();
    for (body, pointer, code) in [
        (json!({}), "/title", "required"),
        (
            json!({ "title": "Down", "severity": "bad" }),
            "/severity",
            "unknown_value",
        ),
        (
            json!({ "title": "Down", "service_id": UNKNOWN }),
            "/service_id",
            "not_found",
        ),
        (
            json!({ "title": "Down", "service_name": "none" }),
            "/service_name",
            "not_found",
        ),
        (
            json!({ "title": "Down", "host_id": UNKNOWN }),
            "/host_id",
            "unknown_field",
        ),
    ] {
        key.post("/api/incidents", body)
            .await
            .violates(&[(pointer, code)]);
    }
    let id = key
        .create("/api/incidents", json!({ "title": "Down" }))
        .await;
    let path = format!("/api/incidents/{id}");
    let late = json!({ "resolved_at": "2026-01-15T09:00:00.000Z" });
    let answer = key.patch(&path, late).await;
    answer.violates(&[("/resolved_at", "out_of_range")]);
    let cause = format!("{path}/cause");
    key.put(&cause, json!({ "change_id": UNKNOWN }))
        .await
        .violates(&[("/change_id", "not_found")]);
    key.put(&cause, json!({}))
        .await
        .violates(&[("/change_id", "required")]);
    key.get("/api/incidents?limit=0")
        .await
        .problem(400, "malformed_query");
}

/// Returns the numbers in the titles of a list.
fn numbers(list: &Value) -> String {
    let titles = each(list, "title").into_iter().map(text);
    let titles: Vec<String> = titles.collect();
    titles.join(" ").replace("Incident ", "")
}

async fn the_list_has_open_ones_first_and_goes_on(app: TestApp) {
    let key = app.key();
    let service = key.service("payments").await;
    for number in 0..7 {
        let body = json!({
            "title": format!("Incident {number}"),
            "started_at": format!("2026-01-15T08:3{number}:00.000Z"),
            "service_id": if number % 2 == 0 { json!(service) } else { Value::Null },
        });
        let id = key.create("/api/incidents", body).await;
        if number >= 5 {
            let path = format!("/api/incidents/{id}");
            key.update(&path, json!({ "status": "resolved" })).await;
        }
    }
    let titles = async |query: &str| {
        let list = key.read(&format!("/api/incidents?{query}")).await;
        numbers(&list)
    };
    assert_eq!(titles("").await, "4 3 2 1 0 6 5");
    assert_eq!(titles("status=open").await, "4 3 2 1 0");
    assert_eq!(titles(&format!("service_id={service}")).await, "4 2 0 6");
    let period = "since=2026-01-15T08:32:00Z&until=2026-01-15T08:36:00Z";
    assert_eq!(titles(period).await, "4 3 2 5");
    let mut pages = Vec::new();
    let mut query = "limit=2".to_owned();
    loop {
        let list = key.read(&format!("/api/incidents?{query}")).await;
        let Some(end) = each(&list, "id").pop().map(text) else {
            break;
        };
        pages.push(numbers(&list));
        query = format!("limit=2&before={end}");
    }
    assert_eq!(pages, ["4 3", "2 1", "0 6", "5"]);
    let unknown = format!("/api/incidents?before={UNKNOWN}");
    key.get(&unknown).await.problem(404, "not_found");
}

async fn a_cause_is_marked_and_taken_away(app: TestApp) {
    let key = app.key();
    let change = key.completed_change("Deploy payments 4.2").await;
    let id = key
        .create("/api/incidents", json!({ "title": "Down" }))
        .await;
    let path = format!("/api/incidents/{id}/cause");
    let marked = key
        .put(&path, json!({ "change_id": change }))
        .await
        .data(200);
    assert_eq!(marked["cause_change_id"], json!(change));
    assert_eq!(marked["cause"]["title"], "Deploy payments 4.2");
    // Once more is no news.
    let again = key
        .put(&path, json!({ "change_id": change }))
        .await
        .data(200);
    assert_eq!(again["cause"], marked["cause"]);
    let none = json!({ "change_id": null, "none_of_these": true });
    let none = key.put(&path, none).await.data(200);
    assert_eq!(
        (&none["cause_change_id"], &none["cause"]["change_id"]),
        (&Value::Null, &Value::Null)
    );
    assert_recent(&none["cause"]["marked_at"]);
    let cleared = key.put(&path, json!({ "change_id": null })).await.data(200);
    assert_eq!(cleared["cause"], Value::Null);
    let log = app
        .browser()
        .await
        .body("/api/activity?resource=incident")
        .await;
    let marks: Vec<&Value> = log["items"].as_array().expect("a list")[..3]
        .iter()
        .map(|entry| &entry["metadata"]["changes"]["cause"]["to"])
        .collect();
    let none = json!("none of the recorded changes");
    assert_eq!(marks, [&Value::Null, &none, &json!("Deploy payments 4.2")]);
}

async fn a_repeated_create_opens_one(app: TestApp) {
    let key = app.key();
    let body = json!({ "title": "Down" }).to_string();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let request = key
            .request("POST", "/api/incidents")
            .header("idempotency-key", "alert-1")
            .header("content-type", "application/json");
        let answer = changelog_tests::send(request.body(body.clone())).await;
        ids.push(text(&answer.data(201)["id"]));
    }
    assert_eq!(ids[0], ids[1]);
    assert_eq!(
        each(&key.read("/api/incidents").await, "id"),
        [ids[0].as_str()]
    );
}

async fn incidents_of_others_are_not_found(app: TestApp) {
    let id = app
        .key()
        .create("/api/incidents", json!({ "title": "Down" }))
        .await;
    let key = app.with_key(&app.second_organization().key);
    let path = format!("/api/incidents/{id}");
    key.get(&path).await.problem(404, "not_found");
    key.patch(&path, json!({ "title": "Mine" }))
        .await
        .problem(404, "not_found");
    assert_eq!(key.read("/api/incidents").await, json!([]));
}

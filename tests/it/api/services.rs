//! `/api/services` and `/api/services/{id}`.

use serde_json::{Value, json};
use uuid::Uuid;

use changelog_tests::shapes::{self, assert_id, assert_recent};
use changelog_tests::{TestApp, each, keys, on_both, text};

on_both!(
    all_fields_are_stored_and_returned,
    absent_fields_get_defaults,
    the_list_is_ordered_by_name,
    names_are_unique,
    colors_must_be_hex,
    unknown_services_are_not_found,
    every_field_can_be_updated,
    null_clears_optional_fields,
    renaming_to_a_used_name_is_refused,
);

fn full() -> Value {
    json!({ "name": "payments", "description": "Takes\ncards", "color": "#0aF" })
}

async fn all_fields_are_stored_and_returned(app: TestApp) {
    let key = app.key();
    let answer = key.post("/api/services", full()).await;
    let service = answer.data(201);
    assert_eq!(keys(&service), shapes::SERVICE);
    for (field, value) in full().as_object().expect("an object") {
        assert_eq!(&service[field], value, "{field}");
    }
    assert_id(&service["id"]);
    assert_recent(&service["created_at"]);
    assert_eq!(service["organization_id"], app.organization.id);
    let path = format!("/api/services/{}", text(&service["id"]));
    assert_eq!(answer.header("location"), path);
    assert_eq!(key.get(&path).await.data(200), service);
    assert_eq!(key.get("/api/services").await.data(200), json!([service]));
}

async fn absent_fields_get_defaults(app: TestApp) {
    let key = app.key();
    for body in [
        json!({ "name": "s1" }),
        json!({ "name": "s2", "description": null, "color": null }),
    ] {
        let service = key.post("/api/services", body).await.data(201);
        assert_eq!(keys(&service), shapes::SERVICE);
        assert_eq!(service["description"], Value::Null);
        assert_eq!(service["color"], "#6366f1");
    }
}

async fn the_list_is_ordered_by_name(app: TestApp) {
    let key = app.key();
    let ordered = ["aa", "aa-1", "aa-10", "aa-2", "ab", "zz", "éa"];
    for index in [6, 3, 0, 5, 2, 1, 4] {
        key.create("/api/services", json!({ "name": ordered[index] }))
            .await;
    }
    let list = key.get("/api/services").await.data(200);
    assert_eq!(each(&list, "name"), ordered);
    for service in list.as_array().expect("a list") {
        assert_eq!(keys(service), shapes::SERVICE);
    }
}

async fn names_are_unique(app: TestApp) {
    let key = app.key();
    key.create("/api/services", json!({ "name": "Payments" }))
        .await;
    for again in ["Payments", "payments", " PAYMENTS "] {
        let answer = key.post("/api/services", json!({ "name": again })).await;
        answer.problem(409, "conflict");
    }
    let list = key.get("/api/services").await.data(200);
    assert_eq!(each(&list, "name"), ["Payments"]);
    // A host may have the name of a service.
    key.create("/api/hosts", json!({ "hostname": "Payments" }))
        .await;
}

async fn colors_must_be_hex(app: TestApp) {
    let key = app.key();
    for (index, color) in ["#000", "#FFF", "#aBc", "#a1B2c3"].into_iter().enumerate() {
        let service = json!({ "name": format!("s{index}"), "color": color });
        assert_eq!(
            key.post("/api/services", service).await.data(201)["color"],
            color
        );
    }
    for bad in [
        "", "#", "#ff", "#ffff", "#fffff", "#fffffff", "fff", "#ggg", "red", "#é12",
    ] {
        let answer = key
            .post("/api/services", json!({ "name": "bad", "color": bad }))
            .await;
        answer.violates(&[("/color", "invalid_format")]);
    }
}

async fn unknown_services_are_not_found(app: TestApp) {
    let key = app.key();
    let path = format!("/api/services/{}", Uuid::now_v7());
    key.get(&path).await.problem(404, "not_found");
    let answer = key.patch(&path, json!({ "color": "#fff" })).await;
    answer.problem(404, "not_found");
}

async fn every_field_can_be_updated(app: TestApp) {
    let key = app.key();
    let mut expected = key.post("/api/services", full()).await.data(201);
    let path = format!("/api/services/{}", text(&expected["id"]));
    for (field, value) in [
        ("name", json!("billing")),
        ("description", json!("Sends bills")),
        ("color", json!("#123456")),
        ("name", json!("Billing")),
    ] {
        let answer = key.patch(&path, json!({ field: value })).await;
        expected[field] = value;
        assert_eq!(answer.data(200), expected, "{field}");
        assert_eq!(key.get(&path).await.data(200), expected, "{field}");
    }
    assert_eq!(key.patch(&path, json!({})).await.data(200), expected);
}

async fn null_clears_optional_fields(app: TestApp) {
    let key = app.key();
    let id = key.create("/api/services", full()).await;
    let path = format!("/api/services/{id}");
    let answer = key.patch(&path, json!({ "description": null })).await;
    assert_eq!(answer.data(200)["description"], Value::Null);
    let answer = key.patch(&path, json!({ "color": null })).await;
    assert_eq!(answer.data(200)["color"], "#0aF");
    let answer = key.patch(&path, json!({ "name": null })).await;
    answer.violates(&[("/name", "required")]);
}

async fn renaming_to_a_used_name_is_refused(app: TestApp) {
    let key = app.key();
    key.create("/api/services", json!({ "name": "taken" }))
        .await;
    let id = key.create("/api/services", json!({ "name": "free" })).await;
    let path = format!("/api/services/{id}");
    let answer = key.patch(&path, json!({ "name": "Taken" })).await;
    answer.problem(409, "conflict");
    assert_eq!(key.get(&path).await.data(200)["name"], "free");
}

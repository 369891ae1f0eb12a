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
    services_depend_on_services,
    dependencies_are_in_the_activity_log,
    dependencies_must_exist,
    dependencies_are_limited,
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
    assert_eq!(key.read(&path).await, service);
    assert_eq!(key.read("/api/services").await, json!([service]));
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
        key.service(ordered[index]).await;
    }
    let list = key.read("/api/services").await;
    assert_eq!(each(&list, "name"), ordered);
    for service in list.as_array().expect("a list") {
        assert_eq!(keys(service), shapes::SERVICE);
    }
}

async fn names_are_unique(app: TestApp) {
    let key = app.key();
    key.service("Payments").await;
    for again in ["Payments", "payments", " PAYMENTS "] {
        let answer = key.post("/api/services", json!({ "name": again })).await;
        answer.problem(409, "conflict");
    }
    let list = key.read("/api/services").await;
    assert_eq!(each(&list, "name"), ["Payments"]);
    // A host may have the name of a service.
    key.host("Payments").await;
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
        assert_eq!(key.read(&path).await, expected, "{field}");
    }
    assert_eq!(key.update(&path, json!({})).await, expected);
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
    key.service("taken").await;
    let id = key.service("free").await;
    let path = format!("/api/services/{id}");
    let answer = key.patch(&path, json!({ "name": "Taken" })).await;
    answer.problem(409, "conflict");
    assert_eq!(key.read(&path).await["name"], "free");
}

/// Creates a service with nothing but a name, and returns its id.
async fn named(app: &TestApp, name: &str) -> String {
    app.key().service(name).await
}

async fn services_depend_on_services(app: TestApp) {
    let key = app.key();
    let (ledger, mail) = (named(&app, "ledger").await, named(&app, "mail").await);
    // In the order given, each once.
    let ids = json!([mail, ledger, mail]);
    let new = json!({ "name": "payments", "depends_on": ids });
    let payments = key.post("/api/services", new).await.data(201);
    assert_eq!(payments["depends_on"], json!([mail, ledger]));
    let path = format!("/api/services/{}", text(&payments["id"]));
    assert_eq!(key.read(&path).await, payments);
    for list in ["", "?limit=3"] {
        let list = key.read(&format!("/api/services{list}")).await;
        assert_eq!(list[2], payments);
        assert_eq!(list[0]["depends_on"], json!([]));
    }
    // In a circle, and again without another field.
    let circle = json!({ "depends_on": [payments["id"]] });
    let answer = key.patch(&format!("/api/services/{ledger}"), circle).await;
    assert_eq!(answer.data(200)["depends_on"], json!([payments["id"]]));
    for (patch, expected) in [
        (json!({ "depends_on": [ledger] }), json!([ledger])),
        (json!({ "color": "#fff" }), json!([ledger])),
        (
            json!({ "depends_on": [mail, ledger] }),
            json!([mail, ledger]),
        ),
        (json!({ "depends_on": null }), json!([])),
        (json!({ "depends_on": [mail] }), json!([mail])),
        (json!({ "depends_on": [] }), json!([])),
    ] {
        let updated = key.update(&path, patch.clone()).await;
        assert_eq!(updated["depends_on"], expected, "{patch}");
        assert_eq!(key.read(&path).await, updated, "{patch}");
    }
}

async fn dependencies_are_in_the_activity_log(app: TestApp) {
    let key = app.key();
    let (ledger, mail) = (named(&app, "ledger").await, named(&app, "mail").await);
    let path = format!("/api/services/{ledger}");
    for _ in 0..2 {
        // The second time nothing changes.
        key.update(&path, json!({ "depends_on": [mail] })).await;
    }
    let browser = app.browser().await;
    let entries = browser.body("/api/activity?resource=service").await["items"].take();
    let to = json!([{ "id": mail, "name": "mail" }]);
    let expected = json!({ "changes": { "depends_on": { "from": [], "to": to } } });
    assert_eq!(entries[0]["metadata"], expected);
    assert_eq!(entries[1]["action"], "created");
}

async fn dependencies_must_exist(app: TestApp) {
    let key = app.key();
    let ledger = named(&app, "ledger").await;
    let other = app.with_key(&app.second_organization().key);
    let foreign = other.service("mail").await;
    let unknown = Uuid::now_v7().to_string();
    let host = key.host("web-1").await;
    let path = format!("/api/services/{ledger}");
    for id in [foreign, unknown, host] {
        let body = json!({ "name": "payments", "depends_on": [ledger, id] });
        let answers = [
            key.post("/api/services", body).await,
            key.patch(&path, json!({ "name": "renamed", "depends_on": [id] }))
                .await,
        ];
        for (answer, place) in answers.into_iter().zip([1, 0]) {
            let pointer = format!("/depends_on/{place}");
            answer.violates(&[(&pointer, "not_found")]);
            let expected =
                format!("must be a service of the organization, which has none with the id {id}");
            assert_eq!(answer.json()["errors"][0]["message"], expected);
        }
    }
    let itself = json!({ "depends_on": [ledger] });
    key.patch(&path, itself)
        .await
        .violates(&[("/depends_on/0", "unknown_value")]);
    let list = key.read("/api/services").await;
    assert_eq!(each(&list, "name"), ["ledger"]);
    assert_eq!(list[0]["depends_on"], json!([]));
}

async fn dependencies_are_limited(app: TestApp) {
    let key = app.key();
    let mut ids = Vec::new();
    for number in 0..51 {
        ids.push(named(&app, &format!("service {number}")).await);
    }
    let new = |ids: &[String]| json!({ "name": "payments", "depends_on": ids });
    let answer = key.post("/api/services", new(&ids)).await;
    answer.violates(&[("/depends_on", "too_many")]);
    let service = key.post("/api/services", new(&ids[..50])).await.data(201);
    assert_eq!(service["depends_on"], json!(ids[..50]));
}

//! `/api/hosts` and `/api/hosts/{id}`.

use serde_json::{Value, json};
use uuid::Uuid;

use changelog_tests::shapes::{self, assert_id, assert_recent};
use changelog_tests::{TestApp, each, keys, on_both, text};

on_both!(
    all_fields_are_stored_and_returned,
    absent_fields_get_defaults,
    null_means_absent_on_create,
    the_list_is_ordered_by_hostname,
    hostnames_are_unique,
    every_platform_and_environment_is_accepted,
    ip_addresses_are_normalized,
    strings_are_trimmed,
    unknown_hosts_are_not_found,
    every_field_can_be_updated,
    null_clears_optional_fields,
    renaming_to_a_used_hostname_is_refused,
    a_hundred_concurrent_creates_of_one_hostname_create_one,
);

fn full() -> Value {
    json!({
        "hostname": "web-1",
        "fqdn": "web-1.example.com",
        "ip_address": "192.0.2.10",
        "os": "Debian 12",
        "platform": "aws",
        "environment": "prod",
        "roles": ["web", "cache"],
        "description": "Behind\nthe balancer",
    })
}

async fn all_fields_are_stored_and_returned(app: TestApp) {
    let key = app.key();
    let answer = key.post("/api/hosts", full()).await;
    let host = answer.data(201);
    assert_eq!(keys(&host), shapes::HOST);
    for (field, value) in full().as_object().expect("an object") {
        assert_eq!(&host[field], value, "{field}");
    }
    assert_id(&host["id"]);
    assert_recent(&host["created_at"]);
    assert_eq!(host["organization_id"], app.organization.id);
    let path = format!("/api/hosts/{}", text(&host["id"]));
    assert_eq!(answer.header("location"), path);
    assert_eq!(key.read(&path).await, host);
    assert_eq!(key.read("/api/hosts").await, json!([host]));
}

async fn absent_fields_get_defaults(app: TestApp) {
    let host = app
        .key()
        .post("/api/hosts", json!({ "hostname": "h" }))
        .await;
    let host = host.data(201);
    assert_eq!(keys(&host), shapes::HOST);
    for (field, value) in [
        ("hostname", json!("h")),
        ("fqdn", Value::Null),
        ("ip_address", Value::Null),
        ("os", Value::Null),
        ("platform", json!("on-prem")),
        ("environment", Value::Null),
        ("roles", json!([])),
        ("description", Value::Null),
    ] {
        assert_eq!(host[field], value, "{field}");
    }
}

async fn null_means_absent_on_create(app: TestApp) {
    let nulls = json!({
        "hostname": "h", "fqdn": null, "ip_address": null, "os": null, "platform": null,
        "environment": null, "roles": null, "description": null,
    });
    let host = app.key().post("/api/hosts", nulls).await.data(201);
    assert_eq!(host["platform"], "on-prem");
    assert_eq!(host["roles"], json!([]));
    assert_eq!(host["fqdn"], Value::Null);
}

async fn the_list_is_ordered_by_hostname(app: TestApp) {
    let key = app.key();
    let ordered = ["a", "a-1", "a-10", "a-2", "a0", "b", "z", "é"];
    for index in [3, 7, 0, 5, 2, 6, 1, 4] {
        key.host(ordered[index]).await;
    }
    let list = key.read("/api/hosts").await;
    assert_eq!(each(&list, "hostname"), ordered);
    for host in list.as_array().expect("a list") {
        assert_eq!(keys(host), shapes::HOST);
    }
}

async fn hostnames_are_unique(app: TestApp) {
    let key = app.key();
    key.host("Web-1").await;
    for again in ["Web-1", "web-1", "WEB-1", "  web-1 "] {
        let answer = key.post("/api/hosts", json!({ "hostname": again })).await;
        answer.problem(409, "conflict");
    }
    // The spelling is kept, and no other host was created.
    let list = key.read("/api/hosts").await;
    assert_eq!(each(&list, "hostname"), ["Web-1"]);
    // Only ASCII case is ignored.
    key.host("é").await;
    key.host("É").await;
}

async fn every_platform_and_environment_is_accepted(app: TestApp) {
    let key = app.key();
    let platforms = ["on-prem", "private-cloud", "aws", "gcp", "azure", "other"];
    for (field, words) in [
        ("platform", &platforms[..]),
        ("environment", &["prod", "staging", "dev", "test"]),
    ] {
        for word in words {
            let host = json!({ "hostname": format!("{field}-{word}"), field: word });
            assert_eq!(key.post("/api/hosts", host).await.data(201)[field], **word);
        }
        for word in ["", "PROD", "AWS", "onprem", "production"] {
            let answer = key
                .post("/api/hosts", json!({ "hostname": "h", field: word }))
                .await;
            answer.violates(&[(&format!("/{field}"), "unknown_value")]);
        }
        let answer = key
            .post("/api/hosts", json!({ "hostname": "h", field: 1 }))
            .await;
        answer.violates(&[(&format!("/{field}"), "wrong_type")]);
    }
}

async fn ip_addresses_are_normalized(app: TestApp) {
    let key = app.key();
    for (index, (given, kept)) in [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
        ("::", "::"),
        (" ::1 ", "::1"),
    ]
    .into_iter()
    .enumerate()
    {
        let host = json!({ "hostname": format!("h{index}"), "ip_address": given });
        assert_eq!(
            key.post("/api/hosts", host).await.data(201)["ip_address"],
            kept
        );
    }
    for bad in [
        "",
        "192.0.2",
        "192.0.2.256",
        "192.0.2.1/24",
        "192.0.2.01",
        "::g",
        "host",
    ] {
        let host = json!({ "hostname": "bad", "ip_address": bad });
        let answer = key.post("/api/hosts", host).await;
        answer.violates(&[("/ip_address", "invalid_format")]);
    }
}

async fn strings_are_trimmed(app: TestApp) {
    let host = json!({
        "hostname": " \t web ", "fqdn": " f ", "os": "\u{a0}o\u{3000}",
        "roles": [" r "], "description": "\n d\n\te \n",
    });
    let host = app.key().post("/api/hosts", host).await.data(201);
    for (field, kept) in [
        ("hostname", json!("web")),
        ("fqdn", json!("f")),
        ("os", json!("o")),
        ("roles", json!(["r"])),
        ("description", json!("d\n\te")),
    ] {
        assert_eq!(host[field], kept, "{field}");
    }
}

async fn unknown_hosts_are_not_found(app: TestApp) {
    let key = app.key();
    let path = format!("/api/hosts/{}", Uuid::now_v7());
    key.get(&path).await.problem(404, "not_found");
    key.patch(&path, json!({ "os": "x" }))
        .await
        .problem(404, "not_found");
}

async fn every_field_can_be_updated(app: TestApp) {
    let key = app.key();
    let before = key.post("/api/hosts", full()).await.data(201);
    let path = format!("/api/hosts/{}", text(&before["id"]));
    let mut expected = before;
    for (field, value) in [
        ("hostname", json!("web-2")),
        ("fqdn", json!("web-2.example.com")),
        ("ip_address", json!("2001:db8::2")),
        ("os", json!("Debian 13")),
        ("platform", json!("gcp")),
        ("environment", json!("staging")),
        ("roles", json!(["db"])),
        ("description", json!("moved")),
        // Another spelling of its own name is not a conflict.
        ("hostname", json!("WEB-2")),
    ] {
        let answer = key.patch(&path, json!({ field: value })).await;
        expected[field] = value;
        assert_eq!(answer.data(200), expected, "{field}");
        assert_eq!(key.read(&path).await, expected, "{field}");
    }
    assert_eq!(key.update(&path, json!({})).await, expected);
    let several = json!({ "os": "FreeBSD", "platform": "other" });
    expected["os"] = json!("FreeBSD");
    expected["platform"] = json!("other");
    assert_eq!(key.update(&path, several).await, expected);
}

async fn null_clears_optional_fields(app: TestApp) {
    let key = app.key();
    let before = key.post("/api/hosts", full()).await.data(201);
    let path = format!("/api/hosts/{}", text(&before["id"]));
    for (field, after) in [
        ("fqdn", Value::Null),
        ("ip_address", Value::Null),
        ("os", Value::Null),
        ("environment", Value::Null),
        ("description", Value::Null),
        ("roles", json!([])),
        ("platform", json!("aws")),
    ] {
        let answer = key.patch(&path, json!({ field: null })).await;
        assert_eq!(answer.data(200)[field], after, "{field}");
    }
    let answer = key.patch(&path, json!({ "hostname": null })).await;
    answer.violates(&[("/hostname", "required")]);
}

async fn renaming_to_a_used_hostname_is_refused(app: TestApp) {
    let key = app.key();
    key.host("taken").await;
    let id = key.host("free").await;
    let path = format!("/api/hosts/{id}");
    let answer = key
        .patch(&path, json!({ "hostname": "TAKEN", "os": "x" }))
        .await;
    answer.problem(409, "conflict");
    let host = key.read(&path).await;
    assert_eq!(host["hostname"], "free");
    assert_eq!(host["os"], Value::Null);
}

async fn a_hundred_concurrent_creates_of_one_hostname_create_one(app: TestApp) {
    let key = app.key();
    let create = || key.post("/api/hosts", json!({ "hostname": "one" }));
    let answers = futures_util::future::join_all((0..100).map(|_| create())).await;
    let created = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(created, 1);
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        answer.problem(409, "conflict");
    }
    assert_eq!(each(&key.read("/api/hosts").await, "hostname"), ["one"]);
}

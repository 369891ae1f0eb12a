//! Idempotency keys: a create happens once, however often it is sent.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};

use changelog_tests::{TestApp, TestClient, TestResponse, each, on_both, send, text};

on_both!(
    fifty_concurrent_requests_with_one_key_create_once,
    a_repeated_request_gets_the_first_response,
    another_body_with_the_same_key_is_refused,
    keys_are_separate_per_path_and_api_key,
    an_expired_key_is_claimed_once,
    a_conflict_is_stored_and_a_validation_error_is_not,
    authentication_is_checked_first,
    a_key_has_one_to_255_printable_characters;
    process:
    retries_after_a_kill_create_each_change_once,
);

async fn create(caller: &TestClient, path: &str, key: &str, body: &Value) -> TestResponse {
    let key = HeaderValue::from_bytes(key.as_bytes()).expect("a header's value");
    let request = caller.request("POST", path);
    send(request.header("idempotency-key", key).json(body)).await
}

async fn fifty_concurrent_requests_with_one_key_create_once(app: TestApp) {
    let (key, browser) = (app.key(), app.browser().await);
    for (path, body, resource) in [
        ("/api/changes", json!({ "title": "once" }), "change"),
        ("/api/hosts", json!({ "hostname": "once" }), "host"),
        ("/api/services", json!({ "name": "once" }), "service"),
    ] {
        let answers = join_all((0..50).map(|_| create(&key, path, "the-one", &body))).await;
        let first = answers[0].body(201);
        for answer in &answers {
            assert_eq!(answer.body(201), first, "{path}");
            assert_eq!(answer.text, answers[0].text, "the bodies differ");
            assert_eq!(answer.header("location"), answers[0].header("location"));
        }
        let replayed = answers
            .iter()
            .filter(|answer| answer.header("idempotent-replayed") == "true");
        assert_eq!(replayed.count(), 49, "{path}");
        let list = key.body(path).await;
        assert_eq!(each(&list["data"], "id"), [&first["data"]["id"]]);
        let entries = browser
            .body(&format!("/api/activity?resource={resource}"))
            .await;
        assert_eq!(
            each(&entries["items"], "resource_id"),
            [&first["data"]["id"]]
        );
    }
}

async fn an_expired_key_is_claimed_once(app: TestApp) {
    let key = app.key();
    for (path, body) in [
        ("/api/incidents", json!({ "title": "again" })),
        ("/api/changes", json!({ "title": "again" })),
    ] {
        for round in 1..=8 {
            // The first time, the key is new.
            let answers = join_all((0..12).map(|_| create(&key, path, "the-one", &body))).await;
            let ids: BTreeSet<String> = answers
                .iter()
                .map(|answer| text(&answer.body(201)["data"]["id"]))
                .collect();
            assert_eq!(ids.len(), 1, "{path}");
            let list = key.body(path).await;
            assert_eq!(each(&list["data"], "id").len(), round, "{path}");
            app.update_own("UPDATE idempotency SET created_at = 0 WHERE organization_id = $1")
                .await;
        }
    }
}

async fn a_repeated_request_gets_the_first_response(app: TestApp) {
    let key = app.key();
    let body = json!({ "title": "Deploy" });
    let first = create(&key, "/api/changes", "k", &body).await;
    first.is(201);
    assert_eq!(first.header("idempotent-replayed"), "");
    let id = text(&first.json()["data"]["id"]);
    // The response is the first one, even after the change was updated.
    key.update(&format!("/api/changes/{id}"), json!({ "title": "Renamed" }))
        .await;
    let again = create(&key, "/api/changes", "k", &body).await;
    again.is(201);
    assert_eq!(again.text, first.text);
    assert_eq!(again.header("location"), first.header("location"));
    assert_eq!(again.header("content-type"), first.header("content-type"));
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_ne!(again.header("x-request-id"), first.header("x-request-id"));
    assert_eq!(key.body("/api/changes").await["count"], 1);
}

async fn another_body_with_the_same_key_is_refused(app: TestApp) {
    let key = app.key();
    create(&key, "/api/changes", "k", &json!({ "title": "Deploy" }))
        .await
        .is(201);
    let answer = create(&key, "/api/changes", "k", &json!({ "title": "Another" })).await;
    answer.problem(422, "idempotency_key_reused");
    assert_eq!(key.body("/api/changes").await["count"], 1);
    // The first request can still be repeated.
    let answer = create(&key, "/api/changes", "k", &json!({ "title": "Deploy" })).await;
    answer.is(201);
}

async fn keys_are_separate_per_path_and_api_key(app: TestApp) {
    let key = app.key();
    let other = app.with_key(&text(&app.create_key(&[])["key"]));
    let stranger = app.with_key(&app.second_organization().key);
    for caller in [&key, &other, &stranger] {
        for (path, body) in [
            ("/api/changes", json!({ "title": "same key" })),
            (
                "/api/hosts",
                json!({ "hostname": format!("{}", uuid::Uuid::now_v7()) }),
            ),
            (
                "/api/services",
                json!({ "name": format!("{}", uuid::Uuid::now_v7()) }),
            ),
        ] {
            let answer = create(caller, path, "shared", &body).await;
            answer.is(201);
            assert_eq!(answer.header("idempotent-replayed"), "", "{path}");
        }
    }
    assert_eq!(key.body("/api/changes").await["count"], 2);
    assert_eq!(stranger.body("/api/changes").await["count"], 1);
}

async fn a_conflict_is_stored_and_a_validation_error_is_not(app: TestApp) {
    let key = app.key();
    let host = key.host("taken").await;
    let body = json!({ "hostname": "taken" });
    let first = create(&key, "/api/hosts", "c", &body).await;
    first.problem(409, "conflict");
    key.update(&format!("/api/hosts/{host}"), json!({ "hostname": "free" }))
        .await;
    let again = create(&key, "/api/hosts", "c", &body).await;
    // The body is the same, including the request id.
    assert_eq!(again.json(), first.json());
    assert_eq!(again.header("content-type"), "application/problem+json");
    assert_eq!(again.header("idempotent-replayed"), "true");

    create(&key, "/api/hosts", "v", &json!({ "hostname": "" }))
        .await
        .is(422);
    let corrected = create(&key, "/api/hosts", "v", &json!({ "hostname": "corrected" })).await;
    corrected.is(201);
    assert_eq!(corrected.header("idempotent-replayed"), "");
    let missing = json!({ "title": "unknown host", "host_id": uuid::Uuid::now_v7() });
    create(&key, "/api/changes", "v", &missing).await.is(422);
    create(
        &key,
        "/api/changes",
        "v",
        &json!({ "title": "unknown host" }),
    )
    .await
    .is(201);
}

async fn authentication_is_checked_first(app: TestApp) {
    let body = json!({ "title": "Deploy" });
    create(&app.key(), "/api/changes", "k", &body).await.is(201);
    let revoked = app.create_key(&[]);
    let caller = app.with_key(&text(&revoked["key"]));
    create(&caller, "/api/changes", "k", &body).await.is(201);
    app.admin(&["key", "revoke", &text(&revoked["id"])]);
    create(&caller, "/api/changes", "k", &body)
        .await
        .problem(401, "unauthorized");
    create(&app.anonymous(), "/api/changes", "k", &body)
        .await
        .problem(401, "unauthorized");
    app.admin(&["org", "set-plan", &app.organization.id, "free"]);
    create(&app.key(), "/api/changes", "k", &body)
        .await
        .problem(403, "plan_required");
    create(&app.key(), "/api/changes", "new", &body)
        .await
        .problem(403, "plan_required");
    app.admin(&["org", "set-plan", &app.organization.id, "pro"]);
    let answer = create(&app.key(), "/api/changes", "new", &body).await;
    answer.is(201);
    assert_eq!(
        answer.header("idempotent-replayed"),
        "",
        "a refusal was stored"
    );
}

async fn a_key_has_one_to_255_printable_characters(app: TestApp) {
    let key = app.key();
    let at_most = "k".repeat(255);
    let too_long = "k".repeat(256);
    for (name, status) in [
        ("x", 201),
        ("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", 201),
        (at_most.as_str(), 201),
        (too_long.as_str(), 400),
        ("", 400),
        ("tab\tinside", 400),
        ("schlüssel", 400),
    ] {
        let answer = create(&key, "/api/changes", name, &json!({ "title": "keyed" })).await;
        assert_eq!(answer.status, status, "{name:?}: {}", answer.text);
        if status == 400 {
            answer.problem(400, "malformed_header");
        }
    }
    let twice = key
        .request("POST", "/api/changes")
        .header("idempotency-key", "a");
    let twice = twice
        .header("idempotency-key", "b")
        .json(&json!({ "title": "two keys" }));
    send(twice).await.problem(400, "malformed_header");
}

/// Kills the service during creates, then repeats every request: each change exists once,
/// whether the first request was committed or not.
async fn retries_after_a_kill_create_each_change_once(mut app: TestApp) {
    for round in 0..3 {
        let key = app.key();
        let mut sending = tokio::task::JoinSet::new();
        for index in 0..60 {
            let key = key.clone();
            sending.spawn(async move {
                let body = json!({ "title": format!("kill{round}x number {index}") });
                let request = key.request("POST", "/api/changes");
                let request = request.header("idempotency-key", format!("{round}-{index}"));
                changelog_tests::client::try_send(request.json(&body))
                    .await
                    .is_ok()
            });
        }
        // After some responses.
        for _ in 0..15 {
            sending.join_next().await;
        }
        app.server.kill9();
        let unanswered = sending
            .join_all()
            .await
            .iter()
            .filter(|answered| !**answered)
            .count();
        app.restart().await;
        let key = app.key();
        let again = (0..60).map(|index| {
            let key = key.clone();
            async move {
                let body = json!({ "title": format!("kill{round}x number {index}") });
                create(&key, "/api/changes", &format!("{round}-{index}"), &body).await
            }
        });
        let ids: BTreeSet<String> = join_all(again)
            .await
            .iter()
            .map(|answer| text(&answer.data(201)["id"]))
            .collect();
        assert_eq!(ids.len(), 60, "{unanswered} requests got no response");
        let list = key
            .body(&format!("/api/changes?per_page=100&q=kill{round}x"))
            .await;
        assert_eq!(list["count"], 60);
        let listed: BTreeSet<String> = each(&list["data"], "id").into_iter().map(text).collect();
        assert_eq!(listed, ids);
        let browser = app.browser().await;
        let entries = browser
            .body("/api/activity?resource=change&limit=100")
            .await;
        let mut entries: Vec<String> = each(&entries["items"], "resource_id")
            .into_iter()
            .map(text)
            .collect();
        entries.retain(|id| ids.contains(id));
        assert_eq!(entries.len(), 60, "not one entry per change");
    }
}

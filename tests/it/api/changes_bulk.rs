//! `/api/changes/bulk`: creates all changes of a request, or none.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::join_all;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use uuid::Uuid;

use super::count;
use changelog_tests::shapes::{self, assert_id, assert_recent};
use changelog_tests::{
    KEY_NAME, TestApp, TestClient, TestResponse, each, keys, on_both, send, text,
};

on_both!(
    changes_are_created_in_the_given_order,
    empty_and_too_long_lists_are_refused,
    an_invalid_change_is_reported_by_index_and_creates_nothing,
    unknown_references_are_reported_and_create_nothing,
    services_of_another_organization_are_not_found,
    one_idempotency_key_covers_the_whole_request,
    another_body_with_the_same_idempotency_key_is_refused,
    fifty_concurrent_requests_with_one_key_create_once,
    unknown_fields_are_refused_with_a_hint,
    a_body_has_at_most_256_kib,
    many_changes_fit_into_one_millisecond,
    a_refused_create_does_not_affect_concurrent_ones,
    bulk_requests_without_times_succeed,
    changes_without_times_keep_their_order,
    elements_that_are_not_objects_do_not_shift_pointers,
);

const BULK: &str = "/api/changes/bulk";

async fn post(key: &TestClient, changes: &[Value]) -> TestResponse {
    key.post(BULK, json!({ "changes": changes })).await
}

async fn post_with_key(key: &TestClient, idempotency_key: &str, changes: &[Value]) -> TestResponse {
    let value = HeaderValue::from_str(idempotency_key).expect("a header's value");
    let request = key
        .request("POST", BULK)
        .header("idempotency-key", value)
        .json(&json!({ "changes": changes }));
    send(request).await
}

/// Returns changes one second apart.
fn numbered(count: usize, word: &str, start: DateTime<Utc>) -> Vec<Value> {
    let change = |index: usize| {
        let after = TimeDelta::seconds(i64::try_from(index).expect("a small number"));
        json!({
            "title": format!("{word} number {index}"),
            "occurred_at": shapes::time(start + after),
            "tags": [word],
        })
    };
    (0..count).map(change).collect()
}

/// Reads all pages of a list and returns the changes; no two pages overlap.
async fn read_pages(key: &TestClient, query: &str, per_page: usize) -> Vec<Value> {
    let mut listed: Vec<Value> = Vec::new();
    for page in 1.. {
        let path = format!("/api/changes?{query}&per_page={per_page}&page={page}");
        let body = key.body(&path).await;
        let data = body["data"].as_array().expect("a list");
        listed.extend(data.iter().cloned());
        if data.len() < per_page {
            assert_eq!(body["count"], listed.len(), "{path}");
            break;
        }
    }
    let ids: BTreeSet<String> = ids(&listed).into_iter().collect();
    assert_eq!(ids.len(), listed.len(), "{query}: duplicates");
    listed
}

fn ids(changes: &[Value]) -> Vec<String> {
    changes.iter().map(|change| text(&change["id"])).collect()
}

async fn changes_are_created_in_the_given_order(app: TestApp) {
    let (key, browser) = (app.key(), app.browser().await);
    let service = key.service("payments").await;
    let mut total = 0;
    for (number, size) in [1, 2, 500].into_iter().enumerate() {
        let tag = format!("round{size}");
        let days = TimeDelta::days(9 - i64::try_from(number).expect("a small number"));
        let mut given = numbered(size, &tag, Utc::now() - days);
        for change in given.iter_mut().step_by(2) {
            change["service_id"] = json!(service);
            change["risk_level"] = json!("high");
        }
        let answer = post(&key, &given).await;
        let made = answer.data(201);
        assert_eq!(
            answer.header("location"),
            "",
            "several changes have no single location"
        );
        assert_eq!(each(&made, "title"), each(&json!(given), "title"));
        let made = made.as_array().expect("a list");
        for (made, given) in made.iter().zip(&given) {
            assert_eq!(keys(made), shapes::CHANGE_CREATED);
            assert_id(&made["id"]);
            assert_recent(&made["created_at"]);
            let risk = given.get("risk_level").cloned().unwrap_or(json!("low"));
            assert_eq!(made["risk_level"], risk);
            assert_eq!(made["status"], "planned");
            assert_eq!(made["organization_id"], app.organization.id);
        }

        // Listed by tag and by search, newest first, and read by id.
        let mut newest_first = ids(made);
        newest_first.reverse();
        for query in [format!("tag={tag}"), format!("q={tag}")] {
            let found = read_pages(&key, &query, 100).await;
            assert_eq!(ids(&found), newest_first, "{query}");
            for (found, given) in found.iter().rev().zip(&given) {
                for name in ["title", "tags", "occurred_at"] {
                    assert_eq!(found[name], given[name]);
                }
            }
        }
        for index in [0, size / 2, size - 1] {
            let path = format!("/api/changes/{}", text(&made[index]["id"]));
            let found = key.read(&path).await;
            assert_eq!(keys(&found), shapes::CHANGE);
            assert_eq!(found["title"], given[index]["title"]);
            assert_eq!(found["service"]["id"], given[index]["service_id"]);
        }
        let high = size.div_ceil(2) as u64;
        let of_service = format!("q={tag}&service_id={service}");
        for query in [&of_service, &format!("tag={tag}&risk_level=high")] {
            assert_eq!(count(&key, query).await, high, "{query}");
        }
        total += size;
        assert_eq!(count(&key, "").await, total as u64);

        // Each change has an activity entry.
        let mut logged = BTreeSet::new();
        for offset in (0..size).step_by(100) {
            let limit = (size - offset).min(100);
            let path = format!("/api/activity?resource=change&limit={limit}&offset={offset}");
            let body = browser.body(&path).await;
            for entry in body["items"].as_array().expect("a list") {
                assert_eq!(entry["action"], "created");
                assert_eq!(entry["actor_name"], format!("API key: {KEY_NAME}"));
                let (id, label) = (&entry["resource_id"], &entry["resource_label"]);
                logged.insert((text(id), text(label)));
            }
        }
        let pair = |made: &Value| (text(&made["id"]), text(&made["title"]));
        assert_eq!(logged, made.iter().map(pair).collect());
    }
    assert_eq!(count(&key, "risk_level=high").await, 1 + 1 + 250);
    assert_eq!(count(&key, &format!("service_id={service}")).await, 252);
}

async fn empty_and_too_long_lists_are_refused(app: TestApp) {
    let key = app.key();
    let many = numbered(501, "many", Utc::now() - TimeDelta::days(1));
    post(&key, &many)
        .await
        .violates(&[("/changes", "too_many")]);
    post(&key, &[]).await.violates(&[("/changes", "required")]);
    key.post(BULK, json!({}))
        .await
        .violates(&[("/changes", "required")]);
    key.post(BULK, json!({ "changes": { "title": "not a list" } }))
        .await
        .violates(&[("/changes", "wrong_type")]);
    assert_eq!(count(&key, "").await, 0);
}

async fn an_invalid_change_is_reported_by_index_and_creates_nothing(app: TestApp) {
    let (key, browser) = (app.key(), app.browser().await);
    let mut given = numbered(6, "broken", Utc::now() - TimeDelta::days(1));
    given[3]["title"] = json!("ab");
    post(&key, &given)
        .await
        .violates(&[("/changes/3/title", "too_short")]);
    given[0]["risk_level"] = json!("huge");
    given[5]["links"] = json!([{ "label": "x", "url": "https://a.example" }, { "label": "x" }]);
    given[5]["occurred_at"] = json!("2999-01-01T00:00:00Z");
    given[4]["tags"] = json!(vec!["x"; 21]);
    let answer = post(&key, &given).await;
    let problem = answer.problem(422, "validation_failed");
    let found = each(&problem["errors"], "pointer");
    for pointer in [
        "/changes/0/risk_level",
        "/changes/3/title",
        "/changes/4/tags",
        "/changes/5/links/1/url",
        "/changes/5/occurred_at",
    ] {
        assert!(found.contains(&&json!(pointer)), "{pointer}: {problem}");
    }
    assert_eq!(count(&key, "").await, 0);
    let entries = browser.body("/api/activity?resource=change").await;
    assert_eq!(entries["items"], json!([]));
}

async fn unknown_references_are_reported_and_create_nothing(app: TestApp) {
    let (key, browser) = (app.key(), app.browser().await);
    let mut given = numbered(3, "missing", Utc::now() - TimeDelta::days(1));
    given[1]["service_id"] = json!(Uuid::now_v7());
    // Concurrent creates are not affected.
    let others = (0..10).map(|index| {
        let body = json!({ "title": format!("other {index}") });
        key.create("/api/changes", body)
    });
    let (answers, others) = tokio::join!(
        join_all((0..5).map(|_| post(&key, &given))),
        join_all(others)
    );
    for answer in answers {
        answer.violates(&[("/changes/1/service_id", "not_found")]);
    }
    let others: BTreeSet<String> = others.into_iter().collect();
    assert_eq!(others.len(), 10);
    assert_eq!(count(&key, "").await, 10);
    assert_eq!(count(&key, "q=missing").await, 0);
    assert_eq!(count(&key, "tag=missing").await, 0);
    let entries = browser.body("/api/activity?resource=change").await;
    let logged = each(&entries["items"], "resource_id").into_iter().map(text);
    assert_eq!(logged.collect::<BTreeSet<_>>(), others);

    // All unknown references are reported at once.
    given[0]["host_id"] = json!(Uuid::now_v7());
    given[2]["host_id"] = json!(Uuid::now_v7());
    post(&key, &given).await.violates(&[
        ("/changes/0/host_id", "not_found"),
        ("/changes/1/service_id", "not_found"),
        ("/changes/2/host_id", "not_found"),
    ]);
}

async fn services_of_another_organization_are_not_found(app: TestApp) {
    let key = app.key();
    let stranger = app.with_key(&app.second_organization().key);
    let theirs = stranger.service("theirs").await;
    let nowhere = Uuid::now_v7().to_string();
    let mut messages = Vec::new();
    for id in [&theirs, &nowhere] {
        let mut given = numbered(2, "linked", Utc::now() - TimeDelta::days(1));
        given[1]["service_id"] = json!(id);
        let answer = post(&key, &given).await;
        answer.violates(&[("/changes/1/service_id", "not_found")]);
        let message = text(&answer.json()["errors"][0]["message"]);
        messages.push(message.replace(id.as_str(), "ID"));
    }
    assert_eq!(messages[0], messages[1], "the messages differ");
    assert_eq!(count(&key, "").await, 0);
    assert_eq!(count(&stranger, "").await, 0);
}

async fn one_idempotency_key_covers_the_whole_request(app: TestApp) {
    let key = app.key();
    let given = numbered(3, "once", Utc::now() - TimeDelta::days(1));
    let first = post_with_key(&key, "run-42", &given).await;
    first.is(201);
    assert_eq!(first.header("idempotent-replayed"), "");
    let again = post_with_key(&key, "run-42", &given).await;
    again.is(201);
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(again.text, first.text, "the bodies differ");
    assert_eq!(count(&key, "").await, 3);
    // The same key on another path is another key.
    let single = key
        .request("POST", "/api/changes")
        .header("idempotency-key", "run-42")
        .json(&given[0]);
    let single = send(single).await;
    single.is(201);
    assert_eq!(single.header("idempotent-replayed"), "");
    assert_eq!(count(&key, "").await, 4);
}

async fn another_body_with_the_same_idempotency_key_is_refused(app: TestApp) {
    let key = app.key();
    let given = numbered(3, "once", Utc::now() - TimeDelta::days(1));
    post_with_key(&key, "run-42", &given).await.is(201);
    post_with_key(&key, "run-42", &given[..2])
        .await
        .problem(422, "idempotency_key_reused");
    assert_eq!(count(&key, "").await, 3);
    // A refused request does not use its key.
    let mut broken = given.clone();
    broken[1]["host_id"] = json!(Uuid::now_v7());
    post_with_key(&key, "run-43", &broken).await.is(422);
    let corrected = post_with_key(&key, "run-43", &given).await;
    corrected.is(201);
    assert_eq!(corrected.header("idempotent-replayed"), "");
    assert_eq!(count(&key, "").await, 6);
}

async fn fifty_concurrent_requests_with_one_key_create_once(app: TestApp) {
    let key = app.key();
    for (size, word) in [(1, "one"), (20, "twenty")] {
        let given = numbered(size, word, Utc::now() - TimeDelta::days(1));
        let answers = join_all((0..50).map(|_| post_with_key(&key, word, &given))).await;
        for answer in &answers {
            answer.is(201);
            assert_eq!(answer.text, answers[0].text);
        }
        let replayed = answers
            .iter()
            .filter(|answer| answer.header("idempotent-replayed") == "true");
        assert_eq!(replayed.count(), 49);
        let found = read_pages(&key, &format!("tag={word}"), 100).await;
        let made = answers[0].data(201);
        let made = made.as_array().expect("a list");
        assert_eq!(ids(&found), ids(made).into_iter().rev().collect::<Vec<_>>());
    }
}

async fn unknown_fields_are_refused_with_a_hint(app: TestApp) {
    let key = app.key();
    let mut given = numbered(2, "typo", Utc::now() - TimeDelta::days(1));
    given[1]["riks_level"] = json!("high");
    let answer = post(&key, &given).await;
    answer.violates(&[("/changes/1/riks_level", "unknown_field")]);
    assert!(
        answer.text.contains("did you mean risk_level?"),
        "{answer:?}"
    );
    given[1]
        .as_object_mut()
        .expect("an object")
        .remove("riks_level");
    let answer = key
        .post(BULK, json!({ "changes": given, "chnages": [] }))
        .await;
    answer.violates(&[("/chnages", "unknown_field")]);
    assert!(answer.text.contains("did you mean changes?"), "{answer:?}");
    // The body of a single change is not accepted.
    let answer = key.post(BULK, json!({ "title": "alone" })).await;
    answer.violates(&[("/changes", "required"), ("/title", "unknown_field")]);
    assert_eq!(count(&key, "").await, 0);
}

async fn a_body_has_at_most_256_kib(app: TestApp) {
    let key = app.key();
    let given = numbered(500, "large", Utc::now() - TimeDelta::days(1));
    let mut body = json!({ "changes": given }).to_string().into_bytes();
    body.resize(256 * 1024, b' ');
    let mut over = body.clone();
    over.push(b' ');
    key.post_bytes(BULK, over)
        .await
        .problem(413, "payload_too_large");
    assert_eq!(count(&key, "").await, 0);
    key.post_bytes(BULK, body).await.data(201);
    assert_eq!(count(&key, "").await, 500);
}

/// An import with whole seconds or days has many changes with the same time.
async fn many_changes_fit_into_one_millisecond(app: TestApp) {
    let key = app.key();
    let mut created = BTreeSet::new();
    for round in 0..3 {
        let given: Vec<Value> = (0..400)
            .map(|index| {
                json!({
                    "title": format!("round {round} number {index}"),
                    "occurred_at": "2026-01-01T00:00:00Z",
                })
            })
            .collect();
        let made = post(&key, &given).await.data(201);
        assert_eq!(each(&made, "title"), each(&json!(given), "title"));
        created.extend(each(&made, "id").into_iter().map(text));
    }
    assert_eq!(created.len(), 1_200, "ids are distinct");
    let newest_first: Vec<String> = created.into_iter().rev().collect();
    for (query, per_page) in [
        ("", 100),
        ("", 37),
        ("q=number", 100),
        ("status=planned", 99),
    ] {
        let found = read_pages(&key, query, per_page).await;
        assert_eq!(ids(&found), newest_first, "{query}, {per_page} a page");
    }
    let path = "/api/changes?since=2026-01-01T00:00:00Z&until=2026-01-01T00:00:00.001Z";
    assert_eq!(key.body(path).await["count"], 1_200);
}

/// Concurrent creates share a transaction; an invalid one is refused alone.
async fn a_refused_create_does_not_affect_concurrent_ones(app: TestApp) {
    let key = app.key();
    for round in 0..5 {
        let answers = join_all((0..30).map(|index| {
            let mut body = json!({ "title": format!("round {round} number {index}") });
            if index == 17 {
                body["host_id"] = json!(Uuid::now_v7());
            }
            key.post("/api/changes", body)
        }))
        .await;
        for (index, answer) in answers.iter().enumerate() {
            if index == 17 {
                answer.violates(&[("/host_id", "not_found")]);
            } else {
                let title = format!("round {round} number {index}");
                assert_eq!(answer.data(201)["title"], title);
            }
        }
        assert_eq!(count(&key, "").await, 29 * (round + 1));
    }
}

/// Changes without `occurred_at`, the most common request.
async fn changes_without_times_keep_their_order(app: TestApp) {
    let key = app.key();
    for size in [50, 200, 500] {
        let given: Vec<Value> = (0..size)
            .map(|index| json!({ "title": format!("now{size} number {index}") }))
            .collect();
        let made = post(&key, &given).await.data(201);
        let made = made.as_array().expect("a list");
        let found = read_pages(&key, &format!("q=now{size}"), 100).await;
        let newest_first: Vec<String> = ids(made).into_iter().rev().collect();
        assert_eq!(ids(&found), newest_first, "{size}: another order");
    }
}

async fn bulk_requests_without_times_succeed(app: TestApp) {
    let key = app.key();
    for size in [100, 256, 257, 500] {
        let given: Vec<Value> = (0..size)
            .map(|index| json!({ "title": format!("now{size} number {index}") }))
            .collect();
        post(&key, &given).await.data(201);
    }
}

async fn elements_that_are_not_objects_do_not_shift_pointers(app: TestApp) {
    let key = app.key();
    let answer = key
        .post(
            BULK,
            json!({ "changes": [5, { "title": "good", "riks": 1 }, { "title": "ab" }] }),
        )
        .await;
    answer.violates(&[
        ("/changes/0", "wrong_type"),
        ("/changes/1/riks", "unknown_field"),
        ("/changes/2/title", "too_short"),
    ]);
}

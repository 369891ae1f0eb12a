//! `GET /api/changes`: order, pages, filters and exact counts.

use std::collections::BTreeSet;

use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use changelog_tests::shapes::{self, time};
use changelog_tests::{TestApp, TestClient, each, keys, on_both, text};

on_both!(
    changes_are_listed_newest_first,
    pages_have_a_default_size_and_a_maximum,
    pages_do_not_overlap_and_miss_nothing,
    a_page_past_the_end_is_empty,
    every_filter_selects_and_counts,
    filters_and_counts_follow_updates,
    malformed_parameters_are_reported,
    before_continues_after_a_change,
    since_is_inclusive_and_until_is_exclusive,
);

#[track_caller]
fn assert_envelope(what: &str, body: &Value, [count, page, per_page, total_pages]: [u64; 4]) {
    assert_eq!(
        keys(body),
        ["count", "data", "page", "per_page", "total_pages"]
    );
    let found = ["count", "page", "per_page", "total_pages"].map(|name| body[name].as_u64());
    assert_eq!(
        found,
        [count, page, per_page, total_pages].map(Some),
        "{what}"
    );
}

/// Creates changes `number 0`, `number 1`, … one minute apart, up to now.
async fn create(key: &TestClient, count: i32) -> Vec<String> {
    let start = Utc::now() - TimeDelta::minutes(i64::from(count));
    let mut ids = Vec::new();
    for index in 0..count {
        let at = time(start + TimeDelta::minutes(i64::from(index)));
        let body = json!({ "title": format!("number {index}"), "occurred_at": at });
        ids.push(key.create("/api/changes", body).await);
    }
    ids
}

fn ids(body: &Value) -> Vec<String> {
    each(&body["data"], "id").into_iter().map(text).collect()
}

fn titles(body: &Value) -> Vec<String> {
    each(&body["data"], "title").into_iter().map(text).collect()
}

async fn changes_are_listed_newest_first(app: TestApp) {
    let key = app.key();
    assert_envelope("nothing", &key.body("/api/changes").await, [0, 1, 25, 0]);
    for (title, at) in [
        ("second", "2026-01-02T00:00:00Z"),
        ("fourth", "2026-01-04T00:00:00Z"),
        ("first", "2026-01-01T00:00:00Z"),
        ("third", "2026-01-03T00:00:00Z"),
    ] {
        let body = json!({ "title": title, "occurred_at": at });
        key.create("/api/changes", body).await;
    }
    key.change("sixth").await;
    key.change("seventh").await;
    let body = key.body("/api/changes").await;
    assert_envelope("", &body, [6, 1, 25, 1]);
    let expected = ["seventh", "sixth", "fourth", "third", "second", "first"];
    assert_eq!(each(&body["data"], "title"), expected);
    for change in body["data"].as_array().expect("a list") {
        assert_eq!(keys(change), shapes::CHANGE);
    }
}

async fn pages_have_a_default_size_and_a_maximum(app: TestApp) {
    let key = app.key();
    create(&key, 101).await;
    for (query, page, per_page, total_pages, on_page) in [
        ("", 1, 25, 5, 25),
        ("?", 1, 25, 5, 25),
        ("?page=5", 5, 25, 5, 1),
        ("?per_page=1", 1, 1, 101, 1),
        ("?per_page=99", 1, 99, 2, 99),
        ("?per_page=100", 1, 100, 2, 100),
        ("?per_page=101", 1, 100, 2, 100),
        ("?per_page=18446744073709551616", 1, 100, 2, 100),
        ("?per_page=100&page=2", 2, 100, 2, 1),
        ("?page=01&per_page=050", 1, 50, 3, 50),
    ] {
        let body = key.body(&format!("/api/changes{query}")).await;
        assert_envelope(query, &body, [101, page, per_page, total_pages]);
        assert_eq!(ids(&body).len(), on_page, "{query}");
    }
}

async fn pages_do_not_overlap_and_miss_nothing(app: TestApp) {
    let key = app.key();
    let same = "2026-01-01T00:00:00Z";
    let mut created = BTreeSet::new();
    for index in 0..23 {
        // With equal times, the id decides.
        let body = json!({ "title": format!("number {index}"), "occurred_at": same });
        created.insert(key.create("/api/changes", body).await);
    }
    for per_page in [1, 2, 7, 23, 24] {
        let mut listed = Vec::new();
        for page in 1..=23_usize.div_ceil(per_page) {
            let path = format!("/api/changes?page={page}&per_page={per_page}");
            listed.extend(ids(&key.body(&path).await));
        }
        let changes_are_listed_newest_first: Vec<String> = created.iter().rev().cloned().collect();
        assert_eq!(
            listed, changes_are_listed_newest_first,
            "{per_page} per page"
        );
    }
}

async fn a_page_past_the_end_is_empty(app: TestApp) {
    let key = app.key();
    create(&key, 3).await;
    for page in ["3", "1000000", "9223372036854775807", "9223372036854775808"] {
        let path = format!("/api/changes?per_page=2&page={page}");
        let body = key.body(&path).await;
        assert_eq!(body["data"], json!([]), "{page}");
        assert_eq!(body["count"], 3);
        assert_eq!(body["total_pages"], 2);
        assert_eq!(body["page"].to_string(), page);
    }
    // Numbers of more than 64 bits become the maximum.
    for page in [
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999",
    ] {
        let body = key.body(&format!("/api/changes?page={page}")).await;
        assert_eq!(body["data"], json!([]));
        assert_eq!(body["page"].as_u64(), Some(u64::MAX), "{page}");
    }
}

/// Creates eight changes that differ in every field that has a filter.
async fn create_varied_changes(key: &TestClient) -> (String, String) {
    let service = key.service("payments").await;
    let host = key.host("web-1").await;
    for (index, (risk, status, on_service, on_host, tags)) in [
        ("low", "planned", true, false, json!([])),
        ("low", "completed", true, true, json!(["a"])),
        ("medium", "completed", false, true, json!(["a", "b"])),
        ("high", "rolled_back", false, false, json!(["b"])),
        ("high", "rolled_back", true, false, json!(["b", "a", "c d"])),
        ("high", "in_progress", true, true, json!(["A"])),
        ("medium", "planned", false, false, json!(["ä&=%"])),
        ("low", "planned", false, true, json!([])),
    ]
    .into_iter()
    .enumerate()
    {
        let body = json!({
            "title": format!("number {index}"),
            "risk_level": risk,
            "status": status,
            "service_id": on_service.then_some(&service),
            "host_id": on_host.then_some(&host),
            "tags": tags,
        });
        key.create("/api/changes", body).await;
    }
    (service, host)
}

/// Requires that a query selects exactly the changes `number N`, newest first,
/// on one page and on several.
async fn assert_selects(key: &TestClient, query: &str, expected: &[usize]) {
    let expected: Vec<String> = expected.iter().map(|n| format!("number {n}")).collect();
    let body = key.body(&format!("/api/changes?{query}")).await;
    assert_eq!(titles(&body), expected, "{query}");
    let count = expected.len() as u64;
    assert_envelope(query, &body, [count, 1, 25, count.div_ceil(25)]);
    let body = key
        .body(&format!("/api/changes?per_page=2&page=2&{query}"))
        .await;
    assert_envelope(query, &body, [count, 2, 2, count.div_ceil(2)]);
    let second: Vec<&String> = expected.iter().skip(2).take(2).collect();
    assert_eq!(each(&body["data"], "title"), second, "{query}, second page");
}

async fn every_filter_selects_and_counts(app: TestApp) {
    let key = app.key();
    let (service, host) = create_varied_changes(&key).await;
    let nowhere = Uuid::now_v7();
    for (query, expected) in [
        ("risk_level=low".to_owned(), &[7, 1, 0][..]),
        ("risk_level=medium".to_owned(), &[6, 2]),
        ("risk_level=high".to_owned(), &[5, 4, 3]),
        ("status=planned".to_owned(), &[7, 6, 0]),
        ("status=in_progress".to_owned(), &[5]),
        ("status=completed".to_owned(), &[2, 1]),
        ("status=rolled_back".to_owned(), &[4, 3]),
        (format!("service_id={service}"), &[5, 4, 1, 0]),
        (
            format!("service_id={}", service.to_uppercase()),
            &[5, 4, 1, 0],
        ),
        (format!("service_id={nowhere}"), &[]),
        // The id of a host is not that of a service.
        (format!("service_id={host}"), &[]),
        (format!("service_id={}", Uuid::nil()), &[]),
        (format!("host_id={}", Uuid::nil()), &[]),
        (format!("host_id={service}"), &[]),
        (format!("host_id={host}"), &[7, 5, 2, 1]),
        (format!("host_id={nowhere}"), &[]),
        ("tag=a".to_owned(), &[4, 2, 1]),
        ("tag=A".to_owned(), &[5]),
        ("tag=b".to_owned(), &[4, 3, 2]),
        ("tag=a&tag=b".to_owned(), &[4, 2]),
        ("tag=b&tag=a&tag=c+d".to_owned(), &[4]),
        ("tag=a&tag=a".to_owned(), &[4, 2, 1]),
        ("tag=%C3%A4%26%3D%25".to_owned(), &[6]),
        ("tag=c".to_owned(), &[]),
        (format!("service_id={service}&risk_level=high"), &[5, 4]),
        (
            format!("service_id={service}&host_id={host}&risk_level=low&status=completed"),
            &[1],
        ),
        ("risk_level=high&status=planned".to_owned(), &[]),
        ("q=number&risk_level=high".to_owned(), &[5, 4, 3]),
        (
            format!("q=numb&service_id={service}&tag=a&status=rolled_back"),
            &[4],
        ),
        ("since=2020-01-01T00:00:00Z&tag=b".to_owned(), &[4, 3, 2]),
        ("until=2020-01-01T00:00:00Z".to_owned(), &[]),
    ] {
        assert_selects(&key, &query, expected).await;
    }
}

/// The stored counts follow updates.
async fn filters_and_counts_follow_updates(app: TestApp) {
    let key = app.key();
    let (service, host) = create_varied_changes(&key).await;
    let newest = key.body("/api/changes?per_page=1").await;
    let path = format!("/api/changes/{}", text(&newest["data"][0]["id"]));
    let update = json!({
        "risk_level": "high", "status": "completed", "service_id": service, "host_id": null,
        "tags": ["z"],
    });
    key.update(&path, update).await;
    for (query, expected) in [
        ("risk_level=low".to_owned(), &[1, 0][..]),
        ("risk_level=high".to_owned(), &[7, 5, 4, 3]),
        ("status=completed".to_owned(), &[7, 2, 1]),
        ("status=planned".to_owned(), &[6, 0]),
        (format!("service_id={service}"), &[7, 5, 4, 1, 0]),
        (
            format!("service_id={service}&risk_level=high&status=completed"),
            &[7],
        ),
        (format!("host_id={host}"), &[5, 2, 1]),
        ("tag=z".to_owned(), &[7]),
        (String::new(), &[7, 6, 5, 4, 3, 2, 1, 0]),
    ] {
        assert_selects(&key, &query, expected).await;
    }
    key.update(&path, json!({ "service_id": null })).await;
    assert_selects(&key, &format!("service_id={service}"), &[5, 4, 1, 0]).await;
    // A refused update changes no count.
    key.patch(&path, json!({ "risk_level": "low", "title": "" }))
        .await
        .is(422);
    assert_selects(&key, "risk_level=low", &[1, 0]).await;
}

async fn malformed_parameters_are_reported(app: TestApp) {
    let key = app.key();
    key.change("a change").await;
    for (query, pointer, code) in [
        ("page=0", "?page", "out_of_range"),
        ("page=-1", "?page", "invalid_format"),
        ("page=1e3", "?page", "invalid_format"),
        ("page=%205", "?page", "invalid_format"),
        ("page=%2B5", "?page", "invalid_format"),
        ("page=1.0", "?page", "invalid_format"),
        ("page=", "?page", "invalid_format"),
        ("page=one", "?page", "invalid_format"),
        ("page=%D9%A1", "?page", "invalid_format"),
        ("per_page=0", "?per_page", "out_of_range"),
        ("per_page=-5", "?per_page", "invalid_format"),
        ("per_page=x", "?per_page", "invalid_format"),
        ("service_id=payments", "?service_id", "invalid_format"),
        ("service_id=", "?service_id", "invalid_format"),
        ("host_id=1", "?host_id", "invalid_format"),
        ("before=latest", "?before", "invalid_format"),
        ("risk_level=HIGH", "?risk_level", "unknown_value"),
        ("risk_level=", "?risk_level", "unknown_value"),
        ("status=done", "?status", "unknown_value"),
        ("since=yesterday", "?since", "invalid_format"),
        ("until=2026-01-01", "?until", "invalid_format"),
        ("page=1&page=2", "?page", "duplicate"),
        ("q=a&q=b", "?q", "duplicate"),
        ("status=planned&status=done", "?status", "unknown_value"),
        ("min_risk=low&min_risk=low", "?min_risk", "duplicate"),
        ("risk=high", "?risk", "unknown_field"),
        ("Page=1", "?Page", "unknown_field"),
        ("limit=5", "?limit", "unknown_field"),
    ] {
        let answer = key.get(&format!("/api/changes?{query}")).await;
        answer.violates_query(&[(pointer, code)]);
    }
    let answer = key
        .get("/api/changes?page=0&per_page=x&status=done&riks_level=low")
        .await;
    answer.violates_query(&[
        ("?page", "out_of_range"),
        ("?per_page", "invalid_format"),
        ("?status", "unknown_value"),
        ("?riks_level", "unknown_field"),
    ]);
    let problem = answer.json();
    assert!(
        problem.to_string().contains("did you mean risk_level?"),
        "{problem}"
    );
    // More tags than a change can have.
    let tags = |count: usize| vec!["tag=a"; count].join("&");
    key.body(&format!("/api/changes?{}", tags(20))).await;
    let answer = key.get(&format!("/api/changes?{}", tags(21))).await;
    answer.violates_query(&[("?tag", "too_many")]);
    // Other lists refuse unknown parameters too.
    for path in ["/api/hosts?page=1", "/api/services?q=x"] {
        let answer = key.get(path).await;
        answer.problem(400, "malformed_query");
    }
}

async fn before_continues_after_a_change(app: TestApp) {
    let key = app.key();
    let created = create(&key, 10).await;
    let changes_are_listed_newest_first: Vec<String> = created.iter().rev().cloned().collect();
    let body = key.body("/api/changes?per_page=3").await;
    assert_envelope("", &body, [10, 1, 3, 4]);
    let mut listed = ids(&body);
    // A change that is created meanwhile does not shift the pages.
    key.change("now").await;
    while listed.len() < 10 {
        let last = listed.last().expect("a change");
        let path = format!("/api/changes?per_page=3&before={last}");
        let body = key.body(&path).await;
        // The count is that of the whole list, not of the remaining pages.
        assert_envelope("", &body, [11, 1, 3, 4]);
        assert_ne!(body["data"], json!([]), "after {} of 10", listed.len());
        listed.extend(ids(&body));
    }
    assert_eq!(listed, changes_are_listed_newest_first);
    // The cursor need not match the filter.
    let path = format!("/api/changes?q=number&before={}", created[4]);
    assert_eq!(
        ids(&key.body(&path).await),
        changes_are_listed_newest_first[6..]
    );
    let path = format!(
        "/api/changes?before={}&risk_level=low&per_page=2",
        created[4]
    );
    assert_eq!(
        ids(&key.body(&path).await),
        changes_are_listed_newest_first[6..8]
    );
    let path = format!("/api/changes?before={}", created[0]);
    assert_eq!(ids(&key.body(&path).await), Vec::<String>::new());
}

async fn since_is_inclusive_and_until_is_exclusive(app: TestApp) {
    let key = app.key();
    for (index, at) in [
        "2026-03-01T00:00:00.000Z",
        "2026-03-01T00:00:00.001Z",
        "2026-03-02T00:00:00.000Z",
        "2026-03-03T00:00:00.000Z",
    ]
    .into_iter()
    .enumerate()
    {
        let body = json!({ "title": format!("number {index}"), "occurred_at": at });
        key.create("/api/changes", body).await;
    }
    for (query, expected) in [
        ("since=2026-03-01T00:00:00Z", &[3, 2, 1, 0][..]),
        ("since=2026-03-01T00:00:00.001Z", &[3, 2, 1]),
        ("since=2026-03-01T00:00:00.002Z", &[3, 2]),
        ("until=2026-03-03T00:00:00Z", &[2, 1, 0]),
        ("until=2026-03-03T00:00:00.001Z", &[3, 2, 1, 0]),
        ("until=2026-03-01T00:00:00Z", &[]),
        (
            "since=2026-03-01T00:00:00.001Z&until=2026-03-03T00:00:00Z",
            &[2, 1],
        ),
        ("since=2026-03-02T00:00:00Z&until=2026-03-02T00:00:00Z", &[]),
        ("since=2026-03-02T02:00:00%2B02:00", &[3, 2]),
        (
            "since=1960-01-01T00:00:00Z&until=9999-12-31T23:59:59Z",
            &[3, 2, 1, 0],
        ),
        ("since=2026-03-02T00:00:00Z&q=numb", &[3, 2]),
    ] {
        assert_selects(&key, query, expected).await;
    }
}

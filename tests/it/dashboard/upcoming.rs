//! What is planned and what runs: the page of upcoming changes and the overview.

use changelog_tests::{TestApp, assert_contains, assert_lacks, on_both, on_one};
use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::json;

use super::between;

on_both!(overdue_changes_come_first_and_overlaps_are_named);

on_one!(
    the_longest_running_change_is_the_first,
    the_overview_says_why_changes_were_rolled_back,
);

async fn overdue_changes_come_first_and_overlaps_are_named(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    // A live page has a place for what becomes overdue.
    let page = owner.get("/upcoming").await.text;
    let overdue = between(&page, "data-live=\"overdue\"", "</section>");
    assert_contains(&overdue, " hidden>");
    let create = async |path: &str, name: &str| key.create(path, json!({ "name": name })).await;
    let payments = create("/api/services", "payments").await;
    let search = create("/api/services", "search").await;
    let host = key.host("db-1").await;
    for (title, at, service, host) in [
        ("Late", "2026-01-01T22:00:00Z", Some(&payments), None),
        ("Switch", "2040-01-01T22:30:00Z", Some(&payments), None),
        (
            "Upgrade",
            "2040-01-01T23:15:00Z",
            Some(&payments),
            Some(&host),
        ),
        ("Elsewhere", "2040-01-01T23:20:00Z", Some(&search), None),
        ("Resize", "2040-01-01T23:50:00Z", None, Some(&host)),
        ("Much later", "2040-01-02T23:15:00Z", Some(&payments), None),
    ] {
        let body = json!({
            "title": title, "scheduled_for": at, "service_id": service, "host_id": host,
        });
        key.create("/api/changes", body).await;
    }
    let page = owner.page("/upcoming").await;
    let (before, days) = page.split_once("class=\"day\"").expect("a day");
    let overdue = between(before, "data-live=\"overdue\"", "</section>");
    assert_contains(&overdue, "Late");
    assert_lacks(&overdue, "Switch");
    assert_contains(&days, "Monday, 2 January 2040");
    let overlaps = |title: &str| {
        let (_, rest) = days
            .split_once(&format!("title=\"{title}\""))
            .expect("a row");
        let (row, _) = rest.split_once("<li class=\"row").unwrap_or((rest, ""));
        let others = row.split("dir=\"auto\">").skip(2);
        let others = others.map(|part| part.split_once('<').expect("a title").0.to_owned());
        others.collect::<Vec<_>>()
    };
    assert_eq!(overlaps("Switch"), ["Upgrade"]);
    assert_eq!(overlaps("Upgrade"), ["Switch", "Resize"]);
    assert_eq!(overlaps("Resize"), ["Upgrade"]);
    for alone in ["Elsewhere", "Much later"] {
        assert!(overlaps(alone).is_empty(), "{days}");
    }
    // The days are those of the reader.
    let tokyo = owner.with("cookie", "changelog_zone=Asia/Tokyo");
    let page = tokyo.get("/upcoming").await.text;
    assert_contains(&page, "Tuesday, 3 January 2040");
}

async fn the_longest_running_change_is_the_first(app: TestApp) {
    let key = app.key();
    for (title, days) in [("New", 0), ("Forgotten", 9), ("Old", 3)] {
        let started = Utc::now() - TimeDelta::days(days);
        let body = json!({
            "title": title, "status": "in_progress",
            "started_at": started.to_rfc3339_opts(SecondsFormat::Secs, true),
        });
        key.create("/api/changes", body).await;
    }
    let owner = app.browser().await;
    let page = owner.get("/").await.text;
    let running = between(&page, "data-live=\"running\"", "</section>");
    let place = |text: &str| running.find(text).expect("on the page");
    assert!(
        place("Forgotten") < place("Old") && place("Old") < place("New"),
        "{running}"
    );
    assert!(place("running 9 d") < place("Old"), "{running}");
    assert!(place("running 3 d") < place("New"), "{running}");
    assert_eq!(running.matches("status overdue").count(), 2);
    // The page stays the same as long as nothing happens.
    let tag = owner.get("/").await.header("etag").to_owned();
    let same = changelog_tests::send(owner.request("GET", "/").header("if-none-match", tag)).await;
    assert_eq!(same.status, 304);
}

async fn the_overview_says_why_changes_were_rolled_back(app: TestApp) {
    let key = app.key();
    let id = key.completed_change("Deploy payments").await;
    let undo = json!({ "status": "rolled_back", "reason": "cards <time> out" });
    key.update(&format!("/api/changes/{id}"), undo).await;
    let old = json!({
        "title": "Long ago", "status": "rolled_back", "occurred_at": "2026-01-01T00:00:00Z",
    });
    key.create("/api/changes", old).await;
    let page = app.browser().await.get("/").await.text;
    let undone = between(&page, "data-live=\"undone\"", "</section>");
    assert_contains(&undone, "Deploy payments");
    assert_contains(&undone, "cards &#60;time&#62; out");
    let who = between(undone, "<li class=\"reason\">", "<time");
    assert!(
        who.contains("rolled back by <bdi>terraform</bdi>"),
        "{undone}"
    );
    assert_lacks(&undone, "Long ago");
}

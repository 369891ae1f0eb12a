//! Changes that are started at another time than they were recorded for, and so move in
//! lists, counts and search.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{count, patch};
use changelog_tests::shapes;
use changelog_tests::{TestApp, TestClient, each, on_both, text};

on_both!(
    a_planned_change_that_is_started_moves_to_now,
    a_change_moves_back_when_it_is_planned_again,
    walks_and_counts_hold_while_changes_move,
    a_change_is_found_by_the_beginning_of_its_id,
    what_is_in_progress_happens_now,
    changes_may_start_in_the_same_millisecond,
    a_cursor_holds_where_two_changes_have_one_place,
);

const DAY: TimeDelta = TimeDelta::days(1);

async fn ids(key: &TestClient, query: &str) -> Vec<String> {
    let body = key.body(&format!("/api/changes?{query}")).await;
    let ids: Vec<String> = each(&body["data"], "id").into_iter().map(text).collect();
    if body["total_pages"] == 1 && body["page"] == 1 && !query.contains("before=") {
        assert_eq!(body["count"], ids.len(), "{query}");
    }
    ids
}

fn at(ago: TimeDelta) -> String {
    shapes::time(Utc::now() - ago)
}

async fn a_planned_change_that_is_started_moves_to_now(app: TestApp) {
    let key = app.key();
    let service = key.service("payments").await;
    let planned = json!({
        "title": "Switch payments", "service_id": service, "tags": ["switch"],
        "occurred_at": at(DAY * 6),
    });
    let planned = key.create("/api/changes", planned).await;
    let neighbour =
        json!({ "title": "Next to it", "status": "completed", "occurred_at": at(DAY * 6) });
    key.create("/api/changes", neighbour).await;
    let recent = json!({ "title": "A minute ago", "status": "completed", "occurred_at": at(TimeDelta::minutes(1)) });
    key.create("/api/changes", recent).await;
    let (hour, week) = (at(TimeDelta::hours(1)), at(DAY * 7));
    let last_week = format!("since={week}&until={}", at(DAY * 5));
    assert_eq!(count(&key, &last_week).await, 2);
    assert_eq!(count(&key, &format!("since={hour}")).await, 1);

    let before = Utc::now() - TimeDelta::seconds(1);
    let started = patch(&key, &planned, json!({ "status": "in_progress" })).await;
    let started_at = shapes::assert_time(&started["started_at"]);
    assert!(started_at > before && started_at <= Utc::now() + TimeDelta::seconds(1));
    assert_eq!(started["ended_at"], Value::Null);
    let done = patch(&key, &planned, json!({ "status": "completed" })).await;
    assert_eq!(done["started_at"], started["started_at"]);
    assert!(shapes::assert_time(&done["ended_at"]) >= started_at);
    assert_eq!(done["id"], planned);
    assert_eq!(done["occurred_at"], started["occurred_at"]);

    // First in every list of the last hour, and gone from the last week.
    for filter in [
        "",
        "status=completed",
        "q=switch",
        "text=switch",
        "tag=switch",
    ] {
        assert_eq!(
            ids(&key, &format!("since={hour}&{filter}")).await[0],
            planned,
            "{filter}"
        );
        assert!(
            !ids(&key, &format!("{last_week}&{filter}"))
                .await
                .contains(&planned)
        );
    }
    let of_service = format!("since={hour}&service_id={service}");
    assert_eq!(ids(&key, &of_service).await, [planned.as_str()]);
    assert_eq!(count(&key, &last_week).await, 1);
    assert_eq!(count(&key, &format!("since={hour}")).await, 2);
    assert_eq!(count(&key, "").await, 3);
    let around = key.body("/api/changes/around").await;
    assert_eq!(around["data"][0]["change"]["id"], planned);
    // Found by its id, updated and in the log under its id.
    let found = key.read(&format!("/api/changes/{planned}")).await;
    assert_eq!(found, done);
    assert_eq!(
        ids(&key, &format!("text={planned}")).await,
        [planned.as_str()]
    );
    let history = key.read(&format!("/api/changes/{planned}/history")).await;
    let entries = history["entries"].as_array().expect("entries");
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[1]["changes"]["started_at"]["from"], Value::Null);
    // A correction of the start moves it again, and is in the log.
    let corrected = at(DAY * 2);
    let moved = patch(&key, &planned, json!({ "started_at": corrected })).await;
    assert_eq!(moved["started_at"], corrected);
    assert_eq!(count(&key, &format!("since={hour}")).await, 1);
    let history = key.read(&format!("/api/changes/{planned}/history")).await;
    assert_eq!(
        history["entries"][0]["changes"]["started_at"]["to"],
        corrected
    );
}

async fn a_change_moves_back_when_it_is_planned_again(app: TestApp) {
    let key = app.key();
    let body = json!({ "title": "By mistake", "occurred_at": at(DAY * 3), "tags": ["a", "b"] });
    let id = key.create("/api/changes", body).await;
    let other = json!({ "title": "Other", "occurred_at": at(DAY * 2) });
    let other = key.create("/api/changes", other).await;
    for _ in 0..2 {
        patch(
            &key,
            &id,
            json!({ "status": "completed", "outcome": "succeeded" }),
        )
        .await;
        assert_eq!(ids(&key, "").await, [id.as_str(), &other]);
        let planned = patch(&key, &id, json!({ "status": "planned" })).await;
        for field in ["started_at", "ended_at", "outcome"] {
            assert_eq!(planned[field], Value::Null, "{field}");
        }
        assert_eq!(ids(&key, "").await, [other.as_str(), &id]);
        assert_eq!(ids(&key, "tag=a&tag=b").await, [id.as_str()]);
    }
}

/// Pseudo-random numbers, the same in every run.
fn random(seed: &mut u64, end: usize) -> usize {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).expect("a number") % end
}

const STATUSES: [&str; 4] = ["planned", "in_progress", "completed", "rolled_back"];

/// Changes that move at random, and what is expected of them.
struct Moving {
    key: TestClient,
    seed: u64,
    /// The effective time and the status of each change.
    model: BTreeMap<String, (String, &'static str)>,
    ids: Vec<String>,
}

impl Moving {
    /// Records 120 changes.
    async fn new(app: &TestApp) -> Self {
        let mut moving = Self {
            key: app.key(),
            seed: 7,
            model: BTreeMap::new(),
            ids: Vec::new(),
        };
        let mut given = Vec::new();
        for number in 0..120 {
            let minute = random(&mut moving.seed, 20_000);
            given.push(json!({
                "title": format!("Change {number}"), "occurred_at": minute_of_march(minute),
                "status": STATUSES[number % 4], "tags": ["moving"],
            }));
        }
        let body = json!({ "changes": given });
        let made = moving.key.post("/api/changes/bulk", body).await.data(201);
        for (number, id) in each(&made, "id").into_iter().enumerate() {
            let at = text(&given[number]["occurred_at"]);
            moving.model.insert(text(id), (at, STATUSES[number % 4]));
        }
        moving.ids = moving.model.keys().cloned().collect();
        moving
    }

    /// Returns the changes that a walk with this filter lists.
    fn selected(&self, filter: &str) -> Vec<String> {
        let fits = |status: &str| filter != "not_status=planned" || status != "planned";
        let found = self.model.iter().filter(|(_, (_, status))| fits(status));
        found.map(|(id, _)| id.clone()).collect()
    }

    /// Moves a change, often the one that a cursor names, and returns its id.
    async fn move_one(&mut self, named: &str) -> String {
        let id = match random(&mut self.seed, 3) {
            0 => named.to_owned(),
            _ => self.ids[random(&mut self.seed, self.ids.len())].clone(),
        };
        let status = STATUSES[random(&mut self.seed, 4)];
        let mut body = json!({ "status": status });
        if status != "planned" {
            body["started_at"] = json!(minute_of_march(random(&mut self.seed, 20_000)));
            body["ended_at"] = Value::Null;
        }
        let at = effective(&patch(&self.key, &id, body).await);
        self.model.insert(id.clone(), (at, status));
        id
    }

    /// Reads all pages, moves changes between them, and returns what was listed and what
    /// was moved.
    async fn walk(&mut self, filter: &str) -> (Vec<String>, Vec<String>) {
        let (mut listed, mut moved) = (Vec::new(), Vec::new());
        let mut cursor = String::new();
        loop {
            let page = format!("{filter}&per_page=7{cursor}");
            let body = self.key.body(&format!("/api/changes?{page}")).await;
            let data = body["data"].as_array().expect("a list");
            assert_eq!(body["count"], self.selected(filter).len(), "{page}");
            let Some(last) = data.last() else {
                return (listed, moved);
            };
            let last_id = text(&last["id"]);
            cursor = format!("&before={last_id}@{}", effective(last));
            listed.extend(data.iter().map(|change| text(&change["id"])));
            for _ in 0..2 {
                moved.push(self.move_one(&last_id).await);
            }
            self.assert_ranges_are_counted().await;
        }
    }

    async fn assert_ranges_are_counted(&self) {
        for day in [1, 5, 9] {
            let (since, until) = (
                minute_of_march(day * 1_440),
                minute_of_march((day + 3) * 1_440),
            );
            let times = self.model.values().map(|(at, _)| at);
            let expected = times.filter(|at| **at >= since && **at < until);
            let range = format!("since={since}&until={until}");
            let expected = expected.count() as u64;
            assert_eq!(count(&self.key, &range).await, expected, "{range}");
        }
    }

    /// Requires the order of the newest changes, and every change at its place.
    async fn assert_is_in_order(&self) {
        let mut times: Vec<&String> = self.model.values().map(|(at, _)| at).collect();
        times.sort_unstable();
        times.reverse();
        let page = ids(&self.key, "per_page=100").await;
        let listed: Vec<&String> = page.iter().map(|id| &self.model[id].0).collect();
        assert_eq!(listed, times[..100]);
    }
}

fn minute_of_march(minute: usize) -> String {
    let begin: DateTime<Utc> = "2026-03-01T00:00:00Z".parse().expect("a time");
    let minutes = TimeDelta::minutes(i64::try_from(minute).expect("a number"));
    shapes::time(begin + minutes)
}

fn effective(change: &Value) -> String {
    let started = change["started_at"].as_str();
    let at = started.or(change["occurred_at"].as_str());
    at.expect("a time").to_owned()
}

/// Random moves between the pages of walks: a walk lists every change that did not move
/// exactly once, and counts match a model after each move.
async fn walks_and_counts_hold_while_changes_move(app: TestApp) {
    let mut moving = Moving::new(&app).await;
    for walk in 0..12 {
        let filter = ["", "tag=moving", "not_status=planned", "q=change"][walk % 4];
        let begun = moving.selected(filter);
        let (listed, moved) = moving.walk(filter).await;
        for id in begun.iter().filter(|id| !moved.contains(id)) {
            let times = listed.iter().filter(|one| *one == id).count();
            assert_eq!(times, 1, "{id} in walk {walk} with {filter:?}");
        }
        moving.assert_is_in_order().await;
    }
    for (id, (at, status)) in &moving.model {
        let path = format!("/api/changes/{id}");
        let found = moving.key.read(&path).await;
        assert_eq!(
            (effective(&found), &found["status"]),
            (at.clone(), &json!(status))
        );
    }
}

async fn a_change_is_found_by_the_beginning_of_its_id(app: TestApp) {
    let key = app.key();
    let first = json!({ "title": "First", "occurred_at": at(DAY * 9), "risk_level": "high" });
    let first = key.create("/api/changes", first).await;
    let other = json!({ "title": format!("Revert {first}"), "occurred_at": at(DAY) });
    let other = key.create("/api/changes", other).await;
    let named = async |text: &str, more: &str| ids(&key, &format!("text={text}{more}")).await;
    for is_moved in [false, true] {
        if is_moved {
            patch(&key, &first, json!({ "status": "completed" })).await;
        }
        for text in [
            first.clone(),
            first[..8].to_owned(),
            first[..20].to_owned(),
            first.replace('-', ""),
            first.to_ascii_uppercase(),
        ] {
            assert_eq!(named(&text, "").await, [first.as_str()], "{text}");
        }
        assert_eq!(named(&first, "&risk_level=high").await, [first.as_str()]);
        assert!(named(&first, "&risk_level=low").await.is_empty());
        assert!(named(&first, "&page=2").await.is_empty());
        assert!(named(&first, &format!("&before={first}")).await.is_empty());
    }
    // Too short for an id, so it is a word, which the title of the other one has.
    assert_eq!(named(&first[..7], "").await, [other.as_str()]);
    // An id that nothing has is a word, too.
    assert!(named("ffffffff-ffff", "").await.is_empty());
    let second = app.second_organization();
    assert!(
        ids(&app.with_key(&second.key), &format!("text={first}"))
            .await
            .is_empty()
    );
}

async fn what_is_in_progress_happens_now(app: TestApp) {
    let key = app.key();
    let create = async |title: &str, status: &str, ago: TimeDelta| {
        let body = json!({
            "title": title, "status": status, "occurred_at": at(ago), "tags": ["t"],
            "environment": "prod",
        });
        key.create("/api/changes", body).await
    };
    let running = create("Long migration", "in_progress", TimeDelta::hours(5)).await;
    let done = create("Done long ago", "completed", TimeDelta::hours(5)).await;
    let recent = create("Just now", "completed", TimeDelta::minutes(3)).await;
    let hour = at(TimeDelta::hours(1));
    for filter in [
        "",
        "tag=t",
        "environment=prod",
        "q=o",
        "not_status=planned",
        "text=t",
    ] {
        let found = ids(&key, &format!("since={hour}&{filter}")).await;
        assert!(
            found.contains(&running) || filter == "q=o",
            "{filter}: {found:?}"
        );
        assert!(!found.contains(&done), "{filter}: {found:?}");
    }
    assert_eq!(
        ids(&key, &format!("since={hour}")).await,
        [recent.as_str(), &running]
    );
    assert_eq!(
        ids(&key, &format!("since={hour}&per_page=1&page=2")).await,
        [running.as_str()]
    );
    assert_eq!(ids(&key, "active=true").await, [running.as_str()]);
    assert!(!ids(&key, "active=false").await.contains(&running));
    let finished = format!("since={hour}&status=completed");
    assert_eq!(ids(&key, &finished).await, [recent.as_str()]);
    // It does not happen in the past, nor in the future.
    let past = format!("since={}&until={hour}", at(TimeDelta::hours(2)));
    assert!(ids(&key, &past).await.is_empty());
    assert!(ids(&key, "since=2999-01-01T00:00:00Z").await.is_empty());
    // Nothing is in a range that has no time.
    assert!(
        ids(&key, &format!("since={hour}&until={hour}"))
            .await
            .is_empty()
    );
    patch(&key, &running, json!({ "status": "completed" })).await;
    assert_eq!(ids(&key, &format!("since={hour}")).await, [recent.as_str()]);
}

/// Changes that start in the same millisecond keep places of their own.
async fn changes_may_start_in_the_same_millisecond(app: TestApp) {
    let key = app.key();
    let started = at(DAY);
    let mut all = Vec::new();
    for number in 0..8 {
        let body = json!({ "title": format!("Change {number}"), "occurred_at": at(DAY * 5) });
        let id = key.create("/api/changes", body).await;
        patch(
            &key,
            &id,
            json!({ "status": "in_progress", "started_at": started }),
        )
        .await;
        all.push(id);
    }
    let late = json!({
        "title": "Recorded late", "status": "completed", "started_at": started,
        "occurred_at": at(TimeDelta::hours(1)),
    });
    all.push(key.create("/api/changes", late).await);
    let mut found = ids(&key, &format!("since={started}")).await;
    for id in &all {
        assert_eq!(
            key.read(&format!("/api/changes/{id}")).await["started_at"],
            started
        );
    }
    found.sort_unstable();
    all.sort_unstable();
    assert_eq!(found, all);
}

/// Creates planned changes until two ids end, as sort keys do, in the same twenty bits.
async fn two_with_one_place(key: &TestClient) -> [String; 2] {
    let mut places: BTreeMap<u64, String> = BTreeMap::new();
    loop {
        let new = json!({ "title": "One of many", "occurred_at": at(DAY * 5) });
        let body = json!({ "changes": vec![new; 500] });
        let created = key.post("/api/changes/bulk", body).await.data(201);
        for id in each(&created, "id").into_iter().map(text) {
            let (high, low) = id.parse::<Uuid>().expect("an id").as_u64_pair();
            let place = ((high & 0xfff) << 8) | ((low >> 54) & 0xff);
            if let Some(other) = places.insert(place, id.clone()) {
                return [other, id];
            }
        }
    }
}

async fn a_cursor_holds_where_two_changes_have_one_place(app: TestApp) {
    let key = app.key();
    let started = at(DAY);
    let mut all = two_with_one_place(&key).await.to_vec();
    for id in &all {
        let patched = json!({ "status": "in_progress", "started_at": started });
        patch(&key, id, patched).await;
    }
    let neighbour = json!({ "title": "Next", "status": "completed", "started_at": started });
    all.push(key.create("/api/changes", neighbour).await);
    let mut walked = Vec::new();
    let mut before = String::new();
    loop {
        let query = format!("since={started}&per_page=1{before}");
        let [id] = ids(&key, &query).await.try_into().unwrap_or_default();
        if id == String::default() {
            break;
        }
        before = format!("&before={id}@{started}");
        walked.push(id);
    }
    walked.sort_unstable();
    all.sort_unstable();
    assert_eq!(walked, all);
}

//! Organizations that keep their records for some months: what goes, what stays, and what is
//! recorded of it.

use std::time::Duration;

use changelog_tests::{TestApp, TestClient, assert_contains, assert_lacks, each, on_both, text};
use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};

on_both!(
    old_records_are_deleted_and_one_entry_says_how_many,
    a_run_is_continued_after_a_kill,
    an_alert_opens_an_incident_after_its_last_one_was_deleted,
);

const DAY: Duration = Duration::from_hours(24);
const PATH: &str = "/settings/organization/retention";

async fn set(browser: &TestClient, months: &str) {
    let fields = [("months", months), ("confirmed", "true")];
    browser.post_form(PATH, &fields).await.is(303);
}

/// Waits until a run has ended that has deleted something, and returns its entry.
async fn deletion(browser: &TestClient) -> Value {
    for _ in 0..600 {
        let log = browser.body("/api/activity?resource=organization").await;
        let items = log["items"].as_array().expect("a list");
        if let Some(entry) = items.iter().find(|entry| entry["action"] == "deleted") {
            return entry.clone();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nothing was deleted");
}

/// What was recorded long ago.
struct Old {
    service: String,
    host: String,
    change: String,
    /// A change that is planned for later.
    planned: String,
    running: String,
    solved: String,
    open: String,
}

impl Old {
    /// Records it, and moves the clock on by thirteen months.
    async fn record(app: &TestApp) -> Self {
        let key = app.key();
        let service = key.service("payments").await;
        let other = key.service("legacy").await;
        let host = key.host("db-1").await;
        let mut change = String::new();
        for number in 0..120 {
            let body = json!({
                "title": format!("Forgotten {number}"), "status": "completed",
                "risk_level": "high", "service_ids": [&service, &other], "host_id": &host,
                "tags": ["old", "kept"], "environment": "prod",
            });
            change = key.create("/api/changes", body).await;
        }
        let running = json!({ "title": "Still running", "status": "in_progress" });
        let running = key.create("/api/changes", running).await;
        let in_a_year = Utc::now() + TimeDelta::days(500);
        let planned = json!({ "title": "Planned for later", "scheduled_for": in_a_year });
        let planned = key.create("/api/changes", planned).await;
        let incident = json!({ "title": "An old outage", "service_id": &service });
        let solved = key.create("/api/incidents", incident.clone()).await;
        let solve = json!({ "status": "resolved" });
        key.update(&format!("/api/incidents/{solved}"), solve).await;
        let open = key.create("/api/incidents", incident).await;
        app.clock.advance(395 * DAY);
        Self {
            service,
            host,
            change,
            planned,
            running,
            solved,
            open,
        }
    }
}

async fn old_records_are_deleted_and_one_entry_says_how_many(app: TestApp) {
    let old = Old::record(&app).await;
    let key = app.key();
    let recent = json!({
        "title": "Remembered", "status": "completed", "service_id": &old.service,
        "tags": ["kept"],
    });
    let recent = key.create("/api/changes", recent).await;
    let late = json!({
        "title": "Imported late", "status": "completed", "occurred_at": "2020-01-01T00:00:00Z",
    });
    key.create("/api/changes", late).await;

    let browser = app.browser().await;
    let settings = async || browser.page("/settings/organization").await;
    for months in ["0", "241", "-1", "twelve"] {
        let answer = browser.post_form(PATH, &[("months", months)]).await;
        answer.is(422);
        assert_contains(&answer.text, "must be a number of months from 1 to 240");
    }
    let preview = browser.post_form(PATH, &[("months", "12")]).await;
    preview.is(200);
    assert_contains(&preview.text, "<dt>Changes</dt><dd>121</dd>");
    assert_contains(&preview.text, "<dt>Resolved incidents</dt><dd>1</dd>");
    // Nothing is set before it is confirmed.
    assert_contains(&settings().await, "Kept forever");
    set(&browser, "12").await;
    assert_contains(&settings().await, "Kept for 12 months");
    // Nothing is deleted within a day.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(key.body("/api/changes").await["count"], 124);
    app.clock.advance(DAY);

    let entry = deletion(&browser).await;
    assert_eq!(entry["actor_name"], "Change log");
    let deleted = &entry["metadata"];
    assert_eq!(deleted["changes_deleted"], 121);
    assert_eq!(deleted["incidents_deleted"], 1);
    // What was recorded of the changes and incidents, the services and the host.
    assert!(
        deleted["entries_deleted"].as_i64() >= Some(125),
        "{deleted}"
    );
    let left = key.body("/api/changes").await;
    assert_eq!(
        each(&left["data"], "id"),
        [&json!(recent), &json!(old.planned), &json!(old.running)]
    );
    assert_unknown(&key, &old).await;
    let log = browser.page("/activity").await;
    assert_contains(&log, "deleted old records of");
    assert_lacks(&log, "Forgotten");
    // What is planned can go on.
    let start = json!({ "status": "in_progress" });
    let planned = format!("/api/changes/{}", old.planned);
    key.update(&planned, start).await;
    assert_eq!(app.admin(&["check"])["problems"], json!([]));

    set(&browser, "").await;
    assert_contains(&settings().await, "Kept forever");
    assert_eq!(app.admin(&["check"])["problems"], json!([]));
    let shown = ["org", "retention", &app.organization.id];
    assert_eq!(app.admin(&shown)["months"], Value::Null);
    let trial = [&shown[..], &["6", "--dry-run"]].concat();
    assert_eq!(app.admin(&trial)["months"], Value::Null);
}

/// Checks that what was deleted is found nowhere.
async fn assert_unknown(key: &TestClient, old: &Old) {
    let (service, host) = (&old.service, &old.host);
    for (query, count) in [
        ("tag=old", 0),
        ("tag=kept", 1),
        ("q=forgotten", 0),
        ("environment=prod", 0),
        ("risk_level=high", 0),
        (&format!("service_id={service}"), 1),
        (&format!("host_id={host}"), 0),
    ] {
        let list = key.body(&format!("/api/changes?{query}")).await;
        assert_eq!(list["count"], count, "{query}");
    }
    for (path, status) in [
        (format!("/api/changes/{}", old.change), 404),
        (format!("/api/incidents/{}", old.solved), 404),
        (format!("/api/incidents/{}", old.open), 200),
    ] {
        key.get(&path).await.is(status);
    }
}

async fn a_run_is_continued_after_a_kill(mut app: TestApp) {
    let key = app.key();
    for _ in 0..4 {
        let change = json!({
            "title": "Old", "status": "completed", "occurred_at": "2020-01-01T00:00:00Z",
        });
        let body = json!({ "changes": vec![change; 500] });
        key.post("/api/changes/bulk", body).await.is(201);
    }
    let browser = app.browser().await;
    set(&browser, "240").await;
    set(&browser, "12").await;
    app.clock.advance(DAY);
    let count = async |app: &TestApp| app.key().body("/api/changes").await["count"].as_i64();
    while count(&app).await == Some(2_000) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    app.server.kill9();
    app.restart().await;
    let left = count(&app).await;
    assert!(left < Some(2_000), "{left:?}");
    // Another server goes on when it is clear that the one that began does not.
    app.clock.advance(Duration::from_mins(10));
    let entry = deletion(&app.browser().await).await;
    assert_eq!(entry["metadata"]["changes_deleted"], 2_000);
    assert_eq!(count(&app).await, Some(0));
    assert_eq!(app.admin(&["check"])["problems"], json!([]));
    assert_eq!(text(&entry["resource_label"]), app.organization.name);
}

async fn an_alert_opens_an_incident_after_its_last_one_was_deleted(app: TestApp) {
    let alerts = app.source("alertmanager", "Alerts", None);
    let send = async |status: &str| {
        let now = app.clock.now();
        let ends = if status == "firing" {
            "0001-01-01T00:00:00Z".to_owned()
        } else {
            now.to_rfc3339()
        };
        let body = json!({
            "version": "4", "groupKey": "group", "status": status,
            "commonLabels": { "alertname": "HighErrors" },
            "alerts": [{ "status": status, "labels": {}, "startsAt": now.to_rfc3339(),
                "endsAt": ends }],
        });
        alerts.send(&body).await.is(202);
        text(&alerts.events().await[0]["outcome"])
    };
    assert_eq!(send("firing").await, "changed");
    assert_eq!(send("resolved").await, "updated");
    app.clock.advance(40 * DAY);
    let browser = app.browser().await;
    set(&browser, "1").await;
    app.clock.advance(DAY);
    assert_eq!(deletion(&browser).await["metadata"]["incidents_deleted"], 1);
    assert_eq!(send("firing").await, "changed");
    let open = app.key().body("/api/incidents?status=open").await;
    assert_eq!(open["data"].as_array().map(Vec::len), Some(1), "{open}");
}

//! Takes the screenshots of the README, with a year of changes.
//! `CHANGELOG_SCREENSHOTS=docs cargo test --workspace --test it screenshots`
//! replaces them.

use std::path::{Path, PathBuf};

use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};

use changelog_tests::chromium::Chromium;
use changelog_tests::{Engine, TestApp, TestClient};

const TITLES: [(&str, &str, &str); 8] = [
    ("Deploy payments 2.{}", "medium", "payments"),
    ("Deploy search 1.{}", "low", "search"),
    ("Rotate the TLS certificates, round {}", "low", "gateway"),
    ("terraform apply: {} changed", "medium", "gateway"),
    ("Raise the connection limit to {}00", "high", "payments"),
    ("Restart worker {}", "low", "search"),
    ("Move the queue to shard {}", "high", "billing"),
    ("Edit the feature flags, take {}", "low", "billing"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn screenshots_for_the_readme() {
    let app = TestApp::with_process(Engine::Sqlite).await;
    let app = app.expect("SQLite is always there");
    let Some(browser) = Chromium::start().await else {
        return;
    };
    let change = fill(&app.key()).await;
    let size = browser.tab.set_window_size(1280, 1500).await;
    size.expect("a window");
    crate::dashboard::sign_in(&browser, &app, &app.organization).await;
    browser.wait_for("main h1").await;
    let folder = folder();
    take(&browser, &app, "/", &folder.join("overview.png")).await;
    let path = format!("/changes/{change}");
    take(&browser, &app, &path, &folder.join("change.png")).await;
}

/// Returns the folder of the screenshots.
fn folder() -> PathBuf {
    match std::env::var_os("CHANGELOG_SCREENSHOTS") {
        // Tests run in the folder of their package.
        Some(named) => Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(named),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots"),
    }
}

/// Creates a year of changes, and returns the id of the one that is shown.
async fn fill(key: &TestClient) -> String {
    let mut services = Vec::new();
    for (name, color) in [
        ("payments", "#16a34a"),
        ("search", "#6366f1"),
        ("gateway", "#d97706"),
        ("billing", "#db2777"),
    ] {
        let body = json!({ "name": name, "color": color });
        services.push((name, key.create("/api/services", body).await));
    }
    let host = json!({ "hostname": "web-1", "environment": "prod" });
    let host = key.create("/api/hosts", host).await;
    let now = Utc::now();
    let at = |minutes: i64| {
        let at = now - TimeDelta::minutes(minutes);
        at.to_rfc3339_opts(SecondsFormat::Millis, true)
    };
    let mut changes: Vec<Value> = Vec::new();
    let mut minutes = 45;
    for number in 0..900_i64 {
        let dice = (number * 7919 + number * number * 31) % 97;
        let (title, risk, service) = TITLES[usize::try_from(dice % 8).expect("small")];
        let id = services.iter().find(|(name, _)| *name == service);
        let status = if dice % 13 == 5 {
            "rolled_back"
        } else {
            "completed"
        };
        changes.push(json!({
            "title": title.replace("{}", &(1 + dice % 40).to_string()),
            "risk_level": risk,
            "status": status,
            "service_id": id.map(|(_, id)| id),
            "tags": if dice % 3 == 0 { vec!["terraform"] } else { vec!["deploy", "eu-1"] },
            "environment": if dice % 5 == 0 { "staging" } else { "prod" },
            "occurred_at": at(minutes),
        }));
        minutes += 120 + dice * 9;
    }
    changes.push(json!({
        "title": "Reindex the catalogue", "status": "in_progress", "occurred_at": at(6),
        "service_id": services[1].1, "environment": "prod",
    }));
    changes.push(json!({
        "title": "Upgrade PostgreSQL to 18", "risk_level": "high", "status": "planned",
        "scheduled_for": at(-2_900), "occurred_at": at(4_000), "tags": ["database"],
        "environment": "prod",
    }));
    for some in changes.chunks(500) {
        let body = json!({ "changes": some });
        let sent = key.request("POST", "/api/changes/bulk").json(&body);
        changelog_tests::send(sent).await.is(201);
    }
    let shown = json!({
        "title": "Deploy payments 2.41",
        "risk_level": "high",
        "status": "in_progress",
        "service_ids": [services[0].1, services[3].1],
        "host_id": host,
        "on_behalf_of": "mei@example.com",
        "commit": "1a2b3c4d5e6f", "committed_at": at(55),
        "tags": ["deploy", "eu-1"],
        "description": "Switches card payments to the **new gateway**.\n\n\
            - canary: 5 % for ten minutes\n- then everybody\n\n\
            To undo: `deployctl rollback payments`",
        "impact": "Two minutes in which refunds wait.",
        "links": [{ "label": "pipeline", "url": "https://ci.example.com/runs/4711" }],
        "occurred_at": at(20),
    });
    let id = key.create("/api/changes", shown).await;
    let done = json!({ "status": "completed" });
    let path = format!("/api/changes/{id}");
    let update = key.request("PATCH", &path).json(&done);
    changelog_tests::send(update).await.is(200);
    id
}

async fn take(browser: &Chromium, app: &TestApp, path: &str, file: &Path) {
    let address = format!("{}{path}", app.url());
    browser.tab.goto(&address).await.expect("the address");
    browser.wait_for("main h1").await;
    let png = browser.tab.screenshot().await.expect("a picture");
    assert!(png.starts_with(b"\x89PNG"), "no picture of {path}");
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    std::fs::write(file, png).expect("a file");
}

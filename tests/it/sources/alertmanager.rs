//! A real Alertmanager: what it fires, repeats, forgets at a restart and resolves is one
//! incident.

use std::time::{Duration, Instant};

use changelog_tests::alertmanager::Alertmanager;
use changelog_tests::receivers::Receiver;
use changelog_tests::{TestApp, assert_contains, on_both, text};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};

on_both!(a_real_alertmanager_opens_and_resolves_one_incident);

const SECRET: &str = "the-secret-of-alertmanager";
/// How long the service may take to hear of what Alertmanager knows.
const TIMEOUT: Duration = Duration::from_secs(20);

fn written(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Returns an alert as Prometheus sends it.
fn alert(pod: &str, starts: DateTime<Utc>, ends: DateTime<Utc>) -> Value {
    json!({
        "labels": { "alertname": "HighErrors", "service": "checkout", "env": "prod",
                    "severity": "critical", "pod": pod },
        "annotations": { "summary": "Checkout returns 502" },
        "startsAt": written(starts), "endsAt": written(ends),
        "generatorURL": "http://prometheus.example.com/graph",
    })
}

/// Waits until the source has received more requests than before, and returns their number.
async fn wait_for_more(app: &TestApp, source: &str, than: usize) -> usize {
    let started = Instant::now();
    loop {
        let events = app.admin(&["source", "events", source, "--limit", "1000"]);
        let count = events.as_array().expect("a list").len();
        if count > than {
            return count;
        }
        assert!(started.elapsed() < TIMEOUT, "{count} requests");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until there is one incident of a status, and returns it.
async fn wait_for(app: &TestApp, status: &str) -> Value {
    let started = Instant::now();
    loop {
        let incidents = app.key().read("/api/incidents").await;
        let all = incidents.as_array().expect("a list");
        assert!(all.len() <= 1, "{incidents}");
        if all.first().is_some_and(|one| one["status"] == status) {
            return all[0].clone();
        }
        assert!(started.elapsed() < TIMEOUT, "not {status}: {incidents}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns the template of the manual, and the text that uses it.
fn link_template() -> (String, String) {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/incidents.md");
    let manual = std::fs::read_to_string(manual).expect("the manual");
    let (_, rest) = manual.split_once("```\n{{ define").expect("a template");
    let (template, rest) = rest.split_once("```").expect("its end");
    let (_, rest) = rest.split_once("text: '").expect("a text");
    let (text, _) = rest.split_once('\'').expect("its end");
    (format!("{{{{ define{template}"), text.to_owned())
}

/// The link that the manual has alerts send leads to what changed before the alert.
async fn the_template_links_to_around(app: &TestApp, chat: &Receiver, starts: DateTime<Utc>) {
    chat.wait_for_text("/around?at=").await;
    let message = chat.requests()[0].json();
    let text = text(&message["attachments"][0]["text"]);
    let at = starts.to_rfc3339_opts(SecondsFormat::Secs, true);
    let expected = format!("https://changes.example.com/around?at={at}&service=checkout");
    let link = text.lines().next().unwrap_or_default();
    assert_eq!(link, expected, "{text}");
    let path = link
        .strip_prefix("https://changes.example.com")
        .expect("a path");
    let browser = app.browser().await;
    // The page has the time in words of its own in its address.
    let moved = browser.get(path).await;
    moved.is(303);
    let page = browser.page(moved.header("location")).await;
    assert_contains(&page, "value=\"checkout\"");
}

async fn a_real_alertmanager_opens_and_resolves_one_incident(app: TestApp) {
    let source = app.source("alertmanager", "Alerts", Some(SECRET));
    let webhook = format!("{}{}", app.url(), source.path);
    let chat = Receiver::start().await;
    let link = link_template();
    let link = (link.0.as_str(), link.1.as_str());
    let started = Alertmanager::start(&webhook, SECRET, &chat.url(), link).await;
    let Some(mut alertmanager) = started else {
        return;
    };
    let now = Utc::now();
    let (first, second) = (now - TimeDelta::minutes(5), now - TimeDelta::minutes(4));
    let later = now + TimeDelta::minutes(5);
    let firing = json!([alert("a", first, later), alert("b", second, later)]);
    alertmanager.alert(&firing).await;
    let opened = wait_for(&app, "open").await;
    assert_eq!(opened["title"], "Checkout returns 502");
    assert_eq!(opened["severity"], "critical");
    assert_eq!(opened["service"]["name"], "checkout");
    assert_eq!(opened["environment"], "prod");
    assert_eq!(opened["started_at"], written(first));
    the_template_links_to_around(&app, &chat, first).await;

    // It repeats by itself, and after a restart when Prometheus has sent the alerts again.
    let sent = wait_for_more(&app, &source.id, 2).await;
    alertmanager.restart().await;
    alertmanager.alert(&firing).await;
    let sent = wait_for_more(&app, &source.id, sent).await;
    assert_eq!(wait_for(&app, "open").await["id"], opened["id"]);

    // Resolved with the last of its alerts.
    let (early, end) = (now - TimeDelta::minutes(2), now - TimeDelta::minutes(1));
    alertmanager.alert(&json!([alert("a", first, early)])).await;
    wait_for_more(&app, &source.id, sent).await;
    assert_eq!(wait_for(&app, "open").await["resolved_at"], Value::Null);
    alertmanager.alert(&json!([alert("b", second, end)])).await;
    let resolved = wait_for(&app, "resolved").await;
    assert_eq!(text(&resolved["id"]), text(&opened["id"]));
    assert_eq!(resolved["started_at"], written(first));
    assert_eq!(resolved["resolved_at"], written(end));
    for event in source.events().await {
        assert_ne!(event["outcome"], "set_aside", "{event}");
    }
}

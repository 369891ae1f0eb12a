//! A source that is silent for too long is reported as a gap by the API, the dashboard and `chlog`,
//! and as an event to connections.

use std::time::Duration;

use changelog_tests::receivers::{Receiver, webhook};
use changelog_tests::{TestApp, assert_contains, assert_lacks, each, on_both, text};
use serde_json::{Value, json};

on_both!(
    a_source_that_falls_silent_is_a_gap_until_it_is_heard_again,
    keys_that_record_are_covered_as_long_as_they_are_valid,
    sources_of_alerts_and_deleted_ones_are_not_covered,
);

const HOUR: Duration = Duration::from_hours(1);
/// What a page shows only while there is a gap.
const SILENT: &str = "has been silent since";

async fn coverage(app: &TestApp, query: &str) -> Value {
    let path = format!("/api/changes/around?{query}");
    app.key().get(&path).await.body(200)["coverage"].clone()
}

async fn a_source_that_falls_silent_is_a_gap_until_it_is_heard_again(mut app: TestApp) {
    app.restart_with(&["--allow-receivers", "127.0.0.0/8"])
        .await;
    let receiver = Receiver::start().await;
    let made = app.connect("webhook", "Hook", &receiver.url(), &[]);
    let secret = text(&made["secret"]);
    let source = app.source("github", "Deployments", Some("secret"));
    let push = async |number: usize| {
        let body = json!({ "ref": "refs/heads/main" });
        let number = number.to_string();
        source.send_github("push", &number, &body).await.is(202);
    };

    // Eight days in which it is heard each hour.
    push(0).await;
    source.outcomes().await;
    let learning = coverage(&app, "").await;
    assert_eq!(each(&learning["sources"], "expected_by"), [&Value::Null]);
    for number in 1..=8 * 24 {
        app.clock.advance(HOUR);
        push(number).await;
        if number % 24 == 0 {
            source.outcomes().await;
        }
    }
    let known = coverage(&app, "").await;
    let one = &known["sources"][0];
    assert_eq!(
        (&one["name"], &one["kind"]),
        (&json!("Deployments"), &json!("github"))
    );
    assert!(
        text(&one["expected_by"]) > text(&one["last_seen_at"]),
        "{one}"
    );
    assert_eq!(known["gaps"], json!([]));
    assert_lacks(&app.browser().await.page("/").await, SILENT);

    app.clock.advance(5 * HOUR);
    let events = webhook::events(&receiver.wait_for(1).await, &secret);
    assert_eq!(events[0].kind, "source.silent");
    let told = &events[0].body["data"]["source"];
    assert_eq!(
        (&told["id"], &told["name"]),
        (&json!(source.id), &json!("Deployments"))
    );
    assert_eq!(
        (&told["since"], &told["until"]),
        (&one["last_seen_at"], &Value::Null)
    );
    let silent = coverage(&app, "").await;
    let gap = json!({ "name": "Deployments", "since": one["last_seen_at"], "until": null });
    assert_eq!(silent["gaps"], json!([gap]));
    for page in ["/", "/around"] {
        assert_contains(&app.browser().await.page(page).await, SILENT);
    }
    let sources = app.browser().await.page("/settings/sources").await;
    assert_contains(&sources, ">Silent<");
    let output = app.chlog().arg("doctor").output().expect("chlog runs");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_contains(&shown, "Deployments has been silent since");

    push(1_000).await;
    source.outcomes().await;
    let events = webhook::events(&receiver.wait_for(2).await, &secret);
    assert_eq!(events[1].kind, "source.heard");
    let until = &events[1].body["data"]["source"]["until"];
    let heard = coverage(&app, "").await;
    assert_eq!(heard["sources"][0]["last_seen_at"], *until);
    assert_eq!(
        heard["gaps"],
        json!([{ "name": "Deployments", "since": one["last_seen_at"], "until": until }])
    );
    assert_lacks(&app.browser().await.page("/").await, SILENT);
    let shown = app.chlog().args(["around", &text(until)]).output();
    let shown = String::from_utf8_lossy(&shown.expect("chlog runs").stderr).into_owned();
    assert_contains(&shown, "Deployments was silent from");

    // A gap is shown as long as it is in the window.
    app.clock.advance(2 * HOUR);
    assert_eq!(coverage(&app, "window_minutes=60").await["gaps"], json!([]));
    let before = text(&one["last_seen_at"]);
    let before = coverage(&app, &format!("at={before}")).await;
    assert_eq!(before["gaps"], json!([]));
}

async fn keys_that_record_are_covered_as_long_as_they_are_valid(app: TestApp) {
    let organization = &app.organization.id;
    let made = app.admin(&["key", "create", "--org", organization, "--name", "Pipeline"]);
    let key = app.with_key(&text(&made["key"]));
    key.get("/api/changes").await.is(200);
    assert_eq!(
        coverage(&app, "").await,
        json!({ "sources": [], "gaps": [] })
    );
    let id = key.change("Deploy").await;
    let covered = coverage(&app, "").await;
    let one = &covered["sources"][0];
    assert_eq!(
        (&one["name"], &one["kind"]),
        (&json!("Pipeline"), &json!("api-key"))
    );
    assert_eq!(one["expected_by"], Value::Null);
    // Each key that records, also by an update.
    app.key()
        .update(
            &format!("/api/changes/{id}"),
            json!({ "status": "completed" }),
        )
        .await;
    assert_eq!(
        coverage(&app, "").await["sources"].as_array().map(Vec::len),
        Some(2)
    );
    app.admin(&["key", "revoke", &text(&made["id"])]);
    let covered = coverage(&app, "").await;
    assert!(
        !each(&covered["sources"], "name").contains(&&json!("Pipeline")),
        "{covered}"
    );
}

async fn sources_of_alerts_and_deleted_ones_are_not_covered(app: TestApp) {
    let source = app.source("github", "Deployments", Some("secret"));
    let never = coverage(&app, "").await;
    assert_eq!(each(&never["sources"], "last_seen_at"), [&Value::Null]);
    app.admin(&["source", "delete", &source.id]);
    let alerts = app.source("generic-alert", "Alerts", None);
    alerts
        .send(&json!({ "title": "Checkout is down" }))
        .await
        .is(202);
    assert_eq!(alerts.outcomes().await.len(), 1);
    assert_eq!(coverage(&app, "").await["sources"], json!([]));
}

//! Alerts while changes are created: how long it takes from the request of an alert until its
//! suspects are in a chat.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use changelog_tests::bench::print;
use changelog_tests::receivers::{Answer, Receiver};
use changelog_tests::{Engine, TestApp, try_send};
use chrono::{SecondsFormat, TimeDelta, Utc};
use futures_util::future::join_all;
use serde_json::json;

use super::percentiles;

/// The number of alerts, each about a service of its own.
const ALERTS: usize = 200;
/// The time between two alerts: a chat takes a message a second.
const ALERT_INTERVAL: Duration = Duration::from_millis(1_500);
/// The clients that create changes, and how often each does.
const CLIENTS: usize = 10;
const CREATE_INTERVAL: Duration = Duration::from_millis(20);

pub(super) async fn measure(engine: Engine) {
    let Some(mut app) = TestApp::with_process(engine).await else {
        return;
    };
    app.restart_with(&["--allow-receivers", "127.0.0.0/8"])
        .await;
    let key = app.key();
    let deployed = Utc::now() - TimeDelta::minutes(8);
    for number in 0..ALERTS {
        let name = format!("service-{number}");
        key.service(&name).await;
        let deploy = json!({
            "title": format!("Deploy {name} 4.2"), "service_name": name, "environment": "prod",
            "occurred_at": deployed.to_rfc3339(), "status": "completed",
        });
        key.create("/api/changes", deploy).await;
    }
    let receiver = Receiver::start().await;
    receiver.answer_by(|_| Answer::text(200, "ok"));
    app.connect("slack", "Alerts", &receiver.url(), &["--min-risk", "high"]);
    let path = app.source("alertmanager", "Alertmanager", None).path;

    let stop = AtomicBool::new(false);
    let created = AtomicU64::new(0);
    let creators = (0..CLIENTS).map(|_| async {
        let mut ticks = tokio::time::interval(CREATE_INTERVAL);
        while !stop.load(Ordering::Relaxed) {
            ticks.tick().await;
            let body = json!({ "title": "Something else", "environment": "dev" });
            let request = key.request("POST", "/api/changes").json(&body);
            // A connection may be closed that has just been taken for a request.
            if try_send(request)
                .await
                .is_ok_and(|answer| answer.status == 201)
            {
                created.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let started = Instant::now();
    let alerts = async {
        let one = |number: usize| {
            let (app, receiver, path) = (&app, &receiver, &path);
            async move {
                tokio::time::sleep(ALERT_INTERVAL * u32::try_from(number).unwrap_or(0)).await;
                let name = format!("service-{number}");
                let sent = Instant::now();
                let answer = app.anonymous().post(path, notification(&name)).await;
                answer.is(202);
                receiver.wait_for_text(&format!("Deploy {name} 4.2")).await;
                sent.elapsed()
            }
        };
        let latencies = join_all((0..ALERTS).map(one)).await;
        stop.store(true, Ordering::Relaxed);
        latencies
    };
    let (mut latencies, _) = tokio::join!(alerts, join_all(creators));
    latencies.sort_unstable();
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let rate = created.into_inner() as f64 / started.elapsed().as_secs_f64();
    print(&format!(
        "| {engine:?} | {ALERTS} | {rate:.0} | {} |",
        percentiles(&latencies)
    ));
}

/// Returns what Alertmanager sends about an alert of a service.
fn notification(service: &str) -> serde_json::Value {
    let starts = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
    let labels = json!({
        "alertname": "HighErrors", "service": service, "env": "prod", "severity": "critical",
    });
    json!({
        "version": "4", "groupKey": service, "status": "firing", "receiver": "changes",
        "groupLabels": {}, "commonLabels": labels, "externalURL": "http://am.example.com",
        "commonAnnotations": { "summary": format!("{service} returns 502") },
        "alerts": [{
            "status": "firing", "labels": labels, "annotations": {}, "startsAt": starts,
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://prometheus.example.com/graph",
        }],
    })
}

//! Alerts of other systems open incidents, which have suspects, and resolve them.

use std::time::{Duration, Instant};

use changelog_tests::receivers::{Answer, Received, Receiver, pagerduty, slack};
use changelog_tests::{TestApp, assert_contains, assert_lacks, each, on_both, on_one, send, text};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use ring::hmac;
use serde_json::{Value, json};

on_both!(
    a_group_of_alerts_is_one_incident,
    what_a_group_tells_later_is_so,
    suspects_are_those_of_around_and_follow_late_changes,
    people_have_the_last_word,
    an_alert_brings_its_suspects_to_a_chat,
    the_suspects_are_a_note_on_the_incident_in_pagerduty,
);
on_one!(
    every_sender_opens_and_resolves,
    a_storm_opens_an_incident_for_each_group,
);

/// How long suspects may take.
const RANKING_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the time so many minutes ago.
fn ago(minutes: i64) -> String {
    written(Utc::now() - TimeDelta::minutes(minutes))
}

fn written(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Returns what Alertmanager sends about a group of one alert.
fn notification(group: &str, starts: &str, ends: Option<&str>) -> Value {
    let status = if ends.is_some() { "resolved" } else { "firing" };
    let labels = json!({
        "alertname": "HighErrors", "service": "checkout", "env": "prod", "severity": "critical",
    });
    json!({
        "version": "4", "groupKey": group, "status": status, "receiver": "changes",
        "groupLabels": {}, "commonLabels": labels, "externalURL": "http://am.example.com",
        "commonAnnotations": { "summary": "Checkout returns 502" },
        "alerts": [{
            "status": status, "labels": labels, "annotations": {}, "startsAt": starts,
            "endsAt": ends.unwrap_or("0001-01-01T00:00:00Z"),
            "generatorURL": "http://prometheus.example.com/graph",
        }],
    })
}

async fn incidents(app: &TestApp) -> Vec<Value> {
    let list = app.key().read("/api/incidents?limit=100").await;
    list.as_array().expect("a list").clone()
}

/// Waits until the only incident is as wanted, and returns it in full.
async fn wait_for(app: &TestApp, wanted: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        if let [one] = &*incidents(app).await {
            let path = format!("/api/incidents/{}", text(&one["id"]));
            let incident = app.key().read(&path).await;
            if wanted(&incident) {
                return incident;
            }
            assert!(started.elapsed() < RANKING_TIMEOUT, "{incident:#}");
        }
        assert!(started.elapsed() < RANKING_TIMEOUT, "no incident");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn a_group_of_alerts_is_one_incident(app: TestApp) {
    let source = app.source("alertmanager", "Alerts", None);
    let send = async |starts: &str, ends: Option<&str>| {
        let body = notification("checkout", starts, ends);
        source.send(&body).await.is(202);
        source.outcomes().await.pop().expect("an outcome")
    };
    let (first, end) = (ago(60), ago(50));
    assert_eq!(send(&first, None).await, "changed");
    assert_eq!(send(&first, None).await, "duplicate");
    let opened = incidents(&app).await;
    assert_eq!(opened.len(), 1);
    let one = &opened[0];
    assert_eq!(one["title"], "Checkout returns 502");
    assert_eq!(
        (&one["severity"], &one["status"]),
        (&json!("critical"), &json!("open"))
    );
    assert_eq!(
        (&one["environment"], &one["started_at"]),
        (&json!("prod"), &json!(first))
    );
    assert_eq!(one["service"]["name"], "checkout");
    assert_eq!(one["source"]["kind"], "alertmanager");
    assert_eq!(one["url"], "http://prometheus.example.com/graph");
    assert_eq!(send(&first, Some(&end)).await, "updated");
    // What was delayed on its way undoes nothing.
    assert_eq!(send(&first, None).await, "duplicate");
    let resolved = incidents(&app).await;
    assert_eq!(resolved[0]["status"], "resolved");
    assert_eq!(resolved[0]["resolved_at"], json!(end));
    // It comes back within ten minutes, and then after more.
    assert_eq!(send(&ago(41), None).await, "updated");
    let again = incidents(&app).await;
    assert_eq!((again.len(), &again[0]["status"]), (1, &json!("open")));
    assert_eq!(
        (&again[0]["started_at"], &again[0]["resolved_at"]),
        (&json!(first), &Value::Null)
    );
    let end = ago(30);
    assert_eq!(send(&ago(41), Some(&end)).await, "updated");
    let second = ago(19);
    assert_eq!(send(&second, None).await, "changed");
    let both = incidents(&app).await;
    assert_eq!(each(&json!(both), "status"), ["open", "resolved"]);
    assert_eq!(both[0]["started_at"], json!(second));
    let events = source.events().await;
    assert_eq!(events[0]["incident_id"], both[0]["id"]);
    assert_eq!(events[6]["incident_id"], both[1]["id"]);
    // A resolution without a known alert is an incident that is over.
    let body = notification("other", &ago(9), Some(&ago(8)));
    source.send(&body).await.is(202);
    assert_eq!(source.outcomes().await.pop().as_deref(), Some("changed"));
    assert_eq!(incidents(&app).await.len(), 3);
    let log = app
        .browser()
        .await
        .body("/api/activity?resource=incident")
        .await;
    let actions = each(&log["items"], "action");
    assert_eq!(actions.len(), 6, "{log:#}");
    assert_eq!(log["items"][0]["actor_name"], "Source: Alerts");
}

/// An alert that was silenced, or that Prometheus could not report, fires since before the group
/// was resolved.
async fn what_a_group_tells_later_is_so(app: TestApp) {
    let source = app.source("alertmanager", "Alerts", None);
    let (first, end) = (ago(20), ago(1));
    for (minutes, ends, outcome, status) in [
        (0, None, "changed", "open"),
        (0, Some(&*end), "updated", "resolved"),
        // Delayed on its way.
        (0, None, "duplicate", "resolved"),
        (2, None, "updated", "open"),
        (2, None, "duplicate", "open"),
        (2, Some(&*end), "updated", "resolved"),
        (30, None, "changed", "open"),
    ] {
        app.clock.advance(Duration::from_mins(minutes));
        let body = notification("checkout", &first, ends);
        source.send(&body).await.is(202);
        assert_eq!(source.outcomes().await.pop().as_deref(), Some(outcome));
        let all = incidents(&app).await;
        assert_eq!(all[0]["status"], status, "{outcome}");
        assert_eq!(all.len(), if minutes == 30 { 2 } else { 1 });
    }
}

async fn suspects_are_those_of_around_and_follow_late_changes(app: TestApp) {
    let key = app.key();
    let service = key.service("checkout").await;
    let change = |title: &str, minutes: i64| {
        json!({ "title": title, "status": "completed", "service_id": service,
            "environment": "prod", "started_at": ago(minutes) })
    };
    let cause = key
        .create("/api/changes", change("Deploy checkout 2", 9))
        .await;
    key.create("/api/changes", change("Deploy checkout 1", 400))
        .await;
    let source = app.source("alertmanager", "Alerts", None);
    let starts = ago(5);
    source.send(&notification("g", &starts, None)).await.is(202);
    let ranked = wait_for(&app, |one| !one["ranked_at"].is_null()).await;
    assert_eq!(ranked["suspects"][0]["change"]["id"], json!(cause));
    assert_eq!(ranked["suspects"], ranked["first_suspects"]);
    let around = format!("/api/changes/around?at={starts}&service_id={service}&environment=prod");
    let around = key.get(&around).await.body(200);
    for (suspect, ranked) in around["data"]
        .as_array()
        .expect("a list")
        .iter()
        .zip(ranked["suspects"].as_array().expect("a list"))
    {
        assert_eq!(suspect["change"]["id"], ranked["change"]["id"]);
        assert_eq!(suspect["score"], ranked["score"]);
        assert_eq!(suspect["reasons"], ranked["reasons"]);
    }
    // Recorded only now, it is more suspicious.
    let late = json!({ "title": "Edit the routes by hand", "status": "completed",
        "service_id": service, "environment": "prod", "risk_level": "high",
        "started_at": ago(6), "tags": ["by-hand"] });
    let late = key.create("/api/changes", late).await;
    let is_first = |one: &Value| one["suspects"][0]["change"]["id"] == json!(late);
    let reranked = wait_for(&app, is_first).await;
    assert_eq!(reranked["first_suspects"], ranked["first_suspects"]);
    // It moves behind the start of the incident.
    let path = format!("/api/changes/{late}");
    key.update(&path, json!({ "started_at": ago(1), "ended_at": ago(1) }))
        .await;
    let is_gone = |one: &Value| one["suspects"][0]["change"]["id"] == json!(cause);
    wait_for(&app, is_gone).await;
}

async fn people_have_the_last_word(app: TestApp) {
    let source = app.source("alertmanager", "Alerts", None);
    let starts = ago(20);
    source.send(&notification("g", &starts, None)).await.is(202);
    source.events().await;
    let id = text(&incidents(&app).await[0]["id"]);
    let path = format!("/api/incidents/{id}");
    let key = app.key();
    let edit = json!({ "title": "Cards fail", "severity": "info", "status": "resolved" });
    let edited = key.patch(&path, edit).await.data(200);
    source.send(&notification("g", &starts, None)).await.is(202);
    source
        .send(&notification("g", &starts, Some(&ago(1))))
        .await
        .is(202);
    assert_eq!(
        source.outcomes().await,
        ["changed", "duplicate", "duplicate"]
    );
    let after = key.read(&path).await;
    for field in ["title", "severity", "status", "resolved_at"] {
        assert_eq!(after[field], edited[field], "{field}");
    }
}

const SECRET: &str = "s3cret of the sender";

fn signed(signed: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let tag = hmac::sign(&key, signed.as_bytes());
    let digits: Vec<String> = tag
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    digits.concat()
}

/// Returns a webhook of PagerDuty about an incident that was triggered nine minutes ago.
fn of_pagerduty(kind: &str, minutes: i64) -> Value {
    json!({ "event": { "id": kind, "event_type": kind, "occurred_at": ago(minutes), "data": {
        "id": "P1", "title": "Down", "urgency": "high", "created_at": ago(9),
        "service": { "summary": "checkout" },
    }}})
}

/// Returns each kind with the header of its proof, and two requests: the alert fires, and is
/// resolved.
fn senders() -> Vec<(&'static str, &'static str, [Value; 2])> {
    let at = |minutes| ago(minutes);
    let datadog = |transition: &str, minutes: i64| {
        let date = (Utc::now() - TimeDelta::minutes(minutes))
            .timestamp_millis()
            .to_string();
        json!({ "cycle": "1", "transition": transition, "type": "error", "title": "Down",
            "tags": "service:checkout,env:prod", "date": date })
    };
    let cloudwatch = |state: &str, minutes| {
        let alarm = json!({ "AlarmName": "down", "NewStateValue": state,
            "StateChangeTime": at(minutes) });
        json!({ "Type": "Notification", "MessageId": state, "Message": alarm.to_string() })
    };
    let sentry = |action: &str, minutes| {
        json!({ "action": action, "data": { "metric_alert": {
            "id": "7", "date_started": at(9), "date_detected": at(9), "date_closed": at(minutes),
            "alert_rule": { "name": "Down", "projects": ["checkout"] },
        }}})
    };
    let generic = |status: &str| json!({ "title": "Down", "state": status });
    let header = "authorization";
    vec![
        (
            "alertmanager",
            header,
            [
                notification("a", &at(9), None),
                notification("a", &at(9), Some(&at(2))),
            ],
        ),
        (
            "grafana",
            "x-grafana-alerting-signature",
            [
                notification("g", &at(9), None),
                notification("g", &at(9), Some(&at(2))),
            ],
        ),
        (
            "pagerduty",
            "x-pagerduty-signature",
            [
                of_pagerduty("incident.triggered", 9),
                of_pagerduty("incident.resolved", 2),
            ],
        ),
        (
            "datadog",
            header,
            [datadog("Triggered", 9), datadog("Recovered", 2)],
        ),
        (
            "cloudwatch",
            "",
            [cloudwatch("ALARM", 9), cloudwatch("OK", 2)],
        ),
        (
            "sentry",
            "sentry-hook-signature",
            [sentry("critical", 9), sentry("resolved", 2)],
        ),
        (
            "generic-alert",
            "x-signature-256",
            [generic("firing"), generic("resolved")],
        ),
    ]
}

async fn every_sender_opens_and_resolves(app: TestApp) {
    for (kind, header, bodies) in senders() {
        let secret = Some(SECRET).filter(|_| !header.is_empty());
        let source = app.source(kind, kind, secret);
        for body in bodies {
            let body = body.to_string();
            let value = match kind {
                "pagerduty" => format!("v1={}", signed(&body)),
                "generic-alert" => format!("sha256={}", signed(&body)),
                "grafana" | "sentry" => signed(&body),
                _ => format!("Bearer {SECRET}"),
            };
            let request = || {
                let request = app.anonymous().request("POST", &source.path);
                request
                    .header("content-type", "application/json")
                    .header("sentry-hook-resource", "metric_alert")
            };
            if !header.is_empty() {
                let wrong = request().header(header, "v1=00").body(body.clone());
                send(wrong).await.is(401);
            }
            let request = request().body(body);
            let request = if header.is_empty() {
                request
            } else {
                request.header(header, value)
            };
            send(request).await.is(202);
        }
        let outcomes = source.outcomes().await;
        // Without templates, every generic alert fires.
        let second = if kind == "generic-alert" {
            "duplicate"
        } else {
            "updated"
        };
        assert_eq!(outcomes, ["changed", second], "{kind}");
        let list = incidents(&app).await;
        let of_kind = list.iter().filter(|one| one["source"]["kind"] == kind);
        let statuses: Vec<&Value> = of_kind.map(|one| &one["status"]).collect();
        let status = if kind == "generic-alert" {
            "open"
        } else {
            "resolved"
        };
        assert_eq!(statuses, [status], "{kind}");
    }
}

async fn a_storm_opens_an_incident_for_each_group(app: TestApp) {
    const GROUPS: usize = 300;
    let source = app.source("alertmanager", "Alerts", None);
    let starts = ago(1);
    for round in 0..7 {
        for group in 0..GROUPS {
            if round * GROUPS + group >= 2_000 {
                break;
            }
            let body = notification(&format!("group {group}"), &starts, None);
            source.send(&body).await.is(202);
        }
    }
    source.events().await;
    let mut count = 0;
    let mut before = String::new();
    loop {
        let path = format!("/api/incidents?limit=100{before}");
        let page = app.key().read(&path).await;
        let ids = each(&page, "id");
        count += ids.len();
        match ids.last() {
            Some(last) => before = format!("&before={}", text(last)),
            None => break,
        }
    }
    assert_eq!(count, GROUPS);
    // All of them are ranked soon.
    let started = Instant::now();
    while incidents(&app)
        .await
        .iter()
        .any(|one| one["ranked_at"].is_null())
    {
        assert!(started.elapsed() < RANKING_TIMEOUT, "not ranked");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// How long the suspects may take to reach a chat. Two seconds are promised; the machine of a
/// test may be busy.
const CHAT_TIMEOUT: Duration = Duration::from_secs(10);

async fn an_alert_brings_its_suspects_to_a_chat(mut app: TestApp) {
    app.restart_with(&["--allow-receivers", "127.0.0.0/8"])
        .await;
    let receiver = Receiver::start().await;
    receiver.answer_by(|_| Answer::text(200, "ok"));
    let chat = app.connect("slack", "Alerts", &receiver.url(), &[]);
    let key = app.key();
    key.service("checkout").await;
    let deploy = json!({
        "title": "Deploy checkout 4.2", "service_name": "checkout", "environment": "prod",
        "occurred_at": ago(8), "status": "completed",
    });
    key.create("/api/changes", deploy).await;
    receiver.wait_for_text("Deploy checkout 4.2").await;

    let source = app.source("alertmanager", "Alertmanager", None);
    let started = Instant::now();
    let body = notification("checkout", &ago(1), None);
    source.send(&body).await.is(202);
    receiver.wait_for_text("First suspect").await;
    assert!(started.elapsed() < CHAT_TIMEOUT, "{:?}", started.elapsed());
    let messages = receiver.requests();
    let message = messages
        .iter()
        .map(changelog_tests::Received::json)
        .rfind(|message| message.to_string().contains("First suspect"))
        .expect("the suspects");
    slack::check(&message).expect("a message that Slack takes");
    let shown = message.to_string();
    assert_contains(&shown, "Checkout returns 502");
    assert_contains(&shown, "Deploy checkout 4.2: ");
    assert_contains(&shown, "same service: checkout");
    assert_contains(&shown, "/incidents/");
    // It is the only message, unless the ranking took longer than that waits for the suspects.
    let incident = wait_for(&app, |one| !one["ranked_at"].is_null()).await;
    let at = |name: &str| {
        let at = DateTime::parse_from_rfc3339(incident[name].as_str().expect("a time"));
        at.expect("a time")
    };
    let took = at("ranked_at") - at("created_at");
    let deliveries = app.admin(&["integration", "deliveries", &text(&chat["id"])]);
    let opened = deliveries.to_string().contains("incident.opened");
    assert!(
        !opened || took > TimeDelta::milliseconds(800),
        "{took} {deliveries:#}"
    );

    source
        .send(&notification("checkout", &ago(1), Some(&ago(0))))
        .await
        .is(202);
    receiver.wait_for_text("Resolved at ").await;
}

async fn the_suspects_are_a_note_on_the_incident_in_pagerduty(mut app: TestApp) {
    const KEY: &str = "0123456789abcdef0123456789abcdef";
    const FROM: &str = "oncall@example.com";
    app.restart_with(&["--allow-receivers", "127.0.0.0/8"])
        .await;
    let receiver = Receiver::start().await;
    receiver.answer_by(|request| match request.path.as_str() {
        "/v2/change/enqueue" => Answer::status(202),
        _ => Answer::text(201, "{\"note\":{}}"),
    });
    let api_token = format!("u+{}", uuid::Uuid::new_v4());
    let files = [("key", KEY), ("api", &api_token)].map(|(name, secret)| {
        let path = app.folder().join(name);
        std::fs::write(&path, secret).expect("a file");
        path.display().to_string()
    });
    let [key_file, api_file] = &files;
    let url = format!("{}/v2/change/enqueue", receiver.base());
    let mut flags = vec!["--token-file", key_file, "--api-token-file", api_file];
    flags.extend(["--from", FROM, "--min-risk", "high"]);
    let connection = app.connect("pagerduty", "PagerDuty", &url, &flags);
    let notes = |requests: &[Received]| -> Vec<(String, String)> {
        let notes = requests.iter().filter(|one| one.path.contains("/notes"));
        let note = |one| pagerduty::check_note(one, &api_token, FROM).expect("a note");
        notes.map(note).collect()
    };

    let key = app.key();
    key.service("checkout").await;
    let deploy = |title: &str, minutes| {
        json!({
            "title": title, "service_name": "checkout", "occurred_at": ago(minutes),
            "status": "completed",
        })
    };
    let first = key.create("/api/changes", deploy("Deploy checkout 4.2", 12));
    let first = first.await;
    let source = app.source("pagerduty", "PagerDuty", Some(SECRET));
    let send_incident = async |event: &str, minutes| {
        let body = of_pagerduty(event, minutes).to_string();
        let request = app.anonymous().request("POST", &source.path);
        let signature = format!("v1={}", signed(&body));
        let request = request.header("x-pagerduty-signature", signature);
        send(request.body(body)).await.is(202);
    };
    send_incident("incident.triggered", 9).await;
    let requests = receiver.wait_for(1).await;
    let written = notes(&requests);
    let incident = wait_for(&app, |_| true).await;
    assert_eq!(incident["sender_id"], "P1");
    let page = app.at(&format!("/incidents/{}", text(&incident["id"])));
    let (of, note) = &written[0];
    assert_eq!(of, "P1");
    for part in [
        "First suspect: Deploy checkout 4.2: ",
        "same service: checkout",
        &app.at(&format!("/changes/{first}")),
        &page,
    ] {
        assert_contains(note, part);
    }

    // A change that arrives late and becomes the first suspect is worth another note.
    let late = key.create("/api/changes", deploy("Deploy checkout 4.3", 10));
    let late = late.await;
    receiver
        .wait_for_text("First suspect: Deploy checkout 4.3: ")
        .await;
    // At the end, the cause that people have marked.
    let path = format!("/api/incidents/{}/cause", text(&incident["id"]));
    key.put(&path, json!({ "change_id": late })).await.is(200);
    send_incident("incident.resolved", 1).await;
    receiver.wait_for_text("Cause: Deploy checkout 4.3").await;
    let written = notes(&receiver.requests());
    assert_eq!(written.len(), 3, "{written:#?}");
    assert_lacks(&written[2].1, "suspect");

    // Incidents of others are nothing for PagerDuty, and the secrets are not stored in clear.
    let alerts = app.source("alertmanager", "Alertmanager", None);
    alerts.send(&notification("a", &ago(1), None)).await.is(202);
    for title in ["Deploy checkout 4.4", "Deploy checkout 4.5"] {
        let mut deploy = deploy(title, 0);
        deploy["risk_level"] = json!("high");
        key.create("/api/changes", deploy).await;
        receiver.wait_for_text(title).await;
    }
    assert_eq!(notes(&receiver.requests()).len(), 3);
    let listed = app.admin(&["integration", "deliveries", &text(&connection["id"])]);
    assert_lacks(&listed.to_string(), &api_token);
    let shown = app.admin(&["integration", "list", "--org", &app.organization.id]);
    assert_lacks(&shown.to_string(), &api_token);
}

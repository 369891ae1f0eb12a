//! `/api/changes/around` and `chlog around`: changes before a time, ranked with reasons.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::chlog::chlog;
use changelog_tests::openapi::Document;
use changelog_tests::{TestApp, each, keys, on_both, text};

on_both!(suspects_are_ranked_with_their_reasons, chlog_shows_suspects,);

const AT: &str = "2026-03-01T12:00:00.000Z";
const PATH: &str = "/api/changes/around";

/// Creates changes around an incident of the service payments on web-1 at noon.
async fn record(app: &TestApp) -> (String, String) {
    let key = app.key();
    let service = key.create("/api/services", json!({ "name": "payments" }));
    let service = service.await;
    let mut hosts = Vec::new();
    for (name, environment) in [("web-1", "prod"), ("web-2", "prod"), ("lab", "test")] {
        let host = json!({ "hostname": name, "environment": environment });
        hosts.push(key.create("/api/hosts", host).await);
    }
    for (title, at, more) in [
        (
            "of the service",
            "10:30",
            json!({ "service_id": service, "risk_level": "high" }),
        ),
        ("on the host", "10:31", json!({ "host_id": hosts[0] })),
        (
            "of the environment",
            "10:32",
            json!({ "host_id": hosts[1] }),
        ),
        ("elsewhere", "10:33", json!({ "host_id": hosts[2] })),
        ("rolled back", "11:30", json!({ "status": "rolled_back" })),
        ("still running", "11:00", json!({ "status": "in_progress" })),
        ("just before", "11:59", json!({})),
        ("at the moment", "12:00", json!({})),
        ("long before", "09:59", json!({ "service_id": service })),
        ("afterwards", "12:01", json!({ "service_id": service })),
    ] {
        let mut body = json!({
            "title": title, "occurred_at": format!("2026-03-01T{at}:00Z"), "status": "completed",
        });
        for (name, value) in more.as_object().expect("fields") {
            body[name] = value.clone();
        }
        key.create("/api/changes", body).await;
    }
    (service, hosts.swap_remove(0))
}

fn titles(around: &Value) -> Vec<String> {
    let changes = each(&around["data"], "change");
    changes.iter().map(|one| text(&one["title"])).collect()
}

async fn suspects_are_ranked_with_their_reasons(app: TestApp) {
    let (service, host) = record(&app).await;
    let key = app.key();
    let query = format!("{PATH}?at={AT}&service_id={service}&host_id={host}");
    let answer = key.get(&query).await;
    Document::of(&app)
        .await
        .assert_documented("get", PATH, &answer);
    let around = answer.body(200);
    assert_eq!(
        keys(&around),
        ["at", "complete", "considered", "data", "since"]
    );
    assert_eq!(
        (
            &around["at"],
            &around["since"],
            &around["considered"],
            &around["complete"]
        ),
        (
            &json!(AT),
            &json!("2026-03-01T10:00:00.000Z"),
            &json!(8),
            &json!(true)
        )
    );
    assert_eq!(
        titles(&around),
        [
            "of the service",
            "on the host",
            "rolled back",
            "at the moment",
            "still running",
            "just before",
            "of the environment",
            "elsewhere",
        ]
    );
    let first = &around["data"][0];
    assert_eq!(
        first["reasons"],
        json!([
            { "code": "same_service", "points": 40, "text": "same service: payments" },
            { "code": "risk", "points": 15, "text": "high risk" },
            { "code": "recent", "points": 7, "text": "1 hour before" },
        ])
    );
    assert_eq!(first["score"], 62);
    let id = text(&first["change"]["id"]);
    let detail = key.get(&format!("/api/changes/{id}")).await.data(200);
    assert_eq!(first["change"], detail);
    assert_eq!(key.get(&query).await.body(200), around);

    for (more, expected) in [
        (
            "&window_minutes=30",
            &["rolled back", "at the moment", "just before"][..],
        ),
        ("&limit=1", &["rolled back"]),
        (
            "&window_minutes=1&limit=500",
            &["at the moment", "just before"],
        ),
    ] {
        let around = key.get(&format!("{PATH}?at={AT}{more}")).await.body(200);
        assert_eq!(titles(&around), expected, "{more}");
    }
    // Unknown ids match nothing, and another organization sees nothing.
    let nobody = format!("{PATH}?at={AT}&host_id={0}&service_id={0}", Uuid::now_v7());
    assert_eq!(key.get(&nobody).await.body(200)["considered"], 8);
    let other = app.second_organization();
    let theirs = app.with_key(&other.key).get(&query).await.body(200);
    assert_eq!(
        (&theirs["data"], &theirs["considered"]),
        (&json!([]), &json!(0))
    );
    // The default time is now.
    key.change("a moment ago").await;
    assert_eq!(titles(&key.get(PATH).await.body(200)), ["a moment ago"]);
    for (query, pointer, code) in [
        ("at=yesterday", "?at", "invalid_format"),
        ("window_minutes=0", "?window_minutes", "out_of_range"),
        ("window_minutes=10081", "?window_minutes", "out_of_range"),
        ("limit=0", "?limit", "out_of_range"),
        ("window=2h", "?window", "unknown_field"),
    ] {
        let answer = key.get(&format!("{PATH}?{query}")).await;
        answer.violates_query(&[(pointer, code)]);
    }
    app.anonymous().get(PATH).await.problem(401, "unauthorized");
}

async fn chlog_shows_suspects(app: TestApp) {
    record(&app).await;
    let arguments = ["around", AT, "--service", "payments", "--host", "WEB-1"];
    let output = chlog(&app, &arguments).succeeds();
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines.len(), 9, "{}", output.stdout);
    assert!(lines[0].contains("SCORE") && lines[0].contains("REASONS"));
    assert!(
        lines[1].contains("same service: payments, high risk, 1 hour before"),
        "{}",
        output.stdout
    );
    assert!(lines[2].contains("same host: web-1"), "{}", output.stdout);

    let with = |more: &[&'static str]| {
        let mut all = arguments.to_vec();
        all.extend(more);
        chlog(&app, &all).succeeds()
    };
    let around = with(&["--json", "-L", "2"]).json();
    assert_eq!(titles(&around), ["of the service", "on the host"]);
    assert_eq!(around["considered"], 8);
    let ids = with(&["--format", "ids", "--window", "1m"]).stdout;
    assert_eq!(ids.lines().count(), 2, "{ids}");
    let csv = with(&["--format", "csv", "--window", "3h"]).stdout;
    assert!(csv.starts_with("score,reasons,id,title,"), "{csv}");
    assert_eq!(csv.lines().count(), 10, "{csv}");
    let line = with(&["--format", "ndjson", "-L", "1"]).json();
    assert_eq!(line["reasons"][0]["code"], "same_service");

    // Ages and dates are parsed as for `list`.
    assert_eq!(chlog(&app, &["around", "0s"]).succeeds().stdout, "");
    for arguments in [
        &["around"][..],
        &["around", "whenever"],
        &["around", "2h", "--window", "20s"],
        &["around", "2h", "--limit", "0"],
    ] {
        chlog(&app, arguments).exits_with(2);
    }
    chlog(&app, &["around", "2h", "--service", "nobody"]).exits_with(3);
    chlog(&app, &["around", "2h", "--window", "8d"]).exits_with(6);
}

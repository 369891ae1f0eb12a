//! `/api/changes/around` and `chlog around`: changes before a time, ranked with reasons.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::chlog::chlog;
use changelog_tests::openapi::Document;
use changelog_tests::{TestApp, TestClient, assert_contains, each, keys, on_both, text};

on_both!(
    suspects_are_ranked_with_their_reasons,
    invalid_questions_are_refused,
    changes_are_judged_as_of_the_moment,
    related_services_and_symptoms_count,
    what_was_made_by_hand_is_before_its_equals,
    the_next_change_of_an_agent_in_trouble_is_before_its_equals,
    chlog_shows_suspects,
);

pub(super) const AT: &str = "2026-03-01T12:00:00.000Z";
pub(super) const PATH: &str = "/api/changes/around";

/// Creates changes around an incident of the service payments on web-1 at noon.
pub(super) async fn record(app: &TestApp) -> (String, String) {
    let key = app.key();
    let service = key.service("payments");
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
        (
            "undone",
            "11:30",
            json!({ "status": "rolled_back", "outcome": "undone" }),
        ),
        ("still running", "11:00", json!({ "status": "in_progress" })),
        ("just before", "11:59", json!({})),
        ("at the moment", "12:00", json!({})),
        ("long before", "09:59", json!({ "service_id": service })),
        ("afterwards", "12:01", json!({ "service_id": service })),
    ] {
        change(&key, title, at, more).await;
    }
    (service, hosts.swap_remove(0))
}

pub(super) fn titles(around: &Value) -> Vec<String> {
    let changes = each(&around["data"], "change");
    changes.iter().map(|one| text(&one["title"])).collect()
}

/// Requires the reasons of the change with a title, with their points.
#[track_caller]
fn assert_reasons(around: &Value, title: &str, expected: &[(i64, &str)]) {
    let expected: Vec<(i64, String)> = expected
        .iter()
        .map(|(points, text)| (*points, (*text).to_owned()))
        .collect();
    assert_eq!(reasons(around, title), expected, "{title}");
}

/// Returns the reasons of the change with a title, in words with their points, without
/// those for recency and risk.
pub(super) fn reasons(around: &Value, title: &str) -> Vec<(i64, String)> {
    let data = around["data"].as_array().expect("a list");
    let found = data.iter().find(|one| one["change"]["title"] == title);
    let found = found.unwrap_or_else(|| panic!("no {title}: {around}"));
    let reasons = found["reasons"].as_array().expect("a list");
    let sum: i64 = reasons
        .iter()
        .filter_map(|one| one["points"].as_i64())
        .sum();
    assert_eq!(found["score"], sum, "{title}");
    let told = reasons
        .iter()
        .filter(|one| one["code"] != "recent" && one["code"] != "risk");
    let in_words = |one: &Value| (one["points"].as_i64().expect("points"), text(&one["text"]));
    told.map(in_words).collect()
}

/// Creates a change on the day of the incident.
pub(super) async fn change(key: &TestClient, title: &str, time: &str, more: Value) -> String {
    let mut body = json!({
        "title": title, "occurred_at": format!("2026-03-01T{time}:00Z"), "status": "completed",
    });
    for (name, value) in more.as_object().expect("fields") {
        body[name] = value.clone();
    }
    key.create("/api/changes", body).await
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
        [
            "at",
            "complete",
            "considered",
            "coverage",
            "data",
            "facets",
            "since",
            "widened",
            "window_minutes"
        ]
    );
    let mut rest = around.clone();
    rest["data"].take();
    rest["facets"].take();
    assert_eq!(rest["coverage"]["gaps"], json!([]));
    rest["coverage"].take();
    assert_eq!(
        rest,
        json!({
            "at": AT, "since": "2026-02-28T12:00:00.000Z", "window_minutes": 1_440,
            "widened": false, "considered": 9, "complete": true, "data": null, "facets": null,
            "coverage": null,
        })
    );
    assert_eq!(
        titles(&around),
        [
            "of the service",
            "on the host",
            "long before",
            "still running",
            "at the moment",
            "just before",
            "of the environment",
            "elsewhere",
            "undone",
        ]
    );
    let first = &around["data"][0];
    assert_eq!(
        first["reasons"],
        json!([
            { "code": "recent", "points": 70, "text": "1 hour before" },
            { "code": "same_service", "points": 64, "text": "same service: payments" },
            { "code": "risk", "points": 15, "text": "high risk" },
        ])
    );
    assert_eq!(first["score"], 149);
    for (title, expected) in [
        ("on the host", (64, "same host: web-1")),
        ("of the environment", (15, "same environment: prod")),
        ("still running", (20, "still in progress")),
        ("undone", (-20, "undone 30 minutes before")),
    ] {
        let (points, words) = expected;
        assert_eq!(reasons(&around, title), [(points, words.to_owned())]);
    }
    let id = text(&first["change"]["id"]);
    let detail = key.read(&format!("/api/changes/{id}")).await;
    assert_eq!(first["change"], detail);
    assert_eq!(key.body(&query).await, around);

    for (more, expected) in [
        (
            "&window_minutes=30",
            &["at the moment", "just before", "undone"][..],
        ),
        ("&limit=1", &["still running"]),
        (
            "&window_minutes=1&limit=500",
            &["at the moment", "just before"],
        ),
    ] {
        let around = key.body(&format!("{PATH}?at={AT}{more}")).await;
        assert_eq!(titles(&around), expected, "{more}");
    }
    // Unknown ids match nothing, and another organization sees nothing.
    let nobody = format!("{PATH}?at={AT}&host_id={0}&service_id={0}", Uuid::now_v7());
    assert_eq!(key.body(&nobody).await["considered"], 9);
    let other = app.second_organization();
    let theirs = app.with_key(&other.key).body(&query).await;
    assert_eq!(theirs["data"], json!([]));
    assert_eq!(theirs["considered"], 0);
    assert_eq!(
        theirs["facets"],
        json!({ "services": [], "environments": [] })
    );
    // The default time is now.
    change_now(&key).await;
    assert_eq!(titles(&key.body(PATH).await), ["a moment ago"]);
}

async fn invalid_questions_are_refused(app: TestApp) {
    let key = app.key();
    for (query, pointer, code) in [
        ("at=yesterday", "?at", "invalid_format"),
        ("window_minutes=0", "?window_minutes", "out_of_range"),
        ("window_minutes=10081", "?window_minutes", "out_of_range"),
        ("limit=0", "?limit", "out_of_range"),
        ("window=2h", "?window", "unknown_field"),
        ("planned=maybe", "?planned", "invalid_format"),
        ("environment=moon", "?environment", "unknown_value"),
    ] {
        let answer = key.get(&format!("{PATH}?{query}")).await;
        answer.violates_query(&[(pointer, code)]);
    }
    app.anonymous().get(PATH).await.problem(401, "unauthorized");
}

async fn change_now(key: &TestClient) {
    let body = json!({ "title": "a moment ago", "status": "completed" });
    key.create("/api/changes", body).await;
}

async fn changes_are_judged_as_of_the_moment(app: TestApp) {
    let key = app.key();
    let undone = |time: &str, more: Value| {
        let mut fields = json!({
            "status": "rolled_back", "ended_at": format!("2026-03-01T{time}:00Z"),
        });
        for (name, value) in more.as_object().expect("fields") {
            fields[name] = value.clone();
        }
        fields
    };
    for (title, time, more) in [
        ("undone before", "11:00", undone("11:55", json!({}))),
        ("undone after", "08:00", undone("12:12", json!({}))),
        (
            "failed before",
            "11:01",
            undone("11:55", json!({ "outcome": "failed" })),
        ),
        (
            "failed after",
            "11:02",
            undone("12:12", json!({ "outcome": "failed" })),
        ),
        (
            "ended after",
            "11:03",
            json!({ "ended_at": "2026-03-01T12:01:00Z" }),
        ),
        (
            "ended before",
            "11:04",
            json!({ "ended_at": "2026-03-01T11:59:00Z" }),
        ),
        ("running", "11:05", json!({ "status": "in_progress" })),
        ("planned", "11:06", json!({ "status": "planned" })),
        ("started after", "12:01", json!({})),
    ] {
        change(&key, title, time, more).await;
    }
    let path = format!("{PATH}?at={AT}");
    let around = key.body(&path).await;
    assert_eq!(titles(&around)[0], "undone after");
    assert_eq!(around["considered"], 7);
    for (title, expected) in [
        ("undone before", &[(-20, "undone 5 minutes before")][..]),
        ("undone after", &[(400, "rolled back 12 minutes later")]),
        ("failed before", &[]),
        ("failed after", &[(20, "in progress at that time")]),
        ("ended after", &[(20, "in progress at that time")]),
        ("ended before", &[]),
        ("running", &[(20, "still in progress")]),
    ] {
        assert_reasons(&around, title, expected);
    }
    let planned = key.body(&format!("{path}&planned=true")).await;
    assert_eq!(planned["considered"], 8);
    assert!(titles(&planned).contains(&"planned".to_owned()));
    // Earlier, what was undone at 11:55 was in progress or completed, and not suspected
    // by anyone yet.
    let earlier = format!("{PATH}?at=2026-03-01T11:30:00Z");
    let earlier = key.body(&earlier).await;
    let expected = (400, "rolled back 25 minutes later".to_owned());
    assert_eq!(reasons(&earlier, "undone before"), [expected]);

    // What had ended at the moment and is marked as undone now was suspected.
    for title in ["ended before", "failed before"] {
        let changes = each(&around["data"], "change");
        let found = changes.iter().find(|change| change["title"] == title);
        let id = text(&found.expect("it is listed")["id"]);
        let of_change = format!("/api/changes/{id}");
        // An update of something else keeps the time.
        for patch in [json!({ "outcome": "undone" }), json!({ "impact": "none" })] {
            key.update(&of_change, patch).await;
        }
        let again = key.body(&path).await;
        let (points, text) = reasons(&again, title).remove(0);
        assert!(
            points == 400 && text.starts_with("rolled back "),
            "{title}: {text}"
        );
        assert!(text.ends_with("days later"), "{title}: {text}");
    }
}

async fn related_services_and_symptoms_count(app: TestApp) {
    let key = app.key();
    let mut ids = Vec::new();
    for name in ["payments", "postgres", "checkout", "search", "card-vault"] {
        ids.push(key.service(name).await);
    }
    let [payments, postgres, checkout, search, cards] = &ids[..] else {
        unreachable!("five services");
    };
    for (service, needs) in [(payments, postgres), (checkout, payments)] {
        let path = format!("/api/services/{service}");
        key.update(&path, json!({ "depends_on": [needs] })).await;
    }
    for (title, time, services) in [
        ("own", "10:00", json!([payments, search])),
        ("touched", "10:01", json!([search, payments])),
        ("needed", "10:02", json!([search, postgres])),
        ("needing", "10:03", json!([checkout])),
        ("Raise the timeout", "10:04", json!([search])),
        ("for cards", "10:05", json!([search, cards])),
    ] {
        change(&key, title, time, json!({ "service_ids": services })).await;
    }
    let body = json!({ "environment": "staging" });
    change(&key, "Revert \"own\"", "10:06", body).await;
    let query = format!("{PATH}?at={AT}&service_id={payments}&q=Card+timeout+of+the+card!");
    let around = key.body(&format!("{query}&environment=staging")).await;
    for (title, expected) in [
        ("own", &[(64, "same service: payments")][..]),
        (
            "touched",
            &[(48, "touched payments"), (-12, "3 newer changes to search")],
        ),
        (
            "needed",
            &[
                (24, "payments depends on postgres"),
                (-10, "2 newer changes to search"),
            ],
        ),
        ("needing", &[(10, "checkout depends on payments")]),
        (
            "Raise the timeout",
            &[(10, "mentions timeout"), (-6, "1 newer change to search")],
        ),
        ("for cards", &[(10, "mentions card")]),
        (
            "Revert \"own\"",
            &[
                (15, "same environment: staging"),
                (-20, "undoes an earlier change"),
            ],
        ),
    ] {
        assert_reasons(&around, title, expected);
    }
}

async fn what_was_made_by_hand_is_before_its_equals(app: TestApp) {
    let key = app.key();
    for (title, more) in [
        ("in a console", json!({ "tags": ["aws", "by-hand"] })),
        ("by the pipeline", json!({ "tags": ["aws", "not-by-hand"] })),
        ("of high risk", json!({ "risk_level": "high" })),
    ] {
        change(&key, title, "11:59", more).await;
    }
    // The tag of another organization's change says nothing of this one's.
    let other = app.second_organization();
    let theirs = app.with_key(&other.key);
    change(&theirs, "theirs", "11:59", json!({ "tags": ["by-hand"] })).await;
    let around = key.body(&format!("{PATH}?at={AT}")).await;
    let expected = ["of high risk", "in a console", "by the pipeline"];
    assert_eq!(titles(&around), expected);
    assert_reasons(&around, "in a console", &[(10, "made by hand")]);
    assert_reasons(&around, "by the pipeline", &[]);
    assert_eq!(around["data"][1]["reasons"][1]["code"], "by_hand");
    let table = chlog(&app, &["around", AT]).succeeds().stdout;
    assert_contains(&table, "1 minute before, made by hand");
}

async fn the_next_change_of_an_agent_in_trouble_is_before_its_equals(app: TestApp) {
    let key = app.key();
    let by = |agent: &str| json!({ "agent": { "name": agent } });
    for time in ["10:10", "10:20"] {
        let mut failed = by("bot");
        failed["status"] = json!("rolled_back");
        failed["outcome"] = json!("failed");
        change(&key, &format!("failed at {time}"), time, failed).await;
    }
    for (title, agent) in [("of the agent", "bot"), ("of another", "other")] {
        change(&key, title, "11:59", by(agent)).await;
    }
    let around = key.body(&format!("{PATH}?at={AT}")).await;
    assert_eq!(titles(&around)[..2], ["of the agent", "of another"]);
    let told = "2 of 2 other changes by bot before had failed or been undone";
    assert_reasons(&around, "of the agent", &[(10, told)]);
    assert_reasons(&around, "of another", &[]);
    assert_eq!(around["data"][0]["reasons"][1]["code"], "agent_in_trouble");
}

async fn chlog_shows_suspects(app: TestApp) {
    record(&app).await;
    let arguments = ["around", AT, "--service", "payments", "--host", "WEB-1"];
    let output = chlog(&app, &arguments).succeeds();
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines.len(), 10, "{}", output.stdout);
    assert!(lines[0].contains("SCORE") && lines[0].contains("REASONS"));
    assert!(
        lines[1].contains("1 hour before, same service: payments, high risk"),
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
    assert_eq!(around["considered"], 9);
    let ids = with(&["--format", "ids", "--window", "1m"]).stdout;
    assert_eq!(ids.lines().count(), 2, "{ids}");
    let csv = with(&["--format", "csv", "--window", "3h"]).stdout;
    assert!(csv.starts_with("score,reasons,id,title,"), "{csv}");
    assert_eq!(csv.lines().count(), 10, "{csv}");
    let line = with(&["--format", "ndjson", "-L", "1"]).json();
    assert_eq!(line["reasons"][1]["code"], "same_service");

    // Ages and dates are parsed as for `list`.
    for now in [&["around"][..], &["around", "0s"]] {
        assert_eq!(chlog(&app, now).succeeds().stdout, "");
    }
    for arguments in [
        &["around", "whenever"][..],
        &["around", "2h", "--window", "20s"],
        &["around", "2h", "--limit", "0"],
    ] {
        chlog(&app, arguments).exits_with(2);
    }
    chlog(&app, &["around", "2h", "--service", "nobody"]).exits_with(3);
    chlog(&app, &["around", "2h", "--window", "8d"]).exits_with(6);
}

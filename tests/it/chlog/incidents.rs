//! `chlog incident` and `chlog around --incident`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chlog::chlog;
use changelog_tests::{TestApp, assert_contains, each, on_both, on_one, text};

on_both!(
    incidents_are_opened_found_and_resolved,
    a_cause_is_marked_and_cleared,
);
on_one!(
    an_incident_is_the_start_of_a_post_mortem,
    around_takes_an_incident,
    wrong_input_is_refused,
    formats_of_incidents_agree,
);

/// How long suspects may take.
const RANKING_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens an incident, and returns its id.
fn open(app: &TestApp, line: &str) -> String {
    let opened = chlog(app, &format!("incident open --json {line}")).succeeds();
    text(&opened.json()["data"]["id"])
}

/// Records a change ten minutes before now, and returns its id.
async fn deploy(app: &TestApp, service: &str) -> String {
    let at = chrono::Utc::now() - chrono::TimeDelta::minutes(10);
    let body = json!({ "title": "Deploy *payments* 4.2", "service_id": service,
        "environment": "prod", "status": "completed", "started_at": at, "ended_at": at });
    app.key().create("/api/changes", body).await
}

/// Waits until the suspects of an incident were ranked.
async fn ranked(app: &TestApp, id: &str) {
    let path = format!("/api/incidents/{id}");
    let started = Instant::now();
    while app.key().read(&path).await["ranked_at"].is_null() {
        assert!(started.elapsed() < RANKING_TIMEOUT, "not ranked");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn incidents_are_opened_found_and_resolved(app: TestApp) {
    let service = app.key().service("Payments").await;
    let line = "'Checkout returns 502' --service payments --env PROD --severity critical \
                --at 10m --link https://alerts.example.com/7";
    let first = open(&app, line);
    let incident = app.key().read(&format!("/api/incidents/{first}")).await;
    assert_eq!(incident["service_id"], service.as_str());
    assert_eq!(
        (&incident["environment"], &incident["severity"]),
        (&json!("prod"), &json!("critical"))
    );
    assert_eq!(incident["url"], "https://alerts.example.com/7");
    let second = open(&app, "'Search is slow'");
    chlog(&app, "incident open 'A third'")
        .succeeds()
        .prints("  A third\n");

    // By the beginning of the id, and by the address of the page.
    let short = &first[..13];
    chlog(&app, &format!("incident show {short}"))
        .succeeds()
        .prints("environment  prod\n");
    let both = &first[..8];
    let ambiguous = chlog(&app, &format!("incident show {both}")).exits_with(2);
    ambiguous.says("several incidents have IDs that begin with");
    ambiguous.says("Search is slow");
    chlog(&app, "incident resolve ffffffff")
        .exits_with(3)
        .says("there is no incident whose ID begins with ffffffff");
    let page = format!("https://example.com/incidents/{second}");
    let resolved = chlog(&app, &format!("incident resolve {page} --json")).succeeds();
    assert_eq!(resolved.json()["data"]["status"], "resolved");
    chlog(&app, &format!("incident resolve {first} --at 5m")).succeeds();
    let incident = app.key().read(&format!("/api/incidents/{first}")).await;
    assert_ne!(incident["resolved_at"], incident["updated_at"]);

    let ids = |line: &str| {
        let listed = chlog(&app, &format!("incident list --format ids {line}")).succeeds();
        listed.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ids("").len(), 3);
    assert_eq!(ids("--status resolved"), [second.clone(), first.clone()]);
    assert_eq!(ids("--service payments"), [first.as_str()]);
    assert_eq!(ids("--until 5m"), [first.as_str()]);
    assert_eq!(ids("--since 5m --status resolved"), [second]);
    assert_eq!(ids("-L 2").len(), 2);
    assert_eq!(ids("--all").len(), 3);
    chlog(&app, "incident ls --since 1h --until 2h").exits_with(2);
}

async fn a_cause_is_marked_and_cleared(app: TestApp) {
    let service = app.key().service("payments").await;
    let change = deploy(&app, &service).await;
    let id = open(&app, "Down --service payments");
    let cause = |line: &str| {
        let marked = chlog(&app, &format!("incident cause {id} {line} --json")).succeeds();
        marked.json()["data"]["cause"].take()
    };
    assert_eq!(cause(&change[..13])["change_id"], change.as_str());
    assert_eq!(cause("--none")["change_id"], Value::Null);
    assert_eq!(cause("--clear"), Value::Null);
    for wrong in [
        format!("incident cause {id}"),
        format!("incident cause {id} {change} --none"),
        format!("incident cause {id} {change} --clear"),
        format!("incident cause {id} --none --clear"),
    ] {
        chlog(&app, &wrong).exits_with(2);
    }
    let unknown = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
    chlog(&app, &format!("incident cause {id} {unknown}"))
        .exits_with(6)
        .says("must be the id of a change");
}

async fn an_incident_is_the_start_of_a_post_mortem(app: TestApp) {
    let service = app.key().service("payments").await;
    let change = deploy(&app, &service).await;
    let id = open(
        &app,
        "'Checkout <b>down</b>' --service payments --env prod --at 5m",
    );
    ranked(&app, &id).await;
    chlog(&app, &format!("incident cause {id} {change}")).succeeds();
    chlog(&app, &format!("incident resolve {id}")).succeeds();
    let shown = chlog(&app, &format!("incident show {id} --format md")).succeeds();
    let link = format!(
        "[Deploy \\*payments\\* 4.2](<{}/changes/{change}>)",
        app.url()
    );
    for part in [
        "# Checkout \\<b\\>down\\</b\\>\n".to_owned(),
        "\n## Suspects\n\n1. ".to_owned() + &link,
        "\n   - same service: payments\n".to_owned(),
        format!("\n## Cause\n\n{link}, says "),
        "**Resolved**".to_owned(),
        "- **Cause found:** ".to_owned(),
    ] {
        assert_contains(&shown.stdout, &part);
    }
    chlog(&app, "list --format md")
        .exits_with(2)
        .says("only `chlog incident show` writes Markdown");
}

async fn around_takes_an_incident(app: TestApp) {
    let service = app.key().service("payments").await;
    let change = deploy(&app, &service).await;
    let id = open(&app, "Down --service payments --env prod --at 5m");
    let incident = app.key().read(&format!("/api/incidents/{id}")).await;
    let line = format!("around --incident {} --json", &id[..13]);
    let around = chlog(&app, &line).succeeds().json();
    assert_eq!(around["at"], incident["started_at"]);
    assert_eq!(around["data"][0]["change"]["id"], change.as_str());
    let codes = each(&around["data"][0]["reasons"], "code");
    assert!(codes.contains(&&json!("same_service")), "{codes:?}");
    assert!(codes.contains(&&json!("same_environment")), "{codes:?}");
    for flag in ["--service payments", "--env prod", "08:30"] {
        chlog(&app, &format!("around --incident {id} {flag}"))
            .exits_with(2)
            .says("cannot be used with");
    }
    chlog(
        &app,
        &format!("around --incident {id} --symptom timeout --window 6h"),
    )
    .succeeds();
}

async fn wrong_input_is_refused(app: TestApp) {
    for (line, code, words) in [
        ("incident open ab", 6, "title"),
        ("incident open Down --at 'in 2h'", 6, "--at"),
        ("incident open Down --link ftp://e.com", 6, "--link"),
        ("incident open Down --severity bad", 2, "--severity"),
        (
            "incident open Down --service nobody",
            3,
            "there is no service",
        ),
        ("incident list --status closed", 2, "--status"),
        (
            "incident list --service ''",
            2,
            "--service: must not be empty",
        ),
        ("incident show @last", 2, "must be the ID of an incident"),
        (
            "incident list --columns nothing",
            2,
            "unknown column nothing",
        ),
        ("watch --incidents --format csv", 2, "--format ndjson"),
    ] {
        chlog(&app, line).exits_with(code).says(words);
    }
    let reading = text(&app.create_key(&["--scope", "read"])["key"]);
    let mut command = app.chlog();
    command.env("CHLOG_API_KEY", &reading);
    let refused = crate::chlog::ChlogOutput::of(command.args(["incident", "open", "Down"]));
    refused.exits_with(4).says("record");
}

async fn formats_of_incidents_agree(app: TestApp) {
    let service = app.key().service("payments").await;
    deploy(&app, &service).await;
    let id = open(
        &app,
        "'Down\u{202e}' --service payments --severity critical --at 5m",
    );
    ranked(&app, &id).await;
    let api = app.key().body("/api/incidents").await;
    assert_eq!(chlog(&app, "incident list --json").succeeds().json(), api);
    let csv = chlog(&app, "incident list --format csv").succeeds().stdout;
    assert!(
        csv.starts_with("id,title,severity,status,service,"),
        "{csv}"
    );
    assert_contains(&csv, ",payments,,");
    assert_contains(&csv, ",Deploy *payments* 4.2,,,");
    let table = chlog(&app, "incident list").succeeds().stdout;
    assert_contains(&table, "critical");
    assert_contains(&table, "Down<U+202E>");
    let fields = chlog(&app, "incident list --json=id,severity")
        .succeeds()
        .json();
    assert_eq!(
        fields["data"],
        json!([{ "id": id, "severity": "critical" }])
    );
    let detail = app.key().body(&format!("/api/incidents/{id}")).await;
    let shown = chlog(&app, &format!("incident show {id} --json"));
    assert_eq!(shown.succeeds().json(), detail);
    let columns = chlog(&app, "incident list --columns id,suspect,started_at").succeeds();
    columns.prints("STARTED AT");
}

//! `chlog export`: what it writes is what `chlog import` reads.

use serde_json::{Value, json};

use crate::chlog::import::{all_changes, chlog_of};
use crate::chlog::{ChlogOutput, chlog, newest};
use changelog_tests::{TestApp, on_one};

on_one!(
    an_export_can_be_imported_into_another_organization,
    a_dry_run_of_an_export_creates_nothing,
    an_export_is_streamed_and_filtered,
);

/// Creates changes that are hard to serialize.
async fn create_tricky_changes(app: &TestApp) {
    let key = app.key();
    let service = json!({ "name": "=payments; \"eu\"", "color": "#ff0000" });
    let service = key.create("/api/services", service).await;
    let search = key.service("search").await;
    let host = json!({ "hostname": "web,1", "environment": "prod" });
    let host = key.create("/api/hosts", host).await;
    let bodies = [
        json!({ "title": "=HYPERLINK(\"http://evil\")", "tags": ["a;b", "c=d", "e\\", "'=x"] }),
        json!({ "title": "'=quoted", "description": "- a list\n- of \"two\"\n\tand, more" }),
        json!({ "title": "'+1'", "impact": "@all" }),
        json!({
            "title": "Überlauf 数据库 🚀", "risk_level": "high", "status": "rolled_back",
            "service_id": service, "host_id": host, "scheduled_for": "2030-01-01T00:00:00.123Z",
            "links": [
                { "label": "a=b;c", "url": "https://e.com/?a=b;c&d=\\" },
                { "label": "run", "url": "https://e.com/run" },
            ],
        }),
        json!({
            "title": "Several", "status": "rolled_back", "outcome": "failed",
            "service_ids": [search, service], "environment": "staging",
            "started_at": "2026-01-01T01:00:00Z", "ended_at": "2026-01-01T01:01:00Z",
            "on_behalf_of": "=ada", "agent": { "name": "bot", "mode": "autonomous" },
            "commit": "1a2b3c4", "committed_at": "2025-12-31T00:00:00Z",
        }),
        json!({ "title": "Twice", "service_id": service }),
        json!({ "title": "Twice", "service_id": service }),
        json!({ "title": "Old", "occurred_at": "1970-01-01T00:00:00Z", "status": "in_progress" }),
    ];
    for mut body in bodies {
        if body["occurred_at"].is_null() {
            body["occurred_at"] = json!("2026-01-01T00:00:00.007Z");
        }
        key.create("/api/changes", body).await;
    }
}

async fn an_export_can_be_imported_into_another_organization(app: TestApp) {
    create_tricky_changes(&app).await;
    let there = app.second_organization();
    let author = newest(&app).await["created_by"]["name"].take();
    let mut here = all_changes(&app, &app.organization.key).await;
    assert_eq!(here.len(), 8);
    for change in &mut here {
        // The author of an exported change is known there by name only.
        if change["on_behalf_of"].is_null() {
            change["on_behalf_of"] = author.clone();
        }
    }
    let exported = chlog(&app, "export").succeeds().stdout;
    assert_eq!(exported.lines().count(), 8);
    let import = |input: &str| {
        let mut command = chlog_of(&app, &there);
        ChlogOutput::of(command.args(["import", "-"]).write_stdin(input.to_owned())).succeeds()
    };
    let output = import(&exported);
    output.says("imported 8, skipped 0 already present");
    assert_eq!(all_changes(&app, &there.key).await, here);
    let output = import(&exported);
    output.says("imported 0, skipped 8 already present");
    // A CSV export is recognized as well.
    let table = chlog(&app, "export --format csv").succeeds().stdout;
    assert!(table.contains("\"'=HYPERLINK"), "{table}");
    let output = import(&table);
    output.says("imported 0, skipped 8 already present");
    assert_eq!(all_changes(&app, &there.key).await, here);
    // A CSV import into a third organization, without the columns that CSV does not have.
    let third = app.admin(&["org", "create", "--name", "Third", "--plan", "pro"]);
    let third = third["organization"]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let key = app.admin(&["key", "create", "--org", &third, "--name", "k"]);
    let key = key["key"].as_str().expect("a key");
    let mut command = app.chlog();
    command.env("CHLOG_API_KEY", key).args(["import", "-"]);
    ChlogOutput::of(command.write_stdin(table)).succeeds();
    let plain = |changes: Vec<Value>| -> Vec<Value> {
        let mut changes = changes;
        for change in &mut changes {
            if let Some(service) = change["service"].as_object_mut() {
                service.remove("color");
            }
            if let Some(services) = change["services"].as_array_mut() {
                for service in services {
                    service["color"].take();
                }
            }
            if let Some(host) = change["host_ref"].as_object_mut() {
                host.remove("environment");
            }
        }
        changes
    };
    assert_eq!(plain(all_changes(&app, key).await), plain(here));
    // The download of the dashboard can be imported too.
    let browser = app.browser().await;
    let download = browser.page("/changes.csv").await;
    let output = import(&download);
    output.says("imported 0, skipped 8 already present");
}

async fn a_dry_run_of_an_export_creates_nothing(app: TestApp) {
    create_tricky_changes(&app).await;
    let there = app.second_organization();
    let exported = chlog(&app, "export").succeeds().stdout;
    let mut command = chlog_of(&app, &there);
    let command = command.args(["import", "-", "--dry-run"]);
    let output = ChlogOutput::of(command.write_stdin(exported)).succeeds();
    for words in [
        "=payments; \"eu\" would be created",
        "web,1 would be created",
        "would import 8, skipped 0 already present, rejected 0",
    ] {
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    }
    let key = app.with_key(&there.key);
    for path in ["/api/services", "/api/hosts"] {
        assert_eq!(key.read(path).await, json!([]), "{path}");
    }
    assert!(all_changes(&app, &there.key).await.is_empty());
}

async fn an_export_is_streamed_and_filtered(app: TestApp) {
    let changes: Vec<Value> = (0..250)
        .map(|n| json!({ "title": format!("Deploy {n}"), "risk_level": if n < 3 { "high" } else { "low" } }))
        .collect();
    app.key().create_changes(changes).await;
    assert_eq!(chlog(&app, "export").succeeds().stdout.lines().count(), 250);
    let output = chlog(&app, "export --risk high").succeeds();
    assert_eq!(output.stdout.lines().count(), 3);
    for line in output.stdout.lines() {
        let change: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(change["risk_level"], "high");
    }
    let output = chlog(&app, "export -q 'deploy 7' --format csv").succeeds();
    assert!(output.stdout.starts_with("id,title,"), "{}", output.stdout);
    assert_eq!(
        chlog(&app, "export --format ids")
            .succeeds()
            .stdout
            .lines()
            .count(),
        250
    );
    assert_eq!(chlog(&app, "export --risk medium").succeeds().stdout, "");
    chlog(&app, "export --service nobody").exits_with(3);
    chlog(&app, "export --limit 3").exits_with(2);
}

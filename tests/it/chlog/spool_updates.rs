//! Updates wait for the server as well, also those of changes that still wait.

use std::fs;
use std::path::PathBuf;

use changelog_core::Timestamp;
use serde_json::{Value, json};

use crate::chlog::spool::{chlog_through, spool_folder, spooled_files};
use crate::chlog::{chlog, newest};
use changelog_tests::{FaultyProxy, ProxyMode, TestApp, on_one};

on_one!(
    a_queued_change_is_updated_by_the_id_that_was_printed,
    updates_of_recorded_changes_are_queued,
    a_queued_status_does_not_replace_a_later_one,
    an_update_of_a_rejected_change_waits_with_it,
    a_command_updates_its_change_while_the_server_is_unavailable,
);

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

async fn a_queued_change_is_updated_by_the_id_that_was_printed(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    let through = |arguments: &[&str]| chlog_through(&app, &proxy, arguments);
    let log = [
        "log",
        "Deploy payments",
        "--status",
        "in_progress",
        "--format",
        "ids",
    ];
    let output = through(&log).succeeds();
    let id = output.stdout.trim().to_owned();
    assert_eq!(id.len(), 36, "{}", output.stdout);
    let json = through(&["log", "Another one", "--json"]).succeeds().json();
    assert_eq!(json["data"]["queued"], true);
    assert_eq!(json["data"]["title"], "Another one");

    let tag = [
        "update",
        &id,
        "--tag",
        "late,b",
        "--remove-tag",
        "b",
        "--service",
        "payments",
    ];
    let mut tag = tag.to_vec();
    tag.push("--create-missing");
    let output = through(&tag).succeeds();
    assert!(
        output.stdout.starts_with(&format!("{id}  queued")),
        "{}",
        output.stdout
    );
    let done = through(&["done", &id, "--format", "ids"]).succeeds();
    assert_eq!(done.stdout.trim(), id);
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 4);
    let ended = chrono::Utc::now();

    proxy.set_mode(ProxyMode::Forward);
    through(&["spool", "flush"]).succeeds();
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 0);
    let list = app.key().body("/api/changes?q=payments").await;
    let change = &list["data"][0];
    assert_eq!(list["count"], 1);
    assert_eq!(change["status"], "completed");
    assert_eq!(change["tags"], json!(["late", "b"]));
    assert_eq!(change["service_ids"].as_array().map(Vec::len), Some(1));
    let end: chrono::DateTime<chrono::Utc> = text(&change["ended_at"]).parse().expect("a time");
    assert!(
        end <= ended,
        "the end is that of the command, not of the delivery"
    );
    assert!(text(&change["started_at"]) < text(&change["ended_at"]));

    // The printed id still works, and a change that waits is sent before its update.
    let again = chlog(&app, &format!("rollback {id} --reason errors")).succeeds();
    assert!(
        again.stdout.starts_with(text(&change["id"])),
        "{}",
        again.stdout
    );
    proxy.set_mode(ProxyMode::Closing);
    let id = through(&[
        "log",
        "Short outage",
        "--status",
        "planned",
        "--format",
        "ids",
    ]);
    let id = id.succeeds().stdout.trim().to_owned();
    proxy.set_mode(ProxyMode::Forward);
    let started = through(&["start", &id, "--json"]).succeeds().json();
    assert_eq!(started["data"]["title"], "Short outage");
    assert_eq!(started["data"]["status"], "in_progress");
    assert_eq!(newest(&app).await["status"], "in_progress");
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 0);
}

async fn updates_of_recorded_changes_are_queued(app: TestApp) {
    let log = "log Deploy --status in_progress --tag a --format ids";
    let id = chlog(&app, log).succeeds().stdout.trim().to_owned();
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    let through = |arguments: &[&str]| chlog_through(&app, &proxy, arguments);
    through(&["update", &id, "--tag", "b", "--risk", "high"]).succeeds();
    through(&["rollback", &id, "--reason", "errors"]).succeeds();
    // A mistake is not queued.
    through(&["update", &id, "--title", "x"]).exits_with(6);
    through(&["update", &id]).exits_with(2);
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 2);
    // Meanwhile another user adds a tag.
    chlog_direct_tag(&app, &id).await;
    proxy.set_mode(ProxyMode::Forward);
    through(&["spool", "flush"]).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["status"], "rolled_back");
    assert_eq!(change["risk_level"], "high");
    assert_eq!(change["tags"], json!(["a", "other", "b"]));
}

async fn a_queued_status_does_not_replace_a_later_one(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    let through = |arguments: &[&str]| chlog_through(&app, &proxy, arguments);
    for (first, queued, later) in [
        ("planned", "start", "completed"),
        ("in_progress", "done", "rolled_back"),
    ] {
        let body = json!({ "title": "Switch", "status": first });
        let id = app.key().create("/api/changes", body).await;
        proxy.set_mode(ProxyMode::Closing);
        let before = chrono::Utc::now().timestamp_millis();
        through(&[queued, &id, "--format", "ids"]).succeeds();
        // Meanwhile another user, whose request arrives.
        let path = format!("/api/changes/{id}");
        let meanwhile = json!({ "status": later });
        let expected = app.key().update(&path, meanwhile).await;
        proxy.set_mode(ProxyMode::Forward);
        let flushed = through(&["spool", "flush"]).succeeds();
        let note = format!("the status of {id} stays {later}");
        flushed.says(&note);
        let change = app.key().read(&path).await;
        for field in ["status", "outcome", "ended_at"] {
            assert_eq!(change[field], expected[field], "{queued}: {field}");
        }
        let time = |field: &str| -> Timestamp { text(&change[field]).parse().expect("a time") };
        assert!(time("started_at") < time("ended_at"), "{change}");
        if queued == "start" {
            // It was started when the user said so.
            assert!(time("started_at").millis() >= before, "{change}");
            assert_ne!(change["started_at"], expected["started_at"]);
        }
    }
    assert_eq!(spooled_files(&spool_folder(&app)), Vec::<PathBuf>::new());
}

/// Sets the tags of a change without `chlog`, which would send queued changes.
async fn chlog_direct_tag(app: &TestApp, id: &str) {
    let patch = json!({ "tags": ["a", "other"] });
    let endpoint = format!("/api/changes/{id}");
    app.key().update(&endpoint, patch).await;
}

async fn an_update_of_a_rejected_change_waits_with_it(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    let through = |arguments: &[&str]| chlog_through(&app, &proxy, arguments);
    let log = [
        "log",
        "Deploy ghost",
        "--status",
        "in_progress",
        "--service",
        "ghost",
    ];
    let mut log = log.to_vec();
    log.extend(["--format", "ids"]);
    let id = through(&log).succeeds().stdout.trim().to_owned();
    through(&["done", &id]).succeeds();
    proxy.set_mode(ProxyMode::Forward);
    through(&["spool", "flush"]).exits_with(6);
    let rejected = spooled_files(&spool_folder(&app).join("rejected"));
    assert_eq!(rejected.len(), 2);
    let reason = fs::read_to_string(&rejected[1]).expect("text");
    assert!(reason.contains("was rejected"), "{reason}");
    chlog(&app, "service create ghost").succeeds();
    through(&["spool", "retry"]).succeeds();
    through(&["spool", "flush"]).succeeds();
    assert_eq!(newest(&app).await["status"], "completed");
    assert_eq!(spooled_files(&spool_folder(&app).join("rejected")).len(), 0);
}

async fn a_command_updates_its_change_while_the_server_is_unavailable(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    let script =
        "echo $CHLOG_CHANGE_ID; \"$0\" update $CHLOG_CHANGE_ID --tag by-the-command; exit 3";
    let program = changelog_tests::programs::chlog().display().to_string();
    let run = ["run", "--pass-key", "--", "sh", "-c", script, &program];
    let output = chlog_through(&app, &proxy, &run);
    assert_eq!(output.code, 3, "{}", output.stderr);
    let id = output.stdout.lines().next().expect("an id").to_owned();
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 2);
    proxy.set_mode(ProxyMode::Forward);
    chlog_through(&app, &proxy, "spool flush").succeeds();
    let change = newest(&app).await;
    assert_eq!(change["outcome"], "failed");
    assert_eq!(change["tags"], json!(["by-the-command"]));
    let output = chlog(&app, &format!("done {id}")).succeeds();
    assert!(
        output.stdout.starts_with(text(&change["id"])),
        "{}",
        output.stdout
    );
}

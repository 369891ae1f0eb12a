//! Calls to clouds become one change for each session, and files are read as requests are.

use std::time::{Duration, Instant};

use changelog_tests::{TestApp, on_both, on_one, text};
use serde_json::{Value, json};

on_both!(
    calls_of_a_session_are_one_change,
    a_session_whose_start_was_edited_ends,
);
on_one!(events_in_a_file_are_imported_once);

/// Returns a call as CloudTrail records it, some minutes after ten.
fn call(id: &str, name: &str, minute: u32, agent: &str) -> Value {
    json!({
        "eventVersion": "1.08", "eventID": id, "readOnly": false, "eventName": name,
        "eventTime": format!("2026-01-20T10:{minute:02}:00Z"), "eventSource": "ec2.amazonaws.com",
        "awsRegion": "eu-west-1", "userAgent": agent, "recipientAccountId": "123456789012",
        "userIdentity": { "type": "IAMUser", "userName": "ada", "accountId": "123456789012" },
        "requestParameters": { "userData": "a secret value" },
    })
}

const CONSOLE: &str = "console.amazonaws.com";

async fn list(app: &TestApp, query: &str) -> Vec<Value> {
    let list = app.key().get(&format!("/api/changes?{query}")).await;
    list.body(200)["data"].as_array().expect("a list").clone()
}

async fn calls_of_a_session_are_one_change(app: TestApp) {
    let source = app.source("cloudtrail", "AWS", None);
    let terraform = "APN/1.0 HashiCorp/1.0 Terraform/1.9.8 (+https://www.terraform.io)";
    for body in [
        call("1", "RunInstances", 0, CONSOLE),
        call("3", "TerminateInstances", 4, CONSOLE),
        call("2", "CreateTags", 2, CONSOLE),
        call("2", "CreateTags", 2, CONSOLE),
        call("4", "RunInstances", 30, CONSOLE),
        call("5", "RunInstances", 2, terraform),
        json!({ "eventVersion": "1.08", "eventID": "6", "readOnly": true,
            "eventName": "DescribeInstances", "eventSource": "ec2.amazonaws.com",
            "userIdentity": { "type": "IAMUser", "userName": "ada" } }),
    ] {
        source.send(&body).await.is(202);
    }
    let outcomes = source.outcomes().await;
    let expected = [
        "changed",
        "changed",
        "updated",
        "duplicate",
        "changed",
        "changed",
        "ignored",
    ];
    // The call at 10:04 is of a session of its own until the one between arrives.
    assert_eq!(outcomes, expected);
    let by_hand = list(&app, "by=hand&source=aws").await;
    assert_eq!(by_hand.len(), 2, "{by_hand:?}");
    assert!(!json!(by_hand).to_string().contains("a secret value"));
    let agents = list(&app, "by=agent&agent=terraform").await;
    assert_eq!(agents.len(), 1);
    assert_eq!(
        agents[0]["source"],
        json!({ "id": source.id, "kind": "cloudtrail", "name": "AWS" })
    );
    assert_eq!(list(&app, "source=another").await, Vec::<Value>::new());
    // Their pauses are over.
    let started = Instant::now();
    while !list(&app, "status=in_progress").await.is_empty() {
        assert!(
            started.elapsed() < Duration::from_mins(1),
            "still in progress"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let done = list(&app, "by=hand&q=calls").await;
    assert_eq!(text(&done[0]["title"]), "Console by ada: 3 calls, ec2");
    assert_eq!(done[0]["started_at"], "2026-01-20T10:00:00.000Z");
    assert_eq!(done[0]["ended_at"], "2026-01-20T10:04:00.000Z");
    // The events of the change that is gone lead to the one that has its calls.
    let events = source.events().await;
    let of_call = |number: usize| events[events.len() - 1 - number]["change_ids"].clone();
    assert_eq!(of_call(0), json!([done[0]["id"]]));
    for number in 1..4 {
        assert_eq!(of_call(number), of_call(0), "{events:?}");
    }
}

async fn a_session_whose_start_was_edited_ends(app: TestApp) {
    let source = app.source("cloudtrail", "AWS", None);
    let ago = |minutes| json!(chrono::Utc::now() - chrono::TimeDelta::minutes(minutes));
    for (id, user) in [("1", "ada"), ("2", "grace")] {
        let mut body = call(id, "RunInstances", 0, CONSOLE);
        body["eventTime"] = ago(2);
        body["userIdentity"]["userName"] = json!(user);
        source.send(&body).await.is(202);
    }
    assert_eq!(source.outcomes().await, ["changed", "changed"]);
    let by_ada = list(&app, "q=ada").await;
    let path = format!("/api/changes/{}", text(&by_ada[0]["id"]));
    // Behind the last call.
    let edited = json!({ "started_at": ago(1) });
    let edited = app.key().update(&path, edited).await;
    app.clock.advance(Duration::from_mins(4));
    let started = Instant::now();
    while !list(&app, "status=in_progress").await.is_empty() {
        let elapsed = started.elapsed();
        assert!(elapsed < Duration::from_mins(1), "still in progress");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let ended = app.key().read(&path).await;
    assert_eq!(ended["status"], "completed");
    assert_eq!(ended["started_at"], edited["started_at"]);
    assert_ne!(ended["ended_at"], Value::Null);
}

async fn events_in_a_file_are_imported_once(app: TestApp) {
    let mut command = app.chlog();
    let help = command.args(["import", "--help"]).output();
    let help = String::from_utf8(help.expect("an output").stdout).expect("text");
    assert!(help.contains("cloudtrail"), "{help}");
    // They tell of no changes.
    for kind in ["alertmanager", "slack-command"] {
        assert!(!help.contains(kind), "{help}");
    }
    let body = super::receiving::deployment(1, Some(("success", "2026-01-20T10:04:00Z")));
    let records = json!([
        call("1", "RunInstances", 0, CONSOLE),
        call("2", "CreateTags", 1, CONSOLE)
    ]);
    for (kind, text) in [
        ("github", body.to_string()),
        ("cloudtrail", records.to_string()),
    ] {
        let name = format!("{kind}.json");
        std::fs::write(app.folder().join(&name), text).expect("a file");
        for imported in ["imported 1", "imported 0"] {
            let mut command = app.chlog();
            let arguments = ["import", "--create-missing", "--from", kind, &name];
            let output = command.args(arguments).output().expect("an output");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains(imported), "{said} {output:?}");
        }
    }
    let titles: Vec<String> = list(&app, "")
        .await
        .iter()
        .map(|one| text(&one["title"]))
        .collect();
    assert_eq!(
        titles,
        [
            "Deploy payments v4.2 to production",
            "Console by ada: 2 calls, ec2"
        ]
    );
    let mut command = app.chlog();
    let output = command
        .args(["import", "--from", "github", "cloudtrail.json"])
        .output();
    let output = output.expect("an output");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

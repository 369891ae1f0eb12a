//! Calls of Terraform belong to the run that was recorded meanwhile, whichever is heard of first.

use std::time::{Duration, Instant};

use changelog_tests::{TestApp, TestSource, on_both, text};
use serde_json::{Value, json};

on_both!(
    calls_during_a_run_are_attached_to_its_change,
    a_run_takes_the_calls_that_were_heard_of_before_it,
    a_change_that_somebody_has_edited_stays,
    a_run_elsewhere_explains_nothing,
    what_people_have_edited_stays,
);

/// How long a session's change may take to be joined into a run's.
const JOIN_TIMEOUT: Duration = Duration::from_mins(1);

const TERRAFORM: &str = "APN/1.0 HashiCorp/1.0 Terraform/1.9.8 (+https://www.terraform.io)";

/// Returns a call as CloudTrail records it, in an account whose name is that of an environment.
fn call(id: &str, service: &str, at: &str, role: &str) -> Value {
    json!({
        "eventVersion": "1.08", "eventID": id, "readOnly": false, "eventName": "CreateThing",
        "eventTime": format!("2026-01-20T{at}Z"),
        "eventSource": format!("{service}.amazonaws.com"),
        "awsRegion": "eu-west-1", "userAgent": TERRAFORM, "recipientAccountId": "123456789012",
        "userIdentity": {
            "type": "AssumedRole", "accountId": "123456789012",
            "arn": format!("arn:aws:sts::123456789012:assumed-role/{role}/session"),
            "sessionContext": { "sessionIssuer": { "type": "Role", "userName": role } },
        },
    })
}

/// Records a run as `chlog terraform` does.
async fn run(
    app: &TestApp,
    title: &str,
    environment: Option<&str>,
    from: &str,
    to: &str,
) -> String {
    let body = json!({
        "title": title, "risk_level": "low", "status": "completed", "tags": ["terraform"],
        "environment": environment, "description": "2 added",
        "occurred_at": format!("2026-01-20T{from}Z"),
        "started_at": format!("2026-01-20T{from}Z"), "ended_at": format!("2026-01-20T{to}Z"),
    });
    let made = app.key().post("/api/changes", body).await;
    text(&made.data(201)["id"])
}

async fn titles(app: &TestApp) -> Vec<String> {
    let list = app.key().get("/api/changes").await.body(200);
    let list = list["data"].as_array().expect("a list");
    list.iter().map(|one| text(&one["title"])).collect()
}

async fn description(app: &TestApp, id: &str) -> String {
    let change = app.key().get(&format!("/api/changes/{id}")).await.data(200);
    text(&change["description"])
}

async fn send(source: &TestSource<'_>, calls: &[Value]) -> Vec<Value> {
    for call in calls {
        source.send(call).await.is(202);
    }
    source.events().await
}

async fn calls_during_a_run_are_attached_to_its_change(app: TestApp) {
    let source = app.source("cloudtrail", "AWS", None);
    let earlier = run(&app, "First apply", None, "10:00:00", "10:02:00").await;
    let later = run(&app, "Second apply", None, "10:03:00", "10:05:00").await;
    let calls = [
        call("1", "ec2", "10:00:10", "deployer"),
        call("2", "iam", "10:04:50", "deployer"),
        call("3", "ec2", "10:07:00", "deployer"),
        call("3", "ec2", "10:07:00", "deployer"),
    ];
    let events = send(&source, &calls).await;
    let outcomes: Vec<(String, Value)> = events
        .iter()
        .rev()
        .map(|event| (text(&event["outcome"]), event["change_ids"][0].clone()))
        .collect();
    let expected = [
        ("updated", &earlier),
        ("updated", &later),
        ("updated", &later),
        ("duplicate", &later),
    ];
    let expected = expected.map(|(outcome, id)| (outcome.to_owned(), json!(id)));
    assert_eq!(outcomes, expected);
    assert_eq!(titles(&app).await, ["Second apply", "First apply"]);
    assert_eq!(
        description(&app, &earlier).await,
        "2 added\n\n1 call, ec2, seen by AWS"
    );
    assert_eq!(
        description(&app, &later).await,
        "2 added\n\n2 calls, iam and ec2, seen by AWS"
    );
    // What somebody writes stays, and the line is counted on; it is not written again.
    let patch = |text: &str| {
        let path = format!("/api/changes/{later}");
        let body = json!({ "description": text });
        let key = app.key();
        async move { key.patch(&path, body).await.is(200) }
    };
    patch("Mine\n\n2 calls, iam and ec2, seen by AWS\n\nAlso mine").await;
    send(&source, &[call("4", "ec2", "10:04:00", "deployer")]).await;
    assert_eq!(
        description(&app, &later).await,
        "Mine\n\n3 calls, ec2 and iam, seen by AWS\n\nAlso mine"
    );
    patch("Mine").await;
    send(&source, &[call("5", "ec2", "10:04:00", "deployer")]).await;
    assert_eq!(description(&app, &later).await, "Mine");
}

/// Waits until a change is gone.
async fn is_gone(app: &TestApp, id: &str) {
    let started = Instant::now();
    let path = format!("/api/changes/{id}");
    while app.key().get(&path).await.status != 404 {
        assert!(
            started.elapsed() < JOIN_TIMEOUT,
            "the change is still there"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn a_run_takes_the_calls_that_were_heard_of_before_it(app: TestApp) {
    let source = app.source("cloudtrail", "AWS", None);
    let calls = [
        call("1", "ec2", "10:00:10", "deployer"),
        call("2", "iam", "10:01:00", "deployer"),
        call("3", "ec2", "10:00:10", "another"),
    ];
    let events = send(&source, &calls).await;
    let of_call =
        |events: &[Value], number: usize| text(&events[events.len() - 1 - number]["change_ids"][0]);
    let (first, second) = (of_call(&events, 0), of_call(&events, 2));
    assert_eq!(titles(&app).await.len(), 2);
    let run = run(&app, "Apply", None, "10:00:00", "10:02:00").await;
    // A further call brings the session into the run at once.
    let events = send(&source, &[call("4", "ec2", "10:01:30", "deployer")]).await;
    assert_eq!(of_call(&events, 0), run);
    assert_eq!(of_call(&events, 3), run);
    is_gone(&app, &first).await;
    assert_eq!(
        description(&app, &run).await,
        "2 added\n\n3 calls, ec2 and iam, seen by AWS"
    );
    // Without one, it is found a little later.
    is_gone(&app, &second).await;
    assert_eq!(
        description(&app, &run).await,
        "2 added\n\n3 calls, ec2 and iam, seen by AWS\n\n1 call, ec2, seen by AWS"
    );
    assert_eq!(titles(&app).await, ["Apply"]);
    let events = send(&source, &[call("3", "ec2", "10:00:10", "another")]).await;
    assert_eq!(events[0]["outcome"], "duplicate");
    for number in 0..5 {
        assert_eq!(of_call(&events, number), run);
    }
    // Who has the former address is led to the run.
    let page = app.browser().await.get(&format!("/changes/{first}")).await;
    page.is(303);
    assert_eq!(page.header("location"), format!("/changes/{run}"));
}

async fn a_change_that_somebody_has_edited_stays(app: TestApp) {
    let source = app.source("cloudtrail", "AWS", None);
    let events = send(&source, &[call("1", "ec2", "10:00:10", "deployer")]).await;
    let id = text(&events[0]["change_ids"][0]);
    let body = json!({ "title": "What ada did" });
    let path = format!("/api/changes/{id}");
    app.key().patch(&path, body).await.is(200);
    let run = run(&app, "Apply", None, "10:00:00", "10:02:00").await;
    send(&source, &[call("2", "ec2", "10:00:20", "deployer")]).await;
    assert_eq!(
        description(&app, &run).await,
        "2 added\n\n1 call, ec2, seen by AWS"
    );
    let change = app.key().get(&path).await.data(200);
    assert_eq!(change["title"], "What ada did");
}

async fn a_run_elsewhere_explains_nothing(app: TestApp) {
    app.admin(&["source", "list", "--org", &app.organization.id]);
    let org = app.organization.id.as_str();
    let create = [
        "source",
        "create",
        "--org",
        org,
        "--kind",
        "cloudtrail",
        "--name",
        "AWS",
    ];
    let made = app.admin(&[&create[..], &["--environment", "staging"]].concat());
    let source = app.source_at(&text(&made["id"]), &text(&made["path"]), None);
    let prod = run(&app, "Apply to prod", Some("prod"), "10:00:00", "10:02:00").await;
    let first = call("1", "ec2", "10:01:00", "deployer");
    let events = send(&source, &[first]).await;
    assert_eq!(events[0]["outcome"], "changed");
    assert_eq!(description(&app, &prod).await, "2 added");
    // Of two at once, it is the one in the environment, though the other one began later.
    let staging = run(
        &app,
        "Apply to staging",
        Some("staging"),
        "10:20:00",
        "10:25:00",
    )
    .await;
    run(&app, "Apply somewhere", None, "10:21:00", "10:24:00").await;
    let events = send(&source, &[call("2", "ec2", "10:22:00", "deployer")]).await;
    assert_eq!(events[0]["change_ids"], json!([staging]));
    // A planned change is no run yet, and neither is what a person has recorded.
    let body = json!({
        "title": "Plan", "risk_level": "low", "status": "planned", "tags": ["terraform"],
        "occurred_at": "2026-01-20T11:00:00Z",
    });
    app.key().post("/api/changes", body).await.is(201);
    let events = send(&source, &[call("3", "ec2", "11:00:30", "deployer")]).await;
    assert_eq!(events[0]["outcome"], "changed");
}

async fn what_people_have_edited_stays(app: TestApp) {
    let source = app.source("cloudtrail", "AWS", None);
    let events = send(&source, &[call("1", "ec2", "10:00:00", "deployer")]).await;
    let path = format!("/api/changes/{}", text(&events[0]["change_ids"][0]));
    let body = json!({ "title": "Mine", "risk_level": "high", "tags": ["cloudtrail", "mine"] });
    app.key().patch(&path, body).await.is(200);
    send(&source, &[call("2", "iam", "10:02:00", "deployer")]).await;
    let started = Instant::now();
    let change = loop {
        let change = app.key().get(&path).await.data(200);
        if change["status"] == "completed" {
            break change;
        }
        assert!(started.elapsed() < JOIN_TIMEOUT, "{change}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert_eq!(change["title"], "Mine");
    assert_eq!(change["risk_level"], "high");
    assert_eq!(change["tags"], json!(["cloudtrail", "mine"]));
    assert_eq!(change["ended_at"], "2026-01-20T10:02:00.000Z");
    // Nobody had written a description.
    let calls = "- `CreateThing (eu-west-1)`\n- `CreateThing (eu-west-1)`";
    assert_eq!(change["description"], calls);
}

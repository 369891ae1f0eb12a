//! Requests of senders are stored and answered, and read in the background.

use changelog_tests::{TestApp, assert_contains, each, on_both, send, text};
use serde_json::{Value, json};

on_both!(
    a_deployment_is_one_change_in_whatever_order_its_statuses_arrive,
    repeated_requests_change_nothing,
    requests_without_proof_are_refused_and_counted,
    what_is_sent_on_the_free_plan_is_refused_and_counted,
    sources_of_senders_that_sign_need_a_secret,
    addresses_can_be_renewed_and_deleted,
    what_cannot_be_read_is_set_aside_and_can_be_replayed,
    what_people_have_edited_stays,
    bodies_are_limited,
    handshakes_are_answered,
    sources_are_in_the_activity_log,
);

pub(super) const SECRET: &str = "a secret of the sender";

/// Returns a deployment of GitHub, or a status of it.
pub(super) fn deployment(id: u64, state: Option<(&str, &str)>) -> Value {
    let mut event = json!({
        "deployment": {
            "id": id, "sha": "1a2b3c4d5e6f", "ref": "v4.2", "environment": "production",
            "creator": { "login": "ada" }, "created_at": "2026-01-20T10:00:00Z",
            "updated_at": "2026-01-20T10:00:00Z",
        },
        "repository": { "name": "payments", "full_name": "acme/payments" },
        "sender": { "login": "ada" },
    });
    if let Some((state, at)) = state {
        event["deployment_status"] = json!({ "state": state, "updated_at": at });
    }
    event
}

fn statuses(id: u64) -> [(&'static str, Value); 3] {
    [
        ("deployment", deployment(id, None)),
        (
            "deployment_status",
            deployment(id, Some(("in_progress", "2026-01-20T10:01:00Z"))),
        ),
        (
            "deployment_status",
            deployment(id, Some(("success", "2026-01-20T10:04:00Z"))),
        ),
    ]
}

async fn changes(app: &TestApp) -> Vec<Value> {
    let list = app.key().get("/api/changes").await.body(200);
    list["data"].as_array().expect("a list").clone()
}

async fn a_deployment_is_one_change_in_whatever_order_its_statuses_arrive(app: TestApp) {
    let source = app.source("github", "Deployments", Some(SECRET));
    let orders = [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]];
    for (id, order) in (1..).zip(orders) {
        for index in order {
            let (event, body) = &statuses(id)[index];
            let answer = source
                .send_github(event, &format!("{id}-{index}"), body)
                .await;
            assert_eq!(
                answer.body(202)["data"]["event_id"].as_str().map(str::len),
                Some(36)
            );
        }
    }
    let outcomes = source.outcomes().await;
    assert_eq!(outcomes.len(), 12);
    assert_eq!(
        outcomes
            .iter()
            .filter(|outcome| *outcome == "changed")
            .count(),
        4
    );
    let changes = changes(&app).await;
    assert_eq!(changes.len(), 4);
    for change in &changes {
        for (field, expected) in [
            ("title", json!("Deploy payments v4.2 to production")),
            ("status", json!("completed")),
            ("outcome", json!("succeeded")),
            ("environment", json!("prod")),
            ("risk_level", json!("medium")),
            ("started_at", json!("2026-01-20T10:01:00.000Z")),
            ("ended_at", json!("2026-01-20T10:04:00.000Z")),
            ("on_behalf_of", json!("ada")),
            ("commit", json!("1a2b3c4d5e6f")),
            ("tags", json!(["github"])),
        ] {
            assert_eq!(change[field], expected, "{field}");
        }
        assert_eq!(change["service"]["name"], "payments");
        let author = json!({ "type": "source", "name": "Deployments", "id": source.id });
        assert_eq!(change["created_by"], author);
    }
    let path = format!("/api/changes/{}/history", text(&changes[0]["id"]));
    let history = app.key().get(&path).await.data(200);
    assert_eq!(history["created_by"]["type"], "source");
}

async fn repeated_requests_change_nothing(app: TestApp) {
    let source = app.source("github", "Deployments", Some(SECRET));
    for (number, (event, body)) in statuses(1).iter().enumerate() {
        for delivery in [
            format!("{number}"),
            format!("{number}"),
            format!("again-{number}"),
        ] {
            source.send_github(event, &delivery, body).await.is(202);
        }
    }
    let outcomes = source.outcomes().await;
    let expected = [
        "changed",
        "duplicate",
        "duplicate",
        "updated",
        "duplicate",
        "duplicate",
    ];
    assert_eq!(outcomes[..6], expected);
    let found = changes(&app).await;
    assert_eq!(found.len(), 1);
    let path = format!("/api/changes/{}/history", text(&found[0]["id"]));
    let history = app.key().get(&path).await.data(200);
    let entries = history["entries"].as_array().expect("a list");
    assert_eq!(entries.len(), 3, "{entries:?}");
}

async fn requests_without_proof_are_refused_and_counted(app: TestApp) {
    let source = app.source("github", "Deployments", Some(SECRET));
    let body = deployment(1, None);
    for request in [
        app.anonymous().request("POST", &source.path).json(&body),
        app.anonymous()
            .request("POST", &source.path)
            .header("x-hub-signature-256", "sha256=00")
            .json(&body),
    ] {
        let request = request.header("x-github-event", "deployment");
        send(request).await.problem(401, "unauthorized");
    }
    let org = app.organization.id.as_str();
    let sources = app.admin(&["source", "list", "--org", org]);
    assert_eq!(sources[0]["refused"]["count"], 2);
    let reason = text(&sources[0]["refused"]["reason"]);
    assert!(reason.contains("does not fit the secret"), "{reason}");
    assert_eq!(source.events().await, Vec::<Value>::new());
    assert!(!sources.to_string().contains(SECRET));
}

async fn sources_of_senders_that_sign_need_a_secret(app: TestApp) {
    let org = app.organization.id.as_str();
    let create = ["source", "create", "--org", org, "--name", "Unsigned"];
    for kind in [
        "flux",
        "github",
        "gitlab",
        "pagerduty",
        "sentry",
        "slack-command",
        "terraform-cloud",
    ] {
        let create = [&create[..], &["--kind", kind]].concat();
        let output = app.try_admin(&create, "");
        assert_eq!(output.status.code(), Some(2), "{kind}");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_contains(&message, format!("kind {kind} needs --secret-file"));
        let signed = app.try_admin(&[&create[..], &["--secret-file", "-"]].concat(), "\n");
        assert_eq!(signed.status.code(), Some(2), "{kind}");
    }
    let sources = app.admin(&["source", "list", "--org", org]);
    assert_eq!(sources, json!([]));
    // Elsewhere the address is the proof.
    app.source("generic", "Unsigned", None);
}

async fn addresses_can_be_renewed_and_deleted(app: TestApp) {
    let source = app.source("github", "Deployments", Some(SECRET));
    let body = deployment(1, None);
    source.send_github("push", "1", &body).await.is(202);
    let renewed = app.admin(&["source", "renew", &source.id]);
    source
        .send_github("push", "2", &body)
        .await
        .problem(404, "not_found");
    let path = text(&renewed["path"]);
    let other_kind = path.replace("/github/", "/gitlab/");
    let caller = app.anonymous();
    caller
        .post(&other_kind, body.clone())
        .await
        .problem(404, "not_found");
    let renewed = app.source_at(&source.id, &path, Some(SECRET));
    renewed.send_github("push", "3", &body).await.is(202);
    source.outcomes().await;
    app.admin(&["source", "delete", &source.id]);
    let refused = renewed.send_github("push", "4", &body).await;
    refused.problem(404, "not_found");
}

async fn what_cannot_be_read_is_set_aside_and_can_be_replayed(app: TestApp) {
    let source = app.source("github", "Deployments", Some(SECRET));
    for (event, body) in [("deployment", json!({})), ("deployment", json!([1]))] {
        source.send_github(event, "1", &body).await.is(202);
    }
    let request = source.github_request("release", "2", "no JSON".to_owned());
    send(request).await.is(202);
    let events = source.events().await;
    for event in &events {
        assert_eq!(event["outcome"], "set_aside", "{event}");
        assert!(text(&event["reason"]).len() > 10, "{event}");
    }
    app.admin(&["source", "replay", &text(&events[0]["id"])]);
    assert_eq!(source.outcomes().await, ["set_aside"; 3]);
    let unknown = uuid::Uuid::now_v7().to_string();
    let output = app.try_admin(&["source", "replay", &unknown], "");
    assert_eq!(output.status.code(), Some(2));
}

async fn what_people_have_edited_stays(app: TestApp) {
    let source = app.source("github", "Deployments", Some(SECRET));
    let [requested, running, done] = statuses(1);
    source
        .send_github(requested.0, "1", &requested.1)
        .await
        .is(202);
    source.outcomes().await;
    let id = text(&changes(&app).await[0]["id"]);
    let edit = json!({ "title": "The big release", "risk_level": "high", "tags": ["watched"] });
    app.key().update(&format!("/api/changes/{id}"), edit).await;
    for (number, (event, body)) in [running, done].iter().enumerate() {
        source
            .send_github(event, &format!("more-{number}"), body)
            .await
            .is(202);
    }
    source.outcomes().await;
    let change = app.key().get(&format!("/api/changes/{id}")).await.data(200);
    assert_eq!(change["title"], "The big release");
    assert_eq!(change["risk_level"], "high");
    assert_eq!(change["tags"], json!(["watched"]));
    assert_eq!(change["status"], "completed");
}

async fn bodies_are_limited(app: TestApp) {
    let source = app.source("github", "Deployments", Some(SECRET));
    let body = json!("x".repeat(4 * 1024 * 1024));
    let refused = source.send_github("deployment", "1", &body).await;
    refused.problem(413, "payload_too_large");
    let body = json!("x".repeat(4 * 1024 * 1024 - 2));
    source.send_github("deployment", "2", &body).await.is(202);
    assert_eq!(source.outcomes().await, ["set_aside"]);
}

async fn handshakes_are_answered(app: TestApp) {
    let source = app.source("github", "Deployments", Some(SECRET));
    source
        .send_github("ping", "1", &json!({ "zen": "Design for failure." }))
        .await
        .is(200);
    let request = app.anonymous().request("OPTIONS", &source.path);
    let answer = send(request.header("webhook-request-origin", "eventgrid.azure.net")).await;
    answer.is(200);
    assert_eq!(
        answer.header("webhook-allowed-origin"),
        "eventgrid.azure.net"
    );
    assert_eq!(source.events().await, Vec::<Value>::new());
}

async fn sources_are_in_the_activity_log(app: TestApp) {
    let source = app.source("github", "Deployments", Some(SECRET));
    app.admin(&["source", "renew", &source.id]);
    app.admin(&["source", "delete", &source.id]);
    let browser = app.browser().await;
    let entries = browser.get("/api/activity?resource=source").await;
    let entries = entries.body(200)["items"].take();
    assert_eq!(each(&entries, "action"), ["deleted", "updated", "created"]);
    assert_eq!(entries[0]["resource_label"], "Deployments");
    assert!(!entries.to_string().contains("src_"), "{entries}");
}

async fn what_is_sent_on_the_free_plan_is_refused_and_counted(app: TestApp) {
    let source = app.source("generic", "Deployments", None);
    let org = app.organization.id.as_str();
    app.admin(&["org", "set-plan", org, "free"]);
    let refused = source.send(&json!({ "title": "Deploy" })).await;
    refused.problem(403, "plan_required");
    assert_eq!(source.events().await, Vec::<Value>::new());
    let path = format!("/settings/sources/{}", source.id);
    let page = app.browser().await.get(&path).await;
    assert_contains(&page.text, "1 request was refused");
    assert_contains(&page.text, "the free plan does not include sources");
    app.admin(&["org", "set-plan", org, "pro"]);
    source.send(&json!({ "title": "Deploy" })).await.is(202);
    assert_eq!(source.events().await.len(), 1);
}

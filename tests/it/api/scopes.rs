//! What keys may do: scopes and bounds, for every endpoint of the OpenAPI document.

use changelog_core::Scope;
use serde_json::{Value, json};

use changelog_tests::openapi::Document;
use changelog_tests::{TestApp, TestClient, assert_contains, each, on_both, send, text};

on_both!(
    every_endpoint_needs_the_scope_that_is_documented,
    an_update_without_a_field_reads,
    a_key_says_what_it_may_do,
    a_key_records_only_within_its_bounds,
    what_was_recorded_before_is_not_refused_to_a_repetition,
);

/// A request that succeeds with a key that has the scope.
struct Call {
    method: String,
    path: String,
    body: Option<Value>,
    /// Whether the path has the id of a record.
    names_record: bool,
    /// The scope in the document.
    scope: Option<String>,
}

impl Call {
    async fn send(&self, key: &TestClient) -> changelog_tests::TestResponse {
        // The stream would not end.
        let is_stream = self.path.ends_with("/stream");
        let method = if is_stream { "HEAD" } else { &self.method };
        let request = key.request(method, &self.path);
        send(match &self.body {
            Some(body) => request.json(body),
            None => request,
        })
        .await
    }

    /// The answer to `HEAD` has no problem.
    fn is_refused(&self, answer: &changelog_tests::TestResponse, status: u16, code: &str) {
        if self.path.ends_with("/stream") {
            assert_eq!(answer.status, status, "{}", self.path);
        } else {
            answer.problem(status, code);
        }
    }
}

/// Returns a request for each operation of the document that takes a key.
async fn calls(app: &TestApp) -> Vec<Call> {
    let key = app.key();
    let host = key.host("web-1").await;
    let service = key.service("payments").await;
    let change = key.change("a change").await;
    let incident = key
        .create("/api/incidents", json!({ "title": "an incident" }))
        .await;
    let document = Document::of(app).await;
    let paths = document.0["paths"].as_object().expect("paths");
    let mut calls = Vec::new();
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().expect("operations") {
            let security = match &operation["security"] {
                Value::Null => &document.0["security"],
                own => own,
            };
            let Some(scopes) = security[0]["api_key"].as_array() else {
                continue;
            };
            assert!(scopes.len() < 2, "{method} {path}");
            let number = calls.len();
            let (id, body) = match path.as_str() {
                path if path.starts_with("/api/hosts") => (&host, json!({ "os": "Debian" })),
                path if path.starts_with("/api/services") => (&service, json!({ "color": "#fff" })),
                path if path.starts_with("/api/incidents") => {
                    (&incident, json!({ "severity": "info" }))
                }
                _ => (&change, json!({ "status": "in_progress" })),
            };
            let body = match (method.as_str(), path.as_str()) {
                ("get", _) => None,
                ("patch", _) => Some(body),
                (_, "/api/hosts") => Some(json!({ "hostname": format!("host-{number}") })),
                (_, "/api/services") => Some(json!({ "name": format!("service {number}") })),
                (_, "/api/changes" | "/api/incidents") => Some(json!({ "title": "another" })),
                (_, "/api/incidents/{id}/cause") => Some(json!({ "change_id": null })),
                (_, "/api/changes/bulk") => {
                    Some(json!({ "changes": [{ "title": "one of several" }] }))
                }
                other => panic!("a new endpoint needs a request here: {other:?}"),
            };
            calls.push(Call {
                method: method.to_uppercase(),
                names_record: path.contains("{id}"),
                path: path.replace("{id}", id),
                body,
                scope: scopes.first().map(text),
            });
        }
    }
    calls
}

async fn an_update_without_a_field_reads(app: TestApp) {
    let change = app.key().change("Rotate the keys").await;
    let path = format!("/api/changes/{change}");
    let made = app.create_key(&["--scope", "record"]);
    let records = app.with_key(&text(&made["key"]));
    for nothing in [json!({}), json!({ "status": null })] {
        let answer = records.patch(&path, nothing.clone()).await;
        let problem = answer.problem(403, "scope_required");
        assert_contains(&text(&problem["detail"]), "the scope read");
        app.key().patch(&path, nothing).await.is(200);
    }
    for _ in 0..2 {
        // What was updated before is no error: it may have been sent again.
        let update = json!({ "status": "completed" });
        records.patch(&path, update).await.is(200);
    }
}

async fn every_endpoint_needs_the_scope_that_is_documented(app: TestApp) {
    let calls = calls(&app).await;
    let seen = |scope: Option<&str>| calls.iter().any(|call| call.scope.as_deref() == scope);
    assert!(seen(None) && Scope::WORDS.iter().all(|scope| seen(Some(scope))));
    let key_with = |arguments: &[&str]| text(&app.create_key(arguments)["key"]);
    for scope in Scope::WORDS {
        let key = app.with_key(&key_with(&["--scope", scope]));
        for call in &calls {
            let answer = call.send(&key).await;
            match call.scope.as_deref() {
                Some(needed) if needed != *scope => {
                    call.is_refused(&answer, 403, "scope_required");
                    if call.method != "GET" {
                        let detail = text(&answer.json()["detail"]);
                        assert_contains(&detail, format!("needs a key with the scope {needed}"));
                        assert_contains(&detail, format!("the key has {scope};"));
                    }
                }
                _ if call.method == "POST" && *scope == "admin" => answer.is(201),
                _ => assert!(
                    matches!(answer.status, 200 | 201),
                    "{scope}: {} {}: {}",
                    call.method,
                    call.path,
                    answer.text
                ),
            }
        }
    }
    let revoked = app.create_key(&[]);
    app.admin(&["key", "revoke", &text(&revoked["id"])]);
    let expired = key_with(&["--expires-at", "2999-01-01T00:00:00Z"]);
    app.execute("UPDATE api_keys SET expires_at = 1 WHERE expires_at IS NOT NULL")
        .await;
    let revoked = text(&revoked["key"]);
    let stranger = app.with_key(&app.second_organization().key);
    for call in &calls {
        for key in [&revoked, &expired, ""] {
            let answer = call.send(&app.with_key(key)).await;
            call.is_refused(&answer, 401, "unauthorized");
        }
        // What another organization has is not found; its lists are its own.
        let answer = call.send(&stranger).await;
        if call.names_record {
            answer.problem(404, "not_found");
        } else {
            assert!(matches!(answer.status, 200 | 201), "{}", call.path);
        }
    }
    app.admin(&["org", "set-plan", &app.organization.id, "free"]);
    let reads = app.with_key(&key_with(&["--scope", "read"]));
    for call in &calls {
        let answer = call.send(&reads).await;
        call.is_refused(&answer, 403, "plan_required");
    }
}

async fn a_key_says_what_it_may_do(app: TestApp) {
    let service = app.key().service("payments").await;
    let all = app.key().read("/api/key").await;
    assert_eq!(all["scopes"], json!(["read", "record", "admin"]));
    assert_eq!(all["environments"], json!([]));
    assert_eq!(all["services"], json!([]));
    let bounded = ["--scope", "record", "--environment", "staging"];
    let made = app.create_key(&[&bounded[..], &["--service", "payments"]].concat());
    let info = app.with_key(&text(&made["key"])).read("/api/key").await;
    assert_eq!(info["scopes"], json!(["record"]));
    assert_eq!(info["environments"], json!(["staging"]));
    assert_eq!(info["services"][0]["name"], "payments");
    let list = app.admin(&["key", "list", "--org", &app.organization.id]);
    let row = list.as_array().expect("keys").iter();
    let row = row.into_iter().find(|key| key["id"] == made["id"]);
    let row = row.expect("the key");
    assert_eq!(row["scopes"], json!(["record"]));
    assert_eq!(row["service_ids"], json!([service]));
    // The activity log says what was granted.
    let owner = app.browser().await;
    let log = owner.body("/api/activity?resource=api_key").await;
    let granted = each(&log["items"], "metadata");
    assert!(
        granted
            .iter()
            .any(|metadata| metadata["scopes"] == json!(["record"])
                && metadata["environments"] == json!(["staging"])),
        "{granted:?}"
    );
    for wrong in [
        &["--scope", "write"][..],
        &["--environment", "moon"],
        &["--service", "nothing"],
        &["--scope", "read", "--environment", "prod"],
    ] {
        let org = [
            "key",
            "create",
            "--org",
            &app.organization.id,
            "--name",
            "x",
        ];
        let output = app.try_admin(&[&org[..], wrong].concat(), "");
        assert!(!output.status.success(), "{wrong:?}");
        assert!(!output.stderr.is_empty(), "{wrong:?}");
    }
}

async fn a_key_records_only_within_its_bounds(app: TestApp) {
    let admin = app.key();
    let [payments, search] = [
        admin.service("payments").await,
        admin.service("search").await,
    ];
    let host = json!({ "hostname": "stage-1", "environment": "staging" });
    admin.create("/api/hosts", host).await;
    let bounds = ["--environment", "staging", "--service", "payments"];
    let key = app.with_key(&text(&app.create_key(&bounds)["key"]));
    let refused = |answer: changelog_tests::TestResponse, words: &str| {
        let problem = answer.problem(403, "out_of_bounds");
        assert_contains(&text(&problem["detail"]), words);
    };
    let title = "Restart the workers";
    let mut recorded = Vec::new();
    for (body, refusal) in [
        (
            json!({ "environment": "staging", "service_id": payments }),
            None,
        ),
        (
            json!({ "environment": "staging", "service_name": "Payments" }),
            None,
        ),
        (
            json!({ "hostname": "stage-1", "service_name": "payments" }),
            None,
        ),
        (
            json!({ "service_id": payments }),
            Some("staging only; the change has no environment"),
        ),
        (
            json!({ "environment": "prod", "service_id": payments }),
            Some("staging only; the change is in prod"),
        ),
        (
            json!({ "environment": "staging" }),
            Some("the change has no service"),
        ),
        (
            json!({ "environment": "staging", "service_ids": [payments, search] }),
            Some("the change is of the service"),
        ),
    ] {
        let mut body = body;
        body["title"] = title.into();
        let several = json!({ "changes": [body] });
        let one = key.post("/api/changes", body).await;
        let bulk = key.post("/api/changes/bulk", several).await;
        if let Some(words) = refusal {
            refused(one, words);
            refused(bulk, words);
        } else {
            recorded.push(text(&one.data(201)["id"]));
            bulk.is(201);
        }
    }
    let count = admin.body("/api/changes").await["count"].clone();
    assert_eq!(count, 6, "nothing that was refused is recorded");
    // An update neither begins nor ends outside of the bounds.
    let path = format!("/api/changes/{}", recorded[0]);
    key.patch(&path, json!({ "status": "completed" }))
        .await
        .is(200);
    let moved = key.patch(&path, json!({ "environment": "prod" })).await;
    refused(moved, "the change is in prod");
    assert_eq!(admin.read(&path).await["environment"], "staging");
    let production = json!({ "title": title, "environment": "prod", "service_id": payments });
    let production = admin.create("/api/changes", production).await;
    let path = format!("/api/changes/{production}");
    let taken = key.patch(&path, json!({ "environment": "staging" })).await;
    refused(taken, "the change is in prod");
    // Reading has no bounds.
    key.get(&path).await.is(200);
    incidents_have_the_same_bounds(&admin, &key, &payments).await;
}

async fn incidents_have_the_same_bounds(admin: &TestClient, key: &TestClient, payments: &str) {
    let refused = |answer: changelog_tests::TestResponse, words: &str| {
        let problem = answer.problem(403, "out_of_bounds");
        assert_contains(&text(&problem["detail"]), words);
    };
    let api = "/api/incidents";
    let within = json!({ "title": "Down", "environment": "staging", "service_id": payments });
    let elsewhere = json!({ "title": "Down", "environment": "prod", "service_id": payments });
    refused(
        key.post(api, elsewhere.clone()).await,
        "may record incidents in staging only; the incident is in prod",
    );
    let without = json!({ "title": "Down", "environment": "staging" });
    refused(key.post(api, without).await, "the incident has no service");
    let within = format!("{api}/{}", key.create(api, within).await);
    let elsewhere = format!("{api}/{}", admin.create(api, elsewhere).await);
    let all = admin.read(api).await.as_array().map(Vec::len);
    assert_eq!(all, Some(2), "nothing that was refused is recorded");
    let none = json!({ "change_id": null, "none_of_these": true });
    let resolved = json!({ "status": "resolved" });
    let words = "the incident is in prod";
    refused(key.patch(&elsewhere, resolved.clone()).await, words);
    refused(
        key.put(&format!("{elsewhere}/cause"), none.clone()).await,
        words,
    );
    let moved = json!({ "environment": "prod" });
    refused(key.patch(&within, moved).await, words);
    let unchanged = admin.read(&elsewhere).await;
    assert_eq!(
        (&unchanged["status"], &unchanged["cause"]),
        (&json!("open"), &json!(null))
    );
    assert_eq!(admin.read(&within).await["environment"], "staging");
    key.put(&format!("{within}/cause"), none).await.is(200);
    key.patch(&within, resolved).await.is(200);
    key.get(&elsewhere).await.is(200);
}

/// The bounds of a key never change, so that what it recorded once it may record again.
async fn what_was_recorded_before_is_not_refused_to_a_repetition(app: TestApp) {
    let bounds = ["--environment", "staging"];
    let bounded = app.with_key(&text(&app.create_key(&bounds)["key"]));
    let key = bounded.clone().with("idempotency-key", "deploy-1");
    let body = json!({ "title": "Deploy", "environment": "staging" });
    let first = key.post("/api/changes", body.clone()).await;
    let again = key.post("/api/changes", body).await;
    assert_eq!(first.data(201)["id"], again.data(201)["id"]);
    assert_eq!(again.header("idempotent-replayed"), "true");
    // A refusal is not kept under the key.
    let key = bounded.with("idempotency-key", "deploy-2");
    let prod = json!({ "title": "Deploy", "environment": "prod" });
    for _ in 0..2 {
        let answer = key.post("/api/changes", prod.clone()).await;
        answer.problem(403, "out_of_bounds");
    }
}

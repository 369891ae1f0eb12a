//! Pipelines without keys: what they may do, and for which organization.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use changelog_tests::issuer::{Issuer, SigningKey};
use changelog_tests::{
    TestApp, TestClient, assert_contains, assert_lacks, on_both, on_postgres, text,
};

on_both!(
    a_pipeline_records_without_a_key,
    a_deleted_workload_is_refused_at_the_next_request,
    a_pipeline_does_only_what_its_workload_may,
    organizations_do_not_share_tokens,
    a_mismatch_is_explained_to_its_owner_only,
    workloads_are_made_listed_and_deleted,
    a_stream_ends_with_its_token,
);
on_postgres!(a_deletion_holds_on_every_server);

pub(super) const AUDIENCE: &str = "https://changes.example";

impl Pipelines {
    pub(super) fn now(&self) -> DateTime<Utc> {
        Utc::now() + TimeDelta::from_std(self.ahead).expect("a time")
    }
}

/// An issuer, its key, and how far ahead the clock of the service is.
pub(super) struct Pipelines {
    pub(super) key: SigningKey,
    pub(super) issuer: Issuer,
    pub(super) ahead: Duration,
}

impl Pipelines {
    pub(super) async fn start() -> Self {
        let key = SigningKey::rsa("first");
        Self {
            issuer: Issuer::start(&[&key]).await,
            key,
            ahead: Duration::ZERO,
        }
    }

    pub(super) fn claims(&self) -> Value {
        self.issuer.claims(AUDIENCE, self.now())
    }

    pub(super) fn token(&self) -> String {
        self.key.sign(&self.claims())
    }

    /// Makes a workload identity for production of acme/shop.
    pub(super) fn bind(&self, app: &TestApp, flags: &[&str]) -> String {
        self.bind_claims(
            app,
            &app.organization.id,
            &["repository=acme/shop", "environment=production"],
            flags,
        )
    }

    pub(super) fn bind_claims(
        &self,
        app: &TestApp,
        organization: &str,
        claims: &[&str],
        flags: &[&str],
    ) -> String {
        let issuer = self.issuer.url();
        let mut all = vec![
            "workload",
            "create",
            "--org",
            organization,
            "--name",
            "shop",
        ];
        all.extend(["--issuer", &issuer, "--audience", AUDIENCE]);
        all.push("--allow-insecure-issuer");
        for claim in claims {
            all.extend(["--claim", claim]);
        }
        all.extend(flags);
        text(&app.admin(&all)["id"])
    }
}

pub(super) fn with_token(app: &TestApp, token: &str) -> TestClient {
    app.anonymous()
        .with("authorization", &format!("Bearer {token}"))
}

pub(super) async fn refused(app: &TestApp, token: &str) -> String {
    let answer = with_token(app, token).get("/api/changes").await;
    let problem = answer.problem(401, "unauthorized");
    assert_contains(answer.header("www-authenticate"), "Bearer");
    text(&problem["detail"])
}

async fn a_pipeline_records_without_a_key(app: TestApp) {
    let pipelines = Pipelines::start().await;
    let id = pipelines.bind(&app, &[]);
    let pipeline = with_token(&app, &pipelines.token());
    let change = pipeline.change("Deploy shop 2.3").await;
    let change = pipeline.read(&format!("/api/changes/{change}")).await;
    assert_eq!(
        change["created_by"],
        json!({
            "type": "workload",
            "name": "github acme/shop",
            "id": id,
            "verified": {
                "issuer": pipelines.issuer.url(),
                "subject": "repo:acme/shop:environment:production",
                "repository": "acme/shop",
                "commit": "0123456789abcdef0123456789abcdef01234567",
                "ref": "refs/heads/main",
                "actor": "ada",
                "run": "4711",
                "run_url": null,
            },
        })
    );
    // What the token says is taken where the client says nothing.
    assert_eq!(change["commit"], "0123456789abcdef0123456789abcdef01234567");
    assert_eq!(change["on_behalf_of"], "ada");
    let own = json!({ "title": "Deploy", "commit": "fedcba98", "on_behalf_of": "grace" });
    let own = pipeline.create("/api/changes", own).await;
    let own = pipeline.read(&format!("/api/changes/{own}")).await;
    assert_eq!(
        (&own["commit"], &own["on_behalf_of"]),
        (&json!("fedcba98"), &json!("grace"))
    );
    assert_eq!(own["created_by"]["verified"]["commit"], change["commit"]);

    let by = |query: &str| format!("/api/changes?{query}");
    for (query, count) in [
        ("by=pipeline".to_owned(), 2),
        ("by=person".to_owned(), 0),
        (format!("created_by={id}"), 2),
        ("created_by=Shop".to_owned(), 2),
    ] {
        assert_eq!(pipeline.body(&by(&query)).await["count"], count, "{query}");
    }
    let (key, browser) = (app.key(), app.browser().await);
    let log = browser
        .body("/api/activity?resource=change&actor_id=__api_key__")
        .await;
    assert_eq!(log["items"][0]["actor_name"], "Pipeline: github acme/shop");
    assert_eq!(log["items"][0]["actor_id"], Value::Null);
    let log = browser.body("/api/activity?resource=workload").await;
    assert_eq!(log["items"][0]["action"], "created");
    assert_eq!(log["items"][0]["resource_id"], json!(id));
    let history = format!("/api/changes/{}/history", text(&own["id"]));
    let history = pipeline.read(&history).await;
    assert_eq!(history["entries"][0]["by"]["type"], "workload");
    assert_eq!(history["created_by"]["name"], "github acme/shop");

    let info = pipeline.read("/api/key").await;
    assert_eq!(info["name"], "shop");
    assert_eq!(info["verified"]["repository"], "acme/shop");
    assert!(info["expires_at"].is_string(), "{info}");
    assert_eq!(key.read("/api/key").await["verified"], Value::Null);
    // Agents' tools take the same token.
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    let request = pipeline.request("POST", "/mcp").json(&list);
    let request = request
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25");
    changelog_tests::send(request).await.is(200);
    app.anonymous().post("/mcp", json!({})).await.is(401);
}

async fn a_deleted_workload_is_refused_at_the_next_request(app: TestApp) {
    let pipelines = Pipelines::start().await;
    let id = pipelines.bind(&app, &[]);
    let pipeline = with_token(&app, &pipelines.token());
    for _ in 0..3 {
        pipeline.change("a change").await;
    }
    app.admin(&["workload", "delete", &id]);
    pipeline
        .get("/api/changes")
        .await
        .problem(401, "unauthorized");
    // Made again, it works again.
    pipelines.bind(&app, &["--scope", "read"]);
    pipeline.body("/api/changes").await;
    pipeline
        .post("/api/changes", json!({ "title": "x" }))
        .await
        .problem(403, "scope_required");
}

async fn a_deletion_holds_on_every_server(app: TestApp) {
    let pipelines = Pipelines::start().await;
    let id = pipelines.bind(&app, &[]);
    let token = pipelines.token();
    let other = app.another_server(&[]).await;
    let other = TestClient::new(&other.address).with("authorization", &format!("Bearer {token}"));
    let one = with_token(&app, &token);
    one.body("/api/changes").await;
    other.body("/api/changes").await;
    app.admin(&["workload", "delete", &id]);
    other.get("/api/changes").await.problem(401, "unauthorized");
    one.get("/api/changes").await.problem(401, "unauthorized");
}

async fn a_pipeline_does_only_what_its_workload_may(app: TestApp) {
    let pipelines = Pipelines::start().await;
    let shop = app.key().service("shop").await;
    let other = app.key().service("other").await;
    let flags = [
        "--scope",
        "record",
        "--service",
        "shop",
        "--environment",
        "prod",
    ];
    pipelines.bind(&app, &flags);
    let pipeline = with_token(&app, &pipelines.token());
    pipeline
        .get("/api/changes")
        .await
        .problem(403, "scope_required");
    let new = |service: &str, environment: &str| json!({ "title": "Deploy", "service_ids": [service], "environment": environment });
    pipeline
        .post("/api/changes", new(&shop, "prod"))
        .await
        .is(201);
    for body in [new(&other, "prod"), new(&shop, "staging")] {
        pipeline
            .post("/api/changes", body)
            .await
            .problem(403, "out_of_bounds");
    }
    // Of several that fit, the narrowest counts.
    let issuer = pipelines.issuer.url();
    let mut arguments = vec!["workload", "create", "--org", &app.organization.id];
    arguments.extend([
        "--name",
        "all of acme",
        "--issuer",
        &issuer,
        "--audience",
        AUDIENCE,
    ]);
    arguments.extend(["--claim", "repository=acme/*", "--allow-insecure-issuer"]);
    app.admin(&arguments);
    pipeline
        .get("/api/changes")
        .await
        .problem(403, "scope_required");
    let mut claims = pipelines.claims();
    claims["repository"] = json!("acme/other");
    with_token(&app, &pipelines.key.sign(&claims))
        .body("/api/changes")
        .await;

    app.admin(&["org", "set-plan", &app.organization.id, "free"]);
    pipeline
        .get("/api/changes")
        .await
        .problem(403, "plan_required");
}

/// Another organization can make a workload identity that the tokens of this one fit. It gets none
/// of them, nor what they claim, and holds none up.
async fn organizations_do_not_share_tokens(app: TestApp) {
    let pipelines = Pipelines::start().await;
    pipelines.bind(&app, &[]);
    // There is one organization.
    let anonymous = with_token(&app, &pipelines.token());
    anonymous.change("before there was another one").await;

    let other = app.second_organization();
    pipelines.bind_claims(&app, &other.id, &["repository=acme/*"], &[]);
    let problem = anonymous
        .get("/api/changes")
        .await
        .problem(401, "unauthorized");
    let detail = text(&problem["detail"]);
    assert_contains(&detail, "CHLOG_ORGANIZATION");
    assert_lacks(&detail, &other.id);
    assert_lacks(&detail, "Umbrella");
    let named = |token: &str, organization: &str| {
        with_token(&app, token).with("x-organization-id", organization)
    };
    let pipeline = named(&pipelines.token(), &app.organization.id);
    let change = pipeline.change("of the first").await;
    assert_eq!(pipeline.body("/api/changes").await["count"], 2);
    // A token that fits only the other one is refused, unless it is for the other one.
    let mut claims = pipelines.claims();
    claims["environment"] = json!("staging");
    let staging = pipelines.key.sign(&claims);
    let detail = named(&staging, &app.organization.id)
        .get("/api/changes")
        .await
        .problem(401, "unauthorized");
    assert_contains(&text(&detail["detail"]), "environment is \"staging\"");
    let theirs = named(&staging, &other.id);
    assert_eq!(theirs.body("/api/changes").await["count"], 0);
    theirs.get(&format!("/api/changes/{change}")).await.is(404);
    // What was refused is shown to the admins of the organization that was meant.
    let refusals = app.admin(&["workload", "list", "--org", &other.id]);
    assert_eq!(refusals[0]["last_refusal"], Value::Null, "{refusals}");
    for bad in ["nonsense", "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90"] {
        let answer = named(&pipelines.token(), bad).get("/api/changes").await;
        answer.problem(401, "unauthorized");
    }
}

async fn a_mismatch_is_explained_to_its_owner_only(app: TestApp) {
    // Tokens of a provider of the organization's own are explained.
    let pipelines = Pipelines::start().await;
    let id = pipelines.bind(&app, &[]);
    let mut claims = pipelines.claims();
    claims["environment"] = json!("staging");
    let detail = refused(&app, &pipelines.key.sign(&claims)).await;
    assert_contains(
        &detail,
        "environment is \"staging\", expected \"production\"",
    );
    // Not to somebody who cannot sign.
    let forged = SigningKey::other_rsa("first").sign(&claims);
    let detail = refused(&app, &forged).await;
    assert_contains(&detail, "signature");
    assert_lacks(&detail, "production");
    // The admins see the last one.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let all = app.admin(&["workload", "list", "--org", &app.organization.id]);
        let refusal = &all[0]["last_refusal"];
        assert_eq!(all[0]["id"], json!(id));
        if refusal.is_object() {
            assert_contains(&text(&refusal["reason"]), "environment is \"staging\"");
            break;
        }
        assert!(Instant::now() < deadline, "no refusal is recorded");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn workloads_are_made_listed_and_deleted(app: TestApp) {
    let github = "https://token.actions.githubusercontent.com";
    let create = |flags: &[&str]| {
        let mut all = vec!["workload", "create", "--org", &app.organization.id];
        all.extend(flags);
        all.push("--json");
        app.try_admin(&all, "")
    };
    let base = ["--name", "shop", "--issuer", github, "--audience", AUDIENCE];
    for (flags, why) in [
        (vec!["--claim", "environment=production"], "say whose jobs"),
        (vec!["--claim", "repository=*"], "say whose jobs"),
        (vec!["--claim", "repository=*/shop"], "say whose jobs"),
        (vec!["--claim", "repository"], "repository=acme/shop"),
        (vec!["--claim", "aud=x"], "checked anyway"),
        (
            vec!["--claim", "repository=a/b", "--claim", "repository=a/c"],
            "once",
        ),
        (
            vec!["--claim", "repository=a/b", "--scope", "write"],
            "write",
        ),
        (vec![], "--claim"),
    ] {
        let output = create(&[&base[..], &flags].concat());
        assert!(!output.status.success(), "{flags:?}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_contains(&stderr, why);
    }
    let flags = [
        "--claim",
        "repository=acme/*",
        "--claim",
        "ref_protected=true",
        "--scope",
        "record",
        "--environment",
        "prod",
    ];
    let made = create(&[&base[..], &flags].concat());
    let made: Value = serde_json::from_slice(&made.stdout).expect("JSON");
    assert_eq!(changelog_tests::client::keys(&made), ["id", "name"]);
    // An issuer that may not be asked is reported, and not refused.
    let mut local = [
        "--name",
        "local",
        "--issuer",
        "http://10.0.0.1:1",
        "--audience",
    ]
    .to_vec();
    local.extend([AUDIENCE, "--claim", "repository=acme/*"]);
    let local = create(&local);
    let note = String::from_utf8_lossy(&local.stderr).into_owned();
    assert_contains(&note, "saved, but the issuer is not asked for its keys");
    let local: Value = serde_json::from_slice(&local.stdout).expect("JSON");
    app.admin(&["workload", "delete", &text(&local["id"])]);
    let again = create(&[&base[..], &flags].concat());
    assert_contains(
        &String::from_utf8_lossy(&again.stderr).into_owned(),
        "already",
    );
    let all = app.admin(&["workload", "list", "--org", &app.organization.id]);
    assert_eq!(all[0]["id"], made["id"]);
    assert_eq!(
        all[0]["claims"],
        json!(["repository=acme/*", "ref_protected=true"])
    );
    assert_eq!(all[0]["scopes"], json!(["record"]));
    let command = ["workload", "list", "--org", &app.organization.id];
    let table = app.try_admin(&command, "");
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    for part in ["RECORDS IN", "RECORDS FOR", "prod", "any"] {
        assert_contains(&table, part);
    }
    app.admin(&["workload", "delete", &text(&made["id"])]);
    let all = app.admin(&["workload", "list", "--org", &app.organization.id]);
    assert_eq!(all, json!([]));
}

async fn a_stream_ends_with_its_token(app: TestApp) {
    let pipelines = Pipelines::start().await;
    let id = pipelines.bind(&app, &[]);
    let pipeline = with_token(&app, &pipelines.token());
    let request = pipeline.request("GET", "/api/changes/stream");
    let mut answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    assert!(answer.chunk().await.expect("a chunk").is_some());
    app.admin(&["workload", "delete", &id]);
    let ended = tokio::time::timeout(Duration::from_secs(20), async {
        while let Ok(Some(_)) = answer.chunk().await {}
    });
    ended.await.expect("the stream ends");
}

//! API keys: format, expiry, revocation and plan.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use changelog_core::api_key;
use chrono::{SubsecRound, TimeDelta, Utc};
use futures_util::StreamExt;
use serde_json::{Value, json};
use uuid::Uuid;

use changelog_tests::shapes::{assert_id, assert_recent, time};
use changelog_tests::{
    Engine, KEY_NAME, Server, TestApp, TestClient, each, keys, on_both, send, text,
};

on_both!(
    a_new_key_is_well_formed,
    every_invalid_key_gets_the_same_response,
    every_api_endpoint_requires_a_key,
    an_expired_key_is_refused,
    the_last_use_of_a_key_is_recorded,
    keys_on_the_free_plan_are_refused,
    guessing_keys_is_throttled;
    process:
    a_revoked_key_is_refused_at_once_under_load,
);

/// Returns a request that would succeed for every endpoint that requires a key.
async fn api_requests(key: &TestClient) -> Vec<(&'static str, String, Option<Value>)> {
    let host = key.host("h").await;
    let service = key.service("svc").await;
    let change = key.change("a change").await;
    vec![
        ("GET", "/api/key".to_owned(), None),
        ("GET", "/api/hosts".to_owned(), None),
        ("GET", format!("/api/hosts/{host}"), None),
        (
            "POST",
            "/api/hosts".to_owned(),
            Some(json!({ "hostname": "h2" })),
        ),
        (
            "PATCH",
            format!("/api/hosts/{host}"),
            Some(json!({ "os": "x" })),
        ),
        ("GET", "/api/services".to_owned(), None),
        ("GET", format!("/api/services/{service}"), None),
        (
            "POST",
            "/api/services".to_owned(),
            Some(json!({ "name": "svc2" })),
        ),
        (
            "PATCH",
            format!("/api/services/{service}"),
            Some(json!({ "color": "#fff" })),
        ),
        ("GET", "/api/changes".to_owned(), None),
        ("GET", format!("/api/changes/{change}"), None),
        ("GET", format!("/api/changes/{change}/history"), None),
        (
            "POST",
            "/api/changes".to_owned(),
            Some(json!({ "title": "another" })),
        ),
        (
            "PATCH",
            format!("/api/changes/{change}"),
            Some(json!({ "status": "completed" })),
        ),
    ]
}

async fn a_new_key_is_well_formed(app: TestApp) {
    let made = app.create_key(&[]);
    let members = [
        "created_at",
        "environments",
        "expires_at",
        "id",
        "key",
        "name",
        "organization_id",
        "scopes",
        "service_ids",
    ];
    assert_eq!(keys(&made), members);
    let key = text(&made["key"]);
    assert!(api_key::is_well_formed(&key), "{key}");
    assert!(key.starts_with("chlog_"));
    assert_eq!(key.len(), 6 + 32 + 6);
    assert_id(&made["id"]);
    assert_recent(&made["created_at"]);
    assert_eq!(made["expires_at"], Value::Null);
    assert_eq!(made["organization_id"], app.organization.id);
    assert_eq!(made["name"], "another");
    app.with_key(&key).get("/api/hosts").await.is(200);
    assert_ne!(key, app.organization.key);
}

/// Missing, malformed, unknown and revoked keys get the same response.
async fn every_invalid_key_gets_the_same_response(app: TestApp) {
    let revoked = app.create_key(&[]);
    app.admin(&["key", "revoke", &text(&revoked["id"])]);
    let key = &app.organization.key;
    let mut wrong_checksum = key.clone();
    let last = if wrong_checksum.pop() == Some('0') {
        '1'
    } else {
        '0'
    };
    wrong_checksum.push(last);
    let unknown = api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    let mut bodies = Vec::new();
    for (what, caller) in [
        ("missing", app.anonymous()),
        ("empty", app.with_key("")),
        ("nonsense", app.with_key("nonsense")),
        ("truncated", app.with_key(&key[..43])),
        ("lower case", app.with_key(&key.to_lowercase())),
        ("wrong checksum", app.with_key(&wrong_checksum)),
        ("unknown", app.with_key(&unknown)),
        ("key id", app.with_key(&app.organization.key_id)),
        ("revoked", app.with_key(&text(&revoked["key"]))),
        (
            "bearer",
            app.anonymous()
                .with("authorization", &format!("Bearer {key}")),
        ),
        ("two", app.with_key(key).with("x-api-key", &unknown)),
        ("session", app.browser().await),
    ] {
        let answer = caller.get("/api/hosts").await;
        let mut problem = answer.problem(401, "unauthorized");
        problem["request_id"].take();
        if what == "bearer" {
            // What the client sent, not what the service knows, explains this one.
            let detail = text(&problem["detail"]);
            let common = detail.strip_suffix(
                "; the header authorization has no token of a pipeline that can be read",
            );
            problem["detail"] = common.expect("an explanation").into();
        }
        bodies.push((what, problem, answer.header("www-authenticate").to_owned()));
    }
    let (_, first, challenge) = bodies[0].clone();
    for (what, problem, header) in bodies {
        assert_eq!(problem, first, "{what}");
        assert_eq!(header, challenge, "{what}");
    }
}

async fn every_api_endpoint_requires_a_key(app: TestApp) {
    let key = app.key();
    for (method, path, body) in api_requests(&key).await {
        let with_body = |caller: &TestClient| {
            let request = caller.request(method, &path);
            match &body {
                Some(body) => request.json(body),
                None => request,
            }
        };
        let refused = send(with_body(&app.anonymous())).await;
        refused.problem(401, "unauthorized");
        let refused = send(with_body(&app.with_key("chlog_no"))).await;
        refused.problem(401, "unauthorized");
        let taken = send(with_body(&key)).await;
        assert!(
            matches!(taken.status, 200 | 201),
            "{method} {path}: {}",
            taken.text
        );
    }
    // Without a valid key, paths, bodies and ids are not checked.
    let anonymous = app.anonymous();
    anonymous
        .get("/api/changes?page=0")
        .await
        .problem(401, "unauthorized");
    anonymous
        .get(&format!("/api/hosts/{}", Uuid::now_v7()))
        .await
        .problem(401, "unauthorized");
    anonymous
        .post("/api/changes", json!({ "nonsense": 1 }))
        .await
        .problem(401, "unauthorized");
    // Two endpoints need no key.
    anonymous.body("/api/health").await;
    anonymous.body("/api/openapi.json").await;
}

async fn an_expired_key_is_refused(app: TestApp) {
    // In milliseconds, as the service stores it.
    let expires = (Utc::now() + TimeDelta::hours(1)).trunc_subsecs(3);
    let made = app.create_key(&["--expires-at", &time(expires)]);
    assert_eq!(made["expires_at"], time(expires));
    let caller = app.with_key(&text(&made["key"]));
    caller.get("/api/hosts").await.is(200);
    app.clock.stop();
    let left = expires - TimeDelta::milliseconds(1) - app.clock.now();
    app.clock.advance(left.to_std().expect("an hour"));
    caller.get("/api/hosts").await.is(200);
    // The clock moves by whole milliseconds.
    app.clock.advance(Duration::from_millis(2));
    let refused = caller.get("/api/hosts").await;
    refused.problem(401, "unauthorized");
    // A key cannot be created with an expiry in the past.
    let past = time(Utc::now() - TimeDelta::hours(1));
    for bad in [past.as_str(), "tomorrow", "2027-01-01"] {
        let arguments = [
            "key",
            "create",
            "--org",
            "Acme",
            "--name",
            "x",
            "--expires-at",
            bad,
        ];
        let output = app.try_admin(&arguments, "");
        assert!(!output.status.success(), "{bad}");
        assert!(!output.stderr.is_empty(), "{bad}");
    }
}

/// Sends requests to the servers in turn until the key is refused, and returns the start
/// times of the accepted requests.
fn send_until_refused(
    callers: Vec<TestClient>,
    stop: &Arc<AtomicBool>,
    accepted_count: &Arc<AtomicUsize>,
) -> tokio::task::JoinHandle<Vec<Instant>> {
    let (stop, accepted_count) = (stop.clone(), accepted_count.clone());
    tokio::spawn(async move {
        let mut accepted = Vec::new();
        let mut refused = 0;
        for number in 0_usize.. {
            let caller = &callers[number % callers.len()];
            let began = Instant::now();
            let answer = if number % 3 == 0 {
                caller
                    .post("/api/changes", json!({ "title": "under load" }))
                    .await
            } else {
                caller.get("/api/changes?per_page=1").await
            };
            match answer.status {
                200 | 201 => {
                    accepted_count.fetch_add(1, Ordering::SeqCst);
                    accepted.push(began);
                }
                _ => {
                    answer.problem(401, "unauthorized");
                    refused += 1;
                }
            }
            // Several refusals, so that each server has refused the key.
            if refused >= 6 && stop.load(Ordering::SeqCst) {
                break;
            }
        }
        accepted
    })
}

/// Revokes a key under load, and requires that no request was accepted that began after
/// the command had returned.
async fn revoke_under_load(app: &TestApp, servers: &[&Server]) {
    let made = app.create_key(&[]);
    let key = text(&made["key"]);
    let callers: Vec<TestClient> = servers
        .iter()
        .map(|server| TestClient::new(&server.address).with("x-api-key", &key))
        .collect();
    let stop = Arc::new(AtomicBool::new(false));
    let accepted_count = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..6)
        .map(|_| send_until_refused(callers.clone(), &stop, &accepted_count))
        .collect();
    // The key works at every server right before.
    while accepted_count.load(Ordering::SeqCst) < 50 {
        for caller in &callers {
            caller.get("/api/hosts").await.is(200);
        }
    }
    app.admin(&["key", "revoke", &text(&made["id"])]);
    let revoked = Instant::now();
    for caller in &callers {
        caller.get("/api/hosts").await.problem(401, "unauthorized");
    }
    stop.store(true, Ordering::SeqCst);
    let mut accepted = 0;
    for worker in workers {
        for began in worker.await.expect("the worker does not panic") {
            assert!(
                began <= revoked,
                "accepted {:?} after it was revoked",
                began - revoked
            );
            accepted += 1;
        }
    }
    assert!(accepted > 20, "too few accepted requests: {accepted}");
}

async fn a_revoked_key_is_refused_at_once_under_load(app: TestApp) {
    revoke_under_load(&app, &[&app.server]).await;
    if app.engine == Engine::Postgres {
        let second = app.another_server(&[]).await;
        revoke_under_load(&app, &[&app.server, &second]).await;
    }
    // The other key still works.
    app.key().get("/api/hosts").await.is(200);
}

async fn the_last_use_of_a_key_is_recorded(app: TestApp) {
    let made = app.create_key(&[]);
    let row = || {
        let list = app.admin(&["key", "list", "--org", &app.organization.id]);
        let list = list.as_array().cloned().unwrap_or_else(|| {
            let only = list.as_object().and_then(|object| object.values().next());
            only.and_then(Value::as_array)
                .cloned()
                .expect("a list of keys")
        });
        list.into_iter()
            .find(|key| key["id"] == made["id"])
            .expect("the key")
    };
    assert_eq!(row()["last_used_at"], Value::Null);
    app.with_key(&text(&made["key"]))
        .get("/api/hosts")
        .await
        .is(200);
    // It may be recorded after the response.
    let deadline = Instant::now() + Duration::from_secs(10);
    while row()["last_used_at"].is_null() {
        assert!(Instant::now() < deadline, "the use is not recorded");
    }
    assert_recent(&row()["last_used_at"]);
}

async fn keys_on_the_free_plan_are_refused(app: TestApp) {
    let key = app.key();
    let endpoints = api_requests(&key).await;
    app.admin(&["org", "set-plan", &app.organization.name, "free"]);
    for (method, path, body) in &endpoints {
        let request = key.request(method, path);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        send(request).await.problem(403, "plan_required");
    }
    // The plan is checked before the body, and after the key.
    key.post("/api/changes", json!({ "nonsense": 1 }))
        .await
        .problem(403, "plan_required");
    app.with_key("chlog_no")
        .get("/api/hosts")
        .await
        .problem(401, "unauthorized");
    // The dashboard still works.
    let browser = app.browser().await;
    let entries = browser.body("/api/activity?resource=change").await;
    assert_eq!(
        each(&entries["items"], "actor_name"),
        [&json!(format!("API key: {KEY_NAME}"))]
    );
    app.admin(&["org", "set-plan", &app.organization.id, "pro"]);
    key.get("/api/hosts").await.is(200);
}

async fn guessing_keys_is_throttled(app: TestApp) {
    let guesses = (0..300).map(|number| {
        let key = api_key::assemble(&format!("{number:032}"));
        let caller = app.with_key(&key);
        async move { caller.get("/api/hosts").await }
    });
    let mut throttled = 0;
    let guesses: Vec<_> = guesses.collect();
    for answer in futures_util::stream::iter(guesses)
        .buffered(20)
        .collect::<Vec<_>>()
        .await
    {
        if answer.status == 429 {
            answer.problem(429, "too_many_requests");
            throttled += 1;
        } else {
            answer.problem(401, "unauthorized");
        }
    }
    assert!((50..=280).contains(&throttled), "{throttled} of 300");
    // A valid key from the same address is not throttled.
    app.key().get("/api/hosts").await.is(200);
}

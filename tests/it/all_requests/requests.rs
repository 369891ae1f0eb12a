//! Sends every kind of request that uses the database.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tokio::time::sleep;
use uuid::Uuid;

use super::fixture::Fixture;
use changelog_tests::event_stream::EventStream;
use changelog_tests::issuer::encoded;
use changelog_tests::openapi::Document;
use changelog_tests::{TestApp, TestClient, TestResponse, TestSource, form, send, text};

/// The zone of the reader of pages, whose days start within days in UTC: charts count the
/// parts of days.
const ZONE: &str = "changelog_zone=Asia/Kathmandu";

/// Sends requests, and calls `after` with each.
pub(super) struct RequestSender<'w, F> {
    pub(super) app: &'w TestApp,
    key: TestClient,
    pub(super) browser: TestClient,
    after: F,
    /// The methods and paths of all requests.
    sent: BTreeSet<String>,
    /// The number of the next round: each has other names.
    next_round: usize,
}

impl<'w, F: FnMut(&str)> RequestSender<'w, F> {
    pub(super) async fn new(app: &'w TestApp, after: F) -> Self {
        Self {
            app,
            key: app.key(),
            browser: app.browser().await,
            after,
            sent: BTreeSet::new(),
            next_round: 0,
        }
    }

    /// Returns the rounds that are sent now.
    fn rounds(&self, times: usize) -> Range<usize> {
        self.next_round..self.next_round + times
    }

    /// Sends every kind of request `times` times; may be called again.
    pub(super) async fn send_all(&mut self, fixture: &Fixture, times: usize) {
        self.begin_retention_run().await;
        for path in fixture.lists() {
            self.read(&path, 200, times).await;
        }
        self.watch(fixture, times).await;
        for (path, status) in fixture.reads() {
            self.read(&path, status, times).await;
        }
        for round in self.rounds(times) {
            for (method, path, body, status) in fixture.writes(round) {
                let request = self.key.request(method, &path).json(&body);
                self.send(method, &path, Some(&body), request, status).await;
            }
        }
        self.send_again(times).await;
        self.send_to_a_source(times).await;
        self.sign_in_and_out(times).await;
        let organization = &self.app.organization;
        for path in fixture.pages(&organization.owner_id, &organization.key_id) {
            for _ in 0..times {
                let request = self.browser.request("GET", &path);
                let request = request.header("cookie", ZONE);
                self.send("GET", &path, None, request, 200).await;
            }
        }
        for round in self.rounds(times) {
            self.send_forms(fixture, round).await;
        }
        self.send_without_access(times).await;
        self.send_a_token(times).await;
        self.send_concurrently(fixture).await;
        self.fill_a_millisecond().await;
        for path in fixture.around() {
            self.read(&path, 200, times).await;
        }
        self.end_retention_run().await;
        self.end_erasure().await;
        self.next_round += times;
        self.assert_complete().await;
    }

    /// Sends a GET request `times` times.
    pub(super) async fn read(&mut self, path: &str, status: u16, times: usize) {
        for _ in 0..times {
            let request = self.key.request("GET", path);
            self.send("GET", path, None, request, status).await;
        }
    }

    /// Sends the token of a pipeline that fits no workload identity.
    async fn send_a_token(&mut self, times: usize) {
        let claims = json!({
            "iss": "https://issuer.invalid", "aud": "a", "sub": "s", "repository": "acme/shop",
        });
        let parts = [json!({ "alg": "RS256" }), claims].map(|part| encoded(part.to_string()));
        let bearer = format!("Bearer {}.signature", parts.join("."));
        for _ in 0..times {
            let request = self.app.anonymous().request("GET", "/api/key");
            let request = request.header("authorization", &bearer);
            self.send("GET", "/api/key", None, request, 401).await;
        }
    }

    /// Opens streams, and waits in each for what was recorded before it was opened, and
    /// for what is recorded later.
    async fn watch(&mut self, fixture: &Fixture, times: usize) {
        let selection = format!(
            "q={0}&text={0}&service_id={1}&host_id={2}&environment=prod&risk_level=low\
             &min_risk=low&status=planned&not_status=completed&active=false&created_by=terraform&agent=terraform&by=agent&tag={3}",
            fixture.word, fixture.service, fixture.host, fixture.tag
        );
        let body = json!({
            "title": fixture.word, "service_id": fixture.service, "host_id": fixture.host,
            "environment": "prod", "tags": [fixture.tag], "agent": { "name": "terraform" },
        });
        let path = "/api/changes/stream?source=github";
        EventStream::open(self.key.request("GET", path)).await;
        self.sent.insert(format!("GET {path}"));
        for _ in 0..times {
            for query in ["", selection.as_str()] {
                self.key.create("/api/changes", body.clone()).await;
                let path = format!("/api/changes/stream?{query}");
                let request = self.key.request("GET", &path);
                let now = Uuid::now_v7().to_string();
                let mut events = EventStream::open(request.header("last-event-id", now)).await;
                events.change().await;
                self.key.create("/api/changes", body.clone()).await;
                events.change().await;
                drop(events);
                self.sent.insert(format!("GET {path}"));
                (self.after)(&path);
            }
            self.watch_updates(&body).await;
        }
    }

    async fn watch_updates(&mut self, body: &Value) {
        let change = self.key.create("/api/changes", body.clone()).await;
        let address = format!("/api/changes/{change}");
        let update = async |title: &str| {
            self.key.update(&address, json!({ "title": title })).await;
        };
        update("Before").await;
        let path = "/api/changes/stream?events=updated";
        let request = self.key.request("GET", path);
        let now = Uuid::now_v7().to_string();
        let mut events = EventStream::open(request.header("last-event-id", now)).await;
        events.update().await;
        update("After").await;
        while events.update().await.data["changes"]["title"]["to"] != "After" {}
        self.sent.insert(format!("GET {path}"));
        (self.after)(path);
    }

    /// Sends a request, and again while it is throttled; requires the status.
    pub(super) async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        request: RequestBuilder,
        status: u16,
    ) -> TestResponse {
        let answer = until_accepted(request).await;
        answer.is(status);
        let mut name = format!("{method} {path}");
        self.sent.insert(name.clone());
        if let Some(body) = body {
            name.push(' ');
            // Enough to identify the request.
            name.extend(body.to_string().chars().take(100));
        }
        (self.after)(&name);
        answer
    }

    /// Repeats creates with their idempotency key: with the same body, with another one,
    /// and after the key has expired.
    async fn send_again(&mut self, times: usize) {
        for round in self.rounds(times) {
            for (path, body) in [
                ("/api/changes", json!({ "title": "Once" })),
                (
                    "/api/changes/bulk",
                    json!({ "changes": [{ "title": "Once" }] }),
                ),
                ("/api/hosts", json!({ "hostname": format!("once-{round}") })),
                ("/api/services", json!({ "name": format!("once {round}") })),
            ] {
                let other = json!({ "title": "Twice" });
                for (body, status) in [(&body, 201), (&body, 201), (&other, 422)] {
                    self.send_keyed(path, round, body, status).await;
                }
            }
            expire_idempotency_keys(self.app).await;
            for (path, name) in [
                ("/api/changes", "title"),
                ("/api/hosts", "hostname"),
                ("/api/services", "name"),
            ] {
                let body = json!({ name: format!("again-{round}") });
                self.send_keyed(path, round, &body, 201).await;
            }
        }
    }

    /// Sends deployments to a source, signed and not, with calls that belong together, and
    /// waits until they are read.
    async fn send_to_a_source(&mut self, times: usize) {
        let org = self.app.organization.id.as_str();
        let source = self
            .app
            .source("github", &format!("For {org} {times}"), Some("secret"));
        let anonymous = self.app.anonymous().post(&source.path, json!({})).await;
        anonymous.is(401);
        for round in self.rounds(times) {
            for state in ["in_progress", "in_progress", "success"] {
                let body = json!({
                    "deployment": { "id": round, "ref": "main", "environment": "production" },
                    "deployment_status": { "state": state, "updated_at": "2026-01-20T10:01:00Z" },
                    "repository": { "name": format!("repository-{round}") },
                });
                let delivery = format!("{round}-{state}");
                source
                    .send_github("deployment_status", &delivery, &body)
                    .await
                    .is(202);
            }
        }
        let trail = self
            .app
            .source("cloudtrail", &format!("Trail of {org} {times}"), None);
        for call in 0..3 * times {
            let body = json!({
                "eventVersion": "1.08", "eventID": format!("call-{call}"), "readOnly": false,
                "eventTime": "2026-01-20T10:01:00Z", "eventSource": "ec2.amazonaws.com",
                "eventName": "RunInstances", "awsRegion": "eu-west-1",
                "userIdentity": { "type": "IAMUser", "userName": "ada", "accountId": "1" },
            });
            trail.send(&body).await.is(202);
        }
        self.sent.insert(format!("POST {}", trail.path));
        self.call_during_a_run(&trail, times).await;
        let alerts = self.alert(times).await;
        for source in [source, trail, alerts] {
            let events = source.events().await;
            let is_updated = events.iter().any(|event| event["outcome"] == "updated");
            assert!(is_updated, "{events:?}");
            self.app
                .admin(&["source", "replay", &text(&events[0]["id"])]);
            source.events().await;
            self.app.admin(&["source", "delete", &source.id]);
        }
    }

    /// Sends alerts that fire and are resolved.
    async fn alert(&self, times: usize) -> TestSource<'_> {
        let org = self.app.organization.id.as_str();
        let alerts = self
            .app
            .source("alertmanager", &format!("Alerts of {org} {times}"), None);
        for round in self.rounds(times) {
            for (status, ends) in [
                ("firing", "0001-01-01T00:00:00Z"),
                ("resolved", "2026-01-20T10:09:00Z"),
            ] {
                let body = json!({
                    "version": "4", "groupKey": format!("group {round}"), "status": status,
                    "commonLabels": { "alertname": "HighErrors" },
                    "alerts": [{ "status": status, "labels": {}, "endsAt": ends,
                        "startsAt": "2026-01-20T10:01:00Z" }],
                });
                alerts.send(&body).await.is(202);
            }
        }
        alerts
    }

    /// Sends calls of Terraform before and after the run is recorded that explains them, and
    /// calls of two sessions that a late one joins.
    async fn call_during_a_run(&mut self, trail: &TestSource<'_>, times: usize) {
        let call = |agent: &str, name: &str, minute: usize| {
            json!({
                "eventVersion": "1.08", "eventID": format!("{agent} {name} {minute}"),
                "readOnly": false, "eventTime": format!("2026-01-21T10:{minute:02}:00Z"),
                "eventSource": "ec2.amazonaws.com", "eventName": "RunInstances",
                "userAgent": agent,
                "userIdentity": { "type": "IAMUser", "userName": name, "accountId": "1" },
            })
        };
        for round in self.rounds(times) {
            let name = format!("person {round}");
            trail.send(&call("Terraform/1.9", &name, 1)).await.is(202);
            for minute in [1, 6, 4] {
                trail.send(&call("aws-cli/2", &name, minute)).await.is(202);
            }
        }
        trail.events().await;
        let run = json!({
            "title": "Apply", "risk_level": "low", "status": "completed", "tags": ["terraform"],
            "started_at": "2026-01-21T10:00:00Z", "ended_at": "2026-01-21T10:02:00Z",
        });
        self.key.post("/api/changes", run).await.is(201);
        for round in self.rounds(times) {
            let name = format!("person {round}");
            for minute in [2, 3] {
                trail
                    .send(&call("Terraform/1.9", &name, minute))
                    .await
                    .is(202);
            }
        }
    }

    async fn send_keyed(&mut self, path: &str, round: usize, body: &Value, status: u16) {
        let request = self.key.request("POST", path).json(body);
        let request = request.header("idempotency-key", format!("round {round}"));
        self.send("POST", path, Some(body), request, status).await;
    }

    async fn sign_in_and_out(&mut self, times: usize) {
        let anonymous = self.app.anonymous();
        let owner = self.app.organization.clone();
        let mut browser = String::new();
        for _ in 0..times {
            for (password, status) in [("not this one", 401), (&owner.password, 303)] {
                let fields = [("email", owner.email.as_str()), ("password", password)];
                let request = anonymous.request("POST", "/sign-in");
                let request = form(request.header("cookie", &browser), &fields);
                let answer = self.send("POST", "/sign-in", None, request, status).await;
                // The browser is known from now on.
                let mut cookies = answer.headers.get_all("set-cookie").iter();
                if let Some(fixture) = cookies.next_back().and_then(|cookie| cookie.to_str().ok()) {
                    browser = fixture.split(';').next().unwrap_or_default().to_owned();
                }
                let Some((cookie, _)) = answer.header("set-cookie").split_once(';') else {
                    continue;
                };
                let request = anonymous.request("POST", "/sign-out");
                let request = form(request.header("cookie", cookie), &[]);
                self.send("POST", "/sign-out", None, request, 303).await;
            }
        }
    }

    async fn send_without_access(&mut self, times: usize) {
        let anonymous = self.app.anonymous();
        let unknown = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
        let stranger = self.app.with_key(&unknown);
        let signed_out = anonymous.clone().with("cookie", "changelog_session=none");
        for _ in 0..times {
            for (caller, path, status) in [
                (&anonymous, "/api/health", 200),
                (&anonymous, "/api/openapi.json", 200),
                (&anonymous, "/api/docs", 200),
                (&signed_out, "/problems/not_found", 200),
                (&anonymous, "/sign-in", 200),
                (&anonymous, "/setup", 403),
                (&anonymous, "/", 303),
                (&signed_out, "/", 303),
                (&signed_out, "/api/activity", 401),
                (&stranger, "/api/hosts", 401),
            ] {
                let request = caller.request("GET", path);
                self.send("GET", path, None, request, status).await;
            }
        }
    }

    /// Sends few and many requests concurrently, so that some share a statement.
    async fn send_concurrently(&mut self, fixture: &Fixture) {
        for count in [4, 16, 64, 128] {
            for (path, most) in [
                (format!("/api/changes/{}", fixture.change), 128),
                (format!("/api/changes?service_id={}", fixture.service), 16),
                (format!("/api/changes?q={}", fixture.word), 16),
            ] {
                let count = count.min(most);
                let reads = (0..count).map(|_| until_accepted(self.key.request("GET", &path)));
                for answer in join_all(reads).await {
                    answer.is(200);
                }
                (self.after)(&format!("{count} times GET {path} at once"));
            }
            let body = json!({
                "title": "Together", "service_id": fixture.service, "host_id": fixture.host,
            });
            let creates = (0..count).map(|number| {
                let request = self.key.request("POST", "/api/changes").json(&body);
                // Each key twice, so that the second request is a repetition.
                let key = format!("{} {count} {}", self.next_round, number / 2);
                until_accepted(request.header("idempotency-key", key))
            });
            for answer in join_all(creates).await {
                answer.is(201);
            }
            (self.after)(&format!("{count} times POST /api/changes at once"));
        }
    }

    /// Creates so many changes of one millisecond that sort keys collide. It is far from other
    /// changes, so that no statement about a week reads them.
    async fn fill_a_millisecond(&mut self) {
        let change = json!({
            "title": "Crowded", "status": "completed", "occurred_at": "2015-01-01T00:00:00Z",
        });
        let body = json!({ "changes": vec![change; 500] });
        for _ in 0..12 {
            let path = "/api/changes/bulk";
            let request = self.key.request("POST", path).json(&body);
            self.send("POST", path, Some(&body), request, 201).await;
        }
    }

    /// Requires that every operation of the API was sent, with each of its parameters.
    async fn assert_complete(&self) {
        let document = Document::of(self.app).await;
        let paths = document.0["paths"].as_object().expect("paths");
        for (path, operations) in paths {
            let (start, _) = path.split_once('{').unwrap_or((path, ""));
            for (method, operation) in operations.as_object().expect("operations") {
                let method = method.to_uppercase();
                let sent = |what: &str| {
                    self.sent.iter().any(|sent| {
                        let is_it = sent.strip_prefix(&format!("{method} {start}"));
                        is_it.is_some_and(|rest| rest.contains(what))
                    })
                };
                assert!(sent(""), "{method} {path} was never sent");
                let parameters = operation["parameters"].as_array();
                for parameter in parameters.into_iter().flatten() {
                    let name = parameter["name"].as_str().expect("a name");
                    let is_sent = parameter["in"] != "query" || sent(&format!("{name}="));
                    assert!(is_sent, "{method} {path} was never sent with {name}");
                }
            }
        }
    }
}

/// Sends a request, and again while it is refused for being one of too many: sign-ins are
/// throttled, and an organization may have few long requests at once, which all are on a loaded
/// machine.
async fn until_accepted(request: RequestBuilder) -> TestResponse {
    loop {
        let again = request.try_clone().expect("a body that is there");
        let answer = send(again).await;
        if answer.status != 429 {
            return answer;
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Makes all idempotency keys expire.
async fn expire_idempotency_keys(app: &TestApp) {
    app.update_own("UPDATE idempotency SET created_at = 0 WHERE organization_id = $1")
        .await;
}

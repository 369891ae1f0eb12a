//! Every kind of request that uses the database.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, SqliteConnection};
use tokio::time::sleep;
use uuid::Uuid;

use changelog_tests::client::form;
use changelog_tests::event_stream::EventStream;
use changelog_tests::openapi::Document;
use changelog_tests::{Engine, TestApp, TestClient, TestResponse, send};

/// The zone of the reader of pages, whose days start within days in UTC: charts count the
/// parts of days.
const ZONE: &str = "changelog_zone=Asia/Kathmandu";

/// A request that writes: method, path, body, and the status of the answer.
type Write = (&'static str, String, Value, u16);

/// The ids, words and times that the requests use.
pub(super) struct Fixture {
    pub(super) change: String,
    /// The API key or person that recorded the changes.
    pub(super) author: String,
    pub(super) service: String,
    pub(super) other_service: String,
    pub(super) host: String,
    pub(super) tag: String,
    pub(super) other_tag: String,
    pub(super) word: String,
    pub(super) other_word: String,
    /// The prefix of a word.
    pub(super) prefix: String,
    pub(super) since: String,
    pub(super) until: String,
}

impl Fixture {
    /// Creates a change with everything that changes are found by.
    pub(super) async fn create(app: &TestApp) -> Self {
        let key = app.key();
        let service = json!({ "name": "payments" });
        let service = key.create("/api/services", service).await;
        let other_service = json!({ "name": "ledger" });
        let other_service = key.create("/api/services", other_service).await;
        let host = json!({ "hostname": "web-1" });
        let host = key.create("/api/hosts", host).await;
        let body = json!({
            "title": "Deploy with a needle",
            "service_id": service,
            "host_id": host,
            "tags": ["often", "seldom"],
        });
        Self {
            change: key.create("/api/changes", body).await,
            author: app.organization.key_id.clone(),
            service,
            other_service,
            host,
            tag: "often".to_owned(),
            other_tag: "seldom".to_owned(),
            word: "deploy".to_owned(),
            other_word: "needle".to_owned(),
            prefix: "de".to_owned(),
            since: "2026-01-01T00:00:00.500Z".to_owned(),
            until: "2026-02-03T04:05:06.500Z".to_owned(),
        }
    }

    /// Returns the paths of lists: each filter alone, each pair of filters, and the cases
    /// in which a page is found differently.
    pub(super) fn lists(&self) -> Vec<String> {
        let filters = [
            "risk_level=high".to_owned(),
            "status=completed".to_owned(),
            format!("service_id={}", self.service),
            format!("host_id={}", self.host),
            format!("tag={}", self.tag),
            format!("q={}", self.word),
            format!("text={}", self.word),
            "environment=prod".to_owned(),
            format!("created_by={}", self.author),
            format!("since={}", self.since),
            format!("until={}", self.until),
            format!("before={}", self.change),
        ];
        let mut queries = vec![
            String::new(),
            "per_page=100".to_owned(),
            format!("q={}+{}", self.word, self.other_word),
            format!("q={}", self.prefix),
            format!("tag={}&tag={}", self.tag, self.other_tag),
            format!(
                "risk_level=low&since={}&until={}&status=planned",
                self.since, self.until
            ),
            format!("service_id={}&q={}&page=2", self.service, self.word),
            filters.join("&"),
            format!("text={}", self.change),
            "text=web".to_owned(),
            "created_by=terraform".to_owned(),
            format!("before={}@{}", self.change, self.since),
        ];
        // Several values of one filter.
        for kinds in [
            "risk_level=high,medium",
            "not_status=planned",
            "min_risk=medium&not_status=planned",
            "environment=prod,staging&min_risk=medium",
            "active=true",
        ] {
            queries.push(kinds.to_owned());
            for other in [
                format!("service_id={}", self.service),
                format!("tag={}", self.tag),
                format!("q={}", self.word),
                format!("since={}", self.since),
                format!("since={}&service_id={}", self.since, self.service),
                format!("since={}&until={}", self.since, self.until),
                "page=100".to_owned(),
            ] {
                queries.push(format!("{kinds}&{other}"));
            }
        }
        // Pages that are found by the stored counts, and beyond the end.
        for page in ["page=100", "page=9000000"] {
            for kind in [
                "",
                "&risk_level=low",
                "&status=planned",
                "&risk_level=low&status=planned",
            ] {
                queries.push(format!("{page}{kind}"));
            }
            queries.push(format!("{page}&since={}", self.since));
        }
        for (number, one) in filters.iter().enumerate() {
            queries.push(one.clone());
            for other in &filters[number + 1..] {
                queries.push(format!("{one}&{other}"));
            }
        }
        let path = |query: String| format!("/api/changes?{query}");
        queries.into_iter().map(path).collect()
    }

    /// Returns the other requests that read, with their status.
    fn reads(&self) -> Vec<(String, u16)> {
        let mut reads = vec![
            ("/api/hosts".to_owned(), 200),
            ("/api/hosts?limit=2".to_owned(), 200),
            ("/api/hosts?limit=2&after=a".to_owned(), 200),
            ("/api/services".to_owned(), 200),
            ("/api/services?limit=2".to_owned(), 200),
            ("/api/services?limit=2&after=a".to_owned(), 200),
            ("/api/key".to_owned(), 200),
            ("/api/changes/upcoming".to_owned(), 200),
            ("/api/changes/upcoming?limit=2".to_owned(), 200),
        ];
        for (path, id) in [
            ("changes", &self.change),
            ("hosts", &self.host),
            ("services", &self.service),
        ] {
            reads.push((format!("/api/{path}/{id}"), 200));
            reads.push((format!("/api/{path}/{}", Uuid::now_v7()), 404));
        }
        reads.push((format!("/api/changes/{}/history", self.change), 200));
        reads.push((format!("/api/changes/{}/history", Uuid::now_v7()), 404));
        for query in [
            String::new(),
            format!("min_risk=medium&service_id={}", self.service),
            format!("text={}", self.word),
            format!("q={}&host_id={}&risk_level=high", self.word, self.host),
            format!(
                "tag={}&environment=prod&created_by={}",
                self.tag, self.author
            ),
            "status=completed&not_status=planned&active=false".to_owned(),
        ] {
            reads.push((format!("/api/changes/annotations?max=5&{query}"), 200));
        }
        let range = format!("from={}&to={}", self.since, self.until);
        reads.push((format!("/api/changes/annotations?{range}"), 200));
        let all = format!(
            "q={}&text={}&host_id={}&environment=prod&risk_level=high&status=completed\
             &not_status=planned&active=false&created_by={}&tag={}",
            self.word, self.other_word, self.host, self.author, self.tag
        );
        reads.push((format!("/api/changes/annotations?{all}"), 200));
        let around = self.around().into_iter();
        reads.extend(around.map(|path| (path, 200)));
        reads
    }

    /// Returns the questions about the changes before a moment, which read more if there
    /// are many changes.
    fn around(&self) -> Vec<String> {
        let Self {
            service,
            host,
            word,
            other_word,
            until,
            ..
        } = self;
        [
            "limit=100".to_owned(),
            format!("at={until}&service_id={service}&host_id={host}&window_minutes=10080"),
            format!("at={until}&environment=prod&q={word}+{other_word}"),
            format!("at={until}&service_id={service}&planned=true&window_minutes=4000"),
        ]
        .map(|query| format!("/api/changes/around?{query}"))
        .into()
    }

    /// Returns the requests that write. Each round writes other values.
    fn writes(&self, round: usize) -> Vec<Write> {
        let mut writes = self.new_changes();
        writes.extend(self.patches(round));
        let unknown = Uuid::now_v7();
        for (path, id, name) in [
            ("hosts", &self.host, "hostname"),
            ("services", &self.service, "name"),
        ] {
            let all = format!("/api/{path}");
            let one = format!("/api/{path}/{id}");
            let taken = json!({ name: format!("taken-{round}") });
            let renamed = json!({ name: format!("renamed-{round}") });
            let described = json!({ "description": format!("described {round}") });
            writes.extend([
                ("POST", all.clone(), taken.clone(), 201),
                ("POST", all, taken.clone(), 409),
                ("PATCH", one.clone(), renamed, 200),
                ("PATCH", one.clone(), described.clone(), 200),
                ("PATCH", one, taken, 409),
                ("PATCH", format!("/api/{path}/{unknown}"), described, 404),
            ]);
        }
        writes.extend(self.dependencies(round));
        writes
    }

    /// Returns the requests that write which services a service depends on.
    fn dependencies(&self, round: usize) -> Vec<Write> {
        let all = "/api/services".to_owned();
        let one = format!("/api/services/{}", self.service);
        let needs = |ids: &[&str]| json!({ "depends_on": ids });
        let mut new = needs(&[&self.service]);
        new["name"] = json!(format!("depends-{round}"));
        let unknown = Uuid::now_v7().to_string();
        vec![
            ("POST", all, new, 201),
            ("PATCH", one.clone(), needs(&[&self.other_service]), 200),
            ("PATCH", one.clone(), needs(&[&unknown]), 422),
            ("PATCH", one, needs(&[]), 200),
        ]
    }

    fn new_changes(&self) -> Vec<Write> {
        let plain = json!({ "title": "Nothing but a title" });
        let full = json!({
            "title": format!("Everything {} {}", self.word, self.other_word),
            "description": "all of it",
            "impact": "none",
            "service_id": self.service,
            "host_id": self.host,
            "risk_level": "high",
            "status": "in_progress",
            "environment": "prod",
            "on_behalf_of": "ada@example.com",
            "agent": { "name": "deployer", "mode": "autonomous", "run": "42" },
            "commit": "1a2b3c4d",
            "committed_at": "2026-01-01T00:00:00Z",
            "tags": [self.tag, self.other_tag],
            "links": [{ "label": "runbook", "url": "https://example.com/" }],
            "scheduled_for": "2030-01-01T00:00:00Z",
            "occurred_at": self.since,
        });
        let unknown_reference =
            |field: &str| json!({ "title": "Unknown reference", field: Uuid::now_v7() });
        let several = json!({
            "title": "Several services", "service_ids": [self.service, self.other_service],
        });
        let moved = json!({
            "title": "Started before it was recorded", "status": "completed",
            "occurred_at": "2026-01-02T00:00:00Z", "started_at": "2026-01-01T00:00:00Z",
        });
        let all = "/api/changes".to_owned();
        let bulk = json!({ "changes": [plain, full] });
        vec![
            ("POST", all.clone(), plain, 201),
            ("POST", all.clone(), full, 201),
            ("POST", all.clone(), several, 201),
            ("POST", all.clone(), moved, 201),
            ("POST", all.clone(), unknown_reference("service_id"), 422),
            ("POST", all, unknown_reference("host_id"), 422),
            ("POST", "/api/changes/bulk".to_owned(), bulk, 201),
        ]
    }

    /// Returns updates of every field of a change.
    fn patches(&self, round: usize) -> Vec<Write> {
        let unknown = Uuid::now_v7();
        let (risk, status) = match round % 2 {
            0 => ("medium", "completed"),
            _ => ("high", "planned"),
        };
        let text = format!("new in round {round}");
        let links = json!([{ "label": text, "url": "https://example.com/" }]);
        let moment = format!("2031-01-01T00:00:{round:02}Z");
        let path = format!("/api/changes/{}", self.change);
        let mut writes: Vec<Write> = [
            (json!({ "title": text }), 200),
            (json!({ "description": text }), 200),
            (json!({ "impact": text }), 200),
            (json!({ "risk_level": risk }), 200),
            (json!({ "status": status }), 200),
            (json!({ "status": "rolled_back", "reason": text }), 200),
            (
                json!({ "started_at": moment.replace("2031", "2021"), "ended_at": null }),
                200,
            ),
            (json!({ "status": "planned" }), 200),
            (json!({ "environment": "staging" }), 200),
            (
                json!({ "service_ids": [self.other_service, self.service] }),
                200,
            ),
            (json!({ "service_id": null }), 200),
            (json!({ "service_id": self.service }), 200),
            (json!({ "host_id": null }), 200),
            (json!({ "host_id": self.host }), 200),
            (json!({ "tags": [self.tag, text] }), 200),
            (json!({ "links": links }), 200),
            (json!({ "scheduled_for": moment }), 200),
            // The same value.
            (json!({ "service_id": self.service }), 200),
            (json!({ "service_id": unknown }), 422),
            (json!({ "host_id": unknown }), 422),
        ]
        .into_iter()
        .map(|(patch, status)| ("PATCH", path.clone(), patch, status))
        .collect();
        let path = format!("/api/changes/{unknown}");
        writes.push(("PATCH", path, json!({ "impact": text }), 404));
        writes
    }
}

/// Sends requests, and calls `after` with each.
pub(super) struct RequestSender<'w, F> {
    app: &'w TestApp,
    key: TestClient,
    browser: TestClient,
    after: F,
    /// The methods and paths of all requests.
    sent: BTreeSet<String>,
}

impl<'w, F: FnMut(&str)> RequestSender<'w, F> {
    pub(super) async fn new(app: &'w TestApp, after: F) -> Self {
        Self {
            app,
            key: app.key(),
            browser: app.browser().await,
            after,
            sent: BTreeSet::new(),
        }
    }

    /// Sends every kind of request `times` times.
    pub(super) async fn send_all(&mut self, fixture: &Fixture, times: usize) {
        for path in fixture.lists() {
            self.read(&path, 200, times).await;
        }
        self.watch(fixture, times).await;
        for (path, status) in fixture.reads() {
            self.read(&path, status, times).await;
        }
        for round in 0..times {
            for (method, path, body, status) in fixture.writes(round) {
                let request = self.key.request(method, &path).json(&body);
                self.send(method, &path, Some(&body), request, status).await;
            }
        }
        self.send_again(times).await;
        self.sign_in_and_out(times).await;
        for path in self.pages(fixture) {
            for _ in 0..times {
                let request = self.browser.request("GET", &path);
                let request = request.header("cookie", ZONE);
                self.send("GET", &path, None, request, 200).await;
            }
        }
        for round in 0..times {
            self.send_forms(fixture, round).await;
        }
        self.send_without_access(times).await;
        self.send_concurrently(fixture).await;
        self.fill_a_millisecond(fixture).await;
        for path in fixture.around() {
            self.read(&path, 200, times).await;
        }
        self.assert_complete().await;
    }

    /// Sends a GET request `times` times.
    pub(super) async fn read(&mut self, path: &str, status: u16, times: usize) {
        for _ in 0..times {
            let request = self.key.request("GET", path);
            self.send("GET", path, None, request, status).await;
        }
    }

    /// Opens streams, and waits in each for what was recorded before it was opened, and
    /// for what is recorded later.
    async fn watch(&mut self, fixture: &Fixture, times: usize) {
        let selection = format!(
            "q={0}&text={0}&service_id={1}&host_id={2}&environment=prod&risk_level=low\
             &min_risk=low&status=planned&not_status=completed&active=false&created_by=terraform&tag={3}",
            fixture.word, fixture.service, fixture.host, fixture.tag
        );
        let body = json!({
            "title": fixture.word, "service_id": fixture.service, "host_id": fixture.host,
            "environment": "prod", "tags": [fixture.tag],
        });
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
            let answer = self.key.patch(&address, json!({ "title": title })).await;
            answer.is(200);
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

    async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        request: RequestBuilder,
        status: u16,
    ) -> TestResponse {
        let answer = loop {
            let request = request.try_clone().expect("a body that is there");
            let answer = send(request).await;
            if answer.status != 429 {
                break answer;
            }
            // Sign-ins are throttled.
            sleep(Duration::from_secs(1)).await;
        };
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
        for round in 0..times {
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

    /// Returns the paths of pages.
    #[expect(clippy::too_many_lines, reason = "a list")]
    fn pages(&self, fixture: &Fixture) -> Vec<String> {
        let owner = &self.app.organization.owner_id;
        let mut pages: Vec<String> = [
            "/",
            "/around",
            "/upcoming",
            "/changes/new",
            "/services",
            "/services?offset=50",
            "/services?q=pay",
            "/services?q=payments+ledger",
            "/services?sort=changes",
            "/services?sort=last",
            "/services/new",
            "/hosts?q=web",
            "/hosts?sort=last",
            "/hosts/new",
            "/names/services",
            "/names/services?prefix=pay",
            "/names/hosts?prefix=web",
            "/names/tags",
            "/names/tags?prefix=o",
            "/names/people?prefix=a",
            "/views",
            "/hosts",
            "/hosts?offset=50",
            "/settings/api-keys",
            "/settings/members",
            "/settings/organization",
            "/settings/integrations",
            "/account",
            "/api/activity/actors",
        ]
        .map(str::to_owned)
        .into();
        for (path, id) in [
            ("changes", &fixture.change),
            ("services", &fixture.service),
            ("hosts", &fixture.host),
        ] {
            pages.push(format!("/{path}/{id}"));
            pages.push(format!("/{path}/{id}/edit"));
        }
        pages.push(format!("/changes/{}/edit", fixture.change));
        let at = fixture.until.replace(':', "%3A");
        for query in [
            format!("at={at}"),
            format!(
                "at={at}&service={}&host={}&environment=prod&q=deploy+needle&span=1d",
                fixture.service, fixture.host
            ),
            format!("at={at}&q=needle&window=7d"),
            "from=2026-01-30T00%3A00%3A00Z&to=2026-02-03T00%3A00%3A00Z".to_owned(),
        ] {
            pages.push(format!("/around?{query}"));
        }
        for query in [
            String::new(),
            "?range=4h".to_owned(),
            "?range=1w&min_risk=medium&per_page=100".to_owned(),
            format!("?created_by={}&risk_level=high", Uuid::now_v7()),
            "?page=2".to_owned(),
            format!("?service_id={}&host_id={}", fixture.service, fixture.host),
            format!("?q={}&tag={}", fixture.word, fixture.tag),
            format!("?text={}&environment=prod%2Cstaging", fixture.word),
            format!("?created_by={}&not_status=planned", fixture.author),
            "?created_by=terraform&min_risk=medium&status=completed%2Crolled_back".to_owned(),
            format!(
                "?not_status=planned&since={}",
                fixture.since.replace(':', "%3A")
            ),
        ] {
            pages.push(format!("/changes{query}"));
        }
        // Downloads, here of few changes.
        for query in [
            format!("tag={}&tag={}", fixture.tag, fixture.other_tag),
            format!("q={}&service_id={}", fixture.other_word, fixture.service),
            format!("host_id={}&tag={}", fixture.host, fixture.tag),
            format!("status=planned&tag={}", fixture.other_tag),
            format!(
                "status=planned,completed&environment=prod&tag={}",
                fixture.other_tag
            ),
            format!("text={}&created_by={}", fixture.other_word, fixture.author),
        ] {
            pages.push(format!("/changes.csv?{query}"));
            pages.push(format!("/changes.ndjson?{query}"));
        }
        for query in [
            String::new(),
            "limit=100&offset=2500".to_owned(),
            "resource=change".to_owned(),
            "resource=host&offset=100".to_owned(),
            "actor_id=__api_key__".to_owned(),
            format!("actor_id={owner}"),
            "actor_id=__api_key__&resource=service".to_owned(),
            format!("actor_id={owner}&resource=change"),
        ] {
            pages.push(format!("/api/activity?{query}"));
        }
        let since = fixture.since.replace(':', "%3A");
        let key = &self.app.organization.key_id;
        for query in [
            String::new(),
            "range=1w".to_owned(),
            format!("resource=change&since={since}"),
            format!("resource=host&until={since}&before={}", fixture.change),
            "actor_id=__api_key__".to_owned(),
            "actor_id=__api_key__&resource=service".to_owned(),
            format!("actor_id=key%3A{key}"),
            format!("actor_id=key%3A{key}&action=deleted"),
            format!("actor_id={owner}"),
            format!("actor_id={owner}&resource=change&action=created"),
            format!("actor_id={owner}&action=revoked"),
            "action=created".to_owned(),
            "action=updated&resource=change".to_owned(),
            "action=role_changed".to_owned(),
            "action=deleted&resource=change".to_owned(),
        ] {
            let question = if query.is_empty() { "" } else { "?" };
            pages.push(format!("/activity{question}{query}"));
        }
        for extension in ["csv", "ndjson"] {
            pages.push(format!("/activity.{extension}?action=signed_in"));
            pages.push(format!("/activity.{extension}?range=1h&resource=member"));
        }
        pages
    }

    /// Sends a form as the owner.
    async fn form(&mut self, path: &str, fields: &[(&str, &str)], status: u16) -> TestResponse {
        let request = form(self.browser.request("POST", path), fields);
        self.send("POST", path, None, request, status).await
    }

    /// Sends every form, so that each has an effect.
    async fn send_forms(&mut self, fixture: &Fixture, round: usize) {
        let name = format!("by a form {round}");
        let title = [("title", name.as_str())];
        let answer = self.form("/changes", &title, 303).await;
        let change = answer.header("location").to_owned();
        self.form("/changes", &[("title", "")], 422).await;
        self.form(&change, &[("status", "in_progress")], 303).await;
        self.form(&change, &[("title", "")], 422).await;
        let page = self.browser.request("GET", &change);
        self.send("GET", &change, None, page, 200).await;
        self.form(&format!("{change}/delete"), &[], 303).await;
        self.form(&format!("{change}/delete"), &[], 404).await;
        // A change with every indexed field.
        let full = [
            ("title", name.as_str()),
            ("service_id", &fixture.service),
            ("service_ids", &fixture.other_service),
            ("host_id", &fixture.host),
            ("environment", "staging"),
            ("tags", &fixture.tag),
            ("scheduled_for", "2030-01-01T00:00"),
        ];
        let answer = self.form("/changes", &full, 303).await;
        let full = answer.header("location").to_owned();
        // It moves, with and without further services.
        let start = [("status", "completed"), ("service_ids", "")];
        self.form(&full, &start, 303).await;
        let end = [
            ("status", "rolled_back"),
            ("reason", "A reason"),
            ("started_at", "2026-01-01T00:00"),
            ("service_ids", &fixture.other_service),
        ];
        self.form(&full, &end, 303).await;
        let edit = format!("{full}/edit");
        let page = self.browser.request("GET", &edit);
        self.send("GET", &edit, None, page, 200).await;
        self.form(&full, &[("service_ids", "nothing")], 422).await;
        self.form(&format!("{full}/delete"), &[], 303).await;
        self.send_forms_about_views(&name).await;
        for (path, field) in [("/services", "name"), ("/hosts", "hostname")] {
            let answer = self.form(path, &[(field, &name)], 303).await;
            self.form(path, &[(field, &name)], 422).await;
            let one = answer.header("location").to_owned();
            self.form(&one, &[("description", &name)], 303).await;
            for query in ["service", "host"] {
                let path = format!("/changes?{query}=by+a+form+{round}");
                let request = self.browser.request("GET", &path);
                send(request).await;
            }
        }
        self.form("/settings/organization", &[("name", &name)], 303)
            .await;
        self.form("/account", &[("name", &name)], 303).await;
        self.send_forms_about_keys(&name).await;
        self.send_forms_about_people(round).await;
        self.form("/account/end-other-sessions", &[], 303).await;
        let page = self.form("/account/feed", &[], 200).await.text;
        let (_, rest) = page.split_once("/feeds/").expect("an address");
        let (feed, _) = rest.split_once('<').expect("an element");
        for (query, status) in [("", 200), ("&min_risk=medium", 200), ("0", 404)] {
            let request = self
                .browser
                .request("GET", &format!("/feeds/{feed}{query}"));
            self.send("GET", "/feeds/changes.atom", None, request, status)
                .await;
        }
        self.form("/account/feed/revoke", &[], 303).await;
    }

    async fn send_forms_about_views(&mut self, name: &str) {
        for shared in [None, Some(("shared", "1"))] {
            let with = |fields: &[(&'static str, &str)]| {
                let fields = fields
                    .iter()
                    .map(|(field, value)| (*field, (*value).to_owned()));
                let shared = shared.map(|(field, value)| (field, value.to_owned()));
                fields.chain(shared).collect::<Vec<_>>()
            };
            for (action, fields, status) in [
                (
                    "",
                    with(&[("name", name), ("query", "risk_level=high")]),
                    303,
                ),
                (
                    "",
                    with(&[("name", name), ("query", "risk_level=high")]),
                    422,
                ),
                ("", with(&[("name", "other"), ("query", "range=4h")]), 303),
                ("/ID", with(&[("name", "renamed")]), 303),
                ("/ID/delete", with(&[]), 303),
                ("/ID/delete", with(&[]), 303),
            ] {
                let request = self.browser.request("GET", "/views");
                let page = self.send("GET", "/views", None, request, 200).await;
                let path = match action {
                    "" => "/views".to_owned(),
                    action => {
                        let id = between(&page.text, "action=\"/views/", "\"");
                        format!("/views{}", action.replace("ID", &id))
                    }
                };
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(field, value)| (*field, value.as_str()))
                    .collect();
                self.form(&path, &fields, status).await;
            }
        }
    }

    async fn send_forms_about_keys(&mut self, name: &str) {
        let name = format!("key {name}");
        let path = "/settings/api-keys";
        self.form(path, &[("name", &name)], 200).await;
        let request = self.browser.request("GET", path);
        let page = self.send("GET", path, None, request, 200).await;
        let (_, row) = page
            .text
            .split_once(&format!(">{name}<"))
            .expect("the new one");
        let path = between(row, "/settings/api-keys/", "/");
        let path = format!("/settings/api-keys/{path}/revoke");
        self.form(&path, &[], 303).await;
    }

    /// Invites, withdraws, joins, changes the role, switches the organization, and
    /// removes.
    async fn send_forms_about_people(&mut self, round: usize) {
        let anonymous = self.app.anonymous();
        let email = format!("guest-{round}@example.org");
        let invitation = [("email", email.as_str()), ("role", "member")];
        let invite = "/settings/members/invite";
        // After a burst of thirty, invitations are limited to one a minute.
        if round < 5 {
            let page = self.form(invite, &invitation, 200).await.text;
            let start = "/settings/members/invitations/";
            let path = format!("{start}{}/withdraw", between(&page, start, "/"));
            self.form(&path, &[], 303).await;
        }
        let page = self.form(invite, &invitation, 200).await.text;
        let link = between(&page, "id=\"invitation-link\">", "<");
        let path = format!("/invitations/{}", link.rsplit_once('/').expect("a token").1);
        let request = anonymous.request("GET", &path);
        self.send("GET", &path, None, request, 200).await;
        let fields = [("name", "Guest"), ("password", "a pear and 4711 plums")];
        let request = form(anonymous.request("POST", &path), &fields);
        let answer = self.send("POST", &path, None, request, 303).await;
        let (cookie, _) = answer
            .header("set-cookie")
            .split_once(';')
            .expect("a cookie");
        let cookie = cookie.to_owned();
        let request = anonymous.request("GET", &path);
        self.send("GET", &path, None, request, 404).await;
        let here = self.app.organization.id.as_str();
        for (path, fields) in [
            ("/organization", vec![("organization_id", here)]),
            (
                "/account/password",
                vec![
                    ("current_password", "a pear and 4711 plums"),
                    ("password", "another pear and 4711 plums"),
                ],
            ),
        ] {
            let request = anonymous.request("POST", path).header("cookie", &cookie);
            self.send("POST", path, None, form(request, &fields), 303)
                .await;
        }
        let request = self.browser.request("GET", "/settings/members");
        let page = self
            .send("GET", "/settings/members", None, request, 200)
            .await;
        let (_, row) = page.text.split_once(&email).expect("a row of them");
        let guest = between(row, "/settings/members/", "/");
        let of_guest = |what: &str| format!("/settings/members/{guest}/{what}");
        self.form(&of_guest("role"), &[("role", "owner")], 303)
            .await;
        self.form(&of_guest("role"), &[("role", "viewer")], 303)
            .await;
        self.form(&of_guest("remove"), &[], 303).await;
        let me = self.app.organization.owner_id.clone();
        self.form(&format!("/settings/members/{me}/remove"), &[], 409)
            .await;
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
                let reads = (0..count).map(|_| send(self.key.request("GET", &path)));
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
                send(request.header("idempotency-key", format!("{count} {}", number / 2)))
            });
            for answer in join_all(creates).await {
                answer.is(201);
            }
            (self.after)(&format!("{count} times POST /api/changes at once"));
        }
    }

    /// Creates so many changes of one millisecond that sort keys collide.
    async fn fill_a_millisecond(&mut self, fixture: &Fixture) {
        let change = json!({
            "title": "Crowded", "status": "completed", "occurred_at": fixture.until,
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
            let (start, _) = path.split_once("{id}").unwrap_or((path, ""));
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

/// Returns the text between two strings.
fn between(text: &str, before: &str, after: &str) -> String {
    let (_, rest) = text.split_once(before).expect("the text before");
    let (found, _) = rest.split_once(after).expect("the text after");
    found.to_owned()
}

/// Makes all idempotency keys expire.
async fn expire_idempotency_keys(app: &TestApp) {
    let statement = "UPDATE idempotency SET created_at = 0 WHERE organization_id = $1";
    let organization: Uuid = app.organization.id.parse().expect("an id");
    match app.engine {
        Engine::Sqlite => {
            let connection = SqliteConnection::connect(&app.database).await;
            let mut connection = connection.expect("a database");
            let update = sqlx::query(statement).bind(organization);
            update.execute(&mut connection).await.expect("an update");
        }
        Engine::Postgres => {
            let connection = PgConnection::connect(&app.database).await;
            let mut connection = connection.expect("a database");
            let update = sqlx::query(statement).bind(organization);
            update.execute(&mut connection).await.expect("an update");
        }
    }
}

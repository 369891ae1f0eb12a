//! Random sequences of operations give what a model in memory gives: answers, lists and their
//! counts, search, and the activity log. A sequence that fails is made shorter before it is
//! reported. `CHANGELOG_TEST_SEQUENCES` (8) is their number.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::list_model::{
    ENVIRONMENTS, MIDDLE, Model, ModelChange, NOUNS, Query, RISKS, SECOND, STATUSES, TAGS, VERBS,
};
use changelog_tests::{Organization, TestApp, TestClient, each, on_both, send, shapes, text};

on_both!(random_sequences_match_the_model);

/// The most operations of a sequence.
const MAX_STEPS: usize = 60;
/// The number of different names of services, of hosts, and of idempotency keys.
const NAMES: u8 = 3;

#[derive(Clone, Debug)]
enum Step {
    Service(u8),
    Host(u8),
    Create(Draft),
    /// A create with an idempotency key, which may have been used.
    CreateWithKey(u8, Draft),
    /// Creates at the same time.
    CreateTogether(Vec<Draft>),
    /// The fields that are updated, to values of a draft.
    Update(Index, Draft, Vec<&'static str>),
    /// Several updates of one change at the same time, each of another field.
    UpdateTogether(Index, Draft),
    DeleteByForm(Index),
    Read(Index),
    List(Query, usize),
    Refused(Draft),
    ReplaceKey,
}

/// The values of a change.
#[derive(Clone, Debug)]
struct Draft {
    verb: usize,
    noun: usize,
    millis: i64,
    risk: &'static str,
    status: &'static str,
    environment: Option<&'static str>,
    service: Option<Index>,
    host: Option<Index>,
    tags: BTreeSet<usize>,
}

/// The fields that updates change.
const FIELDS: [&str; 7] = [
    "title",
    "risk_level",
    "status",
    "environment",
    "service_id",
    "host_id",
    "tags",
];

fn drafts() -> impl Strategy<Value = Draft> {
    let of = |index: Option<usize>| index.map(|index| ENVIRONMENTS[index]);
    (
        (0..VERBS.len(), 0..NOUNS.len()),
        // Some in one millisecond, some in one second.
        (0..3_i64, 0..3_i64).prop_map(|(second, milli)| MIDDLE + second * SECOND + milli),
        prop::sample::select(&RISKS),
        prop::sample::select(&STATUSES),
        prop::option::of(0..ENVIRONMENTS.len()).prop_map(of),
        any::<Option<Index>>(),
        any::<Option<Index>>(),
        prop::collection::btree_set(0..TAGS.len(), 0..3),
    )
        .prop_map(
            |((verb, noun), millis, risk, status, environment, service, host, tags)| Draft {
                verb,
                noun,
                millis,
                risk,
                status,
                environment,
                service,
                host,
                tags,
            },
        )
}

fn queries() -> impl Strategy<Value = Query> {
    let some = |values: &'static [&'static str]| {
        prop_oneof![
            2 => Just(Vec::new()),
            1 => prop::sample::subsequence(values, 1..=2),
        ]
    };
    let word = prop::sample::select(&["depl", "deploy", "alpha", "uber", "migrate"][..]);
    (
        some(&RISKS),
        some(&STATUSES),
        some(&ENVIRONMENTS),
        some(&TAGS),
        prop::collection::vec(word, 0..2),
        prop::option::of(0..3_i64),
    )
        .prop_map(
            |(risks, statuses, environments, tags, words, since)| Query {
                risks,
                statuses,
                environments,
                tags,
                words,
                since: since.map(|second| MIDDLE + second * SECOND),
                ..Query::default()
            },
        )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..NAMES).prop_map(Step::Service),
        2 => (0..NAMES).prop_map(Step::Host),
        8 => drafts().prop_map(Step::Create),
        4 => (0..NAMES, drafts()).prop_map(|(key, draft)| Step::CreateWithKey(key, draft)),
        2 => prop::collection::vec(drafts(), 2..6).prop_map(Step::CreateTogether),
        8 => (any::<Index>(), drafts(), prop::sample::subsequence(&FIELDS, 0..=FIELDS.len()))
            .prop_map(|(change, draft, fields)| Step::Update(change, draft, fields)),
        2 => (any::<Index>(), drafts())
            .prop_map(|(change, draft)| Step::UpdateTogether(change, draft)),
        3 => any::<Index>().prop_map(Step::DeleteByForm),
        2 => any::<Index>().prop_map(Step::Read),
        6 => (queries(), 1..3_usize).prop_map(|(query, page)| Step::List(query, page)),
        1 => drafts().prop_map(Step::Refused),
        1 => Just(Step::ReplaceKey),
    ];
    prop::collection::vec(step, 1..MAX_STEPS)
}

async fn random_sequences_match_the_model(app: TestApp) {
    let cases = std::env::var("CHANGELOG_TEST_SEQUENCES").ok();
    let cases = cases.map_or(8, |cases| cases.parse().expect("a number"));
    let config = ProptestConfig {
        cases,
        // What was found becomes a test of its own.
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    };
    let number = std::cell::Cell::new(0);
    let result = block_in_place(|| {
        TestRunner::new(config).run(&steps(), |steps| {
            number.set(number.get() + 1);
            let name = format!("Sequence {}", number.get());
            let owner = format!("owner-{}", number.get());
            let organization = app.organization(&name, &owner);
            Handle::current().block_on(async {
                let mut world = World::new(&app, organization).await;
                for step in &steps {
                    world.take(step).await;
                }
                world.assert_all().await;
            });
            Ok(())
        })
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

/// An organization of the service, and the model of it.
struct World<'a> {
    app: &'a TestApp,
    organization: Organization,
    browser: TestClient,
    model: Model,
    /// The bodies of the first requests with idempotency keys, and what they created.
    kept: BTreeMap<u8, (Value, String)>,
    /// Action, type and id of the entries of the activity log.
    entries: Vec<(String, String, String)>,
    /// The number of titles, which all differ.
    titles: usize,
}

impl<'a> World<'a> {
    async fn new(app: &'a TestApp, organization: Organization) -> Self {
        let mut world = Self {
            app,
            browser: app.browser_of(&organization).await,
            model: Model {
                key: app.with_key(&organization.key),
                services: Vec::new(),
                hosts: Vec::new(),
                changes: Vec::new(),
            },
            organization,
            kept: BTreeMap::new(),
            entries: Vec::new(),
            titles: 0,
        };
        // Its beginning: the organization, its owner and the key.
        world.entries = world.logged().await;
        world
    }

    async fn take(&mut self, step: &Step) {
        match step {
            Step::Service(number) => {
                let name = format!("service {number}");
                self.add("service", json!({ "name": name })).await;
            }
            Step::Host(number) => {
                let name = format!("host-{number}");
                self.add("host", json!({ "hostname": name })).await;
            }
            Step::Create(draft) => {
                let (body, change) = self.draft(draft);
                let answer = self.model.key.post("/api/changes", body).await;
                self.created(change, &answer.data(201));
            }
            Step::CreateWithKey(key, draft) => self.create_with_key(*key, draft).await,
            Step::CreateTogether(drafts) => {
                let all: Vec<_> = drafts.iter().map(|draft| self.draft(draft)).collect();
                let key = &self.model.key;
                let requests = all
                    .iter()
                    .map(|(body, _)| key.post("/api/changes", body.clone()));
                let answers = join_all(requests).await;
                for ((_, change), answer) in all.into_iter().zip(answers) {
                    self.created(change, &answer.data(201));
                }
            }
            Step::Update(index, draft, fields) => {
                if let Some(number) = self.number(*index) {
                    let patch = self.patch(number, draft, fields);
                    self.update(number, vec![patch]).await;
                }
            }
            Step::UpdateTogether(index, draft) => {
                if let Some(number) = self.number(*index) {
                    let each = ["title", "risk_level", "tags"];
                    let patches = each.map(|field| self.patch(number, draft, &[field]));
                    self.update(number, patches.to_vec()).await;
                }
            }
            Step::DeleteByForm(index) => {
                if let Some(number) = self.number(*index) {
                    let change = self.model.changes.remove(number);
                    let path = format!("/changes/{}/delete", change.id);
                    self.browser.submit(&path, &[]).await;
                    self.record("deleted", "change", &change.id);
                    let path = format!("/api/changes/{}", change.id);
                    self.model.key.get(&path).await.problem(404, "not_found");
                }
            }
            Step::Read(index) => {
                if let Some(number) = self.number(*index) {
                    self.assert_read(&self.model.changes[number]).await;
                }
            }
            Step::List(query, page) => {
                let request = [(query.clone(), *page, 7)];
                self.model.assert_matches(&request).await;
            }
            Step::Refused(draft) => {
                let (mut body, _) = self.draft(draft);
                body["title"] = json!("ab");
                let answer = self.model.key.post("/api/changes", body).await;
                answer.violates(&[("/title", "too_short")]);
            }
            Step::ReplaceKey => self.replace_key().await,
        }
    }

    /// Adds a service or a host, unless there is one with this name.
    async fn add(&mut self, kind: &str, body: Value) {
        let path = format!("/api/{kind}s");
        let known = self.model.key.body(&path).await;
        let name = body.as_object().expect("an object").keys().next();
        let name = name.expect("a name").clone();
        let is_known = each(&known["data"], &name).contains(&&body[&name]);
        let answer = self.model.key.post(&path, body).await;
        if is_known {
            answer.problem(409, "conflict");
            return;
        }
        let id = text(&answer.data(201)["id"]);
        self.record("created", kind, &id);
        let all = match kind {
            "service" => &mut self.model.services,
            _ => &mut self.model.hosts,
        };
        all.push(id);
    }

    async fn create_with_key(&mut self, key: u8, draft: &Draft) {
        let request = self.model.key.request("POST", "/api/changes");
        let request = request.header("idempotency-key", format!("key-{key}"));
        match self.kept.get(&key) {
            None => {
                let (body, change) = self.draft(draft);
                let created = send(request.json(&body)).await.data(201);
                self.kept.insert(key, (body, text(&created["id"])));
                self.created(change, &created);
            }
            Some((body, id)) if draft.tags.is_empty() => {
                let answer = send(request.json(body)).await;
                assert_eq!(answer.header("idempotent-replayed"), "true");
                assert_eq!(answer.data(201)["id"], **id);
            }
            Some(_) => {
                let (body, _) = self.draft(draft);
                let answer = send(request.json(&body)).await;
                answer.problem(422, "idempotency_key_reused");
            }
        }
    }

    /// The key is revoked, and is refused from then on.
    async fn replace_key(&mut self) {
        let organization = &self.organization.id;
        let made = (self.app).admin(&["key", "create", "--org", organization, "--name", "another"]);
        self.record("created", "api_key", &text(&made["id"]));
        let used = self.model.key.read("/api/key").await;
        let id = text(&used["id"]);
        self.app.admin(&["key", "revoke", &id]);
        self.record("revoked", "api_key", &id);
        let answer = self.model.key.get("/api/changes").await;
        answer.problem(401, "unauthorized");
        self.model.key = self.app.with_key(&text(&made["key"]));
        // Idempotency keys belong to the API key.
        self.kept.clear();
    }

    /// Returns a change and the body of the request that creates it.
    fn draft(&mut self, draft: &Draft) -> (Value, ModelChange) {
        let of = |all: &[String], index: &Option<Index>| {
            let index = index.as_ref().filter(|_| !all.is_empty())?;
            Some(index.get(all).clone())
        };
        let (title, words) = self.title(draft);
        let change = ModelChange {
            id: String::new(),
            millis: draft.millis,
            words,
            risk: draft.risk,
            status: draft.status,
            environment: draft.environment,
            service: of(&self.model.services, &draft.service),
            further_service: None,
            host: of(&self.model.hosts, &draft.host),
            tags: draft.tags.iter().map(|tag| TAGS[*tag]).collect(),
        };
        (change.body(&title), change)
    }

    fn title(&mut self, draft: &Draft) -> (String, Vec<String>) {
        self.titles += 1;
        let (verb, noun) = (VERBS[draft.verb], NOUNS[draft.noun]);
        let words = [verb.1, noun.1, &self.titles.to_string()].map(str::to_owned);
        let title = format!("{} {} {}", verb.0, noun.0, self.titles);
        (title, words.to_vec())
    }

    /// Changes the model, and returns the body of the request that does so in the service.
    fn patch(&mut self, number: usize, draft: &Draft, fields: &[&str]) -> Value {
        let (body, after) = self.draft(draft);
        let change = &mut self.model.changes[number];
        let mut patch = json!({});
        for field in fields {
            patch[field] = body[field].clone();
            match *field {
                "title" => change.words.clone_from(&after.words),
                "risk_level" => change.risk = after.risk,
                "status" => change.status = after.status,
                "environment" => change.environment = after.environment,
                "service_id" => change.service.clone_from(&after.service),
                "host_id" => change.host.clone_from(&after.host),
                "tags" => change.tags.clone_from(&after.tags),
                other => panic!("unknown field {other}"),
            }
        }
        patch
    }

    /// Sends updates of a change at the same time. Each that changes something is recorded.
    async fn update(&mut self, number: usize, patches: Vec<Value>) {
        let id = self.model.changes[number].id.clone();
        let path = format!("/api/changes/{id}");
        let before = self.model.key.read(&path).await;
        let requests = patches
            .iter()
            .map(|patch| self.model.key.patch(&path, patch.clone()));
        for answer in join_all(requests).await {
            answer.is(200);
        }
        for patch in &patches {
            let fields = patch.as_object().expect("an object");
            let changes = |(name, value): (&String, &Value)| match name.as_str() {
                "service_id" => before["service"]["id"] != *value,
                "host_id" => before["host_ref"]["id"] != *value,
                name => before[name] != *value,
            };
            if fields.iter().any(changes) {
                self.record("updated", "change", &id);
            }
        }
        let after = self.model.key.read(&path).await;
        let change = &mut self.model.changes[number];
        let millis = effective_millis(&after);
        // A change that starts, or is planned again, moves.
        let may_move = patches.iter().any(|patch| !patch["status"].is_null());
        assert!(may_move || millis == change.millis, "{path} has moved");
        change.millis = millis;
        self.model.sort();
    }

    fn created(&mut self, mut change: ModelChange, answer: &Value) {
        change.id = text(&answer["id"]);
        self.record("created", "change", &change.id);
        self.model.changes.push(change);
        self.model.sort();
    }

    fn record(&mut self, action: &str, kind: &str, id: &str) {
        let entry = [action, kind, id].map(str::to_owned);
        self.entries.push(entry.into());
    }

    fn number(&self, index: Index) -> Option<usize> {
        let all = self.model.changes.len();
        (all > 0).then(|| index.index(all))
    }

    /// Returns the entries of the activity log, without a defined order.
    async fn logged(&self) -> Vec<(String, String, String)> {
        let mut all = Vec::new();
        loop {
            let path = format!("/api/activity?limit=100&offset={}", all.len());
            let page = self.browser.body(&path).await;
            let items = page["items"].as_array().expect("a list").clone();
            if items.is_empty() {
                return all;
            }
            let times = each(&page["items"], "created_at");
            assert!(times.is_sorted_by_key(|at| std::cmp::Reverse(text(at))));
            all.extend(items.iter().map(|entry| {
                let entry = ["action", "resource_type", "resource_id"].map(|name| &entry[name]);
                <(String, String, String)>::from(entry.map(text))
            }));
        }
    }

    async fn assert_read(&self, change: &ModelChange) {
        let path = format!("/api/changes/{}", change.id);
        let read = self.model.key.read(&path).await;
        let expected = json!({
            "risk_level": change.risk,
            "status": change.status,
            "environment": change.environment,
            "tags": change.tags,
            "service": change.service,
            "host": change.host,
        });
        let found = json!({
            "risk_level": read["risk_level"],
            "status": read["status"],
            "environment": read["environment"],
            "tags": read["tags"],
            "service": read["service"]["id"],
            "host": read["host_ref"]["id"],
        });
        assert_eq!(found, expected, "{path}");
        assert_eq!(effective_millis(&read), change.millis, "{path}");
    }

    /// Requires that everything is as in the model.
    async fn assert_all(&self) {
        for change in &self.model.changes {
            self.assert_read(change).await;
        }
        let mut queries = vec![Query::default()];
        let one = |change: &dyn Fn(&mut Query)| {
            let mut query = Query::default();
            change(&mut query);
            query
        };
        for risk in RISKS {
            queries.push(one(&|query| query.risks = vec![risk]));
        }
        for status in STATUSES {
            queries.push(one(&|query| query.statuses = vec![status]));
        }
        for environment in ENVIRONMENTS {
            queries.push(one(&|query| query.environments = vec![environment]));
        }
        for tag in TAGS {
            queries.push(one(&|query| query.tags = vec![tag]));
        }
        for word in ["deploy", "alphabet", "uber"] {
            queries.push(one(&|query| query.words = vec![word]));
        }
        for id in &self.model.services {
            queries.push(one(&|query| query.service = Some(id.clone())));
        }
        for id in &self.model.hosts {
            queries.push(one(&|query| query.host = Some(id.clone())));
        }
        let requests: Vec<_> = queries.into_iter().map(|query| (query, 1, 100)).collect();
        self.model.assert_matches(&requests).await;
        let (mut logged, mut expected) = (self.logged().await, self.entries.clone());
        logged.sort();
        expected.sort();
        assert_eq!(logged, expected);
    }
}

/// Returns the time by which lists are ordered.
fn effective_millis(change: &Value) -> i64 {
    let at = match &change["started_at"] {
        Value::Null => &change["occurred_at"],
        at => at,
    };
    shapes::assert_time(at).timestamp_millis()
}

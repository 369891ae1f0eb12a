//! Compares pages, time ranges and filter combinations of thousands of changes, spread
//! over milliseconds and decades, with a model that filters a list in memory.

use chrono::DateTime;
use futures_util::future::join_all;
use serde_json::{Value, json};

use changelog_tests::shapes;
use changelog_tests::{TestApp, TestClient, each, on_both, text};

on_both!(
    every_page_matches_the_model,
    every_time_range_matches_the_model,
    every_filter_combination_matches_the_model,
);

const RISKS: [&str; 3] = ["low", "medium", "high"];
const STATUSES: [&str; 4] = ["planned", "in_progress", "completed", "rolled_back"];
const ENVIRONMENTS: [&str; 4] = ["prod", "staging", "dev", "test"];
const TAGS: [&str; 4] = ["prod", "eu", "a b", "ä&=%"];
/// A word as written in the title, and as searched for.
const VERBS: [(&str, &str); 3] = [
    ("Deploy", "deploy"),
    ("rotate", "rotate"),
    ("MIGRATE", "migrate"),
];
const NOUNS: [(&str, &str); 3] = [
    ("alpha", "alpha"),
    ("Überlauf", "uberlauf"),
    ("alphabet", "alphabet"),
];

const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600 * SECOND;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;
/// The time around which most changes are: a midnight, in milliseconds since 1970.
const MIDDLE: i64 = 19_844 * DAY;

/// Pseudo-random numbers, the same in every run (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        i64::try_from((z ^ (z >> 31)) >> 1).expect("63 bits") % end
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())].clone()
    }

    fn index(&mut self, end: usize) -> usize {
        let end = i64::try_from(end).expect("a small number");
        usize::try_from(self.below(end)).expect("a small number")
    }

    /// Returns mostly the first one, so that enough changes match for high page numbers.
    fn mostly<T: Clone>(&mut self, all: &[T]) -> T {
        if self.below(10) < 9 {
            all[0].clone()
        } else {
            self.pick(all)
        }
    }

    fn environment(&mut self) -> Option<&'static str> {
        ENVIRONMENTS.get(self.index(6)).copied()
    }

    fn some_tags(&mut self) -> Vec<&'static str> {
        let mut tags = TAGS.to_vec();
        tags.retain(|_| self.below(5) < 2);
        tags
    }

    fn title(&mut self, number: usize) -> (String, Vec<String>) {
        let (verb, noun) = (self.pick(&VERBS), self.pick(&NOUNS));
        let words = [verb.1, noun.1, &number.to_string()].map(str::to_owned);
        (format!("{} {} {number}", verb.0, noun.0), words.to_vec())
    }
}

/// A change in the model.
#[derive(Clone, Debug)]
struct ModelChange {
    id: String,
    /// The effective time.
    millis: i64,
    words: Vec<String>,
    risk: &'static str,
    status: &'static str,
    environment: Option<&'static str>,
    service: Option<String>,
    further_service: Option<String>,
    host: Option<String>,
    tags: Vec<&'static str>,
}

fn place(millis: i64, id: &str) -> (i64, u64, &str) {
    let (high, low) = id.parse::<uuid::Uuid>().expect("an id").as_u64_pair();
    (millis, (high & 0xfff) << 8 | (low >> 54) & 0xff, id)
}

impl ModelChange {
    /// Returns its place in lists: its effective time, then the first random bits of its
    /// id, which begins with the time that it was recorded for.
    fn place(&self) -> (i64, u64, &str) {
        place(self.millis, &self.id)
    }
}

/// The filters of a list request.
#[derive(Clone, Debug, Default)]
struct Query {
    words: Vec<&'static str>,
    /// Words of titles, tags, and names of services and hosts.
    text: Vec<&'static str>,
    risks: Vec<&'static str>,
    statuses: Vec<&'static str>,
    environments: Vec<&'static str>,
    service: Option<String>,
    host: Option<String>,
    tags: Vec<&'static str>,
    since: Option<i64>,
    until: Option<i64>,
    /// The place of a change in lists: its effective time and its id.
    before: Option<(i64, String)>,
}

impl Query {
    fn selects(&self, change: &ModelChange) -> bool {
        let wanted = |wanted: &Option<String>, is: &Option<String>| {
            wanted.is_none() || wanted.as_ref() == is.as_ref()
        };
        let begins = |word: &&str| change.words.iter().any(|known| known.starts_with(*word));
        let in_text = |word: &&str| {
            begins(word)
                || change
                    .tags
                    .iter()
                    .any(|tag| tag_words(tag).starts_with(*word))
                || (word.starts_with("serv") && change.service.is_some())
                || (word.starts_with("host") && change.host.is_some())
        };
        let one_of = |words: &[&str], word: &str| words.is_empty() || words.contains(&word);
        // What is in progress happens now.
        let now = chrono::Utc::now().timestamp_millis();
        let is_now = self.since.is_none_or(|since| since <= now)
            && self.until.is_none_or(|until| until > now);
        let is_running = change.status == "in_progress" && is_now;
        self.words.iter().all(begins)
            && self.text.iter().all(in_text)
            && one_of(&self.risks, change.risk)
            && one_of(&self.statuses, change.status)
            && one_of(&self.environments, change.environment.unwrap_or_default())
            && (wanted(&self.service, &change.service)
                || wanted(&self.service, &change.further_service))
            && wanted(&self.host, &change.host)
            && self.tags.iter().all(|tag| change.tags.contains(tag))
            && (is_running || self.since.is_none_or(|since| change.millis >= since))
            && self.until.is_none_or(|until| change.millis < until)
    }

    fn path(&self, page: usize, per_page: usize) -> String {
        let mut pairs = url::form_urlencoded::Serializer::new("/api/changes?".to_owned());
        pairs.append_pair("page", &page.to_string());
        pairs.append_pair("per_page", &per_page.to_string());
        if !self.words.is_empty() {
            pairs.append_pair("q", &self.words.join(" "));
        }
        if !self.text.is_empty() {
            pairs.append_pair("text", &self.text.join(" "));
        }
        for (name, values) in [
            ("risk_level", &self.risks),
            ("status", &self.statuses),
            ("environment", &self.environments),
        ] {
            if !values.is_empty() {
                pairs.append_pair(name, &values.join(","));
            }
        }
        let before = self
            .before
            .as_ref()
            .map(|(at, id)| format!("{id}@{}", time(*at)));
        for (name, value) in [
            ("service_id", self.service.as_deref()),
            ("host_id", self.host.as_deref()),
            ("since", self.since.map(time).as_deref()),
            ("until", self.until.map(time).as_deref()),
            ("before", before.as_deref()),
        ] {
            if let Some(value) = value {
                pairs.append_pair(name, value);
            }
        }
        for tag in &self.tags {
            pairs.append_pair("tag", tag);
        }
        pairs.finish()
    }
}

/// Returns the words of one of [`TAGS`]; those of `a b` begin with the same letter.
fn tag_words(tag: &str) -> &str {
    if tag == "ä&=%" { "a" } else { tag }
}

fn millis(time: &str) -> i64 {
    let time = DateTime::parse_from_rfc3339(time).expect("a time");
    time.timestamp_millis()
}

fn time(millis: i64) -> String {
    shapes::time(DateTime::from_timestamp_millis(millis).expect("a time"))
}

/// The expected state of the service, newest changes first.
struct Model {
    key: TestClient,
    services: Vec<String>,
    hosts: Vec<String>,
    changes: Vec<ModelChange>,
}

impl Model {
    /// Records 3,000 changes.
    async fn new(app: &TestApp) -> Self {
        let key = app.key();
        let (mut services, mut hosts, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..3 {
            let body = json!({ "name": format!("service {index}") });
            services.push(key.create("/api/services", body).await);
            let body = json!({ "hostname": format!("host-{index}") });
            hosts.push(key.create("/api/hosts", body).await);
        }
        let mut random = Random(1);
        for round in 0..6 {
            let (mut given, mut known): (Vec<Value>, Vec<ModelChange>) = (Vec::new(), Vec::new());
            for index in 0..500 {
                let number = round * 500 + index;
                let (title, words) = random.title(number);
                let change = ModelChange {
                    id: String::new(),
                    millis: moment(&mut random, number),
                    words,
                    risk: random.mostly(&RISKS),
                    status: random.mostly(&STATUSES),
                    environment: random.environment(),
                    service: services.get(random.index(4)).cloned(),
                    further_service: None,
                    host: hosts.get(random.index(4)).cloned(),
                    tags: random.some_tags(),
                };
                given.push(json!({
                    "title": title,
                    "occurred_at": time(change.millis),
                    "risk_level": change.risk,
                    "status": change.status,
                    "environment": change.environment,
                    "service_id": change.service,
                    "host_id": change.host,
                    "tags": change.tags,
                }));
                known.push(change);
            }
            let body = json!({ "changes": given });
            let made = key.post("/api/changes/bulk", body).await.data(201);
            for (change, id) in known.iter_mut().zip(each(&made, "id")) {
                change.id = text(id);
            }
            changes.extend(known);
        }
        let mut model = Self {
            key,
            services,
            hosts,
            changes,
        };
        model.sort();
        model
    }

    fn sort(&mut self) {
        self.changes
            .sort_by(|one, other| other.place().cmp(&one.place()));
    }

    /// Updates filterable fields of every seventh change, which moves those that start or
    /// are planned again.
    async fn update(&mut self) {
        let mut random = Random(2);
        let mut updates = Vec::new();
        for (number, change) in self.changes.iter_mut().enumerate().step_by(7) {
            let mut patch = json!({});
            if random.below(2) == 0 {
                let (title, words) = random.title(number);
                patch["title"] = json!(title);
                change.words = words;
            }
            if random.below(2) == 0 {
                change.risk = random.pick(&RISKS);
                patch["risk_level"] = json!(change.risk);
            }
            if random.below(2) == 0 {
                change.status = random.pick(&STATUSES);
                patch["status"] = json!(change.status);
                if change.status != "planned" && random.below(2) == 0 {
                    patch["started_at"] = json!(time(moment(&mut random, number)));
                    patch["ended_at"] = json!(null);
                }
            }
            if random.below(2) == 0 {
                change.environment = random.environment();
                patch["environment"] = json!(change.environment);
            }
            if random.below(2) == 0 {
                change.service = self.services.get(random.index(6)).cloned();
                let further = self.services.get(random.index(6)).cloned();
                change.further_service = further.filter(|_| change.service.is_some());
                let services = [&change.service, &change.further_service];
                patch["service_ids"] = services.into_iter().flatten().cloned().collect();
            }
            if random.below(2) == 0 {
                change.host = self.hosts.get(random.index(6)).cloned();
                patch["host_id"] = json!(change.host);
            }
            if random.below(2) == 0 {
                change.tags = random.some_tags();
                patch["tags"] = json!(change.tags);
            }
            updates.push((number, format!("/api/changes/{}", change.id), patch));
        }
        for updates in updates.chunks(16) {
            let answers = updates
                .iter()
                .map(|(_, path, patch)| self.key.patch(path, patch.clone()));
            let answers = join_all(answers).await;
            for ((number, ..), answer) in updates.iter().zip(answers) {
                let changed = answer.data(200);
                let at = match &changed["started_at"] {
                    Value::Null => &changed["occurred_at"],
                    at => at,
                };
                self.changes[*number].millis = shapes::assert_time(at).timestamp_millis();
            }
        }
        self.sort();
    }

    /// Requires that pages of lists match the model.
    async fn assert_matches(&self, requests: &[(Query, usize, usize)]) {
        for requests in requests.chunks(16) {
            join_all(requests.iter().map(|(query, page, per_page)| async move {
                let selected: Vec<&ModelChange> = self.selected(query);
                let path = query.path(*page, *per_page);
                let body = self.key.get(&path).await.body(200);
                assert_eq!(body["count"], selected.len(), "{path}");
                let start = query.before.as_ref().map_or(0, |before| {
                    selected.partition_point(|change| change.place() >= place(before.0, &before.1))
                });
                let page: Vec<&str> = selected[start..]
                    .iter()
                    .skip((page - 1) * per_page)
                    .take(*per_page)
                    .map(|change| change.id.as_str())
                    .collect();
                assert_eq!(each(&body["data"], "id"), page, "{path}");
            }))
            .await;
        }
    }

    /// Returns the changes that match a query, newest first.
    fn selected(&self, query: &Query) -> Vec<&ModelChange> {
        let selected = self.changes.iter().filter(|change| query.selects(change));
        selected.collect()
    }

    fn page_requests(&self) -> Vec<(Query, usize, usize)> {
        let mut requests = Vec::new();
        for query in risk_and_status_queries() {
            for since in [None, Some(0), Some(10 * YEAR), Some(MIDDLE)] {
                let query = Query {
                    since,
                    ..query.clone()
                };
                let count = self.selected(&query).len();
                for per_page in [1, 3, 7, 50, 99, 100] {
                    let around = (1_995 / per_page + 1)..=(2_012 / per_page + 1);
                    let last = count.div_ceil(per_page);
                    let ends = [1, 2, last.max(2) - 1, last.max(1), last + 1, last + 1_000];
                    requests.extend(
                        around
                            .chain(ends)
                            .map(|page| (query.clone(), page, per_page)),
                    );
                }
            }
        }
        requests
    }
}

/// Queries without a filter, by risk, by status, and by both.
fn risk_and_status_queries() -> [Query; 4] {
    let of = |risks: &[&'static str], statuses: &[&'static str]| Query {
        risks: risks.to_vec(),
        statuses: statuses.to_vec(),
        ..Query::default()
    };
    [
        of(&[], &[]),
        of(&["low"], &[]),
        of(&[], &["planned"]),
        of(&["low"], &["planned"]),
    ]
}

/// Queries with several risk levels, statuses or environments.
fn several_values_queries() -> [Query; 6] {
    let of =
        |risks: &[&'static str], statuses: &[&'static str], environments: &[&'static str]| Query {
            risks: risks.to_vec(),
            statuses: statuses.to_vec(),
            environments: environments.to_vec(),
            ..Query::default()
        };
    [
        of(&["high", "medium"], &[], &[]),
        of(&[], &["in_progress", "completed", "rolled_back"], &[]),
        of(&["high", "low"], &["completed", "planned"], &[]),
        of(&[], &[], &["prod"]),
        of(&["high"], &[], &["prod", "staging"]),
        of(
            &["medium", "high"],
            &["in_progress", "completed", "rolled_back"],
            &["prod"],
        ),
    ]
}

/// Returns the time of a change: many are equal, the others are within seconds, minutes,
/// hours, days or decades.
fn moment(random: &mut Random, number: usize) -> i64 {
    if number.is_multiple_of(60) {
        return if number == 0 { 0 } else { MIDDLE };
    }
    match number % 5 {
        0 => MIDDLE + random.below(5 * SECOND) - 2 * SECOND,
        1 => MIDDLE + random.below(600 * SECOND),
        2 => MIDDLE - random.below(36 * HOUR),
        3 => MIDDLE - random.below(60 * DAY),
        _ => random.below(54 * YEAR),
    }
}

async fn every_page_matches_the_model(app: TestApp) {
    let mut model = Model::new(&app).await;
    for round in 0..2 {
        if round == 1 {
            model.update().await;
        }
        model.assert_matches(&model.page_requests()).await;
        // All pages of a list, including those that are found by the stored counts.
        let all = |page| (Query::default(), page, 10);
        let pages: Vec<_> = (1..=301).map(all).collect();
        model.assert_matches(&pages).await;
    }
    // Reading by cursor yields each change once, with any filter.
    let with = |change: fn(&mut Query, &Model)| {
        let mut query = Query::default();
        change(&mut query, &model);
        query
    };
    for query in [
        with(|_, _| {}),
        with(|query, _| query.risks = vec!["low"]),
        with(|query, _| (query.risks, query.statuses) = (vec!["low"], vec!["planned"])),
        with(|query, _| query.risks = vec!["high", "medium"]),
        with(|query, _| query.environments = vec!["prod"]),
        with(|query, _| {
            (query.statuses, query.since) = (vec!["in_progress", "completed"], Some(MIDDLE));
        }),
        with(|query, _| query.text = vec!["host", "alph"]),
        with(|query, _| query.tags = vec!["prod"]),
        with(|query, _| query.tags = vec!["prod", "eu"]),
        with(|query, model| query.service = Some(model.services[0].clone())),
        with(|query, model| query.host = Some(model.hosts[1].clone())),
        with(|query, _| query.words = vec!["alph"]),
        with(|query, _| (query.since, query.until) = (Some(MIDDLE - DAY), Some(MIDDLE + 5))),
    ] {
        for per_page in [37, 100] {
            let mut query = query.clone();
            let expected: Vec<String> = model
                .selected(&query)
                .iter()
                .map(|one| one.id.clone())
                .collect();
            let mut listed: Vec<(i64, String)> = Vec::new();
            loop {
                let path = query.path(1, per_page);
                let body = model.key.get(&path).await.body(200);
                assert_eq!(body["count"], expected.len(), "{path}");
                let changes = body["data"].as_array().expect("a list");
                listed.extend(changes.iter().map(|change| {
                    let at = change["started_at"]
                        .as_str()
                        .or(change["occurred_at"].as_str());
                    (millis(at.expect("a time")), text(&change["id"]))
                }));
                let last = listed.last().cloned();
                if last.is_none() || last == query.before {
                    break;
                }
                query.before = last;
            }
            let ids: Vec<String> = listed.into_iter().map(|(_, id)| id).collect();
            assert_eq!(ids, expected, "{query:?}");
        }
    }
    // Pages after a cursor are pages of the remaining changes.
    let cursors: Vec<_> = [0, 1, 700, 2_500, 2_999]
        .into_iter()
        .flat_map(|index| {
            let change = &model.changes[index];
            let before = Some((change.millis, change.id.clone()));
            let pages = [(1, 10), (2, 10), (23, 99), (2_000, 1), (2_299, 1)];
            risk_and_status_queries()
                .into_iter()
                .flat_map(move |query| {
                    let query = Query {
                        before: before.clone(),
                        ..query
                    };
                    pages.map(|(page, per_page)| (query.clone(), page, per_page))
                })
        })
        .collect();
    model.assert_matches(&cursors).await;
}

async fn every_time_range_matches_the_model(app: TestApp) {
    let mut model = Model::new(&app).await;
    for round in 0..2 {
        if round == 1 {
            model.update().await;
        }
        let mut random = Random(3 + round);
        let mut requests = Vec::new();
        for number in 0..400 {
            let since = range_end(&mut random, &model);
            // Often short, sometimes empty or inverted.
            let until = match random.below(4) {
                0 => since.map(|since| since + random.below(3 * SECOND) - 500),
                1 => since.map(|since| since + random.below(3 * HOUR) / SECOND * SECOND),
                _ => range_end(&mut random, &model),
            };
            let query = Query {
                since,
                until,
                ..risk_and_status_queries()[number % 4].clone()
            };
            let page = if number % 10 == 0 { 2 } else { 1 };
            requests.push((query, page, 7));
        }
        // Also with filters that have no stored counts by time.
        for number in 0..60 {
            let mut query = Query {
                since: range_end(&mut random, &model),
                until: range_end(&mut random, &model),
                ..risk_and_status_queries()[random.index(4)].clone()
            };
            match number % 4 {
                0 => query.tags = vec![random.pick(&TAGS)],
                1 => query.service = Some(random.pick(&model.services)),
                2 => query.host = Some(random.pick(&model.hosts)),
                _ => query.words = vec!["de"],
            }
            requests.push((query, 1, 7));
        }
        model.assert_matches(&requests).await;
    }
}

/// Returns an end of a time range: open, at a change or one millisecond off, at the
/// boundary of a second, an hour or a day, or anywhere, including before 1970 and far in
/// the future.
fn range_end(random: &mut Random, model: &Model) -> Option<i64> {
    let at = random.pick(&model.changes).millis;
    match random.below(9) {
        0 => None,
        1 | 2 => Some(at + random.below(3) - 1),
        3 => Some(at / SECOND * SECOND),
        4 => Some((at / HOUR + random.below(2)) * HOUR),
        5 => Some((at / DAY + random.below(2)) * DAY),
        6 => Some(MIDDLE + random.below(4 * SECOND) - 2 * SECOND),
        7 => Some(random.below(60 * YEAR)),
        _ => Some(random.pick(&[-YEAR, -1, 0, 1, MIDDLE, 300 * YEAR, 7_000 * YEAR])),
    }
}

async fn every_filter_combination_matches_the_model(app: TestApp) {
    let mut model = Model::new(&app).await;
    for round in 0..2 {
        if round == 1 {
            model.update().await;
        }
        let nowhere = Some(uuid::Uuid::now_v7().to_string());
        let services = [None, Some(model.services[0].clone()), nowhere];
        let hosts = [None, Some(model.hosts[2].clone())];
        let tags: [&[&str]; 5] = [&[], &["prod"], &["ä&=%"], &["prod", "a b"], &["PROD"]];
        let words: [&[&str]; 4] = [&[], &["deploy"], &["alph", "r"], &["uber"]];
        let mut requests = Vec::new();
        for kind in risk_and_status_queries().into_iter().chain([Query {
            statuses: vec!["rolled_back"],
            ..Query::default()
        }]) {
            for service in &services {
                for host in &hosts {
                    for tags in tags {
                        for words in words {
                            let query = Query {
                                service: service.clone(),
                                host: host.clone(),
                                tags: tags.to_vec(),
                                words: words.to_vec(),
                                ..kind.clone()
                            };
                            requests.push((query, 1 + requests.len() % 3, 20));
                        }
                    }
                }
            }
        }
        for kind in several_values_queries() {
            for (service, tags, text) in [
                (None, &[][..], &[][..]),
                (Some(model.services[1].clone()), &[], &[]),
                (None, &["prod"], &[]),
                (None, &[], &["alph", "prod"]),
                (None, &[], &["service"]),
                (None, &["eu"], &["host", "a"]),
            ] {
                for since in [None, Some(MIDDLE - DAY)] {
                    let query = Query {
                        service: service.clone(),
                        tags: tags.to_vec(),
                        text: text.to_vec(),
                        since,
                        ..kind.clone()
                    };
                    requests.push((query, 1 + requests.len() % 3, 20));
                }
            }
        }
        model.assert_matches(&requests).await;
    }
}

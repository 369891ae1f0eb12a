//! A model of the list of changes, which filters a list in memory.

use chrono::DateTime;
use futures_util::future::join_all;
use serde_json::{Value, json};

use changelog_tests::shapes;
use changelog_tests::{TestApp, TestClient, each, text};

pub(super) const RISKS: [&str; 3] = ["low", "medium", "high"];
pub(super) const STATUSES: [&str; 4] = ["planned", "in_progress", "completed", "rolled_back"];
pub(super) const ENVIRONMENTS: [&str; 4] = ["prod", "staging", "dev", "test"];
pub(super) const TAGS: [&str; 5] = ["prod", "eu", "a b", "ä&=%", "by-hand"];

/// A word as written in the title, and as searched for.
pub(super) const VERBS: [(&str, &str); 3] = [
    ("Deploy", "deploy"),
    ("rotate", "rotate"),
    ("MIGRATE", "migrate"),
];

pub(super) const NOUNS: [(&str, &str); 3] = [
    ("alpha", "alpha"),
    ("Überlauf", "uberlauf"),
    ("alphabet", "alphabet"),
];

pub(super) const SECOND: i64 = 1_000;
pub(super) const HOUR: i64 = 3_600 * SECOND;
pub(super) const DAY: i64 = 24 * HOUR;
pub(super) const YEAR: i64 = 365 * DAY;

/// The time around which most changes are: a midnight, in milliseconds since 1970.
pub(super) const MIDDLE: i64 = 19_844 * DAY;

/// Pseudo-random numbers, the same in every run (splitmix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        i64::try_from((z ^ (z >> 31)) >> 1).expect("63 bits") % end
    }

    pub(super) fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())].clone()
    }

    pub(super) fn index(&mut self, end: usize) -> usize {
        let end = i64::try_from(end).expect("a small number");
        usize::try_from(self.below(end)).expect("a small number")
    }

    /// Returns mostly the first one, so that enough changes match for high page numbers.
    pub(super) fn mostly<T: Clone>(&mut self, all: &[T]) -> T {
        if self.below(10) < 9 {
            all[0].clone()
        } else {
            self.pick(all)
        }
    }

    pub(super) fn environment(&mut self) -> Option<&'static str> {
        ENVIRONMENTS.get(self.index(6)).copied()
    }

    pub(super) fn some_tags(&mut self) -> Vec<&'static str> {
        let mut tags = TAGS.to_vec();
        tags.retain(|_| self.below(5) < 2);
        tags
    }

    pub(super) fn title(&mut self, number: usize) -> (String, Vec<String>) {
        let (verb, noun) = (self.pick(&VERBS), self.pick(&NOUNS));
        let words = [verb.1, noun.1, &number.to_string()].map(str::to_owned);
        (format!("{} {} {number}", verb.0, noun.0), words.to_vec())
    }
}

/// A change in the model.
#[derive(Clone, Debug)]
pub(super) struct ModelChange {
    pub(super) id: String,
    /// The effective time.
    pub(super) millis: i64,
    pub(super) words: Vec<String>,
    pub(super) risk: &'static str,
    pub(super) status: &'static str,
    pub(super) environment: Option<&'static str>,
    pub(super) service: Option<String>,
    pub(super) further_service: Option<String>,
    pub(super) host: Option<String>,
    pub(super) tags: Vec<&'static str>,
}

pub(super) fn place(millis: i64, id: &str) -> (i64, u64, &str) {
    let (high, low) = id.parse::<uuid::Uuid>().expect("an id").as_u64_pair();
    (millis, (high & 0xfff) << 8 | (low >> 54) & 0xff, id)
}

impl ModelChange {
    /// Returns its place in lists: its effective time, then the first random bits of its
    /// id, which begins with the time that it was recorded for.
    pub(super) fn place(&self) -> (i64, u64, &str) {
        place(self.millis, &self.id)
    }

    /// Returns the body of the request that creates it.
    pub(super) fn body(&self, title: &str) -> Value {
        json!({
            "title": title,
            "occurred_at": time(self.millis),
            "risk_level": self.risk,
            "status": self.status,
            "environment": self.environment,
            "service_id": self.service,
            "host_id": self.host,
            "tags": self.tags,
        })
    }
}

/// The filters of a list request.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    pub(super) words: Vec<&'static str>,
    /// Words of titles, tags, and names of services and hosts.
    pub(super) text: Vec<&'static str>,
    pub(super) risks: Vec<&'static str>,
    pub(super) statuses: Vec<&'static str>,
    pub(super) environments: Vec<&'static str>,
    pub(super) service: Option<String>,
    pub(super) host: Option<String>,
    pub(super) tags: Vec<&'static str>,
    /// The author of all changes.
    pub(super) author: Option<String>,
    pub(super) since: Option<i64>,
    pub(super) until: Option<i64>,
    /// The place of a change in lists: its effective time and its id.
    pub(super) before: Option<(i64, String)>,
}

impl Query {
    pub(super) fn selects(&self, change: &ModelChange) -> bool {
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

    pub(super) fn path(&self, page: usize, per_page: usize) -> String {
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
            ("created_by", self.author.as_deref()),
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
pub(super) fn tag_words(tag: &str) -> &str {
    if tag == "ä&=%" { "a" } else { tag }
}

pub(super) fn millis(time: &str) -> i64 {
    let time = DateTime::parse_from_rfc3339(time).expect("a time");
    time.timestamp_millis()
}

pub(super) fn time(millis: i64) -> String {
    shapes::time(DateTime::from_timestamp_millis(millis).expect("a time"))
}

/// The expected state of the service, newest changes first.
pub(super) struct Model {
    pub(super) key: TestClient,
    pub(super) services: Vec<String>,
    pub(super) hosts: Vec<String>,
    pub(super) changes: Vec<ModelChange>,
}

impl Model {
    /// Records 3,000 changes.
    pub(super) async fn new(app: &TestApp) -> Self {
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
                given.push(change.body(&title));
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

    pub(super) fn sort(&mut self) {
        self.changes
            .sort_by(|one, other| other.place().cmp(&one.place()));
    }

    /// Updates filterable fields of every seventh change, which moves those that start or
    /// are planned again.
    pub(super) async fn update(&mut self) {
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
    pub(super) async fn assert_matches(&self, requests: &[(Query, usize, usize)]) {
        for requests in requests.chunks(16) {
            join_all(requests.iter().map(|(query, page, per_page)| async move {
                let selected: Vec<&ModelChange> = self.selected(query);
                let path = query.path(*page, *per_page);
                let body = self.key.body(&path).await;
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
    pub(super) fn selected(&self, query: &Query) -> Vec<&ModelChange> {
        let selected = self.changes.iter().filter(|change| query.selects(change));
        selected.collect()
    }

    pub(super) fn page_requests(&self) -> Vec<(Query, usize, usize)> {
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
pub(super) fn risk_and_status_queries() -> [Query; 4] {
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

/// Returns the time of a change: many are equal, the others are within seconds, minutes,
/// hours, days or decades.
pub(super) fn moment(random: &mut Random, number: usize) -> i64 {
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

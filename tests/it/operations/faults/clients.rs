//! Clients that repeat each operation until it is answered, and know what they were answered.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use changelog_tests::client::form;
use changelog_tests::{TestApp, TestClient, TestResponse, text, try_send};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::RequestBuilder;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// How many clients there are.
const CLIENTS: u64 = 8;
/// How long an operation may take, with all its repetitions.
const PATIENCE: Duration = Duration::from_mins(1);

pub(in crate::operations) const RISKS: [&str; 3] = ["low", "medium", "high"];

/// A change, as it must be.
#[derive(Debug)]
pub(in crate::operations) struct Known {
    pub(in crate::operations) id: String,
    pub(in crate::operations) title: String,
    pub(in crate::operations) risk: &'static str,
    /// How often it was updated.
    pub(in crate::operations) updates: usize,
    pub(in crate::operations) is_deleted: bool,
}

/// What clients use: with the API key, and with the session of the owner.
#[derive(Clone)]
struct Access {
    key: TestClient,
    browser: TestClient,
}

/// What all clients share.
#[derive(Clone)]
struct Shared {
    access: Arc<RwLock<Access>>,
    answered: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

pub(in crate::operations) struct Clients {
    shared: Shared,
    cookie: String,
    tasks: Vec<JoinHandle<Vec<Known>>>,
}

impl Clients {
    pub(in crate::operations) async fn start(app: &TestApp, seed: u64) -> Self {
        let cookie = app.cookie_of(&app.organization).await;
        let shared = Shared {
            access: Arc::new(RwLock::new(access(app, &cookie))),
            answered: Arc::default(),
            stop: Arc::default(),
        };
        let client = |number: u64| {
            let random = StdRng::seed_from_u64(seed.wrapping_add(number));
            tokio::spawn(use_service(shared.clone(), number, random))
        };
        Self {
            tasks: (1..=CLIENTS).map(client).collect(),
            shared,
            cookie,
        }
    }

    /// Lets them use the server that runs now.
    pub(in crate::operations) fn move_to(&self, app: &TestApp) {
        let mut current = self.shared.access.write().expect("no panic");
        *current = access(app, &self.cookie);
    }

    /// Waits until so many more operations are answered.
    pub(in crate::operations) async fn wait_for(&self, more: usize) {
        let count = self.shared.answered.load(Ordering::SeqCst) + more;
        let deadline = Instant::now() + PATIENCE;
        while self.shared.answered.load(Ordering::SeqCst) < count {
            let has_failed = self.tasks.iter().any(JoinHandle::is_finished);
            assert!(!has_failed, "a client has failed");
            assert!(Instant::now() < deadline, "too little is answered");
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Stops them, and returns the changes.
    pub(in crate::operations) async fn finish(self) -> Vec<Known> {
        self.shared.stop.store(true, Ordering::SeqCst);
        let mut known = Vec::new();
        for task in self.tasks {
            known.extend(task.await.expect("no client fails"));
        }
        known
    }
}

fn access(app: &TestApp, cookie: &str) -> Access {
    Access {
        key: app.key(),
        browser: app.anonymous().with("cookie", cookie),
    }
}

impl Shared {
    /// Sends a request until one of these statuses is answered.
    async fn repeat(
        &self,
        request: impl Fn(&Access) -> RequestBuilder,
        statuses: &[u16],
    ) -> TestResponse {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let access = self.access.read().expect("no panic").clone();
            match try_send(request(&access)).await {
                Ok(answer) if statuses.contains(&answer.status) => {
                    self.answered.fetch_add(1, Ordering::SeqCst);
                    return answer;
                }
                // Busy, away, or the first attempt is still being written.
                Ok(answer) if [409, 429, 503].contains(&answer.status) => {
                    assert!(Instant::now() < deadline, "{}", answer.text);
                }
                Ok(answer) => panic!("{}: {}", answer.status, answer.text),
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn use_service(shared: Shared, client: u64, mut random: StdRng) -> Vec<Known> {
    let mut known: Vec<Known> = Vec::new();
    while !shared.stop.load(Ordering::SeqCst) {
        let risk = RISKS[random.random_range(0..RISKS.len())];
        let last = known.iter_mut().rfind(|one| !one.is_deleted);
        match (random.random_range(0..10), last) {
            (0..3, Some(last)) => {
                let title = format!("client {client} edited {}", random.random::<u64>());
                let path = format!("/api/changes/{}", last.id);
                let body = json!({ "title": title, "risk_level": risk });
                let update = |access: &Access| access.key.request("PATCH", &path).json(&body);
                shared.repeat(update, &[200]).await;
                (last.title, last.risk) = (title, risk);
                last.updates += 1;
            }
            (3, Some(last)) => {
                let path = format!("/changes/{}/delete", last.id);
                let delete = |access: &Access| form(access.browser.request("POST", &path), &[]);
                // It was deleted, and the answer was lost.
                shared.repeat(delete, &[303, 404]).await;
                last.is_deleted = true;
            }
            (4, _) => {
                let name = format!("client {client} service {}", random.random::<u64>());
                let body = json!({ "name": name });
                let create = |access: &Access| {
                    let request = access.key.request("POST", "/api/services");
                    request.json(&body)
                };
                shared.repeat(create, &[201, 409]).await;
            }
            _ => {
                let title = format!("client {client} change {}", random.random::<u64>());
                let body = json!({ "title": title, "risk_level": risk });
                let create = |access: &Access| {
                    let request = access.key.request("POST", "/api/changes");
                    request.header("idempotency-key", &title).json(&body)
                };
                let created = shared.repeat(create, &[201]).await;
                known.push(Known {
                    id: text(&created.data(201)["id"]),
                    title,
                    risk,
                    updates: 0,
                    is_deleted: false,
                });
            }
        }
    }
    known
}

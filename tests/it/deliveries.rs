//! Events on their way to receivers: what is sent, when, in which order, and what failures
//! of receivers and of the service do to it.

mod bursts;
mod edits;
mod events;
mod failures;
mod load;
mod secrets;
mod traces;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use changelog_tests::receivers::{Received, Receiver, webhook};
use changelog_tests::{Server, TestApp};
use serde_json::{Value, json};

/// Lets the service reach receivers of the tests.
const ALLOWED: [&str; 2] = ["--allow-receivers", "127.0.0.0/8"];
/// How long the tests wait for the service.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A connection that a test has made.
struct Connection {
    id: String,
    /// The secret of a webhook.
    secret: String,
}

/// Starts the service again so that it may reach receivers of the tests.
async fn allow_receivers(app: &mut TestApp) {
    app.restart_with(&ALLOWED).await;
}

/// Connects a receiver, with further flags of `integration create`.
fn connect_as(app: &TestApp, kind: &str, name: &str, url: &str, flags: &[&str]) -> Connection {
    let made = app.connect(kind, name, url, flags);
    Connection {
        id: text(&made["id"]),
        secret: text(&made["secret"]),
    }
}

/// Connects a receiver of webhooks.
fn connect(app: &TestApp, name: &str, receiver: &Receiver) -> Connection {
    connect_as(app, "webhook", name, &receiver.url(), &[])
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Connection {
    /// Returns the last deliveries, newest first.
    fn deliveries(&self, app: &TestApp) -> Vec<Value> {
        let listed = app.admin(&["integration", "deliveries", &self.id]);
        listed.as_array().expect("a list").clone()
    }

    /// Waits until the newest delivery is as expected, and returns it.
    async fn newest(&self, app: &TestApp, is_expected: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let deliveries = self.deliveries(app);
            if let Some(newest) = deliveries.first()
                && is_expected(newest)
            {
                return newest.clone();
            }
            assert!(Instant::now() < deadline, "{deliveries:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns what the list of connections shows of it.
    fn shown(&self, app: &TestApp) -> Value {
        let all = app.admin(&["integration", "list", "--org", &app.organization.id]);
        let all = all.as_array().expect("a list");
        let found = all.iter().find(|one| one["id"] == self.id.as_str());
        found.expect("it is listed").clone()
    }

    /// Checks signatures, and returns the kinds of events by change, in the order in which
    /// each event was received first, without the repetitions of an event.
    fn kinds_by_change(&self, requests: &[Received]) -> BTreeMap<String, Vec<String>> {
        let mut seen = BTreeSet::new();
        let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for request in requests {
            let event = webhook::check(request, &self.secret).expect("it is genuine");
            if seen.insert(event.id.clone()) {
                let list = kinds.entry(event.change_id().to_owned()).or_default();
                list.push(event.kind);
            }
        }
        kinds
    }
}

/// Records changes and updates each of them, and returns their ids.
async fn record_and_complete(app: &TestApp, count: usize) -> BTreeSet<String> {
    let key = app.key();
    let mut ids = BTreeSet::new();
    for number in 0..count {
        let id = key.change(&format!("Deploy {number}")).await;
        let body = json!({ "status": "completed" });
        key.update(&format!("/api/changes/{id}"), body).await;
        ids.insert(id);
    }
    ids
}

/// Waits until a receiver was sent what [`record_and_complete`] recorded: each event in the
/// order of its change. Returns the number of requests.
async fn wait_for_all(
    connection: &Connection,
    receiver: &Receiver,
    ids: &BTreeSet<String>,
) -> usize {
    let requests = receiver.wait_for(ids.len() * 2).await;
    let deadline = Instant::now() + TIMEOUT;
    let mut requests = requests;
    loop {
        let kinds = connection.kinds_by_change(&requests);
        let is_complete = |kinds: &Vec<String>| kinds.len() == 2;
        if kinds.len() == ids.len() && kinds.values().all(is_complete) {
            assert!(kinds.keys().eq(ids.iter()));
            for (id, kinds) in kinds {
                assert_eq!(kinds, ["change.created", "change.status_changed"], "{id}");
            }
            return requests.len();
        }
        assert!(
            Instant::now() < deadline,
            "{} of {}",
            kinds.len(),
            ids.len()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
        requests = receiver.requests();
    }
}

/// Starts another server on the database of an app, that may reach receivers.
async fn another_server(app: &TestApp) -> Server {
    app.another_server(&ALLOWED).await
}

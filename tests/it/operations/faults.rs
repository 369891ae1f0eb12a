//! Faults, one after the other, while clients create, update and delete: every answered write is
//! there, once, with its activity entry and its event, and the service recovers by itself.
//!
//! `CHANGELOG_TEST_FAULTS` (6) is the number of faults on each database, and
//! `CHANGELOG_TEST_SEED` repeats a run: each prints its seed.

mod clients;
mod kinds;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use changelog_tests::postgres::Postgres;
use changelog_tests::receivers::{Receiver, webhook};
use changelog_tests::{Engine, TestApp, TestClient, on_sqlite, text, try_send};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use serde_json::Value;

pub(super) use self::clients::Clients;
use self::clients::Known;
use self::kinds::{Fault, OF_POSTGRES, OF_SQLITE};

on_sqlite!(process: answered_writes_survive_faults);

/// The flags of the service.
const FLAGS: [&str; 2] = ["--allow-receivers", "127.0.0.0/8"];
/// How many operations are answered between two faults.
const OPERATIONS: usize = 60;
/// How long the service may take to recover.
const RECOVERY: Duration = Duration::from_secs(30);
/// How long deliveries may take in the end.
const DELIVERY: Duration = Duration::from_mins(2);

async fn answered_writes_survive_faults(app: TestApp) {
    run(app, None, &OF_SQLITE).await;
}

mod postgres_only {
    use super::{OF_POSTGRES, Postgres, TestApp, run};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn answered_writes_survive_faults() {
        let Some(postgres) = Postgres::start().await else {
            return;
        };
        let app = TestApp::on_postgres(&postgres).await;
        run(app, Some(&postgres), &OF_POSTGRES).await;
    }
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().expect("a number"))
}

async fn run(mut app: TestApp, postgres: Option<&Postgres>, kinds: &[Fault]) {
    let seed = number("CHANGELOG_TEST_SEED").unwrap_or_else(|| rand::rng().next_u64());
    eprintln!("CHANGELOG_TEST_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    app.restart_with(&FLAGS).await;
    let receiver = Receiver::start().await;
    let hook = app.connect("webhook", "hook", &receiver.url(), &[]);
    let clients = Clients::start(&app, seed).await;
    for round in 0..number("CHANGELOG_TEST_FAULTS").unwrap_or(6) {
        clients.wait_for(OPERATIONS).await;
        // Each kind once, then any.
        let kind = usize::try_from(round)
            .ok()
            .and_then(|round| kinds.get(round));
        let fault = kind.unwrap_or_else(|| &kinds[random.random_range(0..kinds.len())]);
        eprintln!("{round}: {fault:?}");
        fault.happen(&mut app, postgres, &mut random).await;
        clients.move_to(&app);
        recover(&app).await;
    }
    clients.wait_for(OPERATIONS).await;
    let known = clients.finish().await;
    eprintln!("{} changes", known.len());
    assert_recorded(&app, &known).await;
    let report = app.try_admin(&["check", "--json"], "");
    assert!(
        report.status.success(),
        "{}",
        String::from_utf8_lossy(&report.stdout)
    );
    assert_delivered(&app, &receiver, &text(&hook["secret"]), &known).await;
}

/// Waits until the service says that it is well.
async fn recover(app: &TestApp) {
    let deadline = Instant::now() + RECOVERY;
    while !is_well(app).await {
        assert!(Instant::now() < deadline, "{}", app.server.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn is_well(app: &TestApp) -> bool {
    let health = app.anonymous().request("GET", "/api/health");
    try_send(health)
        .await
        .is_ok_and(|answer| answer.status == 200)
}

/// Returns all elements of a list of the API.
async fn all(client: &TestClient, path: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for page in 1.. {
        let body = client
            .body(&format!("{path}per_page=100&page={page}"))
            .await;
        let rows = body["data"].as_array().expect("a list");
        if rows.is_empty() {
            break;
        }
        all.extend(rows.iter().cloned());
    }
    all
}

/// Returns what is under the keys that have other values in two maps.
fn differences<'m, K: Ord, V: PartialEq>(
    one: &'m BTreeMap<K, V>,
    other: &'m BTreeMap<K, V>,
) -> Vec<(&'m K, Option<&'m V>, Option<&'m V>)> {
    let keys: BTreeSet<&K> = one.keys().chain(other.keys()).collect();
    let both = keys
        .into_iter()
        .map(|key| (key, one.get(key), other.get(key)));
    both.filter(|(_, one, other)| one != other).collect()
}

/// Requires that the changes are exactly those that were answered, with one entry of the
/// activity log for each write, and that counts and search agree.
pub(super) async fn assert_recorded(app: &TestApp, known: &[Known]) {
    let key = app.key();
    let there: BTreeMap<String, (String, String)> = known
        .iter()
        .filter(|one| !one.is_deleted)
        .map(|one| (one.id.clone(), (one.title.clone(), one.risk.to_owned())))
        .collect();
    let found = all(&key, "/api/changes?").await;
    let titles: BTreeMap<String, (String, String)> = found
        .iter()
        .map(|one| {
            (
                text(&one["id"]),
                (text(&one["title"]), text(&one["risk_level"])),
            )
        })
        .collect();
    assert_eq!(found.len(), titles.len(), "a change is listed twice");
    assert_eq!(differences(&titles, &there), [], "found and answered");
    for risk in clients::RISKS {
        let count = there.values().filter(|(_, one)| one == risk).count();
        let body = key.body(&format!("/api/changes?risk_level={risk}")).await;
        assert_eq!(body["count"], count, "{risk}");
    }
    let edited = there.values().filter(|(title, _)| title.contains("edited"));
    let body = key.body("/api/changes?q=edited").await;
    assert_eq!(body["count"], edited.count());

    let browser = app.browser().await;
    let mut entries: BTreeMap<(String, String), usize> = BTreeMap::new();
    for page in 0.. {
        let path = format!(
            "/api/activity?resource=change&limit=100&offset={}",
            page * 100
        );
        let body = browser.body(&path).await;
        let items = body["items"].as_array().expect("a list");
        if items.is_empty() {
            break;
        }
        for item in items {
            let entry = (text(&item["resource_id"]), text(&item["action"]));
            *entries.entry(entry).or_default() += 1;
        }
    }
    let mut expected: BTreeMap<(String, String), usize> = BTreeMap::new();
    for one in known {
        expected.insert((one.id.clone(), "created".to_owned()), 1);
        if one.updates > 0 {
            expected.insert((one.id.clone(), "updated".to_owned()), one.updates);
        }
        if one.is_deleted {
            expected.insert((one.id.clone(), "deleted".to_owned()), 1);
        }
    }
    assert_eq!(differences(&entries, &expected), [], "recorded and done");
}

/// Requires that the receiver gets each event of the changes that are there, in order.
async fn assert_delivered(app: &TestApp, receiver: &Receiver, secret: &str, known: &[Known]) {
    if app.engine == Engine::Postgres {
        // The claims of a server that was killed are valid for two minutes.
        app.execute("UPDATE deliveries SET next_at = 0 WHERE state = 'pending'")
            .await;
    }
    let expected = |one: &&Known| !one.is_deleted;
    let deadline = Instant::now() + DELIVERY;
    loop {
        let mut sent: BTreeMap<String, Vec<String>> = BTreeMap::new();
        // Also requires their order.
        for event in webhook::events(&receiver.requests(), secret) {
            let events = sent.entry(event.change_id().to_owned()).or_default();
            events.push(event.kind.clone());
        }
        let lacks = known.iter().filter(expected).find(|one| {
            let events = sent.get(&one.id).map_or(&[][..], Vec::as_slice);
            events.first().map(String::as_str) != Some("change.created")
                || events.len() != 1 + one.updates
        });
        let Some(one) = lacks else {
            return;
        };
        if Instant::now() > deadline {
            let queue = app.admin(&["integration", "list"]);
            panic!("{one:?}: {:?}, {queue}", sent.get(&one.id));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

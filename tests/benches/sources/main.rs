//! What arrives at sources, in two tables.
//!
//! A flood from one source: how many events a second are stored and read, and what it costs
//! another organization, whose client gets one change, then creates one, all the time. Each round sends
//! `BENCH_EVENTS` (10,000) deployments; the server is killed in the middle of the second one.
//! After each round no event may be missing, and no change may be there twice.
//!
//! Then 200 alerts, while another client creates 500 changes a second: how long it takes until the
//! suspects of each are in a chat.
//!
//! `cargo bench -p changelog-tests --bench sources` prints the table. `BENCH_ROUNDS` (2) is the
//! number of rounds: 10 make a history of 100,000 events, 0 leaves the flood out.
//! `BENCH_ENGINES` (`sqlite,postgres`) are the databases.

mod alerts;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use changelog_tests::bench::{self, print};
use changelog_tests::{TestApp, TestClient, try_send};
use futures_util::future::join_all;
use procfs_core::FromRead;
use procfs_core::process::Status;
use serde_json::{Value, json};

/// The connections of the sender.
const SENDERS: usize = 16;
/// The secret by which deployments are signed.
const SECRET: &str = "a secret of the sender";
/// How long the other organization is measured before the flood.
const QUIET: Duration = Duration::from_secs(10);
/// How long the events of a round may take to be read after the last was sent.
const TIMEOUT: Duration = Duration::from_mins(10);
/// The round in the middle of which the server is killed.
const KILLED: usize = 2;

fn main() -> ExitCode {
    bench::main(run)
}

fn run() -> std::io::Result<()> {
    bench::block_on(async {
        let events = bench::number("BENCH_EVENTS", 10_000);
        let rounds = bench::number("BENCH_ROUNDS", 2);
        print(
            "| Database | Events before | stored/s | all read after | p50, p99 of a get, quiet | in the flood | p50, p99 of a create, quiet | in the flood | memory |",
        );
        print("|---|---|---|---|---|---|---|---|---|");
        for engine in bench::engines() {
            if rounds == 0 {
                continue;
            }
            if let Some(app) = TestApp::with_process(engine).await {
                measure(app, events, rounds).await;
            }
        }
        print("\n| Database | Alerts | creates/s | p50, p99 until the suspects are in a chat |");
        print("|---|---|---|---|");
        for engine in bench::engines() {
            alerts::measure(engine).await;
        }
    })
}

async fn measure(mut app: TestApp, events: usize, rounds: usize) {
    let other = app.second_organization();
    let reader = app.with_key(&other.key);
    let change = reader.change("Deploy mail").await;
    let get = format!("/api/changes/{change}");
    let path = app.source("github", "Deployments", Some(SECRET)).path;
    for round in 1..=rounds {
        let reader = app.with_key(&other.key);
        let stop = AtomicBool::new(false);
        let (quiet, ()) = tokio::join!(use_it(&reader, &get, &stop), async {
            tokio::time::sleep(QUIET).await;
            stop.store(true, Ordering::Relaxed);
        });
        let first = (round - 1) * events;
        let started = Instant::now();
        let (flooded, stored) = if round == KILLED {
            flood(&app, &path, first..first + events / 2).await;
            app.restart().await;
            flood(&app, &path, first + events / 2..first + events).await;
            (None, started.elapsed())
        } else {
            let stop = AtomicBool::new(false);
            let (latencies, stored) = tokio::join!(use_it(&reader, &get, &stop), async {
                flood(&app, &path, first..first + events).await;
                let stored = started.elapsed();
                all_read(&app, first + events).await;
                stop.store(true, Ordering::Relaxed);
                stored
            });
            (Some(latencies), stored)
        };
        all_read(&app, first + events).await;
        let read = started.elapsed();
        let status = Status::from_file(format!("/proc/{}/status", app.server.pid()));
        let memory = status.expect("a status").vmrss.unwrap_or_default() / 1024;
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let rate = events as f64 / stored.as_secs_f64();
        let killed = || ["killed".to_owned(), "killed".to_owned()];
        let [gets, creates] =
            flooded.map_or_else(killed, |both| both.each_ref().map(|one| percentiles(one)));
        let [quiet_gets, quiet_creates] = quiet.each_ref().map(|one| percentiles(one));
        print(&format!(
            "| {:?} | {first} | {rate:.0} | {:.1} s | {quiet_gets} | {gets} | {quiet_creates} | \
             {creates} | {memory} MiB |",
            app.engine,
            read.as_secs_f64(),
        ));
    }
}

/// Sends the deployments of these numbers, each until it is answered with 202.
async fn flood(app: &TestApp, path: &str, numbers: std::ops::Range<usize>) {
    let source = app.source_at("", path, Some(SECRET));
    let senders = (0..SENDERS).map(|sender| {
        let (source, numbers) = (&source, numbers.clone());
        async move {
            for number in numbers.filter(|number| number % SENDERS == sender) {
                loop {
                    let (delivery, body) = (number.to_string(), deployment(number).to_string());
                    let request = source.github_request("deployment_status", &delivery, body);
                    match try_send(request).await {
                        Ok(response) if response.status == 202 => break,
                        // "Not now": senders try again.
                        Ok(response) => assert!(matches!(response.status, 429 | 503)),
                        Err(error) => panic!("{error}"),
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    });
    join_all(senders).await;
}

fn deployment(number: usize) -> Value {
    json!({
        "deployment": {
            "id": number, "sha": format!("{number:012x}"), "ref": format!("v{number}"),
            "environment": "production", "creator": { "login": "ada" },
            "created_at": "2026-01-20T10:00:00Z", "updated_at": "2026-01-20T10:00:00Z",
        },
        "deployment_status": { "state": "success", "updated_at": "2026-01-20T10:04:00Z" },
        "repository": { "name": "payments", "full_name": "acme/payments" },
        "sender": { "login": "ada" },
    })
}

/// Waits until there are this many changes.
async fn all_read(app: &TestApp, count: usize) {
    let key = app.key();
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let found = key.body("/api/changes?per_page=1").await["count"].as_u64();
        let found = found.and_then(|count| usize::try_from(count).ok());
        let found = found.expect("a count");
        assert!(found <= count, "{found} changes of {count} events");
        if found == count {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{found} changes of {count} events"
        );
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// Gets a change and creates one until it is stopped; returns how long each took, sorted.
async fn use_it(client: &TestClient, path: &str, stop: &AtomicBool) -> [Vec<Duration>; 2] {
    let (mut gets, mut creates) = (Vec::new(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        client.get(path).await.is(200);
        gets.push(started.elapsed());
        let started = Instant::now();
        client.change("Deploy mail").await;
        creates.push(started.elapsed());
        // About as often as a person's pages.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    gets.sort_unstable();
    creates.sort_unstable();
    [gets, creates]
}

fn percentiles(sorted: &[Duration]) -> String {
    let at = |percent: usize| {
        let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted
            .get(index)
            .map_or(0.0, |one| one.as_secs_f64() * 1000.0)
    };
    format!("{:.1}, {:.1} ms", at(50), at(99))
}

//! Ten thousand changes with three connections, one of which never answers: the rate of
//! creates with and without connections, alternately on one server, and how long the
//! healthy receivers take to get everything.
//!
//! `cargo bench -p changelog-tests --bench deliveries` prints the table.
//! `BENCH_CHANGES` (10,000) is the number of changes with connections.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use changelog_tests::bench::{self, print};
use changelog_tests::receivers::{Answer, Receiver};
use changelog_tests::{TestApp, TestClient};
use futures_util::future::join_all;
use serde_json::json;

/// The clients that create changes at the same time.
const CLIENTS: usize = 16;
/// The parts in which creates with and without connections alternate.
const ROUNDS: usize = 10;
/// How long the receivers may take to get everything.
const TIMEOUT: Duration = Duration::from_mins(10);

fn main() -> ExitCode {
    bench::main(run)
}

fn run() -> std::io::Result<()> {
    bench::block_on(async {
        let changes = bench::number("BENCH_CHANGES", 10_000);
        print(
            "| Database | Creates/s without | with | with/without | healthy receivers had all after |",
        );
        print("|---|---|---|---|---|");
        for engine in bench::engines() {
            if let Some(app) = TestApp::with_process(engine).await {
                measure(app, changes).await;
            }
        }
    })
}

async fn measure(mut app: TestApp, changes: usize) {
    app.restart_with(&["--allow-receivers", "127.0.0.0/8"])
        .await;
    let other = app.second_organization();
    let healthy = [Receiver::start().await, Receiver::start().await];
    let dead = Receiver::start().await;
    dead.answer_with(Answer::hang());
    for (name, receiver) in [("a", &healthy[0]), ("b", &healthy[1]), ("dead", &dead)] {
        app.connect("webhook", name, &receiver.url(), &[]);
    }
    let per_round = changes / ROUNDS;
    let (with, without) = (app.key(), app.with_key(&other.key));
    create(&without, per_round / 10).await;
    let started = Instant::now();
    let (mut time_with, mut time_without) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..ROUNDS {
        // What is still queued is sent during both.
        time_with += create(&with, per_round).await;
        time_without += create(&without, per_round).await;
    }
    let deadline = Instant::now() + TIMEOUT;
    while healthy.iter().any(|one| one.count() < changes) {
        assert!(Instant::now() < deadline, "events are missing");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let all_after = started.elapsed();
    for receiver in &healthy {
        let ids: std::collections::BTreeSet<String> = receiver
            .requests()
            .iter()
            .map(|request| request.header("webhook-id").to_owned())
            .collect();
        assert_eq!(ids.len(), changes, "each event at least once");
        assert_eq!(receiver.count(), changes, "no event twice");
    }
    let rate = |time: Duration| {
        let seconds = time.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let created = (per_round * ROUNDS) as f64;
        created / seconds
    };
    let (with, without) = (rate(time_with), rate(time_without));
    print(&format!(
        "| {:?} | {without:.0} | {with:.0} | {:.2} | {:.1} s |",
        app.engine,
        with / without,
        all_after.as_secs_f64()
    ));
}

/// Creates changes with several clients, and returns how long it took.
async fn create(key: &TestClient, count: usize) -> Duration {
    let started = Instant::now();
    let clients = (0..CLIENTS).map(|client| async move {
        for number in (client..count).step_by(CLIENTS) {
            let body = json!({ "title": format!("Deploy {number}"), "risk_level": "high" });
            key.create("/api/changes", body).await;
        }
    });
    join_all(clients).await;
    started.elapsed()
}

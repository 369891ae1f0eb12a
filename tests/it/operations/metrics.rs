//! What Prometheus is told.

use std::process::Command;
use std::time::{Duration, Instant};

use changelog_tests::database::{self, Db};
use changelog_tests::installed::{in_path, missing};
use changelog_tests::{
    Engine, Receiver, TestApp, TestClient, assert_contains, assert_lacks, on_both, on_one, run,
};
use serde_json::{Value, json};

on_both!(process: metrics_describe_the_service, the_slowest_statements_are_known);
on_one!(
    process:
    unknown_paths_and_methods_are_one_route,
    deliveries_are_counted_by_outcome,
);

/// Returns `promtool` of Prometheus, if it is installed.
fn promtool() -> Option<Command> {
    let found = in_path("promtool");
    if found.is_none() {
        missing("promtool", "promtool of Prometheus");
    }
    found.map(Command::new)
}

/// Starts the service with metrics, and returns a client of their listener.
async fn with_metrics(app: &mut TestApp, flags: &[&str]) -> TestClient {
    let all: Vec<&str> = ["--metrics-listen", "127.0.0.1:0"]
        .into_iter()
        .chain(flags.iter().copied())
        .collect();
    app.restart_with(&all).await;
    TestClient::new(&metrics_address(app))
}

/// Returns the address of the metrics that the service has printed.
fn metrics_address(app: &TestApp) -> String {
    let log = app.server.log();
    let (_, rest) = log.split_once("metrics on http://").expect("their address");
    let (address, _) = rest.split_once("/metrics\n").expect("their path");
    address.to_owned()
}

async fn scrape(metrics: &TestClient) -> String {
    let answer = metrics.get("/metrics").await;
    answer.is(200);
    assert_contains(answer.header("content-type"), "version=0.0.4");
    answer.text
}

/// Of both databases, a lock that the next change of a host waits for.
const LOCKS: [(Engine, &str); 2] = [
    (Engine::Sqlite, "BEGIN IMMEDIATE"),
    (Engine::Postgres, "BEGIN; LOCK TABLE hosts"),
];

async fn the_slowest_statements_are_known(mut app: TestApp) {
    with_metrics(&mut app, &[]).await;
    let address = metrics_address(&app);
    let asking = ["status", "--metrics-listen", &address];
    assert_eq!(app.admin(&asking)["slow_statements"], json!([]));
    let mut other = Db::open(app.engine, &app.database).await;
    for (_, lock) in LOCKS
        .into_iter()
        .filter(|(engine, _)| *engine == app.engine)
    {
        database::execute!(&mut other, sqlx::raw_sql(lock));
    }
    let key = app.key();
    let create = key.create("/api/hosts", json!({ "hostname": "secret-name" }));
    let release = async {
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        database::execute!(&mut other, sqlx::raw_sql("COMMIT"));
    };
    tokio::join!(create, release);
    let slow = app.admin(&asking)["slow_statements"].clone();
    let slowest = &slow[0];
    assert!(slowest["longest_seconds"].as_f64() > Some(0.999), "{slow}");
    assert_eq!(slowest["count"], 1, "{slow}");
    assert_lacks(&slow.to_string(), "secret-name");
    assert_eq!(app.admin(&["status"])["slow_statements"], Value::Null);
    // What is known without the server is printed if it does not answer.
    app.server.kill9();
    let printed = app.try_admin(&asking, "");
    assert!(printed.status.success());
    let said = String::from_utf8_lossy(&printed.stderr);
    assert_contains(&said, "the slowest statements are not known: ");
    other.close().await;
}

/// Returns the value of a metric with these labels.
#[track_caller]
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    let line = line.unwrap_or_else(|| panic!("no {series} in {text}"));
    line.trim().parse().expect("a number")
}

async fn metrics_describe_the_service(mut app: TestApp) {
    let metrics = with_metrics(&mut app, &[]).await;
    let key = app.key();
    let id = key.change("counted").await;
    for _ in 0..3 {
        key.read(&format!("/api/changes/{id}")).await;
    }
    app.anonymous().get("/api/changes").await.is(401);
    app.anonymous().get("/sign-in").await.is(200);
    let text = scrape(&metrics).await;
    let requests = |labels: &str| value(&text, &format!("chlog_http_requests_total{{{labels}}}"));
    for (labels, count) in [
        ("method=\"POST\",route=\"/api/changes\",status=\"201\"", 1.0),
        (
            "method=\"GET\",route=\"/api/changes/:id\",status=\"200\"",
            3.0,
        ),
        ("method=\"GET\",route=\"/api/changes\",status=\"401\"", 1.0),
        ("method=\"GET\",route=\"/sign-in\",status=\"200\"", 1.0),
    ] {
        assert!((requests(labels) - count).abs() < 0.5, "{labels} in {text}");
    }
    assert_lacks(&text, &id);
    assert_lacks(&text, &app.organization.key);
    for (series, least) in [
        ("chlog_build_info{version=\"0.1.0\"}", 1.0),
        ("chlog_ready", 1.0),
        ("chlog_database_up", 1.0),
        ("chlog_database_size_bytes", 4096.0),
        ("chlog_database_permits{group=\"lists\"}", 2.0),
        ("chlog_create_batch_requests_count", 1.0),
        ("chlog_queue_length{queue=\"deliveries\"}", 0.0),
        ("chlog_queue_oldest_seconds{queue=\"events\"}", 0.0),
        ("chlog_streams", 0.0),
        ("chlog_clock_seconds", 1_700_000_000.0),
        ("process_resident_memory_bytes", 1_000_000.0),
        ("process_start_time_seconds", 1_700_000_000.0),
        (
            "chlog_http_request_duration_seconds_count{method=\"GET\",route=\"/api/changes/:id\"}",
            3.0,
        ),
    ] {
        assert!(value(&text, series) >= least, "{series} in {text}");
    }
    // They are not at the address of users.
    app.anonymous().get("/metrics").await.is(404);
    metrics.get("/api/changes").await.is(404);
    if let Some(mut promtool) = promtool() {
        promtool.args(["check", "metrics"]);
        let output = run(promtool, &text);
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

async fn unknown_paths_and_methods_are_one_route(mut app: TestApp) {
    let metrics = with_metrics(&mut app, &[]).await;
    for number in 0..20 {
        let anyone = app.anonymous();
        anyone.get(&format!("/unknown-{number}")).await.is(404);
        anyone
            .get(&format!("/api/changes/{number}/x"))
            .await
            .is(404);
        let method = format!("METHOD{number}");
        let answer = anyone.request(&method, "/api/hosts").send().await;
        assert_eq!(answer.expect("an answer").status(), 405);
    }
    let text = scrape(&metrics).await;
    let unknown = "chlog_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"}";
    assert!(value(&text, unknown) >= 40.0, "{text}");
    let method = "chlog_http_requests_total{method=\"other\",route=\"/api/hosts\",status=\"405\"}";
    assert!(value(&text, method) >= 20.0, "{text}");
    assert_lacks(&text, "unknown-");
    assert_lacks(&text, "METHOD");
}

async fn deliveries_are_counted_by_outcome(mut app: TestApp) {
    let metrics = with_metrics(&mut app, &["--allow-receivers", "127.0.0.0/8"]).await;
    let receiver = Receiver::start().await;
    app.connect("webhook", "hook", &receiver.url(), &[]);
    app.key().change("sent").await;
    receiver.wait_for(1).await;
    let delivered = "chlog_deliveries_total{kind=\"webhook\",outcome=\"delivered\"}";
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let text = scrape(&metrics).await;
        if text.contains(delivered) {
            assert!(value(&text, delivered) >= 1.0, "{text}");
            break;
        }
        assert!(Instant::now() < deadline, "{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn the_example_of_alerts_passes_its_tests() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/prometheus");
    for arguments in [
        ["test", "rules", "alerts_test.yml"],
        ["check", "config", "prometheus.yml"],
    ] {
        let Some(mut promtool) = promtool() else {
            return;
        };
        promtool.args(arguments).current_dir(folder);
        let output = run(promtool, "");
        assert!(
            output.status.success(),
            "{arguments:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

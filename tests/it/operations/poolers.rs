//! Poolers in front of PostgreSQL, which give a session to several clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use sqlx::Connection;
use sqlx_postgres::PgConnection;

use changelog_tests::NamedStatements::{FollowTheirClient, StayInTheirSession};
use changelog_tests::UnknownParameters::{Ignored, Refused};
use changelog_tests::{
    PgBouncer, PoolMode, Server, TestApp, TestClient, TransactionPooler, each, on_postgres, run,
    server_command,
};

on_postgres!(
    a_search_behind_a_pooler_is_answered_as_a_direct_one,
    servers_and_commands_start_together_behind_a_pooler,
    limits_of_time_hold_behind_a_pooler,
    a_pooler_that_confuses_prepared_statements_is_refused,
    servers_run_behind_pgbouncer_in_session_mode,
    servers_run_behind_pgbouncer_in_transaction_mode_if_it_tracks_statements,
);

/// The sessions that a pooler has.
const SESSIONS: usize = 3;
const CLIENTS: usize = 32;
const SEARCHES: usize = 4_000;
/// How long a start may take at most, next to many others.
const START_TIMEOUT: Duration = Duration::from_mins(1);

const WORDS: [&str; 6] = ["deploy", "rollback", "restart", "upgrade", "cache", "index"];

/// Creates changes, some of which each filter finds, and returns the filters.
async fn fill(key: &TestClient) -> Vec<String> {
    let service = key.service("payments").await;
    let change = |number: usize| {
        let words = [WORDS[number % 6], WORDS[number / 6 % 6]];
        json!({
            "title": format!("{} {} {number}", words[0], words[1]),
            "risk_level": (["low", "medium", "high"])[number % 3],
            "status": (["planned", "completed"])[number % 2],
            "tags": [(["web", "data", "edge"])[number / 2 % 3], (["blue", "green"])[number % 2]],
            "service_id": number.is_multiple_of(4).then_some(&service),
        })
    };
    for numbers in [0..100, 100..200, 200..300] {
        let changes: Vec<Value> = numbers.map(change).collect();
        key.create_changes(changes).await;
        // What happens later has a later time.
        key.change("the next part").await;
    }
    let list = key.body("/api/changes?q=part").await;
    let times: Vec<&str> = each(&list["data"], "created_at")
        .iter()
        .filter_map(|time| time.as_str())
        .collect();
    // Nothing is later than the newest.
    let times = &times[1..];
    assert_eq!(times.len(), 2);
    let mut filters = Vec::new();
    for word in WORDS {
        filters.push(format!("q={word}"));
        for time in times {
            // As many parameters, and of the same types.
            filters.push(format!("q={word}&since={time}"));
            filters.push(format!("q={word}&until={time}"));
        }
        filters.push(format!("q={word}&per_page=7"));
        filters.push(format!("q={word}&page=2&per_page=5"));
        filters.push(format!("q={word}&risk_level=high&status=planned"));
        filters.push(format!("q={word}&service_id={service}"));
        filters.push(format!("q={word}&tag=web&risk_level=low"));
    }
    filters.push("tag=data".to_owned());
    filters.push("tag=data&tag=blue".to_owned());
    filters.push(format!("service_id={service}"));
    filters.push(format!("service_id={service}&status=planned"));
    filters
}

async fn a_search_behind_a_pooler_is_answered_as_a_direct_one(app: TestApp) {
    let direct = app.key();
    let mut expected = Vec::new();
    for filter in fill(&direct).await {
        let path = format!("/api/changes?{filter}");
        let answer = direct.get(&path).await;
        assert!(answer.body(200)["count"].as_u64() > Some(0), "{path}");
        expected.push((path, answer.text));
    }

    let pooler =
        TransactionPooler::before(&app.database, SESSIONS, Ignored, FollowTheirClient).await;
    let flags = ["--organization-share", "100"];
    let server = Server::start_in_process(&pooler.database, &flags).await;
    let server = server.expect("it starts behind a pooler");
    let client = TestClient::new(&server.address).with("x-api-key", &app.organization.key);

    let is_done = AtomicBool::new(false);
    let (expected, sent) = (Arc::new(expected), Arc::new(AtomicUsize::new(0)));
    let search = |_| {
        let (client, expected, sent) = (client.clone(), expected.clone(), sent.clone());
        tokio::spawn(async move {
            let (mut wrong, mut failed) = (Vec::new(), Vec::new());
            loop {
                let number = sent.fetch_add(1, Ordering::Relaxed);
                if number >= SEARCHES {
                    return (wrong, failed);
                }
                let (path, expected) = &expected[number % expected.len()];
                let answer = client.get(path).await;
                match answer.status {
                    200 if answer.text == *expected => {}
                    200 => wrong.push(path.clone()),
                    _ => failed.push(format!("{path} {}", answer.text)),
                }
            }
        })
    };
    let searching = async {
        let found = join_all((0..CLIENTS).map(search)).await;
        is_done.store(true, Ordering::Relaxed);
        found
    };
    let creating = async {
        let mut created = 0;
        while !is_done.load(Ordering::Relaxed) {
            client.change("concurrent").await;
            created += 1;
        }
        created
    };
    let (found, created) = tokio::join!(searching, creating);
    let (wrong, failed): (Vec<_>, Vec<_>) = found
        .into_iter()
        .map(|found| found.expect("it does not panic"))
        .unzip();
    let (wrong, failed) = (wrong.concat(), failed.concat());
    assert!(
        wrong.is_empty() && failed.is_empty(),
        "of {SEARCHES} answers {} were wrong, such as that of {:?}, and {} failed, such as {:?}",
        wrong.len(),
        wrong.first(),
        failed.len(),
        failed.first()
    );
    assert!(created > 10, "{created}");
    let list = client.body("/api/changes?q=concurrent").await;
    assert_eq!(list["count"], created);
    requires_no_traces(&app.database, &pooler).await;
}

/// Requires that no transaction has left a lock, or a setting in a session.
async fn requires_no_traces(database: &str, pooler: &TransactionPooler) {
    let mut direct = PgConnection::connect(database).await.expect("it answers");
    let (locks,): (i64,) = sqlx::query_as(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database =
             (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
    .fetch_one(&mut direct)
    .await
    .expect("a count");
    assert_eq!(locks, 0, "advisory locks are left");
    let settings = "SELECT name, setting FROM pg_settings WHERE name IN \
        ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', \
        'plan_cache_mode', 'default_transaction_read_only') ORDER BY name";
    let expected: Vec<(String, String)> = sqlx::query_as(settings)
        .fetch_all(&mut direct)
        .await
        .expect("settings");
    for _ in 0..SESSIONS {
        let options: sqlx_postgres::PgConnectOptions = pooler.database.parse().expect("one");
        let options = options.extra_float_digits(None);
        let mut session = PgConnection::connect_with(&options)
            .await
            .expect("it answers");
        // Begins in one session and ends in it.
        let mut transaction = session.begin().await.expect("it begins");
        let found: Vec<(String, String)> = sqlx::query_as(settings)
            .fetch_all(&mut *transaction)
            .await
            .expect("settings");
        assert_eq!(found, expected);
    }
}

async fn servers_and_commands_start_together_behind_a_pooler(app: TestApp) {
    let database = app.empty_database().await;
    let pooler = TransactionPooler::before(&database, SESSIONS, Refused, FollowTheirClient).await;
    let start = |_| Server::start_in_process(&pooler.database, &[]);
    // All of them find that the schema is to be created.
    let starting = join_all((0..4).map(start));
    let servers = tokio::time::timeout(START_TIMEOUT, starting).await;
    let servers: Vec<Server> = servers
        .expect("no start hangs")
        .into_iter()
        .map(|server| server.unwrap_or_else(|error| panic!("serve fails: {error}")))
        .collect();
    // The schema is there now, and sessions are in use.
    let anonymous = TestClient::new(&servers[0].address);
    let asking = tokio::spawn(async move {
        loop {
            anonymous.get("/api/health").await.is(200);
        }
    });
    let command = |_| {
        let mut command = server_command(app.folder());
        command
            .args(["org", "list", "--json"])
            .env("CHANGELOG_DATABASE_URL", &pooler.database);
        tokio::task::spawn_blocking(move || run(command, ""))
    };
    let commands = join_all((0..8).map(command));
    let starting = async { tokio::join!(commands, join_all((0..4).map(start))) };
    let started = tokio::time::timeout(START_TIMEOUT, starting).await;
    let (outputs, servers) = started.expect("nothing hangs");
    for output in outputs {
        let output = output.expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
    for server in servers {
        server.unwrap_or_else(|error| panic!("serve fails: {error}"));
    }
    assert!(!asking.is_finished(), "the database answers throughout");
    asking.abort();
    requires_no_traces(&database, &pooler).await;
}

async fn limits_of_time_hold_behind_a_pooler(app: TestApp) {
    let change = app.key().change("locked").await;
    let pooler =
        TransactionPooler::before(&app.database, SESSIONS, Ignored, FollowTheirClient).await;
    let server = Server::start_in_process(&pooler.database, &[]).await;
    let server = server.expect("it starts behind a pooler");
    let client = TestClient::new(&server.address).with("x-api-key", &app.organization.key);
    let change = format!("/api/changes/{change}");
    client.get(&change).await.is(200);

    let mut direct = PgConnection::connect(&app.database).await.expect("one");
    let mut lock = direct.begin().await.expect("it begins");
    sqlx::query("LOCK TABLE changes IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *lock)
        .await
        .expect("it is locked");
    for path in [&*change, "/api/changes", "/api/changes?q=locked"] {
        let answer = client.get(path).await;
        assert!((500..=503).contains(&answer.status), "{}", answer.status);
    }
    let begun = Instant::now();
    while waiting(&mut lock).await > 0 {
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(10), "a statement goes on");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    lock.rollback().await.expect("it is free");
    client.get(&change).await.is(200);
}

/// Counts the sessions of this database that wait for a lock.
async fn waiting(connection: &mut PgConnection) -> i64 {
    let (count,) = sqlx::query_as(
        "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock'",
    )
    .fetch_one(connection)
    .await
    .expect("a count");
    count
}

async fn a_pooler_that_confuses_prepared_statements_is_refused(app: TestApp) {
    for (sessions, parameters) in [(1, Ignored), (1, Refused), (SESSIONS, Ignored)] {
        let pooler =
            TransactionPooler::before(&app.database, sessions, parameters, StayInTheirSession)
                .await;
        let server = Server::start_in_process(&pooler.database, &[]).await;
        let said = server.err().expect("it does not start");
        assert!(said.contains("pgbouncer 1.21"), "{said}");
    }
}

async fn servers_run_behind_pgbouncer_in_session_mode(app: TestApp) {
    // A session for each connection.
    let pgbouncer = PgBouncer::start(&app.database, PoolMode::Session, 60).await;
    if let Some(pgbouncer) = pgbouncer {
        run_servers(&app, &pgbouncer.database).await;
    }
}

async fn servers_run_behind_pgbouncer_in_transaction_mode_if_it_tracks_statements(app: TestApp) {
    let pgbouncer = PgBouncer::start(&app.database, PoolMode::Transaction, SESSIONS).await;
    let Some(pgbouncer) = pgbouncer else {
        return;
    };
    if pgbouncer.tracks_statements {
        run_servers(&app, &pgbouncer.database).await;
    } else {
        let server = Server::start_in_process(&pgbouncer.database, &[]).await;
        let error = server.err().expect("it does not start");
        assert!(error.contains("pgbouncer 1.21"), "{error}");
    }
}

/// Runs two servers and an admin command on a database whose direct server the app has.
async fn run_servers(app: &TestApp, database: &str) {
    let filters = fill(&app.key()).await;
    let start = |_| Server::start_in_process(database, &[]);
    let starting = tokio::time::timeout(START_TIMEOUT, join_all((0..2).map(start)));
    let servers: Vec<Server> = starting
        .await
        .expect("no start hangs")
        .into_iter()
        .map(|server| server.unwrap_or_else(|error| panic!("serve fails: {error}")))
        .collect();
    let clients: Vec<TestClient> = servers
        .iter()
        .map(|server| TestClient::new(&server.address).with("x-api-key", &app.organization.key))
        .collect();
    for (number, filter) in filters.iter().enumerate() {
        let path = format!("/api/changes?{filter}");
        let expected = app.key().get(&path).await.text;
        assert_eq!(
            clients[number % 2].get(&path).await.text,
            expected,
            "{path}"
        );
    }
    let id = clients[0].change("behind the pooler").await;
    let path = format!("/api/changes/{id}");
    let title = json!({ "title": "Behind pgbouncer" });
    clients[1].update(&path, title).await;
    for client in [&clients[0], &clients[1], &app.key()] {
        let change = client.read(&path).await;
        assert_eq!(change["title"], "Behind pgbouncer");
    }
    let mut command = server_command(app.folder());
    command
        .args(["org", "list", "--json"])
        .env("CHANGELOG_DATABASE_URL", database);
    let output = tokio::task::spawn_blocking(move || run(command, "")).await;
    let output = output.expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

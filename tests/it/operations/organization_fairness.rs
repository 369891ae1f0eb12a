//! Load of one organization does not delay another: requests beyond its share of the
//! database wait, and are then refused.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection};

use changelog_tests::{TestApp, TestClient, TestResponse, on_both, on_postgres, on_sqlite};

on_both!(refused_creates_hold_up_no_other_organization);
on_sqlite!(process: long_sqlite_searches_do_not_delay_other_organizations);
on_postgres!(process: blocked_postgres_updates_do_not_delay_other_organizations);

/// The longest latency of the quiet organization: shorter than the time limits of the
/// statements and the queue of the loaded one.
const MAX_LATENCY: Duration = Duration::from_millis(1_900);

/// Sends requests of each kind until `until` resolves, and returns the longest latency;
/// each must succeed.
async fn measure_slowest(
    caller: &TestClient,
    until: impl Future<Output = ()>,
) -> (Duration, usize) {
    let change = caller.change("Quiet change").await;
    let mut until = std::pin::pin!(until);
    let (mut slowest, mut requests) = (Duration::ZERO, 0);
    let paths = [
        format!("/api/changes/{change}"),
        "/api/changes".to_owned(),
        "/api/changes?q=quiet".to_owned(),
        "/api/services".to_owned(),
        "/api/changes/around".to_owned(),
        "/api/health".to_owned(),
    ];
    loop {
        for path in &paths {
            let begun = Instant::now();
            tokio::select! {
                () = &mut until => return (slowest, requests),
                answer = caller.get(path) => answer.is(200),
            }
            slowest = slowest.max(begun.elapsed());
            requests += 1;
        }
        let begun = Instant::now();
        let patch = json!({ "title": "Quiet change" });
        caller
            .update(&format!("/api/changes/{change}"), patch)
            .await;
        slowest = slowest.max(begun.elapsed());
    }
}

/// Runs the load of one organization while another one sends requests, and requires that
/// those are not delayed; returns the responses to the load.
async fn run_next_to(
    quiet: &TestClient,
    loaded: impl Future<Output = Vec<TestResponse>>,
) -> Vec<TestResponse> {
    let (done, finished) = tokio::sync::oneshot::channel();
    let loaded = async {
        let answers = loaded.await;
        let _ = done.send(());
        answers
    };
    let finished = async {
        let _ = finished.await;
    };
    let (answers, (slowest, requests)) = tokio::join!(loaded, measure_slowest(quiet, finished));
    assert!(requests > 20, "{requests}");
    assert!(slowest < MAX_LATENCY, "{slowest:?}");
    answers
}

/// Requires that some requests are refused for the share of the organization, with
/// `Retry-After`, and others only for a timeout.
fn assert_refused_for_share(answers: &[TestResponse]) {
    let mut refused = 0;
    for answer in answers {
        match answer.status {
            429 => {
                answer.problem(429, "too_many_requests");
                let seconds: u64 = answer.header("retry-after").parse().expect("seconds");
                assert!((1..=5).contains(&seconds), "{seconds}");
                refused += 1;
            }
            200 | 503 => {}
            other => panic!("status {other}"),
        }
    }
    assert!(refused > 0, "nothing exceeded the share");
}

async fn long_sqlite_searches_do_not_delay_other_organizations(app: TestApp) {
    fill_index(&app).await;
    let quiet = app.with_key(&app.second_organization().key);
    let loaded = app.key();
    let searches = async {
        // Equal ones would be one.
        let search = async |page: usize| {
            let path = format!("/api/changes?q=d&per_page=100&page={page}");
            loaded.get(&path).await
        };
        join_all((3_000..3_048).map(search)).await
    };
    assert_refused_for_share(&run_next_to(&quiet, searches).await);
    // Searches beyond the time limit are interrupted, so the connections are free at
    // once.
    let begun = Instant::now();
    loaded.get("/api/changes").await.is(200);
    assert!(begun.elapsed() < MAX_LATENCY, "{:?}", begun.elapsed());
}

/// Adds rows to the search index whose words start with the same letter, so that a search
/// for it is slow.
async fn fill_index(app: &TestApp) {
    let half = app.organization.id.replace('-', "").split_off(16);
    let statement = format!(
        "INSERT INTO change_search (rowid, words)
         WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 600000)
         SELECT n, '{half}d' || (n % 997) || ' {half}d' || (n % 1009) || 'x' FROM numbers"
    );
    let mut connection = app.sqlite().await;
    sqlx::query(AssertSqlSafe(statement))
        .execute(&mut connection)
        .await
        .expect("it is filled");
    connection.close().await.expect("a closed connection");
}

/// Creates of several organizations share a transaction.
async fn refused_creates_hold_up_no_other_organization(app: TestApp) {
    let others = ["Initech", "Hooli"].map(|name| app.organization(name, name));
    let [initech, hooli] = others.each_ref().map(|one| app.with_key(&one.key));
    let key = app.key();
    let service = hooli.service("payments").await;
    let creates = (0..90).map(|number| {
        let title = format!("Deploy {number}");
        let (caller, body) = match number % 3 {
            0 => (&key, json!({ "title": title })),
            // That of another organization.
            1 => (&initech, json!({ "title": title, "service_id": service })),
            _ => (&hooli, json!({ "title": title, "service_id": service })),
        };
        async move { caller.post("/api/changes", body).await }
    });
    let answers = join_all(creates).await;
    for (number, answer) in answers.iter().enumerate() {
        if number % 3 == 1 {
            answer.violates(&[("/service_id", "not_found")]);
        } else {
            answer.is(201);
        }
    }
    for (caller, count) in [(&key, 30), (&initech, 0), (&hooli, 30)] {
        assert_eq!(caller.body("/api/changes").await["count"], count);
    }
}

async fn blocked_postgres_updates_do_not_delay_other_organizations(app: TestApp) {
    let quiet = app.with_key(&app.second_organization().key);
    let loaded = app.key();
    let change = loaded.change("Locked change").await;
    let mut holder = app.postgres().await;
    let mut lock = holder.begin().await.expect("a transaction");
    sqlx::query("UPDATE changes SET document = document WHERE id = CAST($1 AS UUID)")
        .bind(&change)
        .execute(&mut *lock)
        .await
        .expect("it is locked");
    let path = format!("/api/changes/{change}");
    let updates = async {
        let update = || loaded.patch(&path, json!({ "title": "Never" }));
        join_all((0..48).map(|_| update())).await
    };
    assert_refused_for_share(&run_next_to(&quiet, updates).await);
    lock.rollback().await.expect("it is free");
    loaded.update(&path, json!({ "title": "Free again" })).await;
}

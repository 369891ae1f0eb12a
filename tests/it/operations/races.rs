//! What two transactions of PostgreSQL do at the same moment, such as those of two servers. One
//! is begun here and holds its rows until the service waits for it.

use std::time::{Duration, Instant};

use changelog_tests::{TestApp, on_postgres, text};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection};
use sqlx_postgres::PgConnection;

on_postgres!(
    no_session_begins_by_a_password_that_was_replaced,
    a_session_is_attended_to_by_one_server,
    what_is_to_be_read_again_is_not_deleted,
);

/// How long the service may take to come to a row that is held.
const WAIT: Duration = Duration::from_mins(1);

/// Runs statements in a transaction, and returns its connection before the end.
async fn hold(app: &TestApp, statements: &[&str]) -> PgConnection {
    let mut db = PgConnection::connect(&app.database).await.expect("it runs");
    for statement in ["BEGIN"].iter().chain(statements) {
        run(&mut db, statement).await;
    }
    db
}

async fn run(db: &mut PgConnection, statement: &str) {
    let done = sqlx::raw_sql(AssertSqlSafe(statement)).execute(db).await;
    done.expect("a result");
}

/// Waits until the service waits for the transaction, and ends it with these statements.
async fn end_when_awaited(app: &TestApp, mut held: PgConnection, statements: &[&str]) {
    let started = Instant::now();
    loop {
        let waiting = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        if number(app, waiting).await > 0 {
            break;
        }
        assert!(started.elapsed() < WAIT, "nothing waits");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for statement in statements {
        run(&mut held, statement).await;
    }
    held.close().await.expect("closed");
}

async fn number(app: &TestApp, query: &str) -> i64 {
    let mut db = PgConnection::connect(&app.database).await.expect("it runs");
    let row = sqlx::query_as(AssertSqlSafe(query)).fetch_one(&mut db);
    let (number,): (i64,) = row.await.expect("a row");
    db.close().await.expect("closed");
    number
}

async fn no_session_begins_by_a_password_that_was_replaced(app: TestApp) {
    let held = hold(
        &app,
        &[
            "UPDATE users SET password_hash = 'of another password'",
            "DELETE FROM sessions",
        ],
    )
    .await;
    let (owner, browser) = (app.organization.clone(), app.anonymous());
    let signed_in =
        tokio::spawn(async move { browser.try_sign_in(&owner.email, &owner.password).await });
    end_when_awaited(&app, held, &["COMMIT"]).await;
    let refused = signed_in.await.expect("an answer");
    refused.is(409);
    assert!(
        refused.text.contains("password was changed"),
        "{}",
        refused.text
    );
    assert_eq!(number(&app, "SELECT count(*) FROM sessions").await, 0);
}

/// Returns a call as CloudTrail records it, a minute ago.
fn call() -> Value {
    json!({
        "eventVersion": "1.08", "eventID": "1", "readOnly": false, "eventName": "RunInstances",
        "eventTime": chrono::Utc::now() - chrono::TimeDelta::minutes(1),
        "eventSource": "ec2.amazonaws.com", "awsRegion": "eu-west-1",
        "userAgent": "console.amazonaws.com", "recipientAccountId": "123456789012",
        "userIdentity": { "type": "IAMUser", "userName": "ada", "accountId": "123456789012" },
    })
}

async fn a_session_is_attended_to_by_one_server(app: TestApp) {
    let source = app.source("cloudtrail", "AWS", None);
    source.send(&call()).await.is(202);
    assert_eq!(source.outcomes().await, ["changed"]);
    // As another server does when it joins the session with a run.
    let held = hold(&app, &["DELETE FROM source_operations"]).await;
    app.clock.advance(Duration::from_mins(4));
    end_when_awaited(&app, held, &["COMMIT"]).await;
    // The service goes on with what it has found.
    let next = json!({ "eventVersion": "1.08", "eventID": "2", "readOnly": true });
    source.send(&next).await.is(202);
    assert_eq!(source.outcomes().await.len(), 2);
    assert_eq!(
        number(&app, "SELECT count(*) FROM source_operations").await,
        0
    );
    let list = app.key().body("/api/changes").await;
    assert_eq!(text(&list["data"][0]["status"]), "in_progress");
}

async fn what_is_to_be_read_again_is_not_deleted(app: TestApp) {
    let source = app.source("cloudtrail", "AWS", None);
    let call = call();
    source.send(&call).await.is(202);
    let call = call.to_string();
    assert_eq!(source.outcomes().await, ["changed"]);
    let held = hold(&app, &["UPDATE source_events SET outcome = 'pending'"]).await;
    // The requests are too old, and are deleted after the next one is read.
    app.clock.advance(Duration::from_hours(15 * 24));
    let next = json!({ "eventVersion": "1.08", "eventID": "2", "readOnly": true });
    source.send(&next).await.is(202);
    let no_longer_counted = format!(
        "UPDATE sources SET stored_bytes = stored_bytes - {}",
        call.len()
    );
    end_when_awaited(&app, held, &[&no_longer_counted, "COMMIT"]).await;
    let drift = "SELECT max(stored_bytes)::bigint - coalesce((SELECT sum(size)::bigint
                     FROM source_events WHERE outcome <> 'pending'), 0) FROM sources";
    let started = Instant::now();
    while number(
        &app,
        "SELECT count(*) FROM source_events WHERE outcome = 'pending'",
    )
    .await
        > 0
    {
        assert!(started.elapsed() < WAIT, "it is not read again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(number(&app, drift).await, 0);
}

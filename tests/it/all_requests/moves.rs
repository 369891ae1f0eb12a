//! `changelog-server move`, with rows in every table.

use std::collections::BTreeMap;

use changelog_tests::database::{self, Db};
use changelog_tests::{Engine, Postgres, Receiver, TestApp, assert_contains, run, server_command};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use super::growth::fill::{Size, fill};

/// Few, because every table is filled by as many.
const SIZE: Size = Size {
    changes: 500,
    nouns: 20,
};
/// Tables without rows of users: one row each while a server runs, and the migrations.
const OTHERS: [&str; 3] = ["_sqlx_migrations", "setup_token", "latest_time"];

const SQLITE_TABLES: &str = "
SELECT name FROM sqlite_master
WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'change\\_search\\_%' ESCAPE '\\'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_moved_to_postgres_and_back() {
    let Some(postgres) = Postgres::shared().await else {
        return;
    };
    let Some(mut app) = TestApp::with_process(Engine::Sqlite).await else {
        return;
    };
    let receiver = Receiver::start().await;
    // The service is killed when this returns.
    fill(&mut app, &receiver, SIZE).await;
    let first = rows_of_tables(Engine::Sqlite, &app.database).await;
    for (table, rows) in &first {
        let is_filled = *rows > 0 || OTHERS.contains(&table.as_str());
        assert!(
            is_filled,
            "fill {table} in growth/fill.rs: it would not be tested"
        );
    }

    let there = postgres.database().await;
    let moved = move_all(&app, &app.database, &there);
    let digests = digests_of(&moved);
    for (table, rows) in &first {
        if table == "_sqlx_migrations" || table == "change_search" {
            continue;
        }
        let (moved, _) = digests
            .get(table)
            .unwrap_or_else(|| panic!("{table} was not moved"));
        assert_eq!(moved, rows, "{table}");
    }
    assert_eq!(moved["indexed"], first["changes"]);
    assert_eq!(rows_of_tables(Engine::Postgres, &there).await, first);

    let back = format!("sqlite://{}/back.db", app.folder().display());
    let moved_back = move_all(&app, &there, &back);
    assert_eq!(digests_of(&moved_back), digests);
    assert_eq!(rows_of_tables(Engine::Sqlite, &back).await, first);

    // Both answer, and record, as the first one does.
    let mut command = app.serve_command();
    command.env("CHANGELOG_DATABASE_URL", &there);
    let server = changelog_tests::Server::start(command)
        .await
        .expect("it starts");
    let client = changelog_tests::TestClient::new(&server.address);
    let client = client.with("x-api-key", &app.organization.key);
    let count = client.body("/api/changes").await["count"].clone();
    assert_eq!(count.as_u64(), Some(first["changes"]));
    assert!(client.body("/api/changes?q=needle").await["count"].as_u64() > Some(0));
    client.change("in its new place").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_continues_and_is_careful() {
    let Some(postgres) = Postgres::shared().await else {
        return;
    };
    let Some(mut app) = TestApp::with_process(Engine::Sqlite).await else {
        return;
    };
    for number in 0..20 {
        app.key().change(&format!("change {number}")).await;
    }
    let there = postgres.database().await;
    assert_contains(&refused(&app, &app.database, &there), "is serving");
    let other = format!("sqlite://{}/other.db", app.folder().display());
    assert_contains(&refused(&app, &app.database, &other), "backup");
    app.server.kill9();

    // An interrupted move: some tables are there, others in part.
    let moved = move_all(&app, &app.database, &there);
    let mut db = Db::open(Engine::Postgres, &there).await;
    for statement in [
        "CREATE TABLE unfinished_move (started_at bigint NOT NULL)",
        "DELETE FROM activity",
        "DELETE FROM change_search WHERE sort_key IN \
         (SELECT sort_key FROM change_search ORDER BY sort_key DESC LIMIT 7)",
        "DELETE FROM changes WHERE sort_key IN \
         (SELECT sort_key FROM changes ORDER BY sort_key DESC LIMIT 7)",
    ] {
        database::execute!(&mut db, sqlx::query(statement));
    }
    let mut command = app.serve_command();
    command.env("CHANGELOG_DATABASE_URL", &there);
    let refusal = changelog_tests::Server::start(command).await.err();
    assert_contains(&refusal.expect("no server uses it"), "is not complete");
    // What a command wrote there would make the move impossible.
    for arguments in [
        &["org", "create", "--name", "Y"][..],
        &["org", "list"],
        &["check"],
    ] {
        let mut command = server_command(app.folder());
        command.env("CHANGELOG_DATABASE_URL", &there);
        command.args(arguments);
        let refused = run(command, "");
        assert_contains(&String::from_utf8_lossy(&refused.stderr), "is not complete");
    }
    assert_eq!(
        digests_of(&move_all(&app, &app.database, &there)),
        digests_of(&moved)
    );

    assert_contains(&refused(&app, &app.database, &there), "not empty");
    // A row that differs is found, and the target stays marked.
    for statement in [
        "CREATE TABLE unfinished_move (started_at bigint NOT NULL)",
        "UPDATE changes SET document = replace(document, 'change 3', 'change x')",
    ] {
        database::execute!(&mut db, sqlx::query(statement));
    }
    db.close().await;
    assert_contains(&refused(&app, &app.database, &there), "changes differs");
    let mut command = app.serve_command();
    command.env("CHANGELOG_DATABASE_URL", &there);
    assert!(changelog_tests::Server::start(command).await.is_err());
}

fn command(app: &TestApp, from: &str, to: &str) -> std::process::Command {
    let mut command = server_command(app.folder());
    command.args(["move", "--from", from, "--to", to, "--json"]);
    command
}

fn move_all(app: &TestApp, from: &str, to: &str) -> Value {
    let output = run(command(app, from, to), "");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let moved: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    moved
}

fn refused(app: &TestApp, from: &str, to: &str) -> String {
    let output = run(command(app, from, to), "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns rows and digest of each table that was moved.
fn digests_of(moved: &Value) -> BTreeMap<String, (u64, String)> {
    let tables = moved["tables"].as_array().expect("a list");
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    tables
        .iter()
        .map(|one| {
            let rows = one["rows"].as_u64().expect("a number");
            (text(&one["table"]), (rows, text(&one["digest"])))
        })
        .collect()
}

/// Counts the rows of every table of the schema. Kept counts are spread on PostgreSQL.
async fn rows_of_tables(engine: Engine, address: &str) -> BTreeMap<String, u64> {
    let mut db = Db::open(engine, address).await;
    let tables: Vec<(String,)> = match engine {
        Engine::Sqlite => database::fetch!(&mut db, sqlx::query_as(SQLITE_TABLES)),
        Engine::Postgres => database::fetch!(
            &mut db,
            sqlx::query_as("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
        ),
    };
    let mut counted = BTreeMap::new();
    for (table,) in tables {
        let select = format!("SELECT count(*) FROM {table}");
        let rows: Vec<(i64,)> =
            database::fetch!(&mut db, sqlx::query_as(AssertSqlSafe(select.clone())));
        counted.insert(table, rows[0].0.unsigned_abs());
    }
    db.close().await;
    assert_ne!(json!(counted), json!({}));
    counted
}

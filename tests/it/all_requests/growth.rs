//! Whether what statements cost grows with the tables: every request, page, form, command and
//! background task runs on two databases of the same shape, one of which has ten times as
//! much of everything, as history and as what is still to be done.

mod costs;
pub(super) mod fill;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use changelog_tests::database::{self, Db};
use changelog_tests::{
    Engine, Postgres, Receiver, Server, SmtpMode, SmtpServer, TestApp, run, text,
};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use self::costs::{Costs, LOG_FILTER};
use self::fill::Size;
use super::fixture::Fixture;
use super::requests::RequestSender;
use super::{commands, explained};

/// How much more a statement may cost with ten times as much of everything.
const MAX_FACTOR: f64 = 3.0;
/// The same for statements of [`GROWING`]: in proportion to the tables, and not to their product.
const MAX_LINEAR_FACTOR: f64 = 15.0;

/// What every statement may cost, so that small differences do not count: steps of SQLite,
/// and rows and pages of PostgreSQL.
const SQLITE_FLOOR: f64 = 500.0;
const POSTGRES_FLOOR: f64 = 300.0;

/// Why the cost of statements is limited by a number that the small database is below, and
/// parts of these statements.
const LIMITED: [(&str, &[&str]); 4] = [
    (
        "the last 20,000 entries of the activity log",
        &[" LIMIT 20000) AS searched", " OFFSET ?) AS searched"],
    ),
    (
        "250 changes of a service and 600 of all, which are ranked around a time",
        &[" LIMIT 250) AS of_service_0", " LIMIT 600) AS newest "],
    ),
    (
        "200 planned changes",
        &[" AND status = 'planned' AND scheduled_for IS NOT NULL "],
    ),
    (
        "500 rows of a step that erases a person; how many steps run depends on the time",
        &[
            "metadata, address FROM activity WHERE organization_id = ? AND resource_type = ? AND id >",
            "SELECT max(sort_key) FROM (SELECT sort_key FROM changes ",
            "UPDATE changes SET document = replace(",
            "SELECT id FROM (SELECT id FROM incidents ",
            "UPDATE incidents SET document = replace(",
        ],
    ),
];

/// Why the cost of statements may grow, and parts of these statements.
const GROWING: [(&str, &[&str]); 9] = [
    (
        "a stored count for each day of a range",
        &["86400000 AND start >= "],
    ),
    (
        "there are no stored counts of words and of the days of tags",
        &[
            "count(*) FROM change_search ",
            "SELECT matches.n, ",
            "count(*) FROM change_tags ",
        ],
    ),
    (
        "all that a quota limits, or that depends on one service",
        &[
            " FROM memberships m JOIN users ",
            " FROM memberships WHERE organization_id = ? AND role ",
            " FROM invitations WHERE organization_id = ? ",
            " FROM api_keys WHERE organization_id = ?",
            " FROM activity_actors WHERE organization_id = ?",
            " FROM services WHERE organization_id = ? ORDER ",
            " FROM services WHERE organization_id = ? AND id IN (?)",
            " FROM hosts WHERE organization_id = ? ORDER ",
            " FROM subscriptions s ",
            " FROM organizations ORDER ",
        ],
    ),
    (
        "at most 300 to 1,001 rows, or as many as a quota allows",
        &[
            " AS counted",
            " LIMIT 1000)",
            "SELECT id, resource_id, action FROM activity ",
            " LIMIT 201) AS dependents",
            "name_folded >= ",
            "SELECT d.sequence, d.burst ",
            " FROM rhythms WHERE organization_id = ? ORDER BY is_key",
            "SELECT organization_id FROM source_events WHERE id < ",
        ],
    ),
    (
        "each notification of a mail, once",
        &[
            "SET mail = NULL, mailing = NULL ",
            "SET mailing = ? ",
            "AND mailing = ? ORDER BY is_incident DESC, at DESC ",
        ],
    ),
    (
        "all that is pending, once when a server starts",
        &["SET is_claimed = 0, next_at = ? "],
    ),
    (
        "each connection, every ten seconds",
        &[
            "SELECT DISTINCT c.organization_id FROM connections c ",
            "SELECT DISTINCT organization_id FROM sources",
        ],
    ),
    (
        "each identity provider, when a server or a command checks the key of secrets",
        &["SELECT organization_id FROM sso_providers"],
    ),
    (
        "GIN merges its list of new entries now and then",
        &["INSERT INTO change_search "],
    ),
];

/// Statements that PostgreSQL runs badly until it has statistics, which autovacuum makes within
/// a minute: it looks through the activity log for each entry of the page.
const BAD_BEFORE_ANALYZE: &str = " AS page LEFT JOIN activity a ON ";

/// Tables that do not grow.
const ONE_ROW: [&str; 2] = ["latest_time", "setup_token"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_costs_more_in_a_larger_database_on_sqlite() {
    let [small, large] = Size::BOTH;
    let (small, large) = (measure_sqlite(small).await, measure_sqlite(large).await);
    assert_alike(&small, &large, SQLITE_FLOOR);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_costs_more_in_a_larger_database_on_postgres() {
    let [small, large] = Size::BOTH;
    let Some(small) = measure_postgres(small).await else {
        return;
    };
    let large = measure_postgres(large).await.expect("PostgreSQL is there");
    let ([small_before, small], [mut large_before, large]) = (small, large);
    assert_alike(&small, &large, POSTGRES_FLOOR);
    // Without statistics PostgreSQL may read whole tables, once: not for each of many rows.
    large_before
        .costs
        .0
        .retain(|text, _| !text.contains(BAD_BEFORE_ANALYZE));
    #[expect(clippy::cast_precision_loss, reason = "there are few rows")]
    let all_rows = large_before.rows.values().sum::<i64>() as f64;
    assert_alike(&small_before, &large_before, all_rows / MAX_FACTOR);
}

/// What was measured of a database.
struct Measured {
    /// How many rows each table had.
    rows: BTreeMap<String, i64>,
    costs: Costs,
}

async fn measure_sqlite(size: Size) -> Measured {
    let app = TestApp::with_process(Engine::Sqlite).await;
    let mut app = app.expect("SQLite is built in");
    let receiver = Receiver::start().await;
    let fixture = fill::fill(&mut app, &receiver, size).await;
    let rows = count_rows(&app).await;
    let mut costs = Costs::default();
    let log = |command: &mut Command| {
        command
            .env("CHANGELOG_LOG", LOG_FILTER)
            .env("CHANGELOG_LOG_FORMAT", "json");
    };
    serve(&mut app, log).await;
    do_everything(&app, &receiver, &fixture).await;
    commands::run_all(&app, &receiver, |arguments, input| {
        let mut command = app.admin_command(&[arguments, &["--json"]].concat());
        log(&mut command);
        let output = run(command, input);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        costs.add_sqlite(&said);
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    });
    // The log is complete when the server has exited.
    app.server.terminate();
    let ended = app.server.wait_for_exit(Duration::from_mins(1)).await;
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    costs.add_sqlite(&app.server.log());
    Measured { rows, costs }
}

const POSTGRES_SETTINGS: [&str; 7] = [
    // Statistics are those of the moment at which it comes, which may be amid the filling.
    "autovacuum=off",
    "shared_preload_libraries=auto_explain",
    "auto_explain.log_min_duration=0",
    "auto_explain.log_analyze=on",
    "auto_explain.log_buffers=on",
    "auto_explain.log_timing=off",
    "log_line_prefix=%a[%p] ",
];

/// Measures before and after `ANALYZE`, on two copies of the database.
async fn measure_postgres(size: Size) -> Option<[Measured; 2]> {
    let postgres = Postgres::start_with(&POSTGRES_SETTINGS).await?;
    let mut app = TestApp::on_postgres(&postgres).await;
    let receiver = Receiver::start().await;
    let fixture = fill::fill(&mut app, &receiver, size).await;
    let analyzed = copy_database(&postgres, &app).await;
    let before = measure_on(&mut app, &postgres, &receiver, &fixture).await;
    app.server.kill9();
    app.database = analyzed;
    app.execute("ANALYZE").await;
    let after = measure_on(&mut app, &postgres, &receiver, &fixture).await;
    Some([before, after])
}

/// Returns the address of a copy of the database, which nothing uses.
async fn copy_database(postgres: &Postgres, app: &TestApp) -> String {
    let (server, name) = app.database.rsplit_once('/').expect("a name");
    let mut db = Db::open(Engine::Postgres, &postgres.default_database()).await;
    let statement = format!("CREATE DATABASE analyzed TEMPLATE {name}");
    database::execute!(&mut db, sqlx::query(AssertSqlSafe(statement.clone())));
    db.close().await;
    format!("{server}/analyzed")
}

async fn measure_on(
    app: &mut TestApp,
    postgres: &Postgres,
    receiver: &Receiver,
    fixture: &Fixture,
) -> Measured {
    let rows = count_rows(app).await;
    let start = postgres.log().len();
    serve(app, |_| {}).await;
    do_everything(app, receiver, fixture).await;
    commands::run_all(app, receiver, |arguments, input| {
        app.admin_with(arguments, input)
    });
    let mut explained = explained::read(&postgres.log());
    explained.retain(|one| one.at >= start);
    let mut costs = Costs::default();
    costs.add_postgres(&explained);
    Measured { rows, costs }
}

/// Starts the service, with a mail server.
async fn serve(app: &mut TestApp, change: impl Fn(&mut Command)) {
    let mut command = app.serve_command();
    command.args(SmtpServer::start(SmtpMode::Accept).flags());
    command.args(["--allow-receivers", "127.0.0.0/8"]);
    change(&mut command);
    let server = Server::start(command).await;
    app.server = server.unwrap_or_else(|log| panic!("the server exited: {log}"));
}

async fn do_everything(app: &TestApp, receiver: &Receiver, fixture: &Fixture) {
    let mut sender = RequestSender::new(app, |_| {}).await;
    sender.send_all(fixture, 1).await;
    // One delivery, a usual number and a full batch.
    for count in [1, 5, 64] {
        let changes: Vec<_> = (0..count)
            .map(|n| json!({ "title": format!("Sent {n} of {count}"), "risk_level": "high" }))
            .collect();
        let body = json!({ "changes": changes });
        let answer = app.key().post("/api/changes/bulk", body).await.data(201);
        let last = text(&answer[count - 1]["id"]);
        receiver.wait_for_text(&last).await;
    }
}

/// Returns the number of rows of each table.
async fn count_rows(app: &TestApp) -> BTreeMap<String, i64> {
    let mut db = Db::open(app.engine, &app.database).await;
    let names = match app.engine {
        Engine::Sqlite => {
            "SELECT name FROM pragma_table_list WHERE type IN ('table', 'virtual') \
             AND schema = 'main' AND name NOT LIKE 'sqlite%'"
        }
        Engine::Postgres => "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'",
    };
    let names: Vec<(String,)> = database::fetch!(&mut db, sqlx::query_as(names));
    let mut rows = BTreeMap::new();
    for (name,) in names {
        if name == "_sqlx_migrations" {
            continue;
        }
        let count = format!("SELECT count(*) FROM {name}");
        let count: Vec<(i64,)> =
            database::fetch!(&mut db, sqlx::query_as(AssertSqlSafe(count.clone())));
        rows.insert(name, count[0].0);
    }
    db.close().await;
    rows
}

/// Requires that every table grew: statements about a table that does not grow prove nothing.
fn assert_grown(small: &BTreeMap<String, i64>, large: &BTreeMap<String, i64>) {
    let is_grown = |(table, rows): &(&String, &i64)| **rows >= 5 * small[*table].max(1);
    let is_excepted = |table: &str| ONE_ROW.contains(&table);
    let missing = large.iter().filter(|table| !is_grown(table));
    let missing: Vec<_> = missing.filter(|(table, _)| !is_excepted(table)).collect();
    assert!(
        missing.is_empty(),
        "fill them in growth/fill.rs: {missing:?}"
    );
}

/// Requires that the statements cost about as much in the large database.
fn assert_alike(small: &Measured, large: &Measured, floor: f64) {
    assert_grown(&small.rows, &large.rows);
    let is_one_of = |list: &[(&str, &[&str])], statement: &str| {
        let mut parts = list.iter().flat_map(|(_, parts)| *parts);
        parts.any(|part| statement.contains(part))
    };
    let mut problems = Vec::new();
    for (statement, (cost, plan)) in &large.costs.0 {
        let before = small.costs.0.get(statement).map_or(0.0, |(cost, _)| *cost);
        let max_factor = if is_one_of(&GROWING, statement) {
            MAX_LINEAR_FACTOR
        } else {
            MAX_FACTOR
        };
        if *cost > max_factor * (before + floor) && !is_one_of(&LIMITED, statement) {
            problems.push(format!("{before:.0} -> {cost:.0}: {statement}\n{plan}"));
        }
    }
    assert!(
        problems.is_empty(),
        "statements cost more:\n{}",
        problems.join("\n")
    );
    // Without costs there would be no problems.
    let statements = large.costs.0.len();
    assert!(statements >= 150, "only {statements} statements");
}

//! PostgreSQL: its log has the plan of each statement on a million changes, with the rows
//! of each step.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

use super::WRITTEN_BY_A_TIMER;
use super::explained::{self, Explained};
use super::fixture::{Fixture, busy_hour};
use super::organizations::explain;
use super::requests::RequestSender;
use super::seed;
use changelog_tests::{Postgres, TestApp};

/// How a connection plans what it has prepared. Left to itself, it plans for the values at
/// first, and for any values after five runs if that seems no worse. Plans for any values are required to be good also where it would not use them.
const PASSES: [&str; 2] = [
    "ALTER SYSTEM SET plan_cache_mode = auto",
    "ALTER SYSTEM SET plan_cache_mode = force_generic_plan",
];

/// Queries that count the matches of a word of half of the changes.
const WORD_COUNT_QUERIES: [&str; 3] = ["q=deploy", "q=deploy&risk_level=high", "q=deploy&page=100"];

/// A part of the queries that count the matches of a word of an eighth of the changes.
const BY_PIPELINES: &str = "by=agent";

const SETTINGS: [&str; 8] = [
    "shared_preload_libraries=auto_explain",
    // Turned on later.
    "auto_explain.log_min_duration=-1",
    "auto_explain.log_analyze=on",
    "auto_explain.log_timing=off",
    "auto_explain.log_parameter_max_length=64",
    "log_line_prefix=%a[%p] ",
    // These do not change plans; they make inserting faster.
    "shared_buffers=256MB",
    "max_wal_size=8GB",
];

/// What a command reads when it opens the database, what a server asks PostgreSQL about its
/// tables, and what lists all organizations: the requests of sources are looked at by commands.
const BY_COMMANDS: [&str; 6] = [
    "SELECT 1 FROM pg_extension ",
    " FROM pg_stat_user_tables",
    "FROM _sqlx_migrations ",
    "SELECT id FROM organizations WHERE has_receivers = 1",
    "SELECT organization_id FROM sso_providers",
    "SELECT id, name, plan, created_at FROM organizations ORDER BY ",
];

/// How the statements end that delete expired rows.
const PURGE_END: &str = " LIMIT 1000)";

/// A request, and the length of the log after its response.
struct Sent {
    what: String,
    end: usize,
    counts_words: bool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_scans_a_table() {
    let Some(postgres) = Postgres::start_with(&SETTINGS).await else {
        return;
    };
    let mut app = TestApp::on_postgres(&postgres).await;
    let fixture = seed::fill(&app).await;
    explain(&app).await;
    // New connections have the setting. Clients have the addresses that they say.
    app.restart_with(&["--trusted-proxy", "127.0.0.0/8"]).await;
    seed::assert_seeded(&app, &fixture).await;
    busy_hour(&app, &[&fixture.service, &fixture.other_service]).await;
    let sent = send_everything(&app, &postgres, &fixture).await;
    let mut explained = explained::read(&postgres.log());
    let begin = sent.first().expect("a beginning").end;
    let end = sent.last().expect("an end").end;
    explained.retain(|one| (begin..end).contains(&one.at));
    let problems = problems(&explained, &sent);
    assert!(
        problems.is_empty(),
        "{} statements scan a table:\n{}",
        problems.len(),
        problems.join("\n")
    );
    // Without the log there would be no statements to check.
    let statements: BTreeSet<&str> = texts(explained.iter());
    assert!(statements.len() >= 70, "only {statements:#?}");
    let generic = texts(explained.iter().filter(|one| one.is_generic()));
    assert!(generic.len() >= 30, "only {generic:#?}");
    for table in tables(&app).await {
        let named = WRITTEN_BY_A_TIMER.contains(&table.as_str())
            || statements.iter().any(|text| text.contains(&table));
        assert!(named, "no statement names {table}");
    }
}

fn texts<'e>(explained: impl Iterator<Item = &'e Explained>) -> BTreeSet<&'e str> {
    explained.map(|one| one.statement.as_str()).collect()
}

/// Returns the tables of the schema.
async fn tables(app: &TestApp) -> Vec<String> {
    let mut connection = app.postgres().await;
    let tables: Vec<(String,)> = sqlx::query_as(
        "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' \
         AND tablename <> '_sqlx_migrations'",
    )
    .fetch_all(&mut connection)
    .await
    .expect("tables");
    tables.into_iter().map(|(name,)| name).collect()
}

/// Sends every kind of request, and lists that are hard with many changes.
async fn send_everything(app: &TestApp, postgres: &Postgres, fixture: &Fixture) -> Vec<Sent> {
    let log = postgres.log_file();
    let size = || {
        let length = fs::metadata(&log).expect("a log").len();
        usize::try_from(length).expect("a length")
    };
    let sent = |what: &str| Sent {
        what: what.to_owned(),
        end: size(),
        counts_words: what.contains(BY_PIPELINES)
            || WORD_COUNT_QUERIES.iter().any(|query| what.ends_with(query)),
    };
    let mut all = vec![sent("the beginning")];
    let mut sender = RequestSender::new(app, |what: &str| all.push(sent(what))).await;
    let Fixture {
        service,
        host,
        word,
        other_word,
        since,
        ..
    } = fixture;
    let queries = [
        // A tag of half of the changes, with other filters.
        "tag=common".to_owned(),
        "tag=common&risk_level=high".to_owned(),
        "tag=common&status=planned&risk_level=low".to_owned(),
        format!("tag=common&service_id={service}"),
        format!("tag=common&host_id={host}"),
        format!("tag=common&q={word}"),
        "tag=common&tag=rare".to_owned(),
        "page=100&tag=common".to_owned(),
        format!("q=deploy+{word}"),
        // A word of a hundred changes.
        format!("q={other_word}&risk_level=low"),
        format!("q={other_word}&since={since}"),
        format!("q={other_word}&until={since}"),
        format!("q={other_word}&before={}", fixture.change),
        format!("q={other_word}&tag=common"),
        // No matches.
        "q=nowhere".to_owned(),
        "tag=nowhere".to_owned(),
        "q=nowhere&tag=common".to_owned(),
    ];
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    for plan in PASSES {
        app.execute(plan).await;
        app.execute("SELECT pg_reload_conf()").await;
        for query in [&queries[..], &WORD_COUNT_QUERIES].concat() {
            let path = format!("/api/changes?{query}");
            sender.read(&path, 200, 1).await;
        }
        sender.send_all(fixture, 1).await;
    }
    drop(sender);
    all.push(sent("the end"));
    all
}

/// Returns the statements that scan a table, each plan once, with their requests.
fn problems(explained: &[Explained], sent: &[Sent]) -> Vec<String> {
    // By statement and problem.
    let mut all: BTreeMap<(&str, String), (&str, BTreeSet<&str>)> = BTreeMap::new();
    let is_by_command = |text: &str| BY_COMMANDS.iter().any(|part| text.contains(part));
    // Expired rows are deleted every ten minutes, on connections that are closed after thirty.
    // A slow machine is still in the pass of generic plans when that happens. The service gets
    // such a plan after five runs on one connection, which takes 5,000 expired rows of a table.
    let is_forced = |one: &Explained| {
        let is_purge = one.statement.starts_with("DELETE ") && one.statement.ends_with(PURGE_END);
        is_purge && one.is_generic()
    };
    let ours = |one: &&Explained| !is_by_command(&one.statement) && !is_forced(one);
    for one in explained.iter().filter(ours) {
        let number = sent.partition_point(|sent| sent.end <= one.at);
        let request = &sent[number];
        let problems = one.problems(request.counts_words);
        if !problems.is_empty() {
            let key = (one.statement.as_str(), problems.join("\n! "));
            let (_, requests) = all.entry(key).or_insert((&one.plan, BTreeSet::new()));
            requests.insert(&request.what);
        }
    }
    let reports = all.iter().map(|((statement, problems), (plan, requests))| {
        let mut text = format!("! {problems}\n");
        for request in requests.iter().take(5) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "for {request}");
        }
        format!("{text}{statement}\n{plan}")
    });
    reports.collect()
}

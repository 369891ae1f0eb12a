//! PostgreSQL: the database itself tells in its log how it has run each
//! statement among a million changes, and how many rows each step has seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::WRITTEN_BY_A_TIMER;
use super::explained::{self, Explained};
use super::requests::{Fixture, RequestSender};
use super::seed;
use changelog_tests::{Postgres, TestApp};

/// How often each request is sent: a connection takes a plan that is made for
/// any values only after five that are made for certain ones, and requests that
/// follow each other take turns on three connections.
const REPETITIONS: usize = 24;

/// What asks how many of the changes have a word that half of them have. The
/// first is sent often enough for all: they are one statement.
const WORD_COUNT_QUERIES: [&str; 3] = ["q=deploy", "q=deploy&risk_level=high", "q=deploy&page=100"];

const SETTINGS: [&str; 8] = [
    "shared_preload_libraries=auto_explain",
    // Not before there is something to be explained.
    "auto_explain.log_min_duration=-1",
    "auto_explain.log_analyze=on",
    "auto_explain.log_timing=off",
    "auto_explain.log_parameter_max_length=64",
    "log_line_prefix=%a[%p] ",
    // Neither changes a plan; both make a million rows sooner.
    "shared_buffers=256MB",
    "max_wal_size=8GB",
];

/// What a request was, and where the log ended when it was answered.
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
    // Its connections are told on beginning that they are explained.
    app.restart().await;
    seed::assert_seeded(&app, &fixture).await;
    let sent = send_everything(&app, &postgres, &fixture).await;
    let mut explained = explained::read(&postgres.log());
    let begin = sent.first().expect("a beginning").end;
    let end = sent.last().expect("an end").end;
    explained.retain(|one| (begin..end).contains(&one.at));
    let problems = problems(&explained, &sent);
    assert!(
        problems.is_empty(),
        "{} statements walk a table:\n{}",
        problems.len(),
        problems.join("\n")
    );
    // A log that is off would have nothing to find fault with.
    let statements: BTreeSet<&str> = texts(explained.iter());
    assert!(statements.len() >= 70, "only {statements:#?}");
    let generic = texts(explained.iter().filter(|one| one.is_generic()));
    assert!(generic.len() >= 30, "only {generic:#?}");
    for table in tables(&app).await {
        let named =
            table == WRITTEN_BY_A_TIMER || statements.iter().any(|text| text.contains(&table));
        assert!(named, "no statement names {table}");
    }
}

fn texts<'e>(explained: impl Iterator<Item = &'e Explained>) -> BTreeSet<&'e str> {
    explained.map(|one| one.statement.as_str()).collect()
}

/// Has the statements of connections that begin from now on explained.
async fn explain(app: &TestApp) {
    let mut connection = connect(app).await;
    let (_, name) = app.database.rsplit_once('/').expect("a name");
    let statement = format!("ALTER DATABASE {name} SET auto_explain.log_min_duration = 0");
    let done = sqlx::query(AssertSqlSafe(statement)).execute(&mut connection);
    done.await.expect("a setting");
}

async fn connect(app: &TestApp) -> PgConnection {
    let connection = PgConnection::connect(&app.database).await;
    connection.expect("a connection to PostgreSQL")
}

/// The tables, except for one that only pages of the
/// dashboard name, none of which is asked for here yet.
async fn tables(app: &TestApp) -> Vec<String> {
    let mut connection = connect(app).await;
    let tables: Vec<(String,)> = sqlx::query_as(
        "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' \
         AND tablename <> '_sqlx_migrations'",
    )
    .fetch_all(&mut connection)
    .await
    .expect("tables");
    tables.into_iter().map(|(name,)| name).collect()
}

/// Sends every shape of request, and what only many changes make hard.
async fn send_everything(app: &TestApp, postgres: &Postgres, fixture: &Fixture) -> Vec<Sent> {
    let log = postgres.log_file();
    let size = || {
        let length = fs::metadata(&log).expect("a log").len();
        usize::try_from(length).expect("a length")
    };
    let sent = |what: &str| Sent {
        what: what.to_owned(),
        end: size(),
        counts_words: WORD_COUNT_QUERIES.iter().any(|query| what.ends_with(query)),
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
    for query in [
        // Half of all changes, with few of another kind and with many.
        "tag=common".to_owned(),
        "tag=common&risk_level=high".to_owned(),
        "tag=common&status=planned&risk_level=low".to_owned(),
        format!("tag=common&service_id={service}"),
        format!("tag=common&host_id={host}"),
        format!("tag=common&q={word}"),
        "tag=common&tag=rare".to_owned(),
        "page=100&tag=common".to_owned(),
        format!("q=deploy+{word}"),
        // A hundred of all.
        format!("q={other_word}&risk_level=low"),
        format!("q={other_word}&since={since}"),
        format!("q={other_word}&until={since}"),
        format!("q={other_word}&before={}", fixture.change),
        format!("q={other_word}&tag=common"),
        // None at all.
        "q=nowhere".to_owned(),
        "tag=nowhere".to_owned(),
        "q=nowhere&tag=common".to_owned(),
    ] {
        sender
            .read(&format!("/api/changes?{query}"), 200, REPETITIONS)
            .await;
    }
    for (query, times) in WORD_COUNT_QUERIES.iter().zip([REPETITIONS, 3, 3]) {
        sender
            .read(&format!("/api/changes?{query}"), 200, times)
            .await;
    }
    sender.send_all(fixture, REPETITIONS).await;
    drop(sender);
    all.push(sent("what was left to do"));
    all
}

/// Returns the statements that walk a table, each plan once, with the requests
/// that they were run for.
fn problems(explained: &[Explained], sent: &[Sent]) -> Vec<String> {
    // By statement and by what is wrong with it.
    let mut all: BTreeMap<(&str, String), (&str, BTreeSet<&str>)> = BTreeMap::new();
    for one in explained {
        let number = sent.partition_point(|sent| sent.end <= one.at);
        let request = &sent[number];
        let problems = one.problems(request.counts_words);
        if !problems.is_empty() {
            let key = (one.statement.as_str(), problems.join("\n! "));
            let (_, requests) = all.entry(key).or_insert((&one.plan, BTreeSet::new()));
            requests.insert(&request.what);
        }
    }
    let told = all.iter().map(|((statement, problems), (plan, requests))| {
        let mut text = format!("! {problems}\n");
        for request in requests.iter().take(5) {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "for {request}");
        }
        format!("{text}{statement}\n{plan}")
    });
    told.collect()
}

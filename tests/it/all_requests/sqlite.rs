//! SQLite: the service logs its statements, and `EXPLAIN QUERY PLAN` returns their plans.
//! A plan depends on the schema only, because there are no statistics (`ANALYZE`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection};
use sqlx_sqlite::SqliteConnection;

use super::fixture::Fixture;
use super::requests::RequestSender;
use super::sql::{Conditions, conditions, shorten, split};
use super::{WRITTEN_BY_A_TIMER, prepared};
use changelog_tests::{Engine, Server, TestApp};

/// Conditions that need no index, with the reason.
const UNINDEXED_COLUMNS: [(&str, &str, &str); 23] = [
    ("api_keys", "created_by", "an organization has few keys"),
    (
        "connections",
        "created_by",
        "an organization has few connections",
    ),
    (
        "invitations",
        "invited_by",
        "an organization has few invitations",
    ),
    ("sources", "created_by", "an organization has few sources"),
    (
        "workloads",
        "created_by",
        "an organization has few workload identities",
    ),
    (
        "change_counts",
        "risk_level",
        "a span has a dozen rows at most",
    ),
    ("change_counts", "status", "a span has a dozen rows at most"),
    (
        "change_hours",
        "service_id",
        "it is compared with the hours of eight days",
    ),
    (
        "changes",
        "environment",
        "it is compared with the changes of less than a day",
    ),
    (
        "changes",
        "id",
        "it is together with the sort keys of a millisecond",
    ),
    (
        "changes",
        "undone_at",
        "the index of undone changes has it, and a week has few",
    ),
    (
        "changes",
        "moved_id",
        "few changes at the sort keys of a range of ids have moved there",
    ),
    (
        "deliveries",
        "is_claimed",
        "it is compared with the pending deliveries of a connection",
    ),
    (
        "deliveries",
        "burst",
        "it is compared with the pending deliveries of a connection",
    ),
    (
        "invitations",
        "inviter_id",
        "an organization has few open invitations",
    ),
    ("memberships", "role", "an organization has few members"),
    (
        "sso_identities",
        "user_id",
        "an organization has few members",
    ),
    ("sessions", "organization_id", "a person has few sessions"),
    ("sessions", "method", "a person has few sessions"),
    ("sessions", "provider_sid", "a person has few sessions"),
    ("sso_providers", "is_required", "an organization has one"),
    (
        "sso_providers",
        "emergency_user_id",
        "an organization has one",
    ),
    ("users", "password_hash", "it is compared with that of one"),
];

/// What is read completely: the partial index of the connections that may have something to
/// send; and all sources and identity providers, which are few.
const OPEN_WORK: [&str; 3] = [
    "SCAN c USING INDEX connections_enabled",
    "SCAN sources USING COVERING INDEX sqlite_autoindex_sources_3",
    "SCAN sso_providers",
];

/// Ranges that are short enough to be read completely: the creation of a resource is
/// found by the time of its id, the busiest services by the days of a week, and a timeline has
/// the hours of eight days.
const SHORT_RANGES: [(&str, [&str; 2]); 3] = [
    ("activity", ["id>?", "id<?"]),
    ("change_counts", ["start>?", "start<?"]),
    ("change_hours", ["hour>?", "hour<?"]),
];

/// A condition that needs no index: nearly all changes are logged by API keys.
const UNINDEXED_CONDITION: &str = "resource_type = 'change' AND actor_id IS NULL";

/// Tables with so few rows per organization that they may be sorted; `busy` are the services
/// of the hours of a timeline.
const SMALL_TABLES: [&str; 7] = [
    "activity_actors",
    "busy",
    "hosts",
    "known_browsers",
    "memberships",
    "services",
    "sessions",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_scans_a_table() {
    let app = TestApp::with_process(Engine::Sqlite).await;
    let mut app = app.expect("SQLite is built in");
    let statements = logged_statements(&mut app).await;
    let mut schema = Schema::read(&app.database).await;
    let problems = schema.problems(&statements).await;
    assert!(
        problems.is_empty(),
        "{} of {} statements:\n{}",
        problems.len(),
        statements.len(),
        problems.join("\n")
    );
    let again = prepared::again(&app.database, &statements).await;
    assert!(again.is_empty(), "SQLite prepares again: {again:#?}");
    // Without the log there would be no statements to check.
    let different: BTreeSet<String> = statements.iter().map(|text| shorten(text)).collect();
    assert!(different.len() >= 70, "only {different:#?}");
    for table in &schema.tables {
        let named = WRITTEN_BY_A_TIMER.contains(&table.as_str())
            || statements.iter().any(|text| text.contains(table));
        assert!(named, "no statement names {table}");
    }
    schema.assert_lost_indexes_are_noticed(&statements).await;
}

/// Sends every request, and returns the statements of the service.
async fn logged_statements(app: &mut TestApp) -> BTreeSet<String> {
    let mut command = app.serve_command();
    command
        .env("CHANGELOG_LOG", "info,sqlx::query=debug")
        .env("CHANGELOG_LOG_FORMAT", "json");
    app.server.kill9();
    let server = Server::start(command).await;
    app.server = server.unwrap_or_else(|log| panic!("the server exited: {log}"));
    let fixture = Fixture::create(app).await;
    let mut sender = RequestSender::new(app, |_| {}).await;
    sender.send_all(&fixture, 2).await;
    // The log is complete when the server has exited.
    app.server.terminate();
    let ended = app.server.wait_for_exit(Duration::from_mins(1)).await;
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    let log = app.server.log();
    // Earlier statements are those of migrations.
    let (_, log) = log.split_once("listening on http://").expect("it listened");
    log.lines().flat_map(statements).collect()
}

/// Returns the statements of a line of the log.
fn statements(line: &str) -> Vec<String> {
    let line: Value = serde_json::from_str(line).unwrap_or_default();
    if line["target"] != "sqlx::query" {
        return Vec::new();
    }
    let fields = &line["fields"];
    // A short statement is only in the summary.
    let text = [&fields["db.statement"], &fields["summary"]]
        .into_iter()
        .filter_map(Value::as_str)
        .find(|text| !text.trim().is_empty());
    let mut statements = split(text.unwrap_or_default());
    statements.retain(|statement| {
        let first = statement.split_whitespace().next().unwrap_or_default();
        ![
            "BEGIN",
            "COMMIT",
            "PRAGMA",
            "RELEASE",
            "ROLLBACK",
            "SAVEPOINT",
        ]
        .contains(&first)
    });
    statements
}

/// A step of a plan.
#[derive(Debug, sqlx::FromRow)]
struct Step {
    id: i64,
    parent: i64,
    detail: String,
}

impl Step {
    /// Returns the name of the searched table.
    fn searches(&self) -> Option<&str> {
        self.detail.strip_prefix("SEARCH ")?.split(' ').next()
    }

    /// Returns the terms of the search, such as `sort_key>?`.
    fn terms(&self) -> BTreeSet<&str> {
        let (_, terms) = self.detail.rsplit_once('(').unwrap_or_default();
        let (terms, _) = terms.rsplit_once(')').unwrap_or_default();
        terms.split(" AND ").collect()
    }
}

/// A connection to the database, and its schema.
struct Schema {
    connection: SqliteConnection,
    tables: Vec<String>,
    /// The columns of each unique index; `None` for other indexes.
    indexes: BTreeMap<String, Option<BTreeSet<String>>>,
    /// The columns with the same value in every row of a partial index.
    same: BTreeMap<String, BTreeSet<String>>,
}

impl Schema {
    async fn read(database: &str) -> Self {
        let connection = SqliteConnection::connect(database).await;
        let mut connection = connection.expect("a database");
        // Without the internal tables of the search index.
        let tables: Vec<(String,)> = sqlx::query_as(
            "SELECT name FROM pragma_table_list WHERE type IN ('table', 'virtual') \
             AND schema = 'main' AND name NOT LIKE 'sqlite%' \
             AND name <> '_sqlx_migrations'",
        )
        .fetch_all(&mut connection)
        .await
        .expect("tables");
        let indexes: Vec<(String, bool, String)> = sqlx::query_as(
            "SELECT i.name, i.\"unique\", (SELECT group_concat(name) FROM pragma_index_info(i.name)) \
             FROM sqlite_schema t JOIN pragma_index_list(t.name) i WHERE t.type = 'table'",
        )
        .fetch_all(&mut connection)
        .await
        .expect("indexes");
        let partial: Vec<(String, String)> = sqlx::query_as(
            "SELECT name, substr(sql, instr(sql, 'WHERE ') + 6) FROM sqlite_schema \
             WHERE type = 'index' AND sql LIKE '%WHERE %'",
        )
        .fetch_all(&mut connection)
        .await
        .expect("partial indexes");
        let same = |condition: &str| {
            let (column, value) = condition.trim().split_once(' ')?;
            let is_same = value.starts_with("= ") || value == "IS NULL";
            is_same.then(|| column.to_owned())
        };
        let same = |text: String| text.split(" AND ").filter_map(same).collect();
        let columns = |text: String| text.split(',').map(str::to_owned).collect();
        Self {
            connection,
            tables: tables.into_iter().map(|(name,)| name).collect(),
            indexes: indexes
                .into_iter()
                .map(|(name, unique, text)| (name, unique.then(|| columns(text))))
                .collect(),
            same: partial
                .into_iter()
                .map(|(name, text)| (name, same(text)))
                .collect(),
        }
    }

    async fn plan(&mut self, statement: &str) -> Vec<Step> {
        sqlx::query_as(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")))
            .fetch_all(&mut self.connection)
            .await
            .unwrap_or_else(|error| panic!("{error}: {statement}"))
    }

    /// Returns the problems in the plans of statements.
    async fn problems(&mut self, statements: &BTreeSet<String>) -> Vec<String> {
        let mut all = Vec::new();
        for statement in statements {
            let plan = self.plan(statement).await;
            let mut problems = self.problems_of(statement, &plan);
            if problems.is_empty() {
                continue;
            }
            problems.push(shorten(statement));
            let mut text = problems.join("\n  ");
            for Step { detail, .. } in plan {
                // Writing to a string cannot fail.
                let _ = write!(text, "\n    {detail}");
            }
            all.push(text);
        }
        all
    }

    fn problems_of(&self, statement: &str, plan: &[Step]) -> Vec<String> {
        let mut problems = Vec::new();
        if let [step, rest @ ..] = plan
            && OPEN_WORK.contains(&step.detail.as_str())
            && rest.iter().all(|step| {
                step.searches().is_some() || step.detail.starts_with("CORRELATED SCALAR SUBQUERY")
            })
        {
            return problems;
        }
        for step in plan {
            let detail = &step.detail;
            if let Some(what) = detail.strip_prefix("SCAN ")
                && !is_bounded(what, statement, plan)
            {
                problems.push(format!("! {detail}"));
            }
            if detail.contains("AUTOMATIC") {
                problems.push(format!("! {detail}"));
            }
            if detail.starts_with("USE TEMP B-TREE") && !sorts_few_rows(step, statement, plan) {
                problems.push(format!("! {detail}"));
            }
        }
        for wanted in conditions(statement) {
            // Equal conditions need a step each.
            let alike = conditions(statement);
            let alike = alike.iter().filter(|other| **other == wanted).count();
            let answering = plan.iter().filter(|step| self.answers(step, &wanted));
            let unanswered = if wanted.columns.contains("actor_id") {
                statement.matches(UNINDEXED_CONDITION).count()
            } else {
                0
            };
            let is_answered = answering.count() + unanswered >= alike;
            if wanted.table.starts_with("change_search") || is_answered {
                continue;
            }
            problems.push(format!("! no index answers {wanted}"));
        }
        problems
    }

    /// Returns whether a step reads only matching rows.
    fn answers(&self, step: &Step, wanted: &Conditions) -> bool {
        if step.searches() != Some(&wanted.alias) {
            return false;
        }
        let terms = step.terms();
        let primary = format!("sqlite_autoindex_{}_1", wanted.table);
        let is_short_row = terms.contains("rowid=?")
            || step.detail.split(' ').any(|word| {
                let index = if word == "PRIMARY" { &primary } else { word };
                let columns = self.indexes.get(index).and_then(Option::as_ref);
                columns.is_some_and(|columns| {
                    let is_given = |column| terms.contains(format!("{column}=?").as_str());
                    columns.iter().all(is_given)
                })
            });
        let words = step.detail.split(' ');
        let same = words.filter_map(|word| self.same.get(word));
        let same = same.flatten().map(String::as_str);
        let given: BTreeSet<&str> = terms
            .iter()
            .filter_map(|term| term.split(['=', '<', '>']).next())
            .chain(same)
            .collect();
        let is_answered = |column: &String| {
            let column = column.as_str();
            let left_over =
                |(table, name, _): &(&str, &str, &str)| *table == wanted.table && *name == column;
            given.contains(column)
                || column == "sort_key" && given.contains("rowid")
                || UNINDEXED_COLUMNS.iter().any(left_over)
        };
        is_short_row
            || is_short_range(&wanted.table, &terms)
            || wanted.columns.iter().all(is_answered)
    }

    /// Requires that the plans have problems when an index of lists is dropped: otherwise
    /// the check would find nothing.
    async fn assert_lost_indexes_are_noticed(&mut self, statements: &BTreeSet<String>) {
        let names: Vec<String> = self.indexes.keys().cloned().collect();
        let lists =
            |name: &&String| name.starts_with("changes_by_") || name.starts_with("activity_by_");
        let mut lost = 0;
        for name in names.iter().filter(lists) {
            self.execute("BEGIN").await;
            self.execute(&format!("DROP INDEX {name}")).await;
            let problems = self.problems(statements).await;
            assert!(!problems.is_empty(), "no problem without {name}");
            self.execute("ROLLBACK").await;
            lost += 1;
        }
        assert!(lost >= 8, "too few indexes: {names:?}");
    }

    async fn execute(&mut self, statement: &str) {
        let done = sqlx::query(AssertSqlSafe(statement.to_owned()))
            .execute(&mut self.connection)
            .await;
        done.unwrap_or_else(|error| panic!("{error}: {statement}"));
    }
}

/// Returns whether a scan reads no table, or only the requested rows.
fn is_bounded(what: &str, statement: &str, plan: &[Step]) -> bool {
    let name = what.split(' ').next().unwrap_or_default();
    // The rows of a subselect, whose steps are checked too.
    let is_select = plan.iter().any(|step| {
        let made = ["CO-ROUTINE ", "MATERIALIZE "].map(|how| step.detail.strip_prefix(how));
        made.contains(&Some(name))
    });
    let is_values = what.contains("CONSTANT ROW") || what.ends_with("-ROW VALUES CLAUSE");
    let mut limits = ["LIMIT 1", "LIMIT 2"].iter();
    let is_short = limits.any(|limit| statement.ends_with(&format!("FROM {name} {limit}")));
    // The oldest rows of a table, in the order in which they were written.
    let is_oldest = statement.contains(&format!("FROM {name} ORDER BY rowid LIMIT "));
    is_select || is_values || is_short || is_oldest || is_lookup(what)
}

/// Returns whether a virtual table is searched by words or rows, and not scanned.
fn is_lookup(what: &str) -> bool {
    let Some((name, index)) = what.split_once(" VIRTUAL TABLE INDEX ") else {
        return false;
    };
    let (number, text) = index.split_once(':').unwrap_or_default();
    match name {
        // M is a match, = a rowid.
        "change_search" => text.contains(['M', '=']),
        // One word, or a range of words.
        "change_search_words" => {
            let number: u32 = number.parse().unwrap_or_default();
            number & 0x100 != 0 || number & 0x600 == 0x600
        }
        _ => false,
    }
}

/// Returns whether a search is for a short range.
fn is_short_range(table: &str, terms: &BTreeSet<&str>) -> bool {
    let span = SHORT_RANGES.iter().find(|(name, _)| *name == table);
    span.is_some_and(|(_, ends)| ends.iter().all(|end| terms.contains(end)))
}

/// Returns whether the sorted rows are a page, or of a small table.
fn sorts_few_rows(sort: &Step, statement: &str, plan: &[Step]) -> bool {
    // The steps that a sort belongs to have the same parent.
    let first = plan.iter().find(|step| {
        let reads = ["SCAN ", "SEARCH "].map(|how| step.detail.starts_with(how));
        step.parent == sort.parent && step.id < sort.id && reads.contains(&true)
    });
    let Some(first) = first else { return false };
    let name = first.detail.split(' ').nth(1);
    name.is_some_and(|name| {
        let tables = conditions(statement);
        let table = tables.iter().find(|table| table.alias == name);
        let table = table.map_or(name, |table| table.table.as_str());
        if is_short_range(table, &first.terms()) {
            return true;
        }
        let page = statement.split_once(&format!(") AS {name}"));
        let is_page = page.is_some_and(|(select, _)| {
            let limit = select.rsplit_once(" LIMIT ");
            limit.is_some_and(|(_, rest)| !rest.contains([')', '(']))
        });
        is_page || SMALL_TABLES.contains(&table)
    })
}

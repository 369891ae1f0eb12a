//! Whether PostgreSQL can be distributed by organization: each statement about what
//! organizations record needs the rows of one organization only.
//!
//! The test divides the tables that `schema citus` distributes into partitions by
//! organization, as Citus divides them into shards, and sends every request. PostgreSQL
//! then says in its log which partitions each statement reads: if the planner cannot
//! conclude from the statement which organization it is about, it reads all of them.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection};
use sqlx_postgres::PgConnection;

use super::commands;
use super::explained::{self, Explained};
use super::fixture::Fixture;
use super::requests::RequestSender;
use crate::store::placement::Placement;
use changelog_tests::receivers::Receiver;
use changelog_tests::{Organization, Postgres, TestApp, send, text};

/// How many partitions each table has.
const PARTITIONS: usize = 8;

/// Statements that need the rows of all organizations, and why.
const EXCEPTIONS: [(&str, &str); 20] = [
    (
        "DELETE FROM idempotency WHERE (organization_id, scope) IN",
        "deletes the oldest expired rows, every ten minutes",
    ),
    (
        "DELETE FROM events WHERE (organization_id, sequence) IN",
        "the same",
    ),
    (
        "DELETE FROM deliveries WHERE (organization_id, connection_id, sequence) IN",
        "the same",
    ),
    (
        "DELETE FROM receiver_messages WHERE (organization_id, connection_id, subject_id) IN",
        "the same",
    ),
    (
        "SELECT organization_id FROM events WHERE is_new = 1 AND organization_id > ",
        "finds what is to be queued, every ten seconds",
    ),
    (
        "SELECT DISTINCT c.organization_id FROM connections c WHERE c.disabled_at IS NULL",
        "finds what is to be sent, every ten seconds",
    ),
    (
        "SELECT organization_id FROM connections WHERE id =",
        "for commands that have only the id",
    ),
    ("SELECT organization_id FROM sources WHERE id =", "the same"),
    (
        "SELECT DISTINCT organization_id FROM sources",
        "checks that secrets can be decrypted, when a server starts",
    ),
    (
        "SELECT organization_id FROM source_events WHERE id <",
        "finds the oldest requests, every minute",
    ),
    (
        "SELECT organization_id FROM source_events WHERE id =",
        "the same",
    ),
    (
        "DELETE FROM source_operations WHERE (organization_id, source_id, key_hash) IN",
        "deletes the oldest expired rows, every ten minutes",
    ),
    (
        "DELETE FROM source_calls WHERE (organization_id, source_id, call_hash) IN",
        "the same",
    ),
    (
        "DELETE FROM incident_alerts WHERE (organization_id, source_id, key_hash) IN",
        "the same",
    ),
    (
        "SELECT organization_id FROM incidents WHERE rank_at <=",
        "finds the incidents whose suspects are to be ranked, every five seconds",
    ),
    (
        "SELECT organization_id FROM source_events WHERE outcome = 'pending'",
        "finds the requests that are to be read, every ten seconds",
    ),
    (
        "DELETE FROM joined_changes WHERE (organization_id, change_id) IN",
        "the same",
    ),
    (
        "SELECT organization_id, source_id, key_hash, updated_at FROM source_operations WHERE due_at",
        "finds the sessions of calls that are over, every ten seconds",
    ),
    (
        "SELECT organization_id, id, is_key, last_seen_at FROM rhythms WHERE is_missed",
        "finds what has fallen silent, every ten seconds",
    ),
    (
        "SELECT organization_id, due_at FROM retentions WHERE due_at IS NOT NULL AND due_at <=",
        "finds the organizations whose old records are to be deleted, every ten seconds",
    ),
];

const SETTINGS: [&str; 6] = [
    "shared_preload_libraries=auto_explain",
    "auto_explain.log_min_duration=-1",
    "auto_explain.log_analyze=on",
    // For the values of each statement.
    "log_statement=all",
    "log_parameter_max_length=64",
    // With the transaction.
    "log_line_prefix=%a[%p] %v ",
];

/// Makes the service take the database for one with the extension Citus: without it,
/// PostgreSQL gets the statements that create changes as one.
const LOOKS_LIKE_CITUS: &str = "
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
SELECT 1, 'citus', extowner, extnamespace, false, '' FROM pg_extension LIMIT 1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_statement_is_about_one_organization() {
    let Some(postgres) = Postgres::start_with(&SETTINGS).await else {
        return;
    };
    let mut app = TestApp::on_postgres(&postgres).await;
    let placement = Placement::read();
    partition(&app, &placement).await;
    let mut connection = app.postgres().await;
    execute(&mut connection, LOOKS_LIKE_CITUS).await;
    explain(&app).await;
    // Its connections learn when they begin that their statements are explained.
    app.restart().await;
    let second = app.second_organization();
    let fixture = Fixture::create(&app).await;
    let mut sender = RequestSender::new(&app, |_| {}).await;
    sender.send_all(&fixture, 2).await;
    drop(sender);
    send_for_both(&app, &second).await;
    let receiver = Receiver::start().await;
    let third = commands::run_all(&app, &receiver, |arguments, input| {
        app.admin_with(arguments, input)
    });
    app.admin(&["secrets", "rotate"]);
    let ids = [app.organization.id.clone(), second.id.clone(), third];
    let log = Log::new(&postgres, &placement, &ids);

    let problems = log.problems();
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    log.is_complete();
    log.check_transactions();
    mistakes_are_found(&app, &postgres, &placement, &ids).await;
}

/// Divides the tables that are distributed by organization into partitions.
async fn partition(app: &TestApp, placement: &Placement) {
    let mut connection = app.postgres().await;
    let references: Vec<(String, String)> = sqlx::query_as(
        "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint \
         WHERE contype = 'f'",
    )
    .fetch_all(&mut connection)
    .await
    .expect("foreign keys");
    let mut statements = Vec::new();
    for table in &placement.of_organizations {
        statements.push(format!("ALTER TABLE {table} RENAME TO whole_{table}"));
        statements.push(format!(
            "CREATE TABLE {table} (LIKE whole_{table} INCLUDING ALL) \
             PARTITION BY HASH (organization_id)"
        ));
        for number in 0..PARTITIONS {
            statements.push(format!(
                "CREATE TABLE {table}_p{number} PARTITION OF {table} \
                 FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})"
            ));
        }
        statements.push(format!("INSERT INTO {table} SELECT * FROM whole_{table}"));
    }
    for table in &placement.of_organizations {
        statements.push(format!("DROP TABLE whole_{table} CASCADE"));
    }
    for (table, reference) in references {
        if placement.of_organizations.contains(&table) {
            statements.push(format!("ALTER TABLE {table} ADD {reference}"));
        }
    }
    for statement in statements {
        execute(&mut connection, &statement).await;
    }
}

/// Has the statements of connections that begin from now on explained.
pub(super) async fn explain(app: &TestApp) {
    let (_, name) = app.database.rsplit_once('/').expect("a name");
    let setting = format!("ALTER DATABASE {name} SET auto_explain.log_min_duration = 0");
    execute(&mut app.postgres().await, &setting).await;
}

async fn execute(connection: &mut PgConnection, statement: &str) {
    let done = sqlx::query(AssertSqlSafe(statement.to_owned()))
        .execute(connection)
        .await;
    done.unwrap_or_else(|error| panic!("{error}: {statement}"));
}

/// Sends many requests of two organizations at the same time.
async fn send_for_both(app: &TestApp, second: &Organization) {
    let keys = [app.key(), app.with_key(&second.key)];
    for round in 0..4 {
        let requests = (0..64).map(|number| {
            let key = &keys[number % 2];
            // Each twice, so that the second has to be looked for.
            let name = format!("both {round} {}", number / 4);
            let body = json!({ "title": name, "tags": ["both"] });
            let request = key.request("POST", "/api/changes").json(&body);
            send(request.header("idempotency-key", name))
        });
        let created = join_all(requests).await;
        let reads = created.iter().enumerate().map(|(number, answer)| {
            let id = text(&answer.data(201)["id"]);
            send(keys[number % 2].request("GET", &format!("/api/changes/{id}")))
        });
        for answer in join_all(reads).await {
            answer.is(200);
        }
        let lists = (0..16).map(|number| {
            let key = &keys[number % 2];
            send(key.request("GET", "/api/changes?q=both&tag=both"))
        });
        for answer in join_all(lists).await {
            answer.is(200);
        }
    }
}

/// What the log says of the statements of the service.
struct Log<'p> {
    statements: Vec<Explained>,
    placement: &'p Placement,
    /// The ids of the organizations.
    ids: &'p [String],
}

impl<'p> Log<'p> {
    fn new(postgres: &Postgres, placement: &'p Placement, ids: &'p [String]) -> Self {
        Self {
            statements: explained::read(&postgres.log()),
            placement,
            ids,
        }
    }

    /// Returns what is wrong with each statement that is not an exception.
    fn problems(&self) -> Vec<String> {
        let mut problems = BTreeMap::new();
        for one in &self.statements {
            let is_excepted = EXCEPTIONS
                .iter()
                .any(|(start, _)| spaced(&one.statement).starts_with(start));
            if let Some(problem) = self.problem(one).filter(|_| !is_excepted) {
                problems.insert(&one.statement, format!("{problem}:\n{one:#?}"));
            }
        }
        problems.into_values().collect()
    }

    /// Returns what Citus could not run on the node of one organization.
    fn problem(&self, one: &Explained) -> Option<&'static str> {
        let tables = self.tables_of(one);
        let of_organizations = &self.placement.of_organizations;
        if tables.is_disjoint(of_organizations) {
            return None;
        }
        let partitions: BTreeSet<_> = tables_of_steps(one).filter_map(partition_of).collect();
        if !tables.is_subset(of_organizations) {
            Some("also uses tables of the coordinator")
        } else if one.statement.contains("INSERT INTO ") && one.statement.contains("SELECT") {
            Some("inserts rows that a query finds")
        } else if one.statement.starts_with("WITH ") {
            Some("is several statements")
        } else if partitions.len() > 1 {
            Some("reads the rows of several organizations")
        } else if self.organizations(one).len() > 1 {
            Some("has values of several organizations")
        } else if self.organizations(one).is_empty() {
            Some("has no organization")
        } else {
            None
        }
    }

    /// Returns the tables that a statement uses.
    fn tables_of(&self, one: &Explained) -> BTreeSet<String> {
        let names = tables_of_steps(one).map(|name| {
            let table = name
                .rsplit_once("_p")
                .filter(|_| partition_of(name).is_some());
            table.map_or(name, |(table, _)| table)
        });
        let names = names.map(str::to_owned);
        names.filter(|name| self.placement.has(name)).collect()
    }

    fn tables(&self, statements: &[&Explained]) -> BTreeSet<String> {
        let all = statements.iter().flat_map(|one| self.tables_of(one));
        all.collect()
    }

    /// Returns the organizations among the values of a statement.
    fn organizations(&self, one: &Explained) -> BTreeSet<&str> {
        let ids = self.ids.iter().map(String::as_str);
        ids.filter(|id| one.parameters.contains(id)).collect()
    }

    /// Requires that transactions need one node: those that create changes the node of
    /// one organization, and those about accounts and keys the coordinator. Only moving
    /// an entry to the activity log and queueing events, of which subscribers are notified,
    /// need both.
    fn check_transactions(&self) {
        let mut transactions: BTreeMap<&str, Vec<&Explained>> = BTreeMap::new();
        for one in &self.statements {
            transactions.entry(&one.session).or_default().push(one);
        }
        let mut creations = 0;
        for statements in transactions.values() {
            let has = |start| {
                let mut texts = statements.iter().map(|one| spaced(&one.statement));
                texts.any(|text| text.starts_with(start))
            };
            let tables = self.tables(statements);
            let of_organizations = &self.placement.of_organizations;
            let needs_one_node =
                tables.is_subset(of_organizations) || tables.is_disjoint(of_organizations);
            assert!(
                needs_one_node
                    || has("DELETE FROM pending_activity ")
                    || has("SELECT sequence, document FROM events "),
                "{tables:?} in {statements:#?}"
            );
            if has("INSERT INTO changes ") {
                creations += 1;
                let organizations = statements.iter().flat_map(|one| self.organizations(one));
                let organizations: BTreeSet<_> = organizations.collect();
                assert_eq!(organizations.len(), 1, "{statements:#?}");
                assert!(tables.is_subset(of_organizations), "{tables:?}");
            }
        }
        assert!(creations >= 50, "only {creations} creations");
    }

    /// Requires that each table is used, and that each exception is needed: a log that
    /// is off would have no problems.
    fn is_complete(&self) {
        let all: Vec<&Explained> = self.statements.iter().collect();
        let used = self.tables(&all);
        let unused: Vec<_> = self.placement.of_organizations.difference(&used).collect();
        assert!(unused.is_empty(), "no statement uses {unused:?}");
        for (start, _) in EXCEPTIONS {
            let is_needed = |one: &&Explained| {
                spaced(&one.statement).starts_with(start) && self.problem(one).is_some()
            };
            assert!(
                all.iter().any(is_needed),
                "no exception is needed for {start}"
            );
        }
        let texts: BTreeSet<&str> = all.iter().map(|one| one.statement.as_str()).collect();
        assert!(texts.len() >= 100, "only {texts:#?}");
    }
}

/// Returns a statement in one line.
fn spaced(statement: &str) -> String {
    let words: Vec<&str> = statement.split_whitespace().collect();
    words.join(" ")
}

/// Returns the names of the tables and partitions that a plan has steps for, whether
/// they ran or not: a limit may have ended the statement before.
fn tables_of_steps(one: &Explained) -> impl Iterator<Item = &str> {
    one.plan.lines().filter_map(|line| {
        let (step, _) = line.split_once("  (cost=")?;
        let (kind, target) = step.split_once(" on ")?;
        let (_, kind) = kind.rsplit_once("->  ").unwrap_or(("", kind));
        let is_table = ["Insert", "Update", "Delete"].contains(&kind)
            || kind.contains("Scan") && kind != "Bitmap Index Scan";
        is_table.then(|| target.split(' ').next())?
    })
}

/// Returns the number of the partition that a name ends with.
fn partition_of(name: &str) -> Option<usize> {
    name.rsplit_once("_p")?.1.parse().ok()
}

/// Requires that a statement without its organization is noticed.
async fn mistakes_are_found(
    app: &TestApp,
    postgres: &Postgres,
    placement: &Placement,
    ids: &[String],
) {
    let address = format!("{}?application_name=changelog-server", app.database);
    let mut connection = PgConnection::connect(&address).await.expect("a database");
    let process: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut connection)
        .await
        .expect("a number");
    let ours = format!("[{process}]");
    for (statement, expected) in [
        (
            "SELECT document FROM changes WHERE sort_key = 1 AND id <> $1::uuid",
            "reads the rows of several organizations",
        ),
        (
            "SELECT c.id FROM changes c LEFT JOIN services s ON s.id = c.service_id \
             WHERE c.organization_id = $1::uuid",
            "reads the rows of several organizations",
        ),
        (
            "SELECT c.id FROM (VALUES ($1::uuid), ($2::uuid)) AS wanted JOIN changes c \
             ON c.organization_id = wanted.column1",
            "reads the rows of several organizations",
        ),
        (
            "UPDATE changes SET document = document WHERE id = $1::uuid",
            "reads the rows of several organizations",
        ),
        (
            "SELECT document FROM changes WHERE organization_id IN \
             (SELECT id FROM organizations WHERE id = $1::uuid)",
            "also uses tables of the coordinator",
        ),
        (
            "INSERT INTO change_tags (organization_id, tag, sort_key) \
             SELECT organization_id, tag, -sort_key FROM change_tags WHERE organization_id = $1::uuid",
            "inserts rows that a query finds",
        ),
        (
            "INSERT INTO change_tags (organization_id, tag, sort_key) \
             VALUES ($1::uuid, 'x', -2), ($2::uuid, 'x', -2)",
            "has values of several organizations",
        ),
        (
            "WITH s0 AS (DELETE FROM change_tags WHERE organization_id = $1::uuid) \
             DELETE FROM change_search WHERE organization_id = $1::uuid AND sort_key = -1",
            "is several statements",
        ),
        (
            "SELECT document FROM changes WHERE organization_id = $1::uuid AND sort_key = 1",
            "",
        ),
    ] {
        let before = explained::read(&postgres.log()).len();
        let mut query = sqlx::query(AssertSqlSafe(statement)).bind(&ids[0]);
        if statement.contains("$2") {
            query = query.bind(&ids[1]);
        }
        let done = query.execute(&mut connection).await;
        done.unwrap_or_else(|error| panic!("{error}: {statement}"));
        let mut log = Log::new(postgres, placement, ids);
        let mut found = log.statements.split_off(before);
        // The service reads in the background what is to be sent.
        found.retain(|one| one.session.contains(&ours));
        let [one] = found.as_slice() else {
            panic!("{} statements: {found:#?}", found.len());
        };
        assert_eq!(log.problem(one).unwrap_or_default(), expected, "{one:#?}");
    }
}

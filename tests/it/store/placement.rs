//! The statements that distribute the schema by Citus fit the schema.

use std::collections::BTreeSet;

use sqlx::AssertSqlSafe;
use sqlx_postgres::PgConnection;

use changelog_tests::{TestApp, on_postgres, run, server_command};

on_postgres!(every_table_can_be_placed);

/// Where the tables are, as `schema citus` prints it.
pub(crate) struct Placement {
    /// Distributed by organization.
    pub(crate) of_organizations: BTreeSet<String>,
    /// On the coordinator, or copied to every node.
    of_coordinator: BTreeSet<String>,
    /// All of them in the order of the statements.
    order: Vec<String>,
}

impl Placement {
    /// Reads where every table is.
    pub(crate) fn read() -> Self {
        let mut placement = Self {
            of_organizations: BTreeSet::new(),
            of_coordinator: BTreeSet::new(),
            order: Vec::new(),
        };
        for statement in citus_statements(&["--every-node"]) {
            let Some((function, table)) = placed(&statement) else {
                assert!(statement.starts_with("SET citus."), "{statement}");
                continue;
            };
            let tables = match function {
                "create_reference_table" => &mut placement.of_coordinator,
                "create_distributed_table" => &mut placement.of_organizations,
                _ => panic!("{statement}"),
            };
            assert!(tables.insert(table.to_owned()), "{table} is placed twice");
            placement.order.push(table.to_owned());
        }
        placement
    }

    /// Whether a name is that of a table.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.of_organizations.contains(name) || self.of_coordinator.contains(name)
    }

    fn position(&self, table: &str) -> Option<usize> {
        self.order.iter().position(|placed| placed == table)
    }
}

/// Runs `schema citus` and returns its statements.
fn citus_statements(flags: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = server_command(folder.path());
    command.args(["schema", "citus", "--json"]).args(flags);
    let output = run(command, "");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("a list of statements")
}

/// Returns the function that a statement calls, and its table.
fn placed(statement: &str) -> Option<(&str, &str)> {
    let call = statement.strip_prefix("SELECT ")?;
    let (function, arguments) = call.split_once("('")?;
    let (table, rest) = arguments.split_once('\'')?;
    if function == "create_distributed_table" {
        assert!(rest.starts_with(", 'organization_id'"), "{statement}");
    }
    Some((function, table))
}

/// A foreign key, with the columns of both tables in the same order.
#[derive(Debug, sqlx::FromRow)]
struct Reference {
    from: String,
    columns: Vec<String>,
    to: String,
    of_columns: Vec<String>,
    /// Of deletes and updates; `a` means none.
    actions: String,
}

/// The part of a schema that decides whether it can be distributed.
struct Schema {
    tables: BTreeSet<String>,
    /// Tables, each with the columns of a unique index; whether it is the primary key.
    unique: Vec<(String, Vec<String>, bool)>,
    references: Vec<Reference>,
    /// Triggers and sequences, except the one by which events are ordered: Citus gives each
    /// node a part of the numbers of a bigint.
    others: Vec<String>,
}

const TABLES: &str = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'";

const UNIQUE: &str = "
SELECT indrelid::regclass::text, ARRAY(SELECT attname::text FROM pg_attribute
    WHERE attrelid = indrelid AND attnum = ANY(indkey)), indisprimary
FROM pg_index JOIN pg_class c ON c.oid = indrelid
WHERE indisunique AND c.relnamespace = 'public'::regnamespace";

const REFERENCES: &str = r#"
SELECT conrelid::regclass::text AS "from", confrelid::regclass::text AS "to",
    ARRAY(SELECT attname::text FROM unnest(conkey) WITH ORDINALITY AS key (number, place)
        JOIN pg_attribute ON attrelid = conrelid AND attnum = number ORDER BY place) AS columns,
    ARRAY(SELECT attname::text FROM unnest(confkey) WITH ORDINALITY AS key (number, place)
        JOIN pg_attribute ON attrelid = confrelid AND attnum = number ORDER BY place)
        AS of_columns,
    confdeltype::text || confupdtype::text AS actions
FROM pg_constraint WHERE contype = 'f'"#;

const OTHERS: &str = "
SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT sequencename::text FROM pg_sequences
WHERE schemaname = 'public' AND NOT (sequencename = 'event_places' AND data_type::text = 'bigint')";

impl Schema {
    async fn read(connection: &mut PgConnection) -> Self {
        let tables = sqlx::query_as(TABLES).fetch_all(&mut *connection).await;
        let tables: Vec<(String,)> = tables.expect("tables");
        let unique = sqlx::query_as(UNIQUE).fetch_all(&mut *connection).await;
        let references = sqlx::query_as(REFERENCES).fetch_all(&mut *connection).await;
        let others = sqlx::query_as(OTHERS).fetch_all(&mut *connection).await;
        let others: Vec<(String,)> = others.expect("triggers and sequences");
        Self {
            tables: tables.into_iter().map(|(name,)| name).collect(),
            unique: unique.expect("unique indexes"),
            references: references.expect("foreign keys"),
            others: others.into_iter().map(|(name,)| name).collect(),
        }
    }

    /// Returns what Citus would refuse.
    fn problems(&self, placement: &Placement) -> Vec<String> {
        let mut problems = Vec::new();
        for table in &self.tables {
            if !placement.has(table) {
                problems.push(format!("{table} is not in the list"));
            }
        }
        for table in &placement.order {
            if !self.tables.contains(table) {
                problems.push(format!("there is no table {table}"));
            }
        }
        for table in &placement.of_organizations {
            let mut keys = self.unique.iter().filter(|(of, ..)| of == table);
            if !keys.any(|(.., is_primary)| *is_primary) {
                problems.push(format!("{table} has no primary key"));
            }
        }
        for (table, columns, _) in &self.unique {
            let has_organization = columns.iter().any(|column| column == "organization_id");
            if placement.of_organizations.contains(table) && !has_organization {
                problems.push(format!(
                    "{columns:?} of {table} are unique without organization"
                ));
            }
        }
        for reference in &self.references {
            problems.extend(reference.problem(placement));
        }
        let others = self.others.iter();
        problems.extend(others.map(|name| format!("{name} is a trigger or a sequence")));
        problems
    }
}

impl Reference {
    /// Returns why Citus would refuse it: a distributed table refers only to rows of the
    /// same organization, and no other table refers to a distributed one.
    fn problem(&self, placement: &Placement) -> Option<String> {
        let is_distributed = |table| placement.of_organizations.contains(table);
        let mut pairs = self.columns.iter().zip(&self.of_columns);
        let has_organization =
            pairs.any(|(from, to)| from == "organization_id" && to == "organization_id");
        let why = if is_distributed(&self.from) != is_distributed(&self.to) {
            "only one of the two is distributed"
        } else if is_distributed(&self.from) && !has_organization {
            "the organization is missing"
        } else if placement.position(&self.from) < placement.position(&self.to) {
            "the other table is placed later"
        } else if self.actions != "aa" {
            "it has an action"
        } else {
            return None;
        };
        Some(format!("{self:?}: {why}"))
    }
}

async fn every_table_can_be_placed(app: TestApp) {
    let placement = Placement::read();
    let mut connection = app.postgres().await;
    let problems = Schema::read(&mut connection).await.problems(&placement);
    assert!(problems.is_empty(), "{problems:#?}");
    // By default nothing else than the distributed tables is printed.
    let default = citus_statements(&[]);
    let default: BTreeSet<_> = default.iter().filter_map(|text| placed(text)).collect();
    let distributed = placement.of_organizations.iter();
    let distributed = distributed.map(|table| ("create_distributed_table", table.as_str()));
    assert_eq!(default, distributed.collect());

    for (mistake, expected) in [
        (
            "CREATE TABLE forgotten (id bigint)",
            "forgotten is not in the list",
        ),
        ("DROP TABLE idempotency", "there is no table idempotency"),
        (
            "CREATE UNIQUE INDEX ON changes (id)",
            "unique without organization",
        ),
        (
            "ALTER TABLE change_search DROP CONSTRAINT change_search_pkey",
            "change_search has no primary key",
        ),
        (
            "ALTER TABLE services ADD FOREIGN KEY (organization_id) REFERENCES organizations (id)",
            "only one of the two is distributed",
        ),
        (
            "ALTER TABLE hosts ADD UNIQUE (id, organization_id), ADD parent uuid, \
             ADD FOREIGN KEY (organization_id, parent) REFERENCES hosts (id, organization_id)",
            "the organization is missing",
        ),
        (
            "ALTER TABLE services ADD host_id uuid, ADD FOREIGN KEY (organization_id, host_id) \
             REFERENCES hosts (organization_id, id)",
            "the other table is placed later",
        ),
        (
            "ALTER TABLE changes ADD FOREIGN KEY (organization_id, service_id) \
             REFERENCES services (organization_id, id) ON DELETE CASCADE",
            "it has an action",
        ),
        (
            "CREATE SEQUENCE numbers",
            "numbers is a trigger or a sequence",
        ),
    ] {
        for statement in ["BEGIN", mistake] {
            let done = sqlx::query(AssertSqlSafe(statement)).execute(&mut connection);
            done.await
                .unwrap_or_else(|error| panic!("{error}: {statement}"));
        }
        let problems = Schema::read(&mut connection).await.problems(&placement);
        assert!(
            problems.iter().any(|problem| problem.contains(expected)),
            "{mistake}: {problems:#?}"
        );
        let done = sqlx::query("ROLLBACK").execute(&mut connection).await;
        done.expect("it is undone");
    }
}

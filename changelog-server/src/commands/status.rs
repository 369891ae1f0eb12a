//! `changelog-server status`

use changelog_core::Timestamp;
use serde::Serialize;

use super::table::table;
use super::{Failure, health, note, now, print, print_json};
use crate::config::{self, Common};
use crate::metrics::listener::SLOW_STATEMENTS_PATH;
use crate::metrics::slow_statements::SlowStatement;
use crate::store::{Capacity, OrganizationSize, Purpose, Schema, Store};

/// The organizations that are printed.
const MAX_ORGANIZATIONS: usize = 20;

/// The statements that are printed, and how many characters of each.
const MAX_STATEMENTS: usize = 10;
const MAX_STATEMENT_CHARS: usize = 120;

/// What is known of an installation, all but the last without the help of a running server.
#[derive(Serialize)]
struct Status {
    /// Of this program.
    version: &'static str,
    database: Database,
    /// Those with the most changes first.
    organizations: Vec<OrganizationSize>,
    organizations_in_all: usize,
    queues: Vec<Queue>,
    /// The statements that took a second or more since a server was started, the slowest first;
    /// `None` if none was asked.
    slow_statements: Option<Vec<SlowStatement>>,
}

#[derive(Serialize)]
struct Database {
    kind: &'static str,
    schema: Schema,
    size_bytes: u64,
    /// The size of the write-ahead log, on SQLite.
    wal_bytes: Option<u64>,
    /// Whether a process serves it; unknown on PostgreSQL.
    is_served: Option<bool>,
}

#[derive(Serialize)]
struct Queue {
    name: &'static str,
    /// How much waits, at most 10,000.
    length: u64,
    oldest: Option<Timestamp>,
}

pub(super) async fn run(common: &Common, arguments: &config::Status) -> Result<(), Failure> {
    let address = &common.database_url;
    let (store, _) = Store::open(address, Purpose::Inspect, Capacity::default()).await?;
    let backlog = store.backlog(now().into()).await?;
    let mut organizations = store.organization_sizes().await?;
    let organizations_in_all = organizations.len();
    organizations.truncate(MAX_ORGANIZATIONS);
    let status = Status {
        version: env!("CARGO_PKG_VERSION"),
        database: Database {
            kind: if store.is_sqlite() {
                "sqlite"
            } else {
                "postgres"
            },
            schema: store.schema(address).await?,
            size_bytes: store.size().await?,
            wal_bytes: store.usage().wal_bytes,
            is_served: store.is_served(address)?,
        },
        organizations,
        organizations_in_all,
        queues: backlog
            .queues
            .into_iter()
            .map(|queue| Queue {
                name: queue.name,
                length: queue.length,
                oldest: queue.oldest,
            })
            .collect(),
        slow_statements: slow_statements(arguments).await,
    };
    store.close().await;
    if common.json {
        return print_json(&status);
    }
    print_status(&status)
}

/// Asks a server, if its address is known. What is known without it is worth printing if it does
/// not answer.
async fn slow_statements(arguments: &config::Status) -> Option<Vec<SlowStatement>> {
    let url = arguments.metrics_url()? + SLOW_STATEMENTS_PATH;
    let answer = match health::ask(&url).await {
        Ok(answer) if answer.status.is_success() => {
            serde_json::from_slice(&answer.body).map_err(|error| error.to_string())
        }
        Ok(answer) => Err(format!("{url} answered {}", answer.status.as_u16())),
        Err(error) => Err(error),
    };
    answer
        .inspect_err(|error| note(&format!("the slowest statements are not known: {error}")))
        .ok()
}

fn print_status(status: &Status) -> Result<(), Failure> {
    let Database {
        kind,
        schema,
        size_bytes,
        wal_bytes,
        is_served,
    } = &status.database;
    print(&format!("changelog-server {}", status.version))?;
    let wal = wal_bytes.map_or_else(String::new, |bytes| {
        format!(", write-ahead log {}", megabytes(bytes))
    });
    let served = match is_served {
        Some(true) => ", served by a process",
        Some(false) => ", not served",
        None => "",
    };
    let size = megabytes(*size_bytes);
    let Schema { found, needed } = schema;
    print(&format!(
        "database: {kind}, schema {found} of {needed}, {size}{wal}{served}\n"
    ))?;
    let row = |one: &OrganizationSize| {
        vec![
            one.id.to_string(),
            one.name.clone(),
            one.plan.clone(),
            one.changes.to_string(),
        ]
    };
    let header = ["ORGANIZATION", "NAME", "PLAN", "CHANGES"];
    print(&table(&header, status.organizations.iter().map(row)))?;
    let more = status.organizations_in_all - status.organizations.len();
    if more > 0 {
        print(&format!("and {more} more"))?;
    }
    let row = |queue: &Queue| {
        let oldest = queue.oldest.map(|at| at.to_string());
        vec![
            queue.name.to_owned(),
            queue.length.to_string(),
            oldest.unwrap_or_else(|| "-".to_owned()),
        ]
    };
    print("")?;
    let header = ["QUEUE", "WAITING", "OLDEST DUE SINCE"];
    print(&table(&header, status.queues.iter().map(row)))?;
    let Some(slow) = &status.slow_statements else {
        return Ok(());
    };
    if slow.is_empty() {
        return print("\nno statement has taken a second since the server was started");
    }
    let row = |one: &SlowStatement| {
        let statement = one.statement.chars().take(MAX_STATEMENT_CHARS);
        vec![
            format!("{:.1} s", one.longest_seconds),
            one.count.to_string(),
            one.last_at.to_string(),
            statement.collect(),
        ]
    };
    print("")?;
    let header = ["LONGEST", "TIMES", "LAST", "STATEMENT OF A SECOND OR MORE"];
    print(&table(&header, slow.iter().take(MAX_STATEMENTS).map(row)))
}

/// Writes a size in MB, with one decimal.
fn megabytes(bytes: u64) -> String {
    let tenths = bytes.saturating_add(50_000) / 100_000;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

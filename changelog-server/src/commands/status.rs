//! `changelog-server status`

use changelog_core::Timestamp;
use serde::Serialize;

use super::table::table;
use super::{Failure, now, print, print_json};
use crate::config::Common;
use crate::store::{Capacity, OrganizationSize, Purpose, Schema, Store};

/// The organizations that are printed.
const MAX_ORGANIZATIONS: usize = 20;

/// What is known of an installation without the help of a running server.
#[derive(Serialize)]
struct Status {
    /// Of this program.
    version: &'static str,
    database: Database,
    /// Those with the most changes first.
    organizations: Vec<OrganizationSize>,
    organizations_in_all: usize,
    queues: Vec<Queue>,
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

pub(super) async fn run(common: &Common) -> Result<(), Failure> {
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
    };
    store.close().await;
    if common.json {
        return print_json(&status);
    }
    print_status(&status)
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
    print(&table(&header, status.queues.iter().map(row)))
}

/// Writes a size in MB, with one decimal.
fn megabytes(bytes: u64) -> String {
    let tenths = bytes.saturating_add(50_000) / 100_000;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

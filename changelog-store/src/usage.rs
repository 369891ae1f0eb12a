//! How the database is used, and what waits in it, for those who operate the service.

use changelog_core::{OrganizationId, Timestamp};
use prometheus_client::metrics::histogram::Histogram;
use serde::Serialize;
use sqlx::types::Uuid;

use super::engine::{self, Engine, ShareUsage, on, read};
use super::{Database, OpenError, Store, StoreError};

/// The limit on how far a queue is counted.
const MAX_COUNTED: u64 = 10_000;

/// The number of new events, and when the first was recorded.
const NEW_EVENTS: &str = "
SELECT count(*), min(created_at) FROM
    (SELECT created_at FROM events WHERE is_new = 1
     ORDER BY organization_id, sequence LIMIT 10000) AS waiting";

/// The number of deliveries that are to be sent.
const PENDING_DELIVERIES: &str = "
SELECT count(*) FROM
    (SELECT 1 FROM deliveries WHERE state = 'pending'
     ORDER BY organization_id, connection_id, next_at, sequence LIMIT 10000) AS waiting";

/// When the first delivery was due: one look into the index for each connection.
const FIRST_DUE: &str = "
SELECT min(due) FROM
    (SELECT (SELECT d.next_at FROM deliveries d
             WHERE d.organization_id = c.organization_id AND d.connection_id = c.id
                 AND d.state = 'pending' ORDER BY d.next_at LIMIT 1) AS due
     FROM connections c WHERE c.disabled_at IS NULL) AS first";

const PENDING_SOURCE_EVENTS: &str = "
SELECT count(*), min(received_at) FROM
    (SELECT received_at FROM source_events WHERE outcome = 'pending'
     ORDER BY organization_id, id LIMIT 10000) AS waiting";

/// The mails whose time has come.
const DUE_MAILS: &str = "
SELECT count(*), min(due_at) FROM
    (SELECT due_at FROM mailboxes WHERE due_at IS NOT NULL AND due_at <= $1
     ORDER BY due_at LIMIT 10000) AS waiting";

const SCHEMA: &str = "SELECT CAST(MAX(version) AS bigint) FROM _sqlx_migrations WHERE success";

/// One look into the counts for each organization.
const SIZES: &str = "
SELECT o.id, o.name, o.plan,
    (SELECT CAST(COALESCE(SUM(c.n), 0) AS bigint) FROM change_counts c
     WHERE c.organization_id = o.id AND c.scope = 'all' AND c.span = 0) AS changes
FROM organizations o ORDER BY changes DESC, o.name, o.id";

const POSTGRES_SIZE: &str = "SELECT pg_database_size(current_database())";

/// How this process uses the database.
#[derive(Clone, Debug)]
pub struct Usage {
    /// Connections that read and transactions, by group.
    pub groups: Vec<(&'static str, ShareUsage)>,
    /// Requests to create changes that wait.
    pub waiting_creates: usize,
    /// Requests to create changes that were refused since the start.
    pub refused_creates: u64,
    /// What waits for the writer, on SQLite.
    pub writer_queue: Option<usize>,
    /// The size of the write-ahead log in bytes, on SQLite.
    pub wal_bytes: Option<u64>,
}

/// Something that waits in the database.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Its name, such as `deliveries`.
    pub name: &'static str,
    /// How much waits, at most 10,000.
    pub length: u64,
    /// Since when the oldest is due.
    pub oldest: Option<Timestamp>,
}

/// What waits in the database, of all servers.
#[derive(Clone, Debug)]
pub struct Backlog {
    /// The queues.
    pub queues: Vec<Queue>,
}

impl Store {
    /// Returns how this process uses the database.
    pub fn usage(&self) -> Usage {
        let connections = &self.database.connections;
        let (waiting_creates, refused_creates) = self.creations.usage();
        let writer_queue = match &connections.writes {
            Engine::Sqlite(writer) => Some(writer.queued_jobs()),
            Engine::Postgres(_) => None,
        };
        let sqlite = connections.sqlite.as_ref();
        Usage {
            groups: connections.usage(),
            waiting_creates,
            refused_creates,
            writer_queue,
            wal_bytes: sqlite.map(|sqlite| sqlite.file.wal_bytes()),
        }
    }

    /// Returns how many jobs share a COMMIT on SQLite, and how many requests to create changes
    /// share a batch.
    pub fn batch_sizes(&self) -> [Histogram; 2] {
        let group_jobs = match &self.database.connections.writes {
            Engine::Sqlite(writer) => writer.group_jobs(),
            Engine::Postgres(_) => engine::batch_histogram(),
        };
        [group_jobs, self.creations.batch_sizes()]
    }
}

/// The versions of a schema.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Schema {
    /// That of the database; 0 if it has none.
    pub found: i64,
    /// That of this program.
    pub needed: i64,
}

/// An organization with the number of its changes.
#[derive(Clone, Debug, Serialize)]
pub struct OrganizationSize {
    /// Its id.
    pub id: OrganizationId,
    /// Its name.
    pub name: String,
    /// Its plan.
    pub plan: String,
    /// The number of its changes.
    pub changes: u64,
}

impl Database {
    /// Returns whether the database is a SQLite file.
    pub fn is_sqlite(&self) -> bool {
        self.connections.sqlite.is_some()
    }

    /// Returns whether a process serves the database at its address; `None` on PostgreSQL,
    /// where several may.
    pub fn is_served(&self, address: &str) -> Result<Option<bool>, OpenError> {
        if !self.is_sqlite() {
            return Ok(None);
        }
        match engine::direct::lock_out_servers(address) {
            Ok(_) => Ok(Some(false)),
            Err(OpenError::Served(_)) => Ok(Some(true)),
            Err(error) => Err(error),
        }
    }

    /// Returns the version of the schema.
    pub async fn schema(&self, address: &str) -> Result<Schema, StoreError> {
        let (found,): (Option<i64>,) = read!(self.system().await?, |db| sqlx::query_as(SCHEMA)
            .fetch_one(&mut **db))?;
        Ok(Schema {
            found: found.unwrap_or(0),
            needed: engine::newest_schema(address),
        })
    }

    /// Returns the organizations, those with the most changes first.
    pub async fn organization_sizes(&self) -> Result<Vec<OrganizationSize>, StoreError> {
        let rows: Vec<(Uuid, String, String, i64)> =
            read!(self.system().await?, |db| sqlx::query_as(SIZES)
                .fetch_all(&mut **db))?;
        let size = |(id, name, plan, changes): (Uuid, String, String, i64)| OrganizationSize {
            id: id.into(),
            name,
            plan,
            changes: changes.unsigned_abs(),
        };
        Ok(rows.into_iter().map(size).collect())
    }

    /// Returns what waits to be sent or read.
    pub async fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError> {
        let mut lease = self.system().await?;
        let (events, events_since): (i64, Option<i64>) =
            on!(&mut lease, |db| sqlx::query_as(NEW_EVENTS)
                .fetch_one(&mut **db))?;
        let (deliveries,): (i64,) = on!(&mut lease, |db| sqlx::query_as(PENDING_DELIVERIES)
            .fetch_one(&mut **db))?;
        let (due,): (Option<i64>,) = on!(&mut lease, |db| sqlx::query_as(FIRST_DUE)
            .fetch_one(&mut **db))?;
        let (requests, requests_since): (i64, Option<i64>) =
            on!(&mut lease, |db| sqlx::query_as(PENDING_SOURCE_EVENTS)
                .fetch_one(&mut **db))?;
        let (mails, mails_since): (i64, Option<i64>) =
            on!(&mut lease, |db| sqlx::query_as(DUE_MAILS)
                .bind(now.millis())
                .fetch_one(&mut **db))?;
        engine::end_lease(lease);
        let queue = |name, length: i64, oldest: Option<i64>| Queue {
            name,
            length: length.unsigned_abs().min(MAX_COUNTED),
            oldest: oldest
                .map(Timestamp::from_millis)
                .filter(|oldest| *oldest <= now),
        };
        Ok(Backlog {
            queues: vec![
                queue("events", events, events_since),
                queue("deliveries", deliveries, due),
                queue("source_events", requests, requests_since),
                queue("mails", mails, mails_since),
            ],
        })
    }

    /// Returns the size of the database in bytes, on SQLite without its write-ahead log.
    pub async fn size(&self) -> Result<u64, StoreError> {
        if let Some(sqlite) = &self.connections.sqlite {
            return Ok(sqlite.file.bytes());
        }
        let mut lease = self.system().await?;
        let (size,): (i64,) = on!(&mut lease, |db| sqlx::query_as(POSTGRES_SIZE)
            .fetch_one(&mut **db))?;
        engine::end_lease(lease);
        Ok(size.unsigned_abs())
    }
}

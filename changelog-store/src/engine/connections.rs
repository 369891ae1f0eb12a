//! The connections to the database: groups that read, and the way to write.

use std::sync::Arc;
use std::time::Duration;

use changelog_core::OrganizationId;
use sqlx_postgres::Postgres;
use tokio::time::timeout;

use super::backend::{Engine, bounded, read};
use super::data_file::DataFile;
use super::error::StoreError;
use super::fair_share::{FairShare, Holder, Permit, ShareUsage};
use super::generation::Generations;
use super::postgres_pool::{Planning, PostgresPool};
use super::readers::{Lease, Readers};
use super::write_outcomes::WriteOutcomes;
use super::writer::{SqliteTx, Writer};

/// How long a database may take to show that it answers at all.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// Read a page. PostgreSQL tells as well whether it is a standby, or was set to take no writes.
const SQLITE_PING: &str = "SELECT created_at, FALSE FROM organizations LIMIT 1";
const POSTGRES_PING: &str = "
SELECT created_at,
       pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean
FROM organizations LIMIT 1";

/// Why PostgreSQL takes no writes.
const READ_ONLY: &str = "it is a standby, or was set to be read-only";
const STUCK: &str = "none has returned for some seconds; a lock, or a synchronous replica that is \
                     away, may hold them up";

/// The connection that one transaction runs on.
pub(crate) type TxConnection = Engine<SqliteTx, sqlx::Transaction<'static, Postgres>>;

/// The connections to one database; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    pub(crate) readers: ReaderGroups,
    /// How writes begin: the writer on SQLite, a pool on PostgreSQL.
    pub(crate) writes: Engine<Writer, PostgresPool>,
    /// The permits of transactions that take more than one statement's time.
    pub(crate) write_permits: Arc<FairShare>,
    /// The most batches of writes that run at the same time: in all, and of one
    /// organization.
    pub(crate) write_batches: (usize, usize),
    /// Whether a script can be [joined](super::Script::joined) into one statement:
    /// on PostgreSQL, unless it is distributed by Citus, which refuses such a
    /// statement, or behind a pooler, where a single statement has no limit of time.
    /// Such a statement may have rows of several organizations.
    pub(crate) joins_scripts: bool,
    /// What became of the last writes to PostgreSQL.
    pub(crate) write_outcomes: Arc<WriteOutcomes>,
    /// What exists on SQLite only.
    pub(crate) sqlite: Option<SqliteParts>,
}

/// What exists on SQLite only.
#[derive(Clone, Debug)]
pub(crate) struct SqliteParts {
    pub(crate) file: Arc<DataFile>,
    pub(crate) generations: Arc<Generations>,
}

/// The groups of connections that read; none waits for another.
#[derive(Clone, Debug)]
pub(crate) struct ReaderGroups {
    /// For health checks.
    pub(crate) health: Readers,
    /// For what is read before the organization is known: keys, sessions, users.
    pub(crate) system: Readers,
    /// For single rows that are found by a key.
    pub(crate) points: Readers,
    /// For everything else: lists, searches, counts.
    pub(crate) lists: Readers,
}

impl ReaderGroups {
    fn all(&self) -> [&Readers; 4] {
        let Self {
            health,
            system,
            points,
            lists,
        } = self;
        [health, system, points, lists]
    }
}

impl Connections {
    /// Begins a transaction.
    pub(crate) async fn begin(&self) -> Result<TxConnection, StoreError> {
        Ok(match &self.writes {
            Engine::Sqlite(writer) => Engine::Sqlite(writer.begin().await?),
            Engine::Postgres(pool) => {
                let begun = bounded(pool.begin()).await;
                // It has returned when it is committed.
                Engine::Postgres(begun.or_else(|error| self.write_outcomes.note(Err(error)))?)
            }
        })
    }

    /// Waits until an organization may begin a transaction that takes more than
    /// one statement's time.
    pub(crate) async fn write_permit(&self, holder: Holder) -> Result<Permit, StoreError> {
        let permit = self.write_permits.acquire(holder).await;
        self.unless_away(permit).await
    }

    /// Waits for a connection for what is read before the organization is known.
    pub(crate) async fn system(&self) -> Result<Lease, StoreError> {
        self.readers.system.lease(None, Planning::Automatic).await
    }

    /// Waits for a connection for lists, searches and counts.
    pub(crate) async fn reader(
        &self,
        organization: OrganizationId,
        planning: Planning,
    ) -> Result<Lease, StoreError> {
        let lease = self.readers.lists.lease(Some(organization), planning);
        self.unless_away(lease.await).await
    }

    /// Waits for a connection for single rows that are found by a key, of an organization or
    /// of several.
    pub(crate) async fn point_reader(&self, holder: Holder) -> Result<Lease, StoreError> {
        let points = &self.readers.points;
        let lease = points.lease(holder, Planning::Automatic);
        self.unless_away(lease.await).await
    }

    /// Replaces [`StoreError::Overloaded`] when the database does not answer:
    /// then it is not the organization's own requests that take its share.
    async fn unless_away<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        match result {
            Err(StoreError::Overloaded) => match timeout(PING_TIMEOUT, self.ping()).await {
                Ok(Ok(())) => Err(StoreError::Overloaded),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(StoreError::Unavailable(
                    "the database does not answer".into(),
                )),
            },
            result => result,
        }
    }

    /// Makes a round trip that reads a real page of the database, and makes sure that it takes
    /// writes.
    pub(crate) async fn ping(&self) -> Result<(), StoreError> {
        let health = &self.readers.health;
        let lease = health.lease(None, Planning::Automatic).await?;
        let ping = match &lease {
            Engine::Sqlite(_) => SQLITE_PING,
            Engine::Postgres(_) => POSTGRES_PING,
        };
        let found: Option<(i64, bool)> = read!(lease, |db| {
            sqlx::query_as(ping).fetch_optional(&mut **db)
        })?;
        if let Some((_, true)) = found {
            // The address may lead to the primary again, over new connections.
            for group in self.readers.all() {
                group.release_idle();
            }
            return Err(StoreError::NoWrites(READ_ONLY));
        }
        if self.write_outcomes.are_stuck() {
            return Err(StoreError::NoWrites(STUCK));
        }
        Ok(())
    }

    /// Returns how connections that read and transactions are used, by group.
    pub(crate) fn usage(&self) -> Vec<(&'static str, ShareUsage)> {
        let ReaderGroups {
            health,
            system,
            points,
            lists,
        } = &self.readers;
        vec![
            ("health", health.usage()),
            ("system", system.usage()),
            ("single_rows", points.usage()),
            ("lists", lists.usage()),
            ("transactions", self.write_permits.usage()),
        ]
    }

    /// Closes the connections; on SQLite this folds in the write-ahead log.
    pub(crate) async fn close(&self) {
        for group in self.readers.all() {
            group.close().await;
        }
        if let Engine::Postgres(pool) = &self.writes {
            pool.close().await;
        }
    }
}

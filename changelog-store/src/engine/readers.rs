//! Connections that read. They are in groups, so that one kind of work does not
//! wait for another, and within a group organizations share them fairly.
//!
//! On SQLite a statement that exceeds its time is interrupted: its caller has
//! left, and it would keep a processor and its connection from others. On
//! PostgreSQL `statement_timeout` does that, see [`PostgresPool`].

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::{ConnectOptions, Connection};
use sqlx_sqlite::{SqliteConnectOptions, SqliteConnection};

use super::backend::{Engine, bounded};
use super::error::StoreError;
use super::fair_share::{FairShare, Holder, Permit, ShareUsage};
use super::postgres_pool::{Planning, PostgresConnection, PostgresPool};
use super::statement_costs::StatementCosts;

/// How long a statement that reads may run before the database ends it: less
/// than its caller waits, so that the caller gets the reason.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// The number of SQLite's instructions between two looks at the time; a thousand
/// take some ten microseconds.
const INSTRUCTIONS_PER_CHECK: i32 = 1_000;

/// A group of connections that read.
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    connections: Engine<Arc<SqliteReaders>, PostgresPool>,
    shares: Arc<FairShare>,
}

/// A connection that one caller reads on.
pub(crate) type Lease = Engine<SqliteLease, PostgresLease>;

impl Readers {
    /// Makes a group of `connections`, which are opened when they are needed; one
    /// organization uses at most `share` of them at once.
    pub(crate) fn sqlite(options: &SqliteConnectOptions, connections: usize, share: usize) -> Self {
        Self {
            connections: Engine::Sqlite(Arc::new(SqliteReaders {
                options: options.clone(),
                idle: Mutex::default(),
                started: Instant::now(),
            })),
            shares: FairShare::new(connections, share),
        }
    }

    /// Makes a group of the connections of a pool.
    pub(crate) fn postgres(pool: PostgresPool, connections: usize, share: usize) -> Self {
        Self {
            connections: Engine::Postgres(pool),
            shares: FairShare::new(connections, share),
        }
    }

    /// Waits for a connection for an organization, or for the service itself. SQLite
    /// plans each statement once.
    pub(crate) async fn lease(
        &self,
        holder: Holder,
        planning: Planning,
    ) -> Result<Lease, StoreError> {
        let permit = self.shares.acquire(holder).await?;
        Ok(match &self.connections {
            Engine::Sqlite(readers) => Engine::Sqlite(readers.lease(permit).await?),
            Engine::Postgres(pool) => Engine::Postgres(PostgresLease {
                connection: bounded(pool.lease(planning)).await?,
                _permit: permit,
            }),
        })
    }

    /// Returns how many of them one organization uses at most at once.
    pub(crate) fn share(&self) -> usize {
        self.shares.share()
    }

    /// Returns how they are used.
    pub(crate) fn usage(&self) -> ShareUsage {
        self.shares.usage()
    }

    /// Opens a connection to SQLite whose statements may take as long as they
    /// need; `None` on PostgreSQL.
    pub(crate) async fn unbounded(&self) -> Result<Option<SqliteConnection>, StoreError> {
        match &self.connections {
            Engine::Sqlite(readers) => Ok(Some(readers.options.connect().await?)),
            Engine::Postgres(_) => Ok(None),
        }
    }

    /// Has the idle connections to PostgreSQL checked before they are used again.
    pub(crate) fn release_idle(&self) {
        if let Engine::Postgres(pool) = &self.connections {
            pool.release_idle();
        }
    }

    /// Closes the idle connections.
    pub(crate) async fn close(&self) {
        match &self.connections {
            Engine::Sqlite(readers) => {
                let idle = std::mem::take(&mut *readers.idle());
                for mut reader in idle {
                    reader.costs.log(&mut reader.connection).await;
                    // What cannot be closed in order is closed with the process.
                    let _ = reader.connection.close().await;
                }
            }
            Engine::Postgres(pool) => pool.close().await,
        }
    }
}

/// SQLite's connections of a group: as many as it has permits.
#[derive(Debug)]
pub(crate) struct SqliteReaders {
    options: SqliteConnectOptions,
    idle: Mutex<Vec<Reader>>,
    /// When the group was made: deadlines are counted from then.
    started: Instant,
}

#[derive(Debug)]
struct Reader {
    connection: SqliteConnection,
    /// Until when its statements may run, in milliseconds since the group was
    /// made.
    deadline: Arc<AtomicU64>,
    costs: StatementCosts,
}

impl SqliteReaders {
    fn idle(&self) -> MutexGuard<'_, Vec<Reader>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn lease(self: &Arc<Self>, permit: Permit) -> Result<SqliteLease, StoreError> {
        let idle = self.idle().pop();
        let mut reader = match idle {
            Some(reader) => reader,
            None => bounded(self.connect()).await?,
        };
        let deadline = millis(self.started) + millis_of(READ_TIMEOUT);
        reader.deadline.store(deadline, Ordering::Relaxed);
        reader.costs.log(&mut reader.connection).await;
        Ok(SqliteLease {
            reader: Some(reader),
            readers: Arc::clone(self),
            _permit: permit,
        })
    }

    async fn connect(&self) -> Result<Reader, sqlx::Error> {
        let mut connection = self.options.connect().await?;
        let deadline = Arc::new(AtomicU64::new(u64::MAX));
        let started = self.started;
        let until = Arc::clone(&deadline);
        connection
            .lock_handle()
            .await?
            .set_progress_handler(INSTRUCTIONS_PER_CHECK, move || {
                millis(started) < until.load(Ordering::Relaxed)
            });
        Ok(Reader {
            connection,
            deadline,
            costs: StatementCosts::default(),
        })
    }
}

fn millis(since: Instant) -> u64 {
    millis_of(since.elapsed())
}

fn millis_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// One of SQLite's connections; a statement that still runs when this is dropped
/// is interrupted.
#[derive(Debug)]
pub(crate) struct SqliteLease {
    /// Taken only when this is dropped.
    reader: Option<Reader>,
    readers: Arc<SqliteReaders>,
    /// Free again after the connection is back.
    _permit: Permit,
}

impl Drop for SqliteLease {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.deadline.store(0, Ordering::Relaxed);
            self.readers.idle().push(reader);
        }
    }
}

impl Deref for SqliteLease {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        let reader = self.reader.as_ref();
        &reader
            .expect("a lease has the connection until it is dropped")
            .connection
    }
}

impl DerefMut for SqliteLease {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        let reader = self.reader.as_mut();
        &mut reader
            .expect("a lease has the connection until it is dropped")
            .connection
    }
}

/// One of PostgreSQL's connections.
#[derive(Debug)]
pub(crate) struct PostgresLease {
    connection: PostgresConnection,
    /// Free again after the connection is back.
    _permit: Permit,
}

/// Ends a lease whose statements have returned without an error, and keeps its connection
/// for the next one. A lease that is dropped instead costs a round trip to PostgreSQL, or a
/// new connection if it was planned [`Planning::ForValues`].
pub(crate) fn end_lease(lease: Lease) {
    if let Engine::Postgres(PostgresLease {
        connection: PostgresConnection::Session(session),
        _permit,
    }) = lease
    {
        session.keep();
    }
}

impl Deref for PostgresLease {
    type Target = sqlx_postgres::PgConnection;

    fn deref(&self) -> &sqlx_postgres::PgConnection {
        &self.connection
    }
}

impl DerefMut for PostgresLease {
    fn deref_mut(&mut self) -> &mut sqlx_postgres::PgConnection {
        &mut self.connection
    }
}

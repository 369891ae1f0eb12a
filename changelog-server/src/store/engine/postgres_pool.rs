//! A pool of connections to PostgreSQL, and how statements on it get their limits
//! of time.
//!
//! On a direct connection the limits are options of the session. A pooler in
//! transaction mode gives each transaction any session of its own, which has no such
//! options: behind a pooler every statement runs in a transaction, and the message
//! that begins the transaction sets its limits as well.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool, Postgres, QueryBuilder, SqlStr, Transaction};

/// How long a caller waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);
/// For how long a statement waits for a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// For how long a transaction may wait for its next statement.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// A setting of a session or of a transaction.
pub(super) type Setting = (&'static str, String);

/// How the service reaches the sessions of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Each connection is a session.
    Direct,
    /// A pooler chooses the session, perhaps for each transaction.
    Pooler,
}

/// How the database plans a statement that is kept prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planning {
    /// Once for all values, if that seems to cost no more.
    Automatic,
    /// Each time, for the values that it has.
    ForValues,
}

/// Connections to PostgreSQL; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct PostgresPool {
    pool: PgPool,
    route: Route,
    /// Begin a transaction that writes, one that reads, and one that reads with
    /// [`Planning::ForValues`].
    begin: SqlStr,
    begin_reading: SqlStr,
    begin_reading_for_values: SqlStr,
}

/// A connection for statements that read.
#[derive(Debug)]
pub(crate) enum PostgresConnection {
    /// Each statement is a transaction of its own.
    Single(PoolConnection<Postgres>),
    /// All statements are in a transaction, which ends when this is dropped.
    InTransaction(Transaction<'static, Postgres>),
}

impl PostgresPool {
    /// Makes a pool of at most this many connections, which are opened when they are
    /// needed; each statement may take `limit`.
    pub(super) fn new(
        options: &PgConnectOptions,
        route: Route,
        connections: usize,
        limit: Duration,
    ) -> Self {
        let limits = limits(limit);
        let (options, mut settings) = match route {
            Route::Direct => (options.clone().options(limits), Vec::new()),
            Route::Pooler => (options.clone(), Vec::from(limits)),
        };
        let begin = beginning("BEGIN", &settings);
        let begin_reading = beginning("BEGIN READ ONLY", &settings);
        settings.push(("plan_cache_mode", "force_custom_plan".to_owned()));
        Self {
            pool: PgPoolOptions::new()
                .max_connections(u32::try_from(connections).unwrap_or(u32::MAX))
                .acquire_timeout(ACQUIRE_TIMEOUT)
                .connect_lazy_with(options),
            route,
            begin,
            begin_reading,
            begin_reading_for_values: beginning("BEGIN READ ONLY", &settings),
        }
    }

    /// Waits for a connection for statements that read.
    pub(super) async fn lease(
        &self,
        planning: Planning,
    ) -> Result<PostgresConnection, sqlx::Error> {
        let begin = match (planning, self.route) {
            (Planning::Automatic, Route::Direct) => {
                return Ok(PostgresConnection::Single(self.pool.acquire().await?));
            }
            (Planning::Automatic, Route::Pooler) => &self.begin_reading,
            (Planning::ForValues, _) => &self.begin_reading_for_values,
        };
        let transaction = self.pool.begin_with(begin.clone()).await?;
        Ok(PostgresConnection::InTransaction(transaction))
    }

    /// Waits for a connection for a single statement that writes, on a direct route.
    pub(crate) async fn acquire(&self) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        self.pool.acquire().await
    }

    /// Begins a transaction that writes.
    pub(super) async fn begin(&self) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
        self.pool.begin_with(self.begin.clone()).await
    }

    /// Makes a pool for notifications, with a connection that listens and one that
    /// notifies; `None` behind a pooler, which may give the session that listens to
    /// another client.
    pub(crate) fn for_notifications(&self) -> Option<PgPool> {
        let options = self.pool.connect_options();
        (self.route == Route::Direct).then(|| {
            PgPoolOptions::new()
                .max_connections(2)
                .acquire_timeout(ACQUIRE_TIMEOUT)
                .connect_lazy_with(PgConnectOptions::clone(&options))
        })
    }

    /// Closes the connections.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

/// Returns the settings that limit the time of statements and transactions.
pub(super) fn limits(statement: Duration) -> [Setting; 3] {
    let millis = |duration: Duration| format!("{}ms", duration.as_millis());
    [
        ("statement_timeout", millis(statement)),
        ("lock_timeout", millis(LOCK_TIMEOUT)),
        ("idle_in_transaction_session_timeout", millis(IDLE_TIMEOUT)),
    ]
}

/// Begins a transaction without limits of time.
pub(super) async fn begin_unlimited(
    connection: &mut PgConnection,
) -> Result<Transaction<'_, Postgres>, sqlx::Error> {
    let settings = limits(Duration::ZERO).map(|(name, _)| (name, "0".to_owned()));
    connection.begin_with(beginning("BEGIN", &settings)).await
}

/// Returns the text that begins a transaction with settings of its own.
fn beginning(begin: &str, settings: &[Setting]) -> SqlStr {
    let mut text = QueryBuilder::<Postgres>::new(begin);
    for (name, value) in settings {
        text.push("; SET LOCAL ").push(name);
        text.push(" = '").push(value).push("'");
    }
    text.into_sql()
}

impl Deref for PostgresConnection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Single(connection) => connection,
            Self::InTransaction(transaction) => transaction,
        }
    }
}

impl DerefMut for PostgresConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Single(connection) => connection,
            Self::InTransaction(transaction) => transaction,
        }
    }
}

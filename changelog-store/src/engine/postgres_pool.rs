//! A pool of connections to PostgreSQL, and how statements on it get their limits
//! of time.
//!
//! On a direct connection the limits are options of the session. A pooler in
//! transaction mode gives each transaction any session of its own, which has no such
//! options: behind a pooler every statement runs in a transaction, and the message
//! that begins the transaction sets its limits as well.
//!
//! On a direct connection a statement takes one round trip. sqlx checks a connection
//! when it leaves its pool and when it comes back, a round trip each; so connections
//! whose statements have ended are kept here, and checked only after they were idle.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Connection, QueryBuilder, Row, SqlStr, Transaction};
use sqlx_postgres::{PgConnectOptions, PgPoolOptions};
use sqlx_postgres::{PgConnection, PgPool, Postgres};
use tokio::time::timeout;

use super::postgres_begin::begin;

/// How long a caller waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);
/// For how long a statement waits for a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// For how long a transaction may wait for its next statement.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a connection that is checked may take to answer. sqlx waits without a limit, which
/// on a connection whose other side has vanished is as long as the system sends again: a quarter
/// of an hour.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection that was idle for longer, as over a restart of the database, is
/// checked before it is used.
const MAX_UNCHECKED_IDLE: Duration = Duration::from_secs(1);
/// After this time a connection is given back to sqlx, which replaces old ones.
const MAX_KEPT: Duration = Duration::from_mins(30);

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
    /// The connections that are kept, the one that was used last at the end.
    idle: Idle,
    /// Begin a transaction that writes, one that reads, and one that reads with
    /// [`Planning::ForValues`].
    begin: SqlStr,
    begin_reading: SqlStr,
    begin_reading_for_values: SqlStr,
}

/// Connections whose statements have ended.
type Idle = Arc<Mutex<Vec<Kept>>>;

#[derive(Debug)]
struct Kept {
    connection: PoolConnection<Postgres>,
    planning: Planning,
    taken_from_pool: Instant,
    used: Instant,
}

/// A connection for statements that read.
#[derive(Debug)]
pub(crate) enum PostgresConnection {
    /// Each statement is a transaction of its own.
    Session(Session),
    /// All statements are in a transaction, which ends when this is dropped.
    InTransaction(Transaction<'static, Postgres>),
}

/// A direct connection.
#[derive(Debug)]
pub(crate) struct Session {
    /// Taken only when this ends.
    kept: Option<Kept>,
    idle: Idle,
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
                .after_release(|connection, _| Box::pin(can_be_used_again(connection)))
                .connect_lazy_with(options),
            route,
            idle: Idle::default(),
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
        let statements = match (self.route, planning) {
            (Route::Direct, planning) => {
                return Ok(PostgresConnection::Session(self.session(planning).await?));
            }
            (Route::Pooler, Planning::Automatic) => &self.begin_reading,
            (Route::Pooler, Planning::ForValues) => &self.begin_reading_for_values,
        };
        let transaction = begin(&self.pool, statements).await?;
        Ok(PostgresConnection::InTransaction(transaction))
    }

    /// Waits for a connection on a direct route.
    pub(crate) async fn session(&self, planning: Planning) -> Result<Session, sqlx::Error> {
        let mut session = match self.take_idle(planning) {
            Some(session) => session,
            None => self.new_session().await?,
        };
        if session.was_idle_for_long() {
            let answer = timeout(ANSWER_TIMEOUT, session.ping()).await;
            if !matches!(answer, Ok(Ok(()))) {
                // First, so that the pool can replace it.
                session.close();
                session = self.new_session().await?;
            }
        }
        session.set(planning).await?;
        Ok(session)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Kept>> {
        lock(&self.idle)
    }

    /// Takes an idle connection, if possible one that plans in this way already.
    fn take_idle(&self, planning: Planning) -> Option<Session> {
        let mut idle = self.idle();
        let suitable = idle.iter().rposition(|kept| kept.planning == planning);
        let number = suitable.or(idle.len().checked_sub(1))?;
        Some(Session {
            kept: Some(idle.remove(number)),
            idle: Arc::clone(&self.idle),
        })
    }

    async fn new_session(&self) -> Result<Session, sqlx::Error> {
        let connection = self.pool.acquire().await?;
        let now = Instant::now();
        Ok(Session {
            kept: Some(Kept {
                connection,
                planning: Planning::Automatic,
                taken_from_pool: now,
                used: now,
            }),
            idle: Arc::clone(&self.idle),
        })
    }

    /// Begins a transaction that writes.
    pub(super) async fn begin(&self) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
        // A transaction needs a connection of the pool, which may have none left.
        drop(self.take_idle(Planning::Automatic));
        begin(&self.pool, &self.begin).await
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

    /// Gives the idle connections back to sqlx, which checks them.
    pub(super) fn release_idle(&self) {
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
    }

    /// Closes the connections.
    pub(super) async fn close(&self) {
        self.release_idle();
        self.pool.close().await;
    }
}

/// Returns whether a connection that its caller has ended may be given to another one: its
/// server answers, and takes writes. That of a standby does not; when the address leads to the
/// primary again, only a new connection does.
async fn can_be_used_again(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let answer = sqlx::raw_sql("SHOW transaction_read_only").fetch_one(connection);
    let row = timeout(ANSWER_TIMEOUT, answer)
        .await
        .map_err(|_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()))??;
    Ok(row.try_get::<String, _>(0)? == "off")
}

fn lock(idle: &Idle) -> MutexGuard<'_, Vec<Kept>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    fn was_idle_for_long(&self) -> bool {
        (self.kept.as_ref()).is_some_and(|kept| kept.used.elapsed() > MAX_UNCHECKED_IDLE)
    }

    /// Closes the connection.
    fn close(mut self) {
        if let Some(kept) = &mut self.kept {
            kept.connection.close_on_drop();
        }
    }

    /// Has statements planned in this way from now on.
    async fn set(&mut self, planning: Planning) -> Result<(), sqlx::Error> {
        if let Some(kept) = &mut self.kept
            && kept.planning != planning
        {
            let mode = match planning {
                Planning::Automatic => "RESET plan_cache_mode",
                Planning::ForValues => "SET plan_cache_mode = force_custom_plan",
            };
            // Until it is known which mode the session has, it is not kept.
            kept.planning = Planning::ForValues;
            sqlx::raw_sql(mode).execute(&mut *kept.connection).await?;
            kept.planning = planning;
        }
        Ok(())
    }

    /// Keeps the connection for the next caller. Must be called after a statement has
    /// returned without an error, not while one is running.
    pub(crate) fn keep(mut self) {
        if let Some(mut kept) = self
            .kept
            .take_if(|kept| kept.taken_from_pool.elapsed() < MAX_KEPT)
        {
            kept.used = Instant::now();
            lock(&self.idle).push(kept);
        }
    }
}

/// After an error, or a statement that was not waited for, sqlx decides whether the
/// connection can be used again; it does not know how it plans.
impl Drop for Session {
    fn drop(&mut self) {
        if let Some(kept) = &mut self.kept
            && kept.planning != Planning::Automatic
        {
            kept.connection.close_on_drop();
        }
    }
}

impl Deref for Session {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        let kept = self.kept.as_ref();
        &kept
            .expect("a session has its connection until it ends")
            .connection
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut PgConnection {
        let kept = self.kept.as_mut();
        &mut kept
            .expect("a session has its connection until it ends")
            .connection
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
            Self::Session(session) => session,
            Self::InTransaction(transaction) => transaction,
        }
    }
}

impl DerefMut for PostgresConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Session(session) => session,
            Self::InTransaction(transaction) => transaction,
        }
    }
}

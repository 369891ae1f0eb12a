//! Opening PostgreSQL: the route to its sessions, the newest schema, the pools.
//!
//! A start reads `_sqlx_migrations` and nothing else, unless the schema is older. No
//! lock outlives its transaction: a pooler could give the session to another client
//! with the lock on it.

use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{ExponentialBuilder, Retryable};
use sqlx::migrate::Migrator;
use sqlx::{ConnectOptions, Connection, Row};
use sqlx_postgres::PgConnectOptions;
use sqlx_postgres::PgConnection;
use tokio::time::timeout;

use crate::engine::backend::{Engine, STATEMENT_TIMEOUT};
use crate::engine::connections::{Connections, ReaderGroups};
use crate::engine::fair_share::FairShare;
use crate::engine::postgres_pool::{PostgresPool, Route, begin_unlimited, limits};
use crate::engine::readers::{READ_TIMEOUT, Readers};

use super::capacity::{Capacity, HEALTH_CONNECTIONS, POINT_CONNECTIONS, SYSTEM_CONNECTIONS};
use super::error::{CONNECT_TIMEOUT, OpenError, Purpose};
use super::schema::{VERSION, is_no_table, newest, version_of};

/// How long a starting server waits for PostgreSQL, which may be starting or
/// recovering too.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The key of the lock of a migration, among the advisory locks of the database.
const MIGRATION_LOCK: i64 = 0x6368_616e_6765_6c6f;

/// Selects the migrations that a database has.
const APPLIED: &str = "SELECT version, checksum FROM _sqlx_migrations WHERE success ORDER BY 1";

/// Selects a row on a database with the extension that distributes tables.
const CITUS: &str = "SELECT 1 FROM pg_extension WHERE extname = 'citus'";

/// Counts the statements that clients of a pooler have left prepared in a session, by
/// the names that sqlx gives them. A pooler that keeps clients apart gives the
/// statements other names.
const LEFT_PREPARED: &str = "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'sqlx%'";

/// PostgreSQL's codes of a prepared statement that exists already, or that does not
/// exist.
const CONFUSED_STATEMENT: [&str; 2] = ["42P05", "26000"];

/// What pgbouncer says in `pool_mode = statement`, in which there are no transactions.
const STATEMENT_POOLING: &str = "statement pooling mode";

/// The limits on batches of writes that run at the same time: those with writes of several
/// organizations, those of one organization each, and those with writes of one organization.
/// While some wait for the disk, another one can be run; with more, each would have fewer
/// writes, and cost more.
const WRITE_BATCHES: usize = 3;
const WRITE_BATCHES_UNMIXED: usize = 5;
const WRITE_BATCHES_OF_ORGANIZATION: usize = 2;

/// A setting that PostgreSQL has only for a session that began with it.
const MARK: &str = "changelog.session";
const READ_MARK: &str = "SELECT current_setting('changelog.session', true)";

/// Opens a database on PostgreSQL; a server waits until it answers.
pub(super) async fn open(
    address: &str,
    purpose: Purpose,
    capacity: Capacity,
) -> Result<Connections, OpenError> {
    let options = PgConnectOptions::from_str(address)
        .map_err(OpenError::MalformedAddress)?
        .application_name("changelog-server")
        // Nothing reads such numbers, and a pooler refuses the parameter.
        .extra_float_digits(None);
    let started = Instant::now();
    let patience = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(Duration::from_secs(2))
        .without_max_times();
    let access = (|| prepare(&options, purpose))
        .retry(patience)
        .when(|error| {
            purpose == Purpose::Serve && error.is_transient() && started.elapsed() < START_TIMEOUT
        })
        .notify(|error, _| {
            tracing::warn!(%error, "waiting for the database");
        })
        .await?;
    Ok(pools(&options, access, capacity))
}

/// What a start finds out about the database.
#[derive(Clone, Copy)]
struct Access {
    route: Route,
    is_citus: bool,
}

/// Finds the route to the database, and brings its schema up to date.
async fn prepare(options: &PgConnectOptions, purpose: Purpose) -> Result<Access, OpenError> {
    let (mut connection, route) = connect_to_session(options).await?;
    let encoding = sqlx::raw_sql("SHOW server_encoding")
        .fetch_one(&mut connection)
        .await
        .and_then(|row| row.try_get::<String, _>(0))
        .map_err(of_connection)?;
    if encoding != "UTF8" {
        return Err(OpenError::Encoding(encoding));
    }
    migrate(&mut connection, purpose).await?;
    let citus: Option<(i32,)> = sqlx::query_as(CITUS)
        .fetch_optional(&mut connection)
        .await
        .map_err(of_connection)?;
    connection.close().await.map_err(of_connection)?;
    if route == Route::Pooler {
        tracing::info!("a pooler is in front of the database: each transaction sets its limits");
        let mut connection = connect(options).await?;
        let left = sqlx::raw_sql(LEFT_PREPARED)
            .fetch_one(&mut connection)
            .await
            .and_then(|row| row.try_get::<i64, _>(0))
            .map_err(of_connection)?;
        if left > 0 {
            return Err(OpenError::Pooler);
        }
        connection.close().await.map_err(of_connection)?;
    }
    Ok(Access {
        route,
        is_citus: citus.is_some(),
    })
}

/// Connects with options of the session, or without them if there is a pooler, which
/// ignores or refuses the options.
async fn connect_to_session(
    options: &PgConnectOptions,
) -> Result<(PgConnection, Route), OpenError> {
    let mark = rand::random::<u64>().to_string();
    let marked = options
        .clone()
        .options(limits(STATEMENT_TIMEOUT))
        .options([(MARK, &mark)]);
    let mut connection = match connect(&marked).await {
        Ok(connection) => connection,
        Err(OpenError::Connect(error)) if refuses_options(&error) => {
            return Ok((connect(options).await?, Route::Pooler));
        }
        Err(error) => return Err(error),
    };
    let found: Option<String> = sqlx::raw_sql(READ_MARK)
        .fetch_one(&mut connection)
        .await
        .and_then(|row| row.try_get(0))
        .map_err(of_connection)?;
    let route = if found == Some(mark) {
        Route::Direct
    } else {
        Route::Pooler
    };
    Ok((connection, route))
}

async fn connect(options: &PgConnectOptions) -> Result<PgConnection, OpenError> {
    match timeout(CONNECT_TIMEOUT, options.connect()).await {
        Ok(connection) => connection.map_err(of_connection),
        Err(_) => Err(OpenError::NoAnswer),
    }
}

/// Returns whether an error of connecting is about the parameters of the connection:
/// a violation of the protocol, or a feature that is not supported.
fn refuses_options(error: &sqlx::Error) -> bool {
    code_of(error).is_some_and(|code| matches!(&*code, "08P01" | "0A000"))
}

/// Classifies an error of a connection.
fn of_connection(error: sqlx::Error) -> OpenError {
    match code_of(&error) {
        Some(code) if CONFUSED_STATEMENT.contains(&&*code) => OpenError::Pooler,
        Some(_) if error.to_string().contains(STATEMENT_POOLING) => OpenError::Pooler,
        _ => OpenError::Connect(error),
    }
}

fn code_of(error: &sqlx::Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}

/// Returns the migrations.
pub(super) fn migrator() -> Migrator {
    sqlx::migrate!("migrations/postgres")
}

/// Brings the schema up to date.
async fn migrate(connection: &mut PgConnection, purpose: Purpose) -> Result<(), OpenError> {
    if purpose == Purpose::Inspect {
        let version = sqlx::query_as(VERSION).fetch_one(&mut *connection).await;
        return match version_of(version)? {
            0 => Err(OpenError::Empty),
            _ => Ok(()),
        };
    }
    let mut migrator = migrator();
    let found = match applied(connection).await? {
        Some(found) => found,
        None if purpose == Purpose::Administer => return Err(OpenError::Empty),
        None => Vec::new(),
    };
    if is_up_to_date(&migrator, &found) {
        return Ok(());
    }
    let needed = newest(&migrator);
    let found = found.last().map_or(0, |(version, _)| *version);
    if purpose == Purpose::Administer && found < needed {
        return Err(OpenError::OldSchema { found, needed });
    }
    // A migration may take as long as it needs, and so may waiting for another
    // server's. Afterwards sqlx looks again for what is to be done.
    let mut transaction = begin_unlimited(connection).await.map_err(of_connection)?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)")
        .bind(MIGRATION_LOCK)
        .execute(&mut *transaction)
        .await
        .map_err(of_connection)?;
    migrator
        .set_locking(false)
        .run(&mut *transaction)
        .await
        .map_err(OpenError::Schema)?;
    transaction.commit().await.map_err(of_connection)
}

/// Returns the migrations that a database has; `None` if it has no table of them.
async fn applied(connection: &mut PgConnection) -> Result<Option<Vec<(i64, Vec<u8>)>>, OpenError> {
    match sqlx::query_as(APPLIED).fetch_all(connection).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_no_table(&error) => Ok(None),
        Err(error) => Err(of_connection(error)),
    }
}

fn is_up_to_date(migrator: &Migrator, found: &[(i64, Vec<u8>)]) -> bool {
    let known = migrator
        .iter()
        .map(|known| (known.version, &*known.checksum));
    known.eq(found
        .iter()
        .map(|(version, checksum)| (*version, checksum.as_slice())))
}

/// Divides the connections into pools.
fn pools(
    options: &PgConnectOptions,
    Access { route, is_citus }: Access,
    capacity: Capacity,
) -> Connections {
    let pool =
        |connections: usize, limit: Duration| PostgresPool::new(options, route, connections, limit);
    let group = |connections: usize, share: usize| {
        let pool = pool(connections, READ_TIMEOUT);
        Readers::postgres(pool, connections, share)
    };
    let connections = capacity
        .postgres_connections
        .max(Capacity::MIN_CONNECTIONS)
        .try_into()
        .unwrap_or(usize::MAX);
    let rest = connections - HEALTH_CONNECTIONS - SYSTEM_CONNECTIONS - POINT_CONNECTIONS;
    let writing = rest / 2;
    let lists = rest - writing;
    let joins_scripts = !is_citus && route == Route::Direct;
    let write_batches = if joins_scripts {
        WRITE_BATCHES
    } else {
        WRITE_BATCHES_UNMIXED
    };
    let write_batches = writing.div_ceil(2).min(write_batches);
    let transactions = writing - write_batches;
    Connections {
        readers: ReaderGroups {
            health: group(HEALTH_CONNECTIONS, HEALTH_CONNECTIONS),
            system: group(SYSTEM_CONNECTIONS, SYSTEM_CONNECTIONS),
            points: group(POINT_CONNECTIONS, capacity.share_of(POINT_CONNECTIONS)),
            lists: group(lists, capacity.share_of(lists)),
        },
        // The client gives up after the same time; this ends the statement.
        writes: Engine::Postgres(pool(writing, STATEMENT_TIMEOUT)),
        write_permits: FairShare::new(transactions, capacity.share_of(transactions)),
        // One batch is kept for other organizations.
        write_batches: (
            write_batches,
            (write_batches - 1).clamp(1, WRITE_BATCHES_OF_ORGANIZATION),
        ),
        joins_scripts,
        write_outcomes: Arc::default(),
        sqlite: None,
    }
}

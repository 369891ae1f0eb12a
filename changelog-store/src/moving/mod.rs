//! Moves everything from SQLite to PostgreSQL or back, and proves it.
//!
//! Every table of the schema is copied, in the order of its foreign keys and in batches, each
//! of which is committed. A move that was interrupted continues after the last copied row of
//! each table, because rows are copied in the order of their primary keys. In the end all rows
//! of both databases are read again and compared by their digests.
//!
//! The search index is not copied but built from the changes: each database has its own.

mod cell;
mod search;
mod table;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use self::cell::Cell;
use self::table::Table;
use super::check::inspect;
use super::engine::direct::{self, Direct, run_unlimited, unlimited};
use super::engine::{Capacity, Engine, OpenError, Purpose, ServeLock, read};
use super::{CheckError, Database, Problem, Store, StoreError, placement};

/// The limits on a batch: rows, and bytes of long values.
const MAX_BATCH_ROWS: usize = 1_000;
const MAX_BATCH_BYTES: usize = 8 << 20;
/// How often progress is reported within a table.
const NOTE_INTERVAL: Duration = Duration::from_secs(5);
/// How long servers of PostgreSQL may take to disconnect.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The table that the target of a move has until the move is complete.
pub(crate) const MARK: &str = "unfinished_move";
const CREATE_MARK: &str = "CREATE TABLE unfinished_move (started_at bigint NOT NULL)";
const SQLITE_MARKED: &str = "SELECT count(*) FROM sqlite_master WHERE name = 'unfinished_move'";
const POSTGRES_MARKED: &str = "SELECT count(to_regclass('unfinished_move'))";
const DROP_MARK: &str = "DROP TABLE unfinished_move";
/// Tables that are not copied: the schema is created, and the index is built.
const NOT_COPIED: [&str; 2] = ["_sqlx_migrations", "change_search"];

const POSTGRES_TABLES: &str = "
SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()";
/// Sessions of servers, which could write while the database is copied.
const POSTGRES_SERVERS: &str = "
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'changelog-server'
    AND pid <> pg_backend_pid()";

/// What was moved.
#[derive(Clone, Debug, Serialize)]
pub struct Moved {
    /// The tables, with what was compared.
    pub tables: Vec<MovedTable>,
    /// The number of changes in the search index that was built.
    pub indexed: u64,
    /// What is wrong with the target; it was wrong with the source, too.
    pub problems: Vec<Problem>,
}

/// A table that is the same in both databases.
#[derive(Clone, Debug, Serialize)]
pub struct MovedTable {
    /// Its name.
    pub table: String,
    /// The number of rows.
    pub rows: u64,
    /// The SHA-256 of all rows, in hexadecimal digits.
    pub digest: String,
}

/// Why a move did not take place.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// Both databases are of one kind.
    #[error(
        "move copies from SQLite to PostgreSQL or back; between two of a kind use `backup` and \
         `restore`, or pg_dump"
    )]
    SameKind,
    /// Servers are connected to the PostgreSQL database.
    #[error("{0} connections of servers use the PostgreSQL database; stop the servers first")]
    Servers(i64),
    /// The target has rows of its own.
    #[error("the target is not empty: {0} has rows; move into a new database")]
    NotEmpty(String),
    /// The source has another schema than this program.
    #[error(
        "the source has the schema {found}, and this changelog-server moves the schema {needed}; \
         start it on the source once, which brings the schema up to date"
    )]
    Schema {
        /// Its number.
        found: i64,
        /// The number that is needed.
        needed: i64,
    },
    /// The database has a table that this program does not know, or lacks one.
    #[error("the tables of the PostgreSQL database are not those of this program: {0}")]
    Tables(String),
    /// A column has a type that is not copied.
    #[error("the column {column} of {table} has the type {kind}, which move does not copy")]
    Type {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Its type.
        kind: String,
    },
    /// Rows differ after the copy.
    #[error(
        "{table} differs: the source has {from} rows and the target {to}; the source was changed \
         meanwhile, or the target is damaged. Delete the target and move again"
    )]
    Different {
        /// The table.
        table: String,
        /// The rows of the source.
        from: u64,
        /// The rows of the target.
        to: u64,
    },
    /// A row cannot be written to the target.
    #[error("a row of {table} cannot be written: {source}")]
    Write {
        /// The table.
        table: String,
        /// The error of the database.
        source: sqlx::Error,
    },
    /// A database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A database cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The target cannot be checked.
    #[error(transparent)]
    Check(#[from] CheckError),
}

impl From<sqlx::Error> for MoveError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Is told what is being done.
type Note<'n> = &'n (dyn Fn(&str) + Send + Sync);

/// A move that runs.
struct Mover<'n> {
    from: Direct,
    to: Direct,
    note: Note<'n>,
}

/// Moves everything from one database to another. No server may use either.
pub async fn move_database(from: &str, to: &str, note: Note<'_>) -> Result<Moved, MoveError> {
    if from.starts_with("sqlite:") == to.starts_with("sqlite:") {
        return Err(MoveError::SameKind);
    }
    // Creates the schema of the target.
    let (store, lock) = Store::open(to, Purpose::Move, Capacity::default()).await?;
    drop(lock);
    store.close().await;
    // Held until the end.
    let _locks: [ServeLock; 2] = [
        direct::lock_out_servers(from)?,
        direct::lock_out_servers(to)?,
    ];
    let mut mover = Mover {
        from: direct::connect(from).await?,
        to: direct::connect(to).await?,
        note,
    };
    let found = direct::schema_version(&mut mover.from).await?;
    let needed = super::engine::newest_schema(from);
    if found != needed {
        return Err(MoveError::Schema { found, needed });
    }
    mover.require_no_servers().await?;
    let tables = mover.tables().await?;
    mover.begin_reading().await?;
    mover.mark_target(&tables).await?;
    for table in &tables {
        mover.copy(table).await?;
    }
    let indexed = mover.build_search().await?;
    mover.continue_places().await?;
    let mut equal = Vec::new();
    for table in &tables {
        equal.push(mover.compare(table).await?);
    }
    (mover.note)("checking the target");
    let checked = inspect(direct::connect(to).await?, to, false, &|_| {});
    let problems = checked.await?.problems;
    execute(&mut mover.to, DROP_MARK).await?;
    direct::close(mover.from).await;
    direct::close(mover.to).await;
    Ok(Moved {
        tables: equal,
        indexed,
        problems,
    })
}

async fn execute(db: &mut Direct, statement: &'static str) -> Result<(), sqlx::Error> {
    run_unlimited!(db, |db| sqlx::raw_sql(statement).execute(&mut *db))
}

impl Mover<'_> {
    /// Returns the connection to PostgreSQL, which knows the types of all columns.
    fn postgres(&mut self) -> &mut sqlx_postgres::PgConnection {
        match (&mut self.from, &mut self.to) {
            (Engine::Postgres(db), _) | (_, Engine::Postgres(db)) => db,
            _ => unreachable!("one of the two is PostgreSQL"),
        }
    }

    async fn require_no_servers(&mut self) -> Result<(), MoveError> {
        let started = Instant::now();
        loop {
            let (servers,): (i64,) = sqlx::query_as(POSTGRES_SERVERS)
                .fetch_one(self.postgres())
                .await?;
            if servers == 0 {
                return Ok(());
            }
            if started.elapsed() > DISCONNECT_TIMEOUT {
                return Err(MoveError::Servers(servers));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns the tables to copy, in the order of their foreign keys.
    async fn tables(&mut self) -> Result<Vec<Table>, MoveError> {
        let found: Vec<(String,)> = sqlx::query_as(POSTGRES_TABLES)
            .fetch_all(self.postgres())
            .await?;
        let found: BTreeSet<String> = found
            .into_iter()
            .map(|(table,)| table)
            .filter(|table| table != MARK)
            .collect();
        let in_order = placement::other_tables().chain(placement::tables_of_organizations());
        let known: BTreeSet<String> = in_order.clone().map(str::to_owned).collect();
        if found != known {
            let difference: Vec<&str> = found
                .symmetric_difference(&known)
                .map(String::as_str)
                .collect();
            return Err(MoveError::Tables(difference.join(", ")));
        }
        let mut tables = Vec::new();
        for name in in_order.filter(|name| !NOT_COPIED.contains(name)) {
            tables.push(Table::read(name, self.postgres()).await?);
        }
        Ok(tables)
    }

    /// Reads the source as of one moment.
    async fn begin_reading(&mut self) -> Result<(), sqlx::Error> {
        let begin = match &self.from {
            Engine::Sqlite(_) => "BEGIN",
            Engine::Postgres(_) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        };
        execute(&mut self.from, begin).await
    }

    /// Marks the target, so that no server uses it before the move is complete.
    async fn mark_target(&mut self, tables: &[Table]) -> Result<(), MoveError> {
        if is_marked(&mut self.to).await? {
            (self.note)("continuing the move that was interrupted");
            return Ok(());
        }
        for table in tables {
            if table.last_key(&mut self.to).await?.is_some() {
                return Err(MoveError::NotEmpty(table.name.clone()));
            }
        }
        Ok(execute(&mut self.to, CREATE_MARK).await?)
    }

    /// Copies the rows of a table that the target lacks.
    async fn copy(&mut self, table: &Table) -> Result<(), MoveError> {
        let last = table.last_key(&mut self.to).await?;
        let mut rows = table.rows(&mut self.from, last);
        let (mut batch, mut bytes): (Vec<Vec<Cell>>, usize) = (Vec::new(), 0);
        let (mut copied, mut noted) = (0_u64, Instant::now());
        while let Some(row) = rows.try_next().await? {
            bytes += row.iter().map(Cell::len).sum::<usize>();
            batch.push(row);
            copied += 1;
            if batch.len() >= MAX_BATCH_ROWS || bytes >= MAX_BATCH_BYTES {
                table
                    .insert(&mut self.to, std::mem::take(&mut batch))
                    .await?;
                bytes = 0;
                if noted.elapsed() > NOTE_INTERVAL {
                    (self.note)(&format!("{}: {copied} rows", table.name));
                    noted = Instant::now();
                }
            }
        }
        drop(rows);
        table.insert(&mut self.to, batch).await?;
        if copied > 0 {
            (self.note)(&format!("{}: copied {copied} rows", table.name));
        }
        Ok(())
    }

    /// Lets new events have later places than those of the source had.
    async fn continue_places(&mut self) -> Result<(), sqlx::Error> {
        match (&mut self.from, &mut self.to) {
            (Engine::Sqlite(from), Engine::Postgres(to)) => {
                let last: Option<(i64,)> =
                    sqlx::query_as("SELECT seq FROM sqlite_sequence WHERE name = 'events'")
                        .fetch_optional(from)
                        .await?;
                if let Some((last,)) = last.filter(|(last,)| *last > 0) {
                    sqlx::query("SELECT setval('event_places', $1)")
                        .bind(last)
                        .execute(to)
                        .await?;
                }
            }
            (Engine::Postgres(from), Engine::Sqlite(to)) => {
                let (last,): (i64,) = sqlx::query_as("SELECT last_value FROM event_places")
                    .fetch_one(from)
                    .await?;
                // There is such a row once the table had one.
                sqlx::query("DELETE FROM sqlite_sequence WHERE name = 'events'")
                    .execute(&mut *to)
                    .await?;
                sqlx::query("INSERT INTO sqlite_sequence (name, seq) VALUES ('events', $1)")
                    .bind(last)
                    .execute(to)
                    .await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Compares all rows of a table.
    async fn compare(&mut self, table: &Table) -> Result<MovedTable, MoveError> {
        let (from, from_digest) = digest(table, &mut self.from).await?;
        let (to, to_digest) = digest(table, &mut self.to).await?;
        if from_digest != to_digest {
            let table = table.name.clone();
            return Err(MoveError::Different { table, from, to });
        }
        Ok(MovedTable {
            table: table.name.clone(),
            rows: to,
            digest: to_digest,
        })
    }
}

impl Database {
    /// Returns whether the database is the target of a move that is not complete.
    pub(super) async fn is_target_of_move(&self) -> Result<bool, StoreError> {
        let select = if self.is_sqlite() {
            SQLITE_MARKED
        } else {
            POSTGRES_MARKED
        };
        let (tables,): (i64,) = read!(self.system().await?, |db| sqlx::query_as(select)
            .fetch_one(&mut **db))?;
        Ok(tables > 0)
    }
}

/// Returns whether a database is the target of a move that is not complete.
pub(super) async fn is_marked(db: &mut Direct) -> Result<bool, sqlx::Error> {
    let select = match db {
        Engine::Sqlite(_) => SQLITE_MARKED,
        Engine::Postgres(_) => POSTGRES_MARKED,
    };
    let (tables,): (i64,) = unlimited!(db, |db| sqlx::query_as(select).fetch_one(&mut *db))?;
    Ok(tables > 0)
}

/// Returns the number of rows of a table, and their digest.
async fn digest(table: &Table, db: &mut Direct) -> Result<(u64, String), sqlx::Error> {
    let (mut rows, mut count) = (table.rows(db, None), 0);
    let mut digest = Sha256::new();
    while let Some(row) = rows.try_next().await? {
        for cell in &row {
            cell.add_to(&mut digest);
        }
        count += 1;
    }
    Ok((count, hex::encode(digest.finalize())))
}

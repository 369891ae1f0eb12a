//! Copies SQLite's write-ahead log into the database, away from the connection
//! that writes.
//!
//! Most of the work, copying and syncing pages, is done while writes go on
//! (`PASSIVE`). What was written meanwhile is copied under the write lock, which
//! takes milliseconds, and only then can the log begin anew at its start. That
//! needs every reader of the log to have finished. The service's own readers
//! take milliseconds, for which this waits; for a long reader (a backup, a
//! person with the `sqlite3` program) nothing waits: the log grows by what is
//! written while the reader runs, and is truncated when it has gone.

use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::error::StoreError;
use super::file::{DataFile, WriteLock};
use crate::store::key_cache::KeyCache;

/// From this many pages of log on (16 MiB) it is copied. Fewer, and pages that
/// are written all the time are copied all the time; more, and a start after a
/// crash takes longer.
pub(crate) const LOG_PAGES: u32 = 4_000;
/// How many pages may be left to copy under the write lock (4 MiB).
const PAGES_UNDER_LOCK: i64 = 1_000;
/// How often at most pages are copied before that, each time those that were
/// written meanwhile.
const PASSES: usize = 8;
/// How long readers of the log are waited for under the write lock.
const READERS_TIMEOUT: Duration = Duration::from_millis(25);
/// A log file of more than this many bytes is truncated when it begins anew;
/// otherwise it is overwritten, which is faster to sync than a file that grows.
const LOG_FILE_LIMIT: u64 = 64 << 20;
/// How long after an attempt that a reader defeated the next one is made.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How often the operator is reminded of a log that cannot begin anew.
const REMIND_AFTER: Duration = Duration::from_mins(1);

/// Copies what readers do not keep from being copied; waits for nobody.
const PASSIVE: &str = "PRAGMA wal_checkpoint(PASSIVE)";
/// Copies all, so that the next write begins at the start of the log.
const RESTART: &str = "PRAGMA wal_checkpoint(RESTART)";
/// Copies all and cuts the file to nothing.
const TRUNCATE: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// A way to ask for the log to be copied; it never waits.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    requests: mpsc::Sender<()>,
}

impl Checkpoints {
    /// Starts the task that copies the log; it ends with this.
    pub(crate) fn start(
        options: SqliteConnectOptions,
        file: Arc<DataFile>,
        known_keys: Arc<KeyCache>,
    ) -> std::io::Result<Self> {
        let (requests, requested) = mpsc::channel(1);
        let task = Task {
            options: options
                .create_if_missing(false)
                .busy_timeout(READERS_TIMEOUT)
                .pragma("wal_autocheckpoint", "0"),
            write_lock: file.another_write_lock()?,
            file,
            known_keys,
            connection: None,
            reminded: None,
        };
        tokio::spawn(task.run(requested));
        Ok(Self { requests })
    }

    /// Asks for the log to be copied.
    pub(crate) fn request(&self) {
        // When one request waits, that is enough.
        let _ = self.requests.try_send(());
    }
}

struct Task {
    options: SqliteConnectOptions,
    file: Arc<DataFile>,
    write_lock: WriteLock,
    /// Reads how much the log holds.
    known_keys: Arc<KeyCache>,
    /// Opened when it is first needed: an admin command never gets there.
    connection: Option<SqliteConnection>,
    /// When the operator was last reminded.
    reminded: Option<Instant>,
}

/// What a checkpoint came to.
#[derive(sqlx::FromRow)]
struct Outcome {
    /// Not 0 when another process was at it, or a reader defeated it.
    busy: i64,
    /// How many pages the log holds.
    log: i64,
    /// How many of them are in the database.
    checkpointed: i64,
}

impl Outcome {
    fn left(&self) -> i64 {
        self.log - self.checkpointed
    }
}

impl Task {
    async fn run(mut self, mut requested: mpsc::Receiver<()>) {
        while requested.recv().await.is_some() {
            match self.checkpoint().await {
                Ok(true) => self.reminded = None,
                Ok(false) => {
                    self.remind();
                    tokio::time::sleep(RETRY_AFTER).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "the write-ahead log could not be copied");
                    self.connection = None;
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        }
        if let Some(connection) = self.connection {
            let _ = connection.close().await;
        }
    }

    /// Copies the log; returns whether it can begin anew.
    async fn checkpoint(&mut self) -> Result<bool, StoreError> {
        self.file.is_in_place()?;
        for _ in 0..PASSES {
            let outcome = self.pragma(PASSIVE).await?;
            // What is left of what was there at the beginning of this pass is
            // kept by a reader, which a write must not wait for.
            if outcome.left() > PAGES_UNDER_LOCK {
                return Ok(false);
            }
            let pages = self.known_keys.version().map(|now| now.log_pages());
            let written = i64::from(pages.unwrap_or(0)) - outcome.log;
            if written <= PAGES_UNDER_LOCK {
                break;
            }
        }
        let _turn = self.write_lock.take().await?;
        let outcome = self.pragma(PASSIVE).await?;
        if outcome.busy != 0 || outcome.left() > 0 {
            return Ok(false);
        }
        let mode = if self.file.wal_bytes() > LOG_FILE_LIMIT {
            TRUNCATE
        } else {
            RESTART
        };
        Ok(self.pragma(mode).await?.busy == 0)
    }

    async fn pragma(&mut self, statement: &'static str) -> Result<Outcome, StoreError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(self.options.connect().await?),
        };
        Ok(sqlx::query_as(statement).fetch_one(connection).await?)
    }

    /// Tells the operator of a log that has grown and cannot begin anew.
    fn remind(&mut self) {
        let bytes = self.file.wal_bytes();
        if bytes <= LOG_FILE_LIMIT
            || self
                .reminded
                .is_some_and(|reminded| reminded.elapsed() < REMIND_AFTER)
        {
            return;
        }
        self.reminded = Some(Instant::now());
        tracing::warn!(
            bytes,
            "the write-ahead log grows while a process reads the database: a backup, or a \
             transaction that was left open"
        );
    }
}

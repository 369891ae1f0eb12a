//! Copies SQLite's write-ahead log into the database, away from the connection
//! that writes.
//!
//! Most of the work, copying and syncing pages, is done while writes continue
//! (`PASSIVE`). What was written meanwhile is copied under the write lock, which
//! takes milliseconds, and only then can the log restart at its beginning. Every
//! reader of the log must have finished by then. The service's own readers take
//! milliseconds, for which the checkpoint waits. It does not wait for a long
//! reader (a backup, a person with the `sqlite3` program): the log grows by what
//! is written while the reader runs, and is truncated when the reader has ended.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{ConnectOptions, Connection};
use sqlx_sqlite::{SqliteConnectOptions, SqliteConnection};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::data_file::DataFile;
use super::error::StoreError;
use super::wal_index::WalIndex;
use super::write_lock::WriteLock;

/// The log is copied when it has this many pages (32 MiB). With fewer, pages that
/// are written all the time are copied all the time; with more, a start after a
/// crash takes longer.
const MIN_LOG_PAGES: u32 = 8_000;
/// The most pages that are left to be copied under the write lock (4 MiB).
const MAX_PAGES_UNDER_LOCK: i64 = 1_000;
/// The most passes over the log before that, each of which copies what was
/// written during the one before.
const MAX_PASSES: usize = 8;
/// How long readers of the log are waited for under the write lock.
const READERS_TIMEOUT: Duration = Duration::from_millis(25);
/// A log file of more than this many bytes is truncated when it restarts;
/// otherwise it is overwritten, which is faster to sync than a file that grows.
const MAX_LOG_FILE_BYTES: u64 = 64 << 20;
/// The time between an attempt that failed because of a reader and the next.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The time between two warnings that the log cannot restart.
const WARNING_INTERVAL: Duration = Duration::from_mins(1);

/// Copies the pages that no reader needs; does not wait.
const PASSIVE: &str = "PRAGMA wal_checkpoint(PASSIVE)";
/// Copies all pages, so that the next write begins at the start of the log.
const RESTART: &str = "PRAGMA wal_checkpoint(RESTART)";
/// Copies all pages and truncates the file to nothing.
const TRUNCATE: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// A handle to the task that copies the log.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    wal_index: Arc<WalIndex>,
    requests: mpsc::Sender<()>,
}

impl Checkpoints {
    /// Starts the task that copies the log; it ends with this.
    pub(crate) fn start(
        options: SqliteConnectOptions,
        file: Arc<DataFile>,
        wal_index: Arc<WalIndex>,
    ) -> std::io::Result<Self> {
        let (requests, requested) = mpsc::channel(1);
        let task = Task {
            options: options
                .create_if_missing(false)
                .busy_timeout(READERS_TIMEOUT)
                .pragma("wal_autocheckpoint", "0"),
            write_lock: file.another_write_lock()?,
            file,
            wal_index: Arc::clone(&wal_index),
            connection: None,
            warned: None,
        };
        tokio::spawn(task.run(requested));
        Ok(Self {
            wal_index,
            requests,
        })
    }

    /// Has the log copied when it has grown; does not wait.
    pub(crate) fn request_if_needed(&self) {
        let header = self.wal_index.header();
        if header.is_some_and(|header| header.log_pages() >= MIN_LOG_PAGES) {
            // When one request waits, that is enough.
            let _ = self.requests.try_send(());
        }
    }
}

struct Task {
    options: SqliteConnectOptions,
    file: Arc<DataFile>,
    write_lock: WriteLock,
    wal_index: Arc<WalIndex>,
    /// Opened when it is first needed: an admin command never gets there.
    connection: Option<SqliteConnection>,
    /// When the operator was last warned.
    warned: Option<Instant>,
}

/// The result of a checkpoint.
#[derive(sqlx::FromRow)]
struct Outcome {
    /// Not 0 when another process was copying, or a reader prevented it.
    busy: i64,
    /// How many pages the log holds.
    log: i64,
    /// How many of them were copied into the database.
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
                Ok(true) => self.warned = None,
                Ok(false) => {
                    self.warn();
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "the write-ahead log could not be copied");
                    self.connection = None;
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
        if let Some(connection) = self.connection {
            let _ = connection.close().await;
        }
    }

    /// Copies the log; returns whether the log can restart.
    async fn checkpoint(&mut self) -> Result<bool, StoreError> {
        self.file.check_in_place()?;
        for _ in 0..MAX_PASSES {
            let outcome = self.pragma(PASSIVE).await?;
            // Pages that were there when this pass began, and are left, are
            // needed by a reader, which a write must not wait for.
            if outcome.left() > MAX_PAGES_UNDER_LOCK {
                return Ok(false);
            }
            let pages = self.wal_index.header().map(|header| header.log_pages());
            let written = i64::from(pages.unwrap_or(0)) - outcome.log;
            if written <= MAX_PAGES_UNDER_LOCK {
                break;
            }
        }
        let _guard = self.write_lock.acquire().await?;
        let outcome = self.pragma(PASSIVE).await?;
        if outcome.busy != 0 || outcome.left() > 0 {
            return Ok(false);
        }
        let mode = if self.file.wal_bytes() > MAX_LOG_FILE_BYTES {
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

    /// Warns the operator of a log that has grown and cannot restart.
    fn warn(&mut self) {
        let bytes = self.file.wal_bytes();
        if bytes <= MAX_LOG_FILE_BYTES
            || self
                .warned
                .is_some_and(|warned| warned.elapsed() < WARNING_INTERVAL)
        {
            return;
        }
        self.warned = Some(Instant::now());
        tracing::warn!(
            bytes,
            "the write-ahead log grows while a process reads the database: a backup, or a \
             transaction that was left open"
        );
    }
}

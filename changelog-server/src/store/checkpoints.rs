//! Folding SQLite's write-ahead log into the database beside the writer.
//!
//! By itself SQLite does this within the COMMIT that finds the log long enough:
//! that one write waits for thousands of pages and two fsyncs. Here another
//! connection does it while the writer goes on, so that little is left for the
//! writer, which alone can begin the log anew. The database is just as safe at
//! every moment: a page that is folded in stays in the log until then.

use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Executor};
use tokio::sync::Notify;

/// How often the log is folded in while there are writes. Pages that are
/// written all the time are folded in once each time, whatever their number.
const INTERVAL: Duration = Duration::from_millis(200);

/// A way to the task that folds in.
#[derive(Debug)]
pub(super) struct Checkpoints {
    written: Arc<Notify>,
    task: tokio::task::JoinHandle<()>,
}

impl Checkpoints {
    /// Starts the task; it ends with this.
    pub(super) fn start(options: SqliteConnectOptions) -> Self {
        let written = Arc::new(Notify::new());
        let task = tokio::spawn(fold_in(options, Arc::clone(&written)));
        Self { written, task }
    }

    /// Tells that there is something to fold in.
    pub(super) fn written(&self) {
        self.written.notify_one();
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn fold_in(options: SqliteConnectOptions, written: Arc<Notify>) {
    let mut connection: Option<SqliteConnection> = None;
    loop {
        written.notified().await;
        tokio::time::sleep(INTERVAL).await;
        if connection.is_none() {
            connection = options.connect().await.ok();
        }
        if let Some(open) = &mut connection
            && let Err(error) = open.execute("PRAGMA wal_checkpoint(PASSIVE)").await
        {
            // Whatever it is, the writer meets it too, and says so.
            tracing::debug!(%error, "the write-ahead log could not be folded in");
            connection = None;
        }
    }
}

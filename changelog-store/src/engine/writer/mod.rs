//! SQLite's one writer. Writes that wait at the same moment share one COMMIT,
//! and so one fsync, independently of each other.
//!
//! The writer is a task that owns the connection and takes jobs from a queue: it
//! lends the connection to a transaction ([`Writer::begin`]), or runs a script
//! ([`Writer::run`]). Each job of a group has a savepoint of its own. When no
//! other job waits, or the group is full or old, the writer runs COMMIT and
//! answers all jobs of the group. A job that fails, or whose [`SqliteTx`] is
//! dropped without a commit, is rolled back to its savepoint, and the rest of
//! the group continues.
//!
//! When COMMIT fails, or SQLite itself rolled the whole transaction back (disk
//! full, an I/O error), which shows in a savepoint that is gone, all jobs of the
//! group fail. After an I/O error of COMMIT they fail with
//! [`StoreError::Uncertain`]: what could not be synced may be recorded
//! nevertheless.
//!
//! A job whose caller has left, because its time ran out, is dropped before it
//! begins.

mod job;
mod task;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use prometheus_client::metrics::histogram::Histogram;
use sqlx_sqlite::Sqlite;
use sqlx_sqlite::{SqliteConnectOptions, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

pub(crate) use job::SqliteTx;

use super::batcher::batch_histogram;
use super::checkpoint::Checkpoints;
use super::data_file::DataFile;
use super::error::StoreError;
use super::generation::Generations;
use super::script::Script;
use super::statement_costs::StatementCosts;
use job::{Job, stopped};
use task::Task;

/// How many jobs the queue holds; beyond that a caller waits to submit one.
const MAX_QUEUED_JOBS: usize = 1_024;
/// A handle to the task that writes.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Job>,
    group_jobs: Histogram,
}

impl Writer {
    /// Starts the task that owns the connection; it ends when every `Writer`
    /// is dropped.
    pub(crate) fn start(
        options: SqliteConnectOptions,
        connection: SqliteConnection,
        file: Arc<DataFile>,
        generations: Arc<Generations>,
        checkpoints: Checkpoints,
    ) -> Self {
        let (queue, jobs) = mpsc::channel(MAX_QUEUED_JOBS);
        let group_jobs = batch_histogram();
        let task = Task {
            group_jobs: group_jobs.clone(),
            options,
            file,
            generations,
            checkpoints,
            connection: Some(Box::new(connection)),
            costs: StatementCosts::default(),
            jobs,
            next: None,
        };
        tokio::spawn(task.run());
        Self { queue, group_jobs }
    }

    /// Returns how many jobs wait.
    pub(crate) fn queued_jobs(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    /// Returns how many jobs share a COMMIT.
    pub(crate) fn group_jobs(&self) -> Histogram {
        self.group_jobs.clone()
    }

    /// Waits for the connection, inside a savepoint.
    pub(crate) async fn begin(&self) -> Result<SqliteTx, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.submit(Job::Transaction(reply)).await?;
        answer.await.map_err(|_| stopped())?
    }

    /// Begins a script for [`Self::run`].
    pub(crate) fn script() -> Script<Sqlite> {
        let mut script = Script::new();
        script.statement("SAVEPOINT job");
        script
    }

    /// Runs a script that only adds rows, and waits for its COMMIT. In one go,
    /// because each statement by itself costs two switches of thread.
    pub(crate) async fn run(&self, mut script: Script<Sqlite>) -> Result<(), StoreError> {
        // The outermost savepoint is a transaction, and its release a COMMIT.
        script.statement("RELEASE job");
        let (waiter, answer) = oneshot::channel();
        self.submit(Job::Script(Box::new(script), waiter)).await?;
        answer.await.map_err(|_| stopped())?
    }

    async fn submit(&self, job: Job) -> Result<(), StoreError> {
        self.queue.send(job).await.map_err(|_| stopped())
    }
}

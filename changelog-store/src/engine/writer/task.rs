//! The task that owns the connection that writes, and runs jobs in groups.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::metrics::histogram::Histogram;
use sqlx::{ConnectOptions, Connection, Executor};
use sqlx_sqlite::Sqlite;
use sqlx_sqlite::{SqliteConnectOptions, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use super::job::{CommitWaiter, Job, Released, SqliteTx, stopped};
use crate::engine::checkpoint::Checkpoints;
use crate::engine::data_file::DataFile;
use crate::engine::error::StoreError;
use crate::engine::generation::Generations;
use crate::engine::script::Script;
use crate::engine::statement_costs::StatementCosts;
use crate::engine::write_lock::LockGuard;

/// The most jobs that share a COMMIT.
const MAX_GROUP_JOBS: usize = 256;
/// How long a group may wait for its COMMIT while more jobs arrive.
const MAX_GROUP_AGE: Duration = Duration::from_millis(20);
/// How long the writer waits for one statement, or for a transaction to return
/// the connection. A transaction that holds it for longer loses it.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// Jobs that share a COMMIT.
#[derive(Default)]
struct Group {
    state: State,
    /// Of jobs that succeeded.
    waiters: Vec<CommitWaiter>,
    /// Of scripts that failed by themselves.
    failed: Vec<(CommitWaiter, StoreError)>,
    /// Whether the connection was lent: then it is not known what was written.
    was_lent: bool,
}

/// Where the transaction of a group is between two jobs.
#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    NotBegun,
    /// Begun, outside of any savepoint.
    Begun,
    /// Inside the savepoint of the last job, which the next job or the COMMIT
    /// releases: a statement by itself costs two switches of thread.
    InSavepoint,
}

impl State {
    /// Returns what is executed to begin a savepoint.
    fn begin_savepoint(self) -> &'static str {
        match self {
            Self::NotBegun => "BEGIN IMMEDIATE; SAVEPOINT job",
            Self::Begun => "SAVEPOINT job",
            Self::InSavepoint => "RELEASE job; SAVEPOINT job",
        }
    }

    /// Returns what is executed before a script, which begins its own savepoint.
    fn before_script(self) -> Option<&'static str> {
        match self {
            Self::NotBegun => Some("BEGIN IMMEDIATE"),
            Self::Begun => None,
            Self::InSavepoint => Some("RELEASE job"),
        }
    }

    /// Returns what is executed to commit.
    fn commit(self) -> &'static str {
        match self {
            Self::NotBegun | Self::Begun => "COMMIT",
            Self::InSavepoint => "RELEASE job; COMMIT",
        }
    }
}

pub(super) struct Task {
    /// How many jobs shared a COMMIT.
    pub(super) group_jobs: Histogram,
    pub(super) options: SqliteConnectOptions,
    pub(super) file: Arc<DataFile>,
    pub(super) generations: Arc<Generations>,
    pub(super) checkpoints: Checkpoints,
    /// `None` after it was lost; the next group opens another.
    pub(super) connection: Option<Box<SqliteConnection>>,
    pub(super) costs: StatementCosts,
    pub(super) jobs: mpsc::Receiver<Job>,
    /// The next job, when it was taken from the queue already.
    pub(super) next: Option<Job>,
}

impl Task {
    pub(super) async fn run(mut self) {
        while let Some(first) = self.wait_for_job().await {
            match self.prepare().await {
                Ok(guard) => self.run_group(guard, first).await,
                Err(error) => self.refuse_all(first, &error),
            }
            self.checkpoints.request_if_needed();
        }
        if let Some(connection) = self.connection.take() {
            // Checkpoints and removes the write-ahead log.
            let _ = connection.close().await;
        }
    }

    /// Waits for a job whose caller still waits: what was answered with a timeout
    /// must not be recorded afterwards.
    async fn wait_for_job(&mut self) -> Option<Job> {
        if self.has_next() {
            return self.next.take();
        }
        loop {
            let job = self.jobs.recv().await?;
            if !job.is_abandoned() {
                return Some(job);
            }
        }
    }

    /// Returns whether a job waits already, whose caller still waits.
    fn has_next(&mut self) -> bool {
        while self.next.as_ref().is_none_or(Job::is_abandoned) {
            self.next = self.jobs.try_recv().ok();
            if self.next.is_none() {
                return false;
            }
        }
        true
    }

    /// Acquires the write lock and makes sure of the file and the connection.
    async fn prepare(&mut self) -> Result<LockGuard, StoreError> {
        self.file.check_in_place()?;
        let guard = self.file.lock_for_writing().await?;
        if self.connection.is_none() {
            self.connection = Some(Box::new(self.options.connect().await?));
        }
        Ok(guard)
    }

    /// Refuses a job and all that wait: each of them would wait as long as the
    /// first did.
    fn refuse_all(&mut self, first: Job, error: &StoreError) {
        let mut job = Some(first);
        while let Some(refused) = job {
            refused.refuse(error.clone());
            job = self.next.take().or_else(|| self.jobs.try_recv().ok());
        }
    }

    /// Runs a group of jobs and answers them.
    async fn run_group(&mut self, guard: LockGuard, first: Job) {
        let before = self.generations.before();
        let mut group = Group::default();
        let result = self.fill_group(first, &mut group).await;
        if result.is_ok() && !group.was_lent {
            self.generations.extend(&before);
        }
        // The lock is released before callers are answered: another process must
        // not wait for them.
        drop(guard);
        if let Err(error) = &result {
            tracing::error!(%error, writes = group.waiters.len(), "a group of writes failed");
            self.roll_back().await;
        }
        let jobs = u32::try_from(group.waiters.len()).unwrap_or(u32::MAX);
        self.group_jobs.observe(jobs.into());
        for waiter in group.waiters {
            // No job is at fault when its group fails.
            let outcome = result.clone().map_err(|error| match error {
                error @ (StoreError::Unavailable(_) | StoreError::Uncertain(_)) => error,
                other => StoreError::Unavailable(other.to_string()),
            });
            let _ = waiter.send(outcome);
        }
        for (waiter, error) in group.failed {
            let _ = waiter.send(Err(error));
        }
        self.log_costs().await;
    }

    async fn log_costs(&mut self) {
        if let Some(connection) = &mut self.connection {
            self.costs.log(connection).await;
        }
    }

    /// Runs one job after the other and commits. An error means that the whole
    /// group has failed.
    async fn fill_group(&mut self, first: Job, group: &mut Group) -> Result<(), StoreError> {
        let opened = Instant::now();
        let mut job = first;
        loop {
            match job {
                Job::Script(script, waiter)
                    if matches!(group.state, State::NotBegun) && !self.has_next() =>
                {
                    self.run_alone(script, waiter, group).await;
                    return Ok(());
                }
                Job::Script(script, waiter) => self.run_script(script, waiter, group).await?,
                Job::Transaction(reply) => self.lend(reply, group).await?,
            }
            self.log_costs().await;
            let full = group.waiters.len() >= MAX_GROUP_JOBS || opened.elapsed() >= MAX_GROUP_AGE;
            match self.has_next().then(|| self.next.take()).flatten() {
                Some(next) if !full => job = next,
                next => {
                    self.next = next;
                    return self.commit(group.state).await;
                }
            }
        }
    }

    /// Runs a script that is the only job of its group, from its beginning to its
    /// COMMIT in one go. Not bounded, like [`Self::commit`].
    async fn run_alone(
        &mut self,
        mut script: Box<Script<Sqlite>>,
        waiter: CommitWaiter,
        group: &mut Group,
    ) {
        let outcome = match self.connection.as_mut() {
            Some(connection) => script.execute(connection).await,
            None => Err(sqlx::Error::WorkerCrashed),
        };
        match outcome {
            Ok(()) => group.waiters.push(waiter),
            Err(error) => {
                self.roll_back().await;
                let error = StoreError::of_commit(error);
                group.failed.push((waiter, error));
            }
        }
    }

    /// Runs a script that is one of several jobs.
    async fn run_script(
        &mut self,
        mut script: Box<Script<Sqlite>>,
        waiter: CommitWaiter,
        group: &mut Group,
    ) -> Result<(), StoreError> {
        if let Some(statement) = group.state.before_script()
            && let Err(error) = self.execute(statement).await
        {
            group.waiters.push(waiter);
            return Err(error);
        }
        let Some(connection) = self.connection.as_mut() else {
            group.waiters.push(waiter);
            return Err(stopped());
        };
        match tokio::time::timeout(STEP_TIMEOUT, script.execute(connection)).await {
            Ok(Ok(())) => {
                group.waiters.push(waiter);
                group.state = State::Begun;
                Ok(())
            }
            Ok(Err(error)) => {
                group.failed.push((waiter, error.into()));
                group.state = State::InSavepoint;
                self.execute("ROLLBACK TO job").await
            }
            Err(_) => {
                group.waiters.push(waiter);
                Err(no_answer())
            }
        }
    }

    /// Lends the connection to one transaction.
    async fn lend(
        &mut self,
        reply: oneshot::Sender<Result<SqliteTx, StoreError>>,
        group: &mut Group,
    ) -> Result<(), StoreError> {
        if let Err(error) = self.execute(group.state.begin_savepoint()).await {
            let _ = reply.send(Err(error.clone()));
            return Err(error);
        }
        group.state = State::InSavepoint;
        group.was_lent = true;
        let Some(connection) = self.connection.take() else {
            return Err(stopped());
        };
        let (release, released) = oneshot::channel();
        let tx = SqliteTx {
            connection: Some(connection),
            release: Some(release),
        };
        // A caller that has left meanwhile drops the transaction, which releases
        // the connection.
        let _ = reply.send(Ok(tx));
        let released = tokio::time::timeout(STEP_TIMEOUT, released).await;
        let Ok(Ok(Released { connection, commit })) = released else {
            return Err(StoreError::Unavailable(
                "a write held the connection for too long".into(),
            ));
        };
        self.connection = Some(connection);
        if let Some(waiter) = commit {
            // In the group whatever happens next: it must be answered either way.
            group.waiters.push(waiter);
            Ok(())
        } else {
            self.execute("ROLLBACK TO job").await
        }
    }

    /// Commits a group. Not bounded: an fsync takes as long as it takes, and a
    /// COMMIT whose outcome is unknown would be worse than a late one.
    async fn commit(&mut self, state: State) -> Result<(), StoreError> {
        let Some(connection) = self.connection.as_mut() else {
            return Err(stopped());
        };
        let committed = connection.execute(state.commit()).await;
        committed.map(drop).map_err(StoreError::of_commit)
    }

    async fn execute(&mut self, statement: &'static str) -> Result<(), StoreError> {
        let Some(connection) = self.connection.as_mut() else {
            return Err(stopped());
        };
        match tokio::time::timeout(STEP_TIMEOUT, connection.execute(statement)).await {
            Ok(result) => Ok(result.map(drop)?),
            Err(_) => Err(no_answer()),
        }
    }

    /// Rolls back what is left of a failed group. A connection that cannot even
    /// do that is replaced.
    async fn roll_back(&mut self) {
        let Some(connection) = self.connection.as_mut() else {
            return;
        };
        let rolled_back = connection.execute("ROLLBACK").await;
        if rolled_back.is_err() && connection.execute("SELECT 1").await.is_err() {
            self.connection = None;
        }
    }
}

fn no_answer() -> StoreError {
    StoreError::Unavailable("the database did not answer in time".into())
}

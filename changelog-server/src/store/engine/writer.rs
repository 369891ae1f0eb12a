//! SQLite's one writer. Writes that wait at the same moment share one COMMIT,
//! and so one fsync, without knowing of each other.
//!
//! The writer is a task that owns the connection. [`Writer::begin`] asks it for
//! the connection and gets it, inside a savepoint, as a [`SqliteTx`].
//! [`SqliteTx::commit`] gives the connection back and waits; the writer releases
//! the savepoint and hands the connection to the next in line. When nobody
//! waits, or the group is full or old, it runs COMMIT and tells everybody in the
//! group. A `SqliteTx` that is dropped (an error, a cancelled request) is
//! rolled back to its savepoint, and the rest of the group goes on.
//!
//! When COMMIT fails, or SQLite itself rolled the whole transaction back (disk
//! full, an I/O error), which shows in a savepoint that is gone, everybody in
//! the group gets the error. After an I/O error of COMMIT that is
//! [`StoreError::Uncertain`]: what could not be synced may be there all the same.
//!
//! A request whose caller has gone, because its time ran out, is dropped before
//! the work begins.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Executor, Sqlite};
use tokio::sync::{mpsc, oneshot};

use super::Script;
use super::checkpoint::{self, Checkpoints};
use super::error::StoreError;
use super::file::{DataFile, Turn};
use super::version::Version;
use crate::store::key_cache::KeyCache;

/// The most writes that share a COMMIT.
const GROUP_SIZE: usize = 256;
/// How long a group may wait for its COMMIT while more writes arrive.
const GROUP_AGE: Duration = Duration::from_millis(20);
/// How many writes may wait for the writer before a caller waits for a place.
const QUEUE: usize = 1_024;
/// How long the writer waits for one statement or for a caller to give the
/// connection back. A caller that holds on to it for longer loses it.
const LEASE: Duration = Duration::from_secs(10);

type Waiting = oneshot::Sender<Result<(), StoreError>>;
type Borrower = oneshot::Sender<Result<SqliteTx, StoreError>>;

impl Request {
    /// Returns whether nobody waits for the outcome any more.
    fn is_abandoned(&self) -> bool {
        match self {
            Self::Lend(borrower) => borrower.is_closed(),
            Self::Run(_, waiting) => waiting.is_closed(),
        }
    }
}

/// A way to the task that writes.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Request>,
}

/// What the writer is asked for.
enum Request {
    /// The connection, for a transaction.
    Lend(Borrower),
    /// To run statements that are a transaction of their own, from BEGIN to
    /// COMMIT.
    Run(Box<Script<Sqlite>>, Waiting),
}

impl Writer {
    /// Starts the task that owns the connection; it ends when every `Writer`
    /// is gone.
    pub(crate) fn start(
        options: SqliteConnectOptions,
        connection: SqliteConnection,
        file: Arc<DataFile>,
        known_keys: Arc<KeyCache>,
        checkpoints: Checkpoints,
    ) -> Self {
        let (queue, requests) = mpsc::channel(QUEUE);
        let task = Task {
            options,
            file,
            known_keys,
            checkpoints,
            connection: Some(Box::new(connection)),
            requests,
            late: None,
        };
        tokio::spawn(task.run());
        Self { queue }
    }

    /// Waits for the connection, inside a savepoint of its own.
    pub(crate) async fn begin(&self) -> Result<SqliteTx, StoreError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Lend(reply);
        self.queue.send(request).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Runs a transaction that is known from the beginning and touches no key:
    /// in one go, because each way to the connection's thread and back costs two switches of
    /// thread.
    pub(crate) async fn run(&self, mut script: Script<Sqlite>) -> Result<(), StoreError> {
        script.statement("COMMIT");
        let script = Box::new(script);
        let (done, answer) = oneshot::channel();
        let request = Request::Run(script, done);
        self.queue.send(request).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Begins a transaction for [`Self::run`].
    pub(crate) fn script() -> Script<Sqlite> {
        let mut script = Script::new();
        script.statement("BEGIN IMMEDIATE");
        script
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the writer has stopped".into())
}

/// The connection on loan to one transaction.
#[derive(Debug)]
pub(crate) struct SqliteTx {
    /// Taken only when the loan ends.
    connection: Option<Box<SqliteConnection>>,
    back: Option<oneshot::Sender<Returned>>,
}

#[derive(Debug)]
struct Returned {
    connection: Box<SqliteConnection>,
    /// Whom to tell of the COMMIT; `None` rolls back.
    commit: Option<Waiting>,
}

impl SqliteTx {
    /// Gives the connection back and waits until COMMIT has returned.
    ///
    /// # Errors
    /// [`StoreError::Uncertain`] when it is not known whether COMMIT took place.
    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        let (done, answer) = oneshot::channel();
        if !self.give_back(Some(done)) {
            return Err(gone());
        }
        answer
            .await
            .map_err(|_| StoreError::Uncertain("the writer has stopped".into()))?
    }

    /// Returns whether the writer took the connection back: it may have given
    /// it up, or be gone with the runtime. Then nobody commits.
    fn give_back(&mut self, commit: Option<Waiting>) -> bool {
        match (self.connection.take(), self.back.take()) {
            (Some(connection), Some(back)) => back.send(Returned { connection, commit }).is_ok(),
            _ => false,
        }
    }
}

impl Drop for SqliteTx {
    fn drop(&mut self) {
        self.give_back(None);
    }
}

impl Deref for SqliteTx {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        self.connection
            .as_ref()
            .expect("the connection is there until the loan ends")
    }
}

impl DerefMut for SqliteTx {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.connection
            .as_mut()
            .expect("the connection is there until the loan ends")
    }
}

struct Task {
    options: SqliteConnectOptions,
    file: Arc<DataFile>,
    known_keys: Arc<KeyCache>,
    checkpoints: Checkpoints,
    /// `None` after it was lost; the next group opens another.
    connection: Option<Box<SqliteConnection>>,
    requests: mpsc::Receiver<Request>,
    /// What was asked for when a group was full.
    late: Option<Request>,
}

impl Task {
    async fn run(mut self) {
        while let Some(first) = self.next().await {
            match self.open_group().await {
                Ok(turn) => match first {
                    Request::Lend(first) => self.lend_to_group(turn, first).await,
                    Request::Run(mut script, waiting) => {
                        let outcome = self.run_script(&mut script).await;
                        drop(turn);
                        let _ = waiting.send(outcome);
                    }
                },
                Err(error) => self.refuse_all(first, &error),
            }
            self.bound_log();
        }
        if let Some(connection) = self.connection.take() {
            // Checkpoints and removes the write-ahead log.
            let _ = connection.close().await;
        }
    }

    /// Lends the connection to a group and tells everybody what became of it.
    async fn lend_to_group(&mut self, turn: Turn, first: Borrower) {
        let mut group = Vec::new();
        let result = self.fill_group(first, &mut group).await;
        // The turn goes on before anybody is told: another process must not
        // wait for our callers.
        drop(turn);
        if let Err(error) = &result {
            tracing::error!(%error, writes = group.len(), "a group of writes failed");
            self.abandon().await;
        }
        for waiting in group {
            // Of what failed with the group, nobody is at fault.
            let outcome = result.clone().map_err(|error| match error {
                error @ (StoreError::Unavailable(_) | StoreError::Uncertain(_)) => error,
                other => StoreError::Unavailable(other.to_string()),
            });
            let _ = waiting.send(outcome);
        }
    }

    /// Refuses a request and all that wait behind it: each of them would wait
    /// as long as the first did.
    fn refuse_all(&mut self, first: Request, error: &StoreError) {
        let mut request = Some(first);
        while let Some(refused) = request {
            match refused {
                Request::Lend(borrower) => drop(borrower.send(Err(error.clone()))),
                Request::Run(_, waiting) => drop(waiting.send(Err(error.clone()))),
            }
            request = self.requests.try_recv().ok();
        }
    }

    /// Runs a transaction in one go. Not bounded: an fsync takes as long as it
    /// takes, and a COMMIT whose outcome is unknown would be worse than a late
    /// one.
    async fn run_script(&mut self, script: &mut Script<Sqlite>) -> Result<(), StoreError> {
        let Some(connection) = self.connection.as_mut() else {
            return Err(gone());
        };
        let before = self.known_keys.version();
        let outcome = script.execute(connection).await;
        match &outcome {
            Ok(()) => {
                let after = self.known_keys.version();
                self.known_keys.carry_on(before, after);
            }
            Err(_) => self.abandon().await,
        }
        outcome.map_err(StoreError::of_commit)
    }

    /// Waits for what is next that somebody still waits for: what was answered
    /// with a timeout must not be recorded afterwards.
    async fn next(&mut self) -> Option<Request> {
        loop {
            let next = match self.late.take() {
                Some(late) => late,
                None => self.requests.recv().await?,
            };
            if !next.is_abandoned() {
                return Some(next);
            }
        }
    }

    /// Returns what waits already, like [`Self::next`].
    fn next_now(&mut self) -> Option<Request> {
        loop {
            let next = self.requests.try_recv().ok()?;
            if !next.is_abandoned() {
                return Some(next);
            }
        }
    }

    /// Takes the turn and makes sure of the file.
    async fn open_group(&mut self) -> Result<Turn, StoreError> {
        self.file.is_in_place()?;
        let turn = self.file.turn().await?;
        if self.connection.is_none() {
            self.connection = Some(Box::new(self.options.connect().await?));
        }
        Ok(turn)
    }

    /// Lends the connection to one after the other and commits. An error means
    /// that the whole group is lost.
    async fn fill_group(
        &mut self,
        first: Borrower,
        group: &mut Vec<Waiting>,
    ) -> Result<(), StoreError> {
        let opened = Instant::now();
        let mut borrower = first;
        let mut begin = "BEGIN IMMEDIATE; SAVEPOINT one";
        loop {
            self.lend(borrower, begin, group).await?;
            let full = group.len() >= GROUP_SIZE || opened.elapsed() >= GROUP_AGE;
            match self.next_now() {
                Some(Request::Lend(next)) if !full => borrower = next,
                // What came too late for this group begins the next one.
                late => {
                    self.late = late;
                    return self.commit().await;
                }
            }
            self.execute("RELEASE one").await?;
            begin = "SAVEPOINT one";
        }
    }

    /// Lends the connection to one borrower, inside a savepoint that is left
    /// for what comes next to end: each statement by itself costs two switches
    /// of thread.
    async fn lend(
        &mut self,
        borrower: Borrower,
        begin: &'static str,
        group: &mut Vec<Waiting>,
    ) -> Result<(), StoreError> {
        if let Err(error) = self.execute(begin).await {
            let _ = borrower.send(Err(error.clone()));
            return Err(error);
        }
        let Some(connection) = self.connection.take() else {
            return Err(gone());
        };
        let (back, returned) = oneshot::channel();
        let loan = SqliteTx {
            connection: Some(connection),
            back: Some(back),
        };
        // A borrower that went away meanwhile drops the loan, which returns it.
        let _ = borrower.send(Ok(loan));
        let returned = tokio::time::timeout(LEASE, returned).await;
        let Ok(Ok(Returned { connection, commit })) = returned else {
            return Err(StoreError::Unavailable(
                "a write held the connection for too long".into(),
            ));
        };
        self.connection = Some(connection);
        if let Some(waiting) = commit {
            // In the group whatever happens next: it must be told either way.
            group.push(waiting);
            Ok(())
        } else {
            self.execute("ROLLBACK TO one").await
        }
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        // Not bounded: an fsync takes as long as it takes, and a COMMIT whose
        // outcome is unknown would be worse than a late one.
        let Some(connection) = self.connection.as_mut() else {
            return Err(gone());
        };
        let committed = connection.execute("RELEASE one; COMMIT").await;
        committed.map(drop).map_err(StoreError::of_commit)
    }

    async fn execute(&mut self, statement: &'static str) -> Result<(), StoreError> {
        let Some(connection) = self.connection.as_mut() else {
            return Err(gone());
        };
        match tokio::time::timeout(LEASE, connection.execute(statement)).await {
            Ok(result) => Ok(result.map(drop)?),
            Err(_) => Err(StoreError::Unavailable(
                "the database did not answer in time".into(),
            )),
        }
    }

    /// Rolls back what is left of a failed group. A connection that cannot even
    /// do that is replaced.
    async fn abandon(&mut self) {
        let Some(connection) = self.connection.as_mut() else {
            return;
        };
        let rolled_back = connection.execute("ROLLBACK").await;
        if rolled_back.is_err() && connection.execute("SELECT 1").await.is_err() {
            self.connection = None;
        }
    }

    /// Has the write-ahead log copied when it has grown.
    fn bound_log(&self) {
        let grown = |version: Version| version.log_pages() >= checkpoint::LOG_PAGES;
        if self.known_keys.version().is_some_and(grown) {
            self.checkpoints.request();
        }
    }
}

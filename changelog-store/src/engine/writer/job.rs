//! Jobs of the writer, and the connection while one has it.

use std::ops::{Deref, DerefMut};

use sqlx_sqlite::Sqlite;
use sqlx_sqlite::SqliteConnection;
use tokio::sync::oneshot;

use crate::engine::error::StoreError;
use crate::engine::script::Script;

/// Who waits for the COMMIT of a job.
pub(super) type CommitWaiter = oneshot::Sender<Result<(), StoreError>>;

/// What the writer does for one caller.
pub(super) enum Job {
    /// Lends the connection to a transaction.
    Transaction(oneshot::Sender<Result<SqliteTx, StoreError>>),
    /// Runs a script.
    Script(Box<Script<Sqlite>>, CommitWaiter),
}

impl Job {
    /// Returns whether its caller has left.
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            Self::Transaction(reply) => reply.is_closed(),
            Self::Script(_, waiter) => waiter.is_closed(),
        }
    }

    pub(super) fn refuse(self, error: StoreError) {
        match self {
            Self::Transaction(reply) => drop(reply.send(Err(error))),
            Self::Script(_, waiter) => drop(waiter.send(Err(error))),
        }
    }
}

pub(super) fn stopped() -> StoreError {
    StoreError::Unavailable("the writer has stopped".into())
}

/// The connection while it is lent to one transaction.
#[derive(Debug)]
pub(crate) struct SqliteTx {
    /// `None` only after it was released.
    pub(super) connection: Option<Box<SqliteConnection>>,
    pub(super) release: Option<oneshot::Sender<Released>>,
}

/// The connection as a transaction returns it.
#[derive(Debug)]
pub(super) struct Released {
    pub(super) connection: Box<SqliteConnection>,
    /// Who waits for the COMMIT; `None` rolls back.
    pub(super) commit: Option<CommitWaiter>,
}

impl SqliteTx {
    /// Returns the connection and waits until COMMIT has returned.
    ///
    /// # Errors
    /// [`StoreError::Uncertain`] when it is not known whether COMMIT took place.
    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        let (waiter, answer) = oneshot::channel();
        if !self.release(Some(waiter)) {
            return Err(stopped());
        }
        answer
            .await
            .map_err(|_| StoreError::Uncertain("the writer has stopped".into()))?
    }

    /// Returns the connection. Returns whether the writer took it: the writer may
    /// have given it up, or have ended with the runtime; then nothing is
    /// committed.
    fn release(&mut self, commit: Option<CommitWaiter>) -> bool {
        match (self.connection.take(), self.release.take()) {
            (Some(connection), Some(release)) => {
                release.send(Released { connection, commit }).is_ok()
            }
            _ => false,
        }
    }
}

impl Drop for SqliteTx {
    fn drop(&mut self) {
        self.release(None);
    }
}

impl Deref for SqliteTx {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        let connection = self.connection.as_ref();
        connection.expect("a transaction has the connection until it is released")
    }
}

impl DerefMut for SqliteTx {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        let connection = self.connection.as_mut();
        connection.expect("a transaction has the connection until it is released")
    }
}

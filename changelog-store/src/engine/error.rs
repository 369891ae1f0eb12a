//! Errors of the store.

use std::path::PathBuf;
use std::sync::Arc;

use sqlx::error::DatabaseError;

/// Returns what was found; `None` if it does not exist.
pub fn existing<T>(found: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(StoreError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// PostgreSQL's code for a lock that was not acquired within `lock_timeout`.
const LOCK_NOT_AVAILABLE: &str = "55P03";

/// PostgreSQL's code for a write on a standby, or on a server that was set to take none.
const READ_ONLY: &str = "25006";

/// Why an operation of the store failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The name is taken in this organization, or the person is a member already.
    #[error("the name is taken")]
    Conflict,
    /// There is no such row in this organization.
    #[error("there is no such row")]
    NotFound,
    /// The caller's role does not allow it; the text says what.
    #[error("{0}")]
    Forbidden(String),
    /// The organization would be left without an owner.
    #[error("the organization would have no owner left")]
    LastOwner,
    /// The input names something that the organization does not have.
    #[error(transparent)]
    Invalid(#[from] changelog_core::Invalid),
    /// The idempotency key was used by a request with another body.
    #[error("the idempotency key was used with another body")]
    KeyReused,
    /// The organization uses its whole share of the database, and the operation did
    /// not get a permit in time; it was not begun.
    #[error("the organization uses its whole share of the database")]
    Overloaded,
    /// The organization would exceed a quota.
    #[error("the organization has {limit} {noun}, the most that it may have")]
    QuotaExceeded {
        /// The plural noun for what is limited.
        noun: &'static str,
        /// The flag of the server that sets the limit.
        flag: &'static str,
        /// How many it may have.
        limit: u32,
    },
    /// Another transaction holds the row for longer than the lock timeout.
    #[error("another transaction holds the row")]
    Locked,
    /// The database does not answer, is full, read-only or busy; the same
    /// request may succeed later. Nothing of it was recorded.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// Another process holds SQLite's write lock, which is this file; the same
    /// request may succeed later. Nothing of it was recorded.
    #[error(
        "writes are blocked: another process holds {}; is a changelog-server command stopped?",
        .0.display()
    )]
    Blocked(PathBuf),
    /// PostgreSQL answers, and takes no writes, for this reason.
    #[error("the database takes no writes: {0}")]
    NoWrites(&'static str),
    /// The commit failed, or did not return, and it is not known whether it took
    /// place: either all of the transaction was recorded, or nothing.
    #[error("it is not known whether the database recorded it: {0}")]
    Uncertain(String),
    /// A defect of this program or of its schema.
    #[error("the database refused: {0}")]
    Database(#[source] Arc<sqlx::Error>),
}

impl StoreError {
    /// Classifies an error of COMMIT. If the log could not be synced or the
    /// connection broke, the transaction may be recorded nevertheless.
    pub(crate) fn of_commit(error: sqlx::Error) -> Self {
        let is_certain = match &error {
            sqlx::Error::Database(error) => error.code().is_some_and(|code| excludes_commit(&code)),
            _ => false,
        };
        match Self::from(error) {
            Self::Unavailable(cause) if !is_certain => Self::Uncertain(cause),
            error => error,
        }
    }
}

/// Returns whether an error code of either database means that a commit did not
/// take place.
fn excludes_commit(code: &str) -> bool {
    match sqlite_code(code) {
        // BUSY, LOCKED, READONLY, FULL
        Some(code) => matches!(code, 5 | 6 | 8 | 13),
        // Serialization failures and deadlocks, insufficient resources, timeouts, locks that
        // were not to be had, read-only servers.
        None => {
            matches!(code.get(..2), Some("40" | "53"))
                || matches!(code, "57014" | LOCK_NOT_AVAILABLE | READ_ONLY)
        }
    }
}

impl StoreError {
    /// Returns whether the same operation may succeed later.
    pub(crate) fn is_transient(error: &sqlx::Error) -> bool {
        match error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            // A proxy in front of a database that is down may close connections that it has
            // accepted.
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => true,
            sqlx::Error::Database(error) => error.code().is_some_and(|code| is_transient(&code)),
            _ => false,
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::RowNotFound => Self::NotFound,
            sqlx::Error::Database(error) if error.code().as_deref() == Some(LOCK_NOT_AVAILABLE) => {
                Self::Locked
            }
            error if Self::is_transient(error) || is_closed(error) => {
                Self::Unavailable(error.to_string())
            }
            _ => Self::Database(Arc::new(error)),
        }
    }
}

/// Returns whether an error code means a transient state: SQLite's extended
/// result codes are numbers, PostgreSQL's are five characters.
fn is_transient(code: &str) -> bool {
    if let Some(code) = sqlite_code(code) {
        // BUSY, LOCKED, READONLY, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL
        return matches!(code, 5 | 6 | 8 | 9 | 10 | 13 | 14 | 15);
    }
    // Connection exceptions, serialization failures and deadlocks, insufficient
    // resources, operator intervention, system errors; a read-only server.
    let class = code.get(..2).unwrap_or_default();
    matches!(class, "08" | "40" | "53" | "57" | "58") || code == READ_ONLY
}

/// Returns whether PostgreSQL lets nobody in: it refuses the user, or the database does not exist
/// or accepts no connections. An operator has changed that while the service runs, and may change
/// it back.
fn is_closed(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| code.starts_with("28") || matches!(&*code, "3D000" | "55000"))
}

/// Returns SQLite's primary result code; `None` for a code of PostgreSQL, which
/// has five characters.
fn sqlite_code(code: &str) -> Option<u32> {
    let number = (code.len() < 5).then(|| code.parse::<u32>().ok())??;
    Some(number & 0xff)
}

/// Reports the violation of a unique constraint as a name that is taken. SQLite
/// does not name the constraint and Citus renames it; the caller knows its noun.
pub(crate) fn or_conflict<T>(result: Result<T, StoreError>) -> Result<T, StoreError> {
    result.map_err(|error| match &error {
        StoreError::Database(cause) => match &**cause {
            sqlx::Error::Database(cause) if cause.is_unique_violation() => StoreError::Conflict,
            _ => error,
        },
        _ => error,
    })
}

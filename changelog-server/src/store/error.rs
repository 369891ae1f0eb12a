//! What can go wrong in the store.

use std::sync::Arc;

/// PostgreSQL's code for a lock that was not had within `lock_timeout`.
const LOCK_NOT_AVAILABLE: &str = "55P03";

/// Why the store did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The name is taken in this organization, or the person is a member already.
    #[error("the name is taken")]
    Conflict,
    /// There is no such row in this organization.
    #[error("there is no such row")]
    NotFound,
    /// The role of who asks does not allow it; the text says what.
    #[error("{0}")]
    Forbidden(String),
    /// The organization would be left without an owner.
    #[error("the organization would have no owner left")]
    LastOwner,
    /// The input names something that the organization does not have.
    #[error(transparent)]
    Invalid(#[from] changelog_core::Invalid),
    /// Another transaction holds the row for longer than the lock timeout.
    #[error("another transaction holds the row")]
    Locked,
    /// The database does not answer, is full, read-only or busy; the same
    /// request may succeed later. Nothing of it was recorded, or, when the
    /// connection broke during a commit, all of it.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// A fault of this program or of its schema.
    #[error("the database refused: {0}")]
    Database(#[source] Arc<sqlx::Error>),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let unavailable = match &error {
            sqlx::Error::RowNotFound => return Self::NotFound,
            sqlx::Error::Database(error) if error.code().as_deref() == Some(LOCK_NOT_AVAILABLE) => {
                return Self::Locked;
            }
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => true,
            sqlx::Error::Database(error) => error.code().is_some_and(|code| passes(&code)),
            _ => false,
        };
        if unavailable {
            Self::Unavailable(error.to_string())
        } else {
            Self::Database(Arc::new(error))
        }
    }
}

/// Tells whether an error code names a state that passes: SQLite's extended
/// result codes are numbers, PostgreSQL's are five characters.
fn passes(code: &str) -> bool {
    if code.len() < 5
        && let Ok(number) = code.parse::<u32>()
    {
        // BUSY, LOCKED, READONLY, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL
        return matches!(number & 0xff, 5 | 6 | 8 | 9 | 10 | 13 | 14 | 15);
    }
    // Connection exceptions, serialization failures and deadlocks, insufficient
    // resources, operator intervention, system errors; a read-only server.
    matches!(code.get(..2), Some("08" | "40" | "53" | "57" | "58")) || code == "25006"
}

/// Reads the breach of a unique constraint as a name that is taken. SQLite does
/// not name the constraint and Citus renames it: the caller knows its noun.
pub(super) fn or_conflict<T>(result: Result<T, StoreError>) -> Result<T, StoreError> {
    result.map_err(|error| match &error {
        StoreError::Database(cause) => match &**cause {
            sqlx::Error::Database(cause) if cause.is_unique_violation() => StoreError::Conflict,
            _ => error,
        },
        _ => error,
    })
}

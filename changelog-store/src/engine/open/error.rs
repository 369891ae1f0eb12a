//! What a database is opened for, and why it could not be opened.

use std::path::PathBuf;
use std::time::Duration;

use sqlx::migrate::MigrateError;

use crate::engine::error::StoreError;

/// How long an opening process waits for PostgreSQL to answer at all.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a process opens the database for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To serve it: on SQLite only one process may.
    Serve,
    /// To write the first rows, perhaps: the schema is created and brought up to
    /// date.
    Create,
    /// To move another database into it: like [`Self::Create`], and it may be incomplete.
    Move,
    /// To run one command, perhaps while a process serves. On PostgreSQL, where this
    /// cannot be known, the schema must be up to date.
    Administer,
    /// To copy it as it is: a database that does not exist must not be created.
    Copy,
    /// To look at it as it is, whatever its schema.
    Inspect,
}

impl Purpose {
    /// Returns whether a SQLite database is neither created nor migrated.
    pub(super) fn leaves_it_as_it_is(self) -> bool {
        matches!(self, Self::Copy | Self::Inspect)
    }
}

/// Why the database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is neither of SQLite nor of PostgreSQL.
    #[error(
        "the database address must begin with sqlite:// (such as sqlite://changelog.db) or \
         postgres:// (such as postgres://user@host/name)"
    )]
    Address,
    /// The address is malformed.
    #[error("the database address is malformed: {0}")]
    MalformedAddress(#[source] sqlx::Error),
    /// Another process serves this file.
    #[error(
        "another changelog-server is serving {0}; stop it first, or use PostgreSQL to run several"
    )]
    Served(PathBuf),
    /// There is no such file, and the command does not create one.
    #[error(
        "there is no database at {}; --database-url (CHANGELOG_DATABASE_URL) names another one, \
         and `changelog-server org create` creates one", .0.display()
    )]
    Missing(PathBuf),
    /// The file, or one next to it, cannot be used.
    #[error("{path}: {source}")]
    File {
        /// The database file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The database refuses the connection.
    #[error("the database cannot be opened: {0}")]
    Connect(#[source] sqlx::Error),
    /// PostgreSQL does not answer.
    #[error("the database did not answer within {} seconds", CONNECT_TIMEOUT.as_secs())]
    NoAnswer,
    /// The schema is not one that this program can bring up to date.
    #[error("the database's schema cannot be used: {0}")]
    Schema(#[source] sqlx::migrate::MigrateError),
    /// There is no schema, and the command does not create one.
    #[error(
        "the database is empty; `changelog-server serve` or `changelog-server org create` creates \
         its schema"
    )]
    Empty,
    /// The schema is older, and servers that use it may be running.
    #[error(
        "the database has the schema {found} of an older changelog-server, this one needs \
         {needed}; start `changelog-server serve` of this version, which brings it up to date"
    )]
    OldSchema {
        /// Its number.
        found: i64,
        /// The number that is needed.
        needed: i64,
    },
    /// A pooler gives a session to several clients, and does not know which of them
    /// prepared a statement.
    #[error(
        "the pooler in front of the database confuses the prepared statements of its clients; \
         use pgbouncer 1.21 or later with max_prepared_statements above 0, or pool_mode = session"
    )]
    Pooler,
    /// The database cannot store all characters.
    #[error(
        "the database has the encoding {0}, which has not all characters; create one with \
         CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0"
    )]
    Encoding(String),
    /// A move into this database was interrupted.
    #[error(
        "a move into this database is not complete; run the same `changelog-server move` again, \
         which continues it"
    )]
    UnfinishedMove,
    /// The store could not begin to work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OpenError {
    /// Returns whether a later attempt may succeed: the database does not answer,
    /// is starting, or is recovering.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::NoAnswer => true,
            Self::Connect(error)
            | Self::Schema(
                MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _),
            ) => StoreError::is_transient(error),
            Self::Store(error) => matches!(error, StoreError::Unavailable(_)),
            _ => false,
        }
    }
}

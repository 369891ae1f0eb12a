//! One SQL text for two databases: the enum that distinguishes them, and the
//! macros that run one piece of code on either.

use std::time::Duration;

use futures_util::FutureExt;

use super::error::StoreError;

/// Something that exists once for each database.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Engine<S, P> {
    /// The embedded database.
    Sqlite(S),
    /// PostgreSQL.
    Postgres(P),
}

/// How long one statement may take. A stopped PostgreSQL never answers, and sqlx
/// limits only the wait for a connection. Together with that wait this is less
/// than the five seconds after which a caller must have an answer.
pub(crate) const STATEMENT_TIMEOUT: Duration = Duration::from_millis(2_500);

/// Runs the same code on either database: the body, written once, is a future of
/// sqlx.
macro_rules! on {
    ($target:expr, |$db:ident| $body:expr) => {
        match $target {
            $crate::engine::Engine::Sqlite($db) => $crate::engine::bounded($body).await,
            $crate::engine::Engine::Postgres($db) => $crate::engine::bounded($body).await,
        }
    };
}
pub(crate) use on;

/// Runs the same code on a [`Lease`](super::Lease) of either database, and ends the lease
/// when the code has returned without an error.
macro_rules! read {
    ($lease:expr, |$db:ident| $body:expr) => {{
        let mut lease = $lease;
        let result = $crate::engine::on!(&mut lease, |$db| $body);
        if result.is_ok() {
            $crate::engine::end_lease(lease);
        }
        result
    }};
}
pub(crate) use read;

/// Executes a query within a transaction on either database, and returns the
/// number of affected rows.
macro_rules! execute {
    ($tx:expr, $query:expr) => {
        match &mut $tx.connection {
            $crate::engine::Engine::Sqlite(db) => {
                $crate::engine::bounded($query.execute(&mut **db))
                    .await
                    .map(|done| done.rows_affected())
            }
            $crate::engine::Engine::Postgres(db) => {
                $crate::engine::bounded($query.execute(&mut **db))
                    .await
                    .map(|done| done.rows_affected())
            }
        }
    };
}
pub(crate) use execute;

/// Runs a [`Script`](super::Script) within a transaction on either database, which its
/// statements are written for.
macro_rules! run_script {
    ($tx:expr, |$database:ident| $script:expr) => {
        match &mut $tx.connection {
            $crate::engine::Engine::Sqlite(db) => {
                type $database = sqlx_sqlite::Sqlite;
                $script.run(&mut **db).await
            }
            $crate::engine::Engine::Postgres(db) => {
                type $database = sqlx_postgres::Postgres;
                $script.run(&mut **db).await
            }
        }
    };
}
pub(crate) use run_script;

/// Waits for a statement for at most [`STATEMENT_TIMEOUT`]. As an `async fn` it would hold
/// the statement's future twice, and everything that awaits it would be as much larger.
pub(crate) fn bounded<T>(
    statement: impl Future<Output = Result<T, sqlx::Error>>,
) -> impl Future<Output = Result<T, StoreError>> {
    tokio::time::timeout(STATEMENT_TIMEOUT, statement).map(|result| match result {
        Ok(result) => Ok(result?),
        Err(_) => Err(StoreError::Unavailable(
            "the database did not answer in time".into(),
        )),
    })
}

/// Waits for a COMMIT for at most [`STATEMENT_TIMEOUT`]. The outcome of one that
/// does not return is not known.
pub(crate) async fn committed(
    commit: impl Future<Output = Result<(), sqlx::Error>>,
) -> Result<(), StoreError> {
    match tokio::time::timeout(STATEMENT_TIMEOUT, commit).await {
        Ok(result) => result.map_err(StoreError::of_commit),
        Err(_) => Err(StoreError::Uncertain(
            "the database did not answer in time".into(),
        )),
    }
}

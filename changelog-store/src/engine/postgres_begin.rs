//! The begin of a transaction on PostgreSQL, which does not end halfway.
//!
//! If the caller leaves before the answer to BEGIN has arrived, sqlx 0.9.0 returns the
//! connection to its pool with the transaction open
//! (<https://github.com/transact-rs/sqlx/issues/4393>). The next caller's statement is then
//! not committed when it has ended, and is lost some seconds later, although that caller
//! has acknowledged it. Therefore the answer is awaited in any case.

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Fuse, FusedFuture};
use sqlx::{SqlStr, Transaction};
use sqlx_postgres::{PgPool, Postgres};

type Begun = Result<Transaction<'static, Postgres>, sqlx::Error>;

struct Begin(Fuse<BoxFuture<'static, Begun>>);

/// Begins a transaction on a connection of a pool, by these statements.
pub(super) async fn begin(pool: &PgPool, statements: &SqlStr) -> Begun {
    let (pool, statements) = (pool.clone(), statements.clone());
    let begin = async move { pool.begin_with(statements).await };
    let mut begin = Begin(begin.boxed().fuse());
    (&mut begin.0).await
}

impl Drop for Begin {
    fn drop(&mut self) {
        if !self.0.is_terminated() {
            // The transaction has no other owner, and is rolled back.
            tokio::spawn(std::mem::replace(&mut self.0, Fuse::terminated()));
        }
    }
}

//! Direct access to the database of an app.

use sqlx::{ConnectOptions, Connection};
use sqlx_postgres::PgConnection;
use sqlx_sqlite::SqliteConnectOptions;
use sqlx_sqlite::SqliteConnection;

use crate::Engine;

/// A connection to the database of an app.
pub enum Db {
    /// A connection to SQLite.
    Sqlite(SqliteConnection),
    /// A connection to PostgreSQL.
    Postgres(PgConnection),
}

/// Runs the same statement on either database, and returns the number of affected rows.
#[macro_export]
macro_rules! execute {
    ($db:expr, $query:expr) => {
        match $db {
            $crate::database::Db::Sqlite(db) => {
                let done = $query.execute(&mut *db).await.expect("a result");
                done.rows_affected()
            }
            $crate::database::Db::Postgres(db) => {
                let done = $query.execute(&mut *db).await.expect("a result");
                done.rows_affected()
            }
        }
    };
}
pub use crate::execute;

/// Reads rows with the same query from either database.
#[macro_export]
macro_rules! fetch {
    ($db:expr, $query:expr) => {
        match $db {
            $crate::database::Db::Sqlite(db) => $query.fetch_all(&mut *db).await.expect("a result"),
            $crate::database::Db::Postgres(db) => {
                $query.fetch_all(&mut *db).await.expect("a result")
            }
        }
    };
}
pub use crate::fetch;

impl Db {
    /// Connects; a SQLite file is created when it is missing.
    pub async fn open(engine: Engine, address: &str) -> Self {
        match engine {
            Engine::Sqlite => {
                let options: SqliteConnectOptions = address.parse().expect("an address");
                let options = options.create_if_missing(true);
                Self::Sqlite(options.connect().await.expect("a connection"))
            }
            Engine::Postgres => {
                let connection = PgConnection::connect(address).await;
                Self::Postgres(connection.expect("a connection"))
            }
        }
    }

    /// Closes the connection.
    pub async fn close(self) {
        let closed = match self {
            Self::Sqlite(db) => db.close().await,
            Self::Postgres(db) => db.close().await,
        };
        closed.expect("a closed connection");
    }
}

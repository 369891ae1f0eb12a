//! The database of a world, past the service.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection, SqliteConnection};

use super::Engine;

/// One connection to the database of a world.
pub(crate) enum Db {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

/// Runs the same statement on either database.
macro_rules! execute {
    ($db:expr, $query:expr) => {
        match $db {
            $crate::world::database::Db::Sqlite(db) => {
                drop($query.execute(&mut *db).await.expect("it runs"))
            }
            $crate::world::database::Db::Postgres(db) => {
                drop($query.execute(&mut *db).await.expect("it runs"))
            }
        }
    };
}
pub(crate) use execute;

/// Reads the same rows from either database.
macro_rules! fetch {
    ($db:expr, $query:expr) => {
        match $db {
            $crate::world::database::Db::Sqlite(db) => {
                $query.fetch_all(&mut *db).await.expect("it runs")
            }
            $crate::world::database::Db::Postgres(db) => {
                $query.fetch_all(&mut *db).await.expect("it runs")
            }
        }
    };
}
pub(crate) use fetch;

impl Db {
    pub(crate) async fn open(engine: Engine, address: &str) -> Self {
        match engine {
            Engine::Sqlite => {
                let options: SqliteConnectOptions = address.parse().expect("an address");
                let options = options.create_if_missing(true);
                Self::Sqlite(options.connect().await.expect("it opens"))
            }
            Engine::Postgres => {
                let connection = PgConnection::connect(address).await;
                Self::Postgres(connection.expect("it opens"))
            }
        }
    }

    pub(crate) async fn close(self) {
        let closed = match self {
            Self::Sqlite(db) => db.close().await,
            Self::Postgres(db) => db.close().await,
        };
        closed.expect("it closes");
    }
}

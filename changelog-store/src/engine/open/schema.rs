//! The versions of the schema.

use sqlx::migrate::Migrator;

use super::error::OpenError;

/// Selects the number of the schema that a database has.
pub(crate) const VERSION: &str =
    "SELECT CAST(MAX(version) AS bigint) FROM _sqlx_migrations WHERE success";
/// How the databases say that there is no such table: SQLite's general error of a statement,
/// PostgreSQL's `undefined_table`.
const NO_TABLE: [&str; 2] = ["1", "42P01"];

/// Returns the result of [`VERSION`]: 0 for a database without a schema.
pub(crate) fn version_of(found: Result<(Option<i64>,), sqlx::Error>) -> Result<i64, OpenError> {
    match found {
        Ok((version,)) => Ok(version.unwrap_or(0)),
        Err(sqlx::Error::Database(error))
            if error.code().is_some_and(|code| NO_TABLE.contains(&&*code)) =>
        {
            Ok(0)
        }
        Err(error) => Err(OpenError::Connect(error)),
    }
}

/// Returns the number of the newest schema that this program knows.
pub(super) fn newest(migrator: &Migrator) -> i64 {
    let versions = migrator.iter().map(|migration| migration.version);
    versions.max().unwrap_or(0)
}

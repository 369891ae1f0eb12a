//! The versions of the schema.

use sqlx::error::DatabaseError;
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
        Err(error) if is_no_table(&error) => Ok(0),
        Err(error) => Err(OpenError::Connect(error)),
    }
}

/// Returns whether an error says that there is no such table.
pub(super) fn is_no_table(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| NO_TABLE.contains(&&*code))
}

/// Returns the number of the newest schema that this program knows.
pub(super) fn newest(migrator: &Migrator) -> i64 {
    let versions = migrator.iter().map(|migration| migration.version);
    versions.max().unwrap_or(0)
}

//! The versions of the schema.

use sqlx::migrate::Migrator;

/// Returns the number of the newest schema that this program knows.
pub(super) fn newest(migrator: &Migrator) -> i64 {
    let versions = migrator.iter().map(|migration| migration.version);
    versions.max().unwrap_or(0)
}

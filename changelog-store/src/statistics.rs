//! What PostgreSQL knows of its tables when it chooses how to run a statement.

use sqlx::AssertSqlSafe;

use super::engine::{Engine, bounded};
use super::{Store, StoreError};

/// The tables of which a fifth, and ten thousand rows, were written since PostgreSQL looked at
/// them. On Citus the coordinator has no rows of tables that are distributed.
const OUTDATED: &str = "
SELECT quote_ident(relname) FROM pg_stat_user_tables
WHERE schemaname = current_schema() AND n_mod_since_analyze > 10000
    AND n_mod_since_analyze > n_live_tup / 5";

impl Store {
    /// Has PostgreSQL look at the tables that have grown, as an import does: autovacuum comes
    /// once a minute, and until then lists of the new rows may take ten times as long. Returns
    /// the number of tables.
    pub async fn update_statistics(&self) -> Result<usize, StoreError> {
        if matches!(self.database.connections.writes, Engine::Sqlite(_)) {
            return Ok(0);
        }
        let mut tx = self.begin().await?;
        let Engine::Postgres(db) = &mut tx.connection else {
            return Ok(0);
        };
        let outdated: Vec<(String,)> =
            bounded(sqlx::query_as(OUTDATED).fetch_all(&mut **db)).await?;
        for (table,) in &outdated {
            // Another server may be doing the same.
            let statement = AssertSqlSafe(format!("ANALYZE (SKIP_LOCKED) {table}"));
            let analyzed = sqlx::query(statement).persistent(false);
            bounded(analyzed.execute(&mut **db)).await?;
        }
        tx.commit().await?;
        Ok(outdated.len())
    }
}

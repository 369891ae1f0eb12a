//! Logs what statements cost on SQLite, if the log has this module at debug
//! (`CHANGELOG_LOG=changelog_store::engine::statement_costs=debug`): the steps of
//! SQLite's virtual machine, which unlike times are the same on every machine.

use std::collections::HashMap;

use sqlx_sqlite::SqliteConnection;

/// Of each statement that the connection keeps: its steps and runs until now.
const SELECT: &str = "SELECT sql, sum(nstep), sum(run) FROM sqlite_stmt GROUP BY sql";

/// What the statements of a connection had cost when they were logged last.
#[derive(Debug, Default)]
pub(crate) struct StatementCosts(HashMap<String, (i64, i64)>);

impl StatementCosts {
    /// Logs the statements that have run since the last call.
    pub(crate) async fn log(&mut self, connection: &mut SqliteConnection) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let rows = sqlx::query_as(SELECT).fetch_all(connection).await;
        let rows: Vec<(String, i64, i64)> = rows.unwrap_or_default();
        let mut now = HashMap::with_capacity(rows.len());
        for (statement, steps, runs) in rows {
            // A statement that was prepared anew counts from zero.
            let known = self.0.get(&statement).filter(|known| known.1 <= runs);
            let (old_steps, old_runs) = known.copied().unwrap_or_default();
            if runs > old_runs && statement != SELECT {
                let (steps, runs) = (steps - old_steps, runs - old_runs);
                tracing::debug!(statement, steps, runs, "cost");
            }
            now.insert(statement, (steps, runs));
        }
        self.0 = now;
    }
}

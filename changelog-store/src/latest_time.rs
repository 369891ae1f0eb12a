//! The latest time that a server of this database has recorded. Setting the clock
//! back while no server runs must not make expired keys and sessions valid again.

use changelog_core::Timestamp;

use super::engine::{execute, read};
use super::{Database, StoreError};

const LATEST: &str = "SELECT seen_at FROM latest_time WHERE id = 1";

const SAVE_LATER: &str = "
INSERT INTO latest_time (id, seen_at) VALUES (1, $1)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
    WHERE latest_time.seen_at < excluded.seen_at";

const RESET: &str = "
INSERT INTO latest_time (id, seen_at) VALUES (1, $1)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at";

/// Brings forward whatever a wrong clock scheduled too far in the future: to at most a day after
/// the correct time, $1.
const PULL_BACK: [&str; 4] = [
    "UPDATE deliveries SET next_at = $1 WHERE state = 'pending' AND next_at > $1 + 86400000",
    "UPDATE connections SET hold_until = NULL, failing_since = NULL
     WHERE hold_until > $1 + 86400000 OR failing_since > $1",
    "UPDATE erasures SET due_at = $1 WHERE due_at > $1 + 86400000",
    // As if it had been set now.
    "UPDATE retentions SET due_at = $1 + 86400000 WHERE due_at > $1 + 86400000",
];

impl Database {
    /// Returns the latest time that was saved, if any.
    pub async fn latest_time(&self) -> Result<Option<Timestamp>, StoreError> {
        let found: Option<(i64,)> = read!(self.system().await?, |db| sqlx::query_as(LATEST)
            .fetch_optional(&mut **db))?;
        Ok(found.map(|(millis,)| Timestamp::from_millis(millis)))
    }

    /// Saves a time, unless a later one is saved.
    pub async fn save_latest_time(&self, time: Timestamp) -> Result<(), StoreError> {
        self.write_latest_time(SAVE_LATER, time).await
    }

    /// Saves a time, even if a later one is saved: the later one was wrong, and so is what it
    /// has put off.
    pub async fn reset_latest_time(&self, time: Timestamp) -> Result<(), StoreError> {
        for statement in PULL_BACK {
            let mut tx = self.begin().await?;
            execute!(tx, sqlx::query(statement).bind(time.millis()))?;
            tx.commit().await?;
        }
        self.write_latest_time(RESET, time).await
    }

    async fn write_latest_time(
        &self,
        statement: &'static str,
        time: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        execute!(tx, sqlx::query(statement).bind(time.millis()))?;
        tx.commit().await
    }
}

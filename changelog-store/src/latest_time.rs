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

    /// Saves a time, even if a later one is saved: the later one was wrong.
    pub async fn reset_latest_time(&self, time: Timestamp) -> Result<(), StoreError> {
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

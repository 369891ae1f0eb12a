//! The latest time that a server of this database has recorded. Setting the clock
//! back while no server runs must not make expired keys and sessions valid again.

use changelog_core::Timestamp;

use super::engine::{execute, on};
use super::{Database, StoreError};

const LATEST: &str = "SELECT moment FROM latest_moment WHERE id = 1";

const SAVE_LATER: &str = "
INSERT INTO latest_moment (id, moment) VALUES (1, $1)
ON CONFLICT (id) DO UPDATE SET moment = excluded.moment
    WHERE latest_moment.moment < excluded.moment";

const RESET: &str = "
INSERT INTO latest_moment (id, moment) VALUES (1, $1)
ON CONFLICT (id) DO UPDATE SET moment = excluded.moment";

impl Database {
    /// Returns the latest time that was saved, if any.
    pub async fn latest_moment(&self) -> Result<Option<Timestamp>, StoreError> {
        let found: Option<(i64,)> = on!(&mut self.system().await?, |db| sqlx::query_as(LATEST)
            .fetch_optional(&mut **db))?;
        Ok(found.map(|(millis,)| Timestamp::from_millis(millis)))
    }

    /// Saves a time, unless a later one is saved.
    pub async fn save_latest_moment(&self, moment: Timestamp) -> Result<(), StoreError> {
        self.write_moment(SAVE_LATER, moment).await
    }

    /// Saves a time, even if a later one is saved, which was wrong.
    pub async fn reset_latest_moment(&self, moment: Timestamp) -> Result<(), StoreError> {
        self.write_moment(RESET, moment).await
    }

    async fn write_moment(
        &self,
        statement: &'static str,
        moment: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        execute!(tx, sqlx::query(statement).bind(moment.millis()))?;
        tx.commit().await
    }
}

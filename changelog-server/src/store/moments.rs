//! The latest moment that a server of this database has seen, so that a clock
//! that is set back while none runs revives no key and no session.

use changelog_core::Timestamp;

use super::engine::{execute, on};
use super::{Database, StoreError};

const LATEST: &str = "SELECT moment FROM latest_moment WHERE id = 1";

const KEEP: &str = "
INSERT INTO latest_moment (id, moment) VALUES (1, $1)
ON CONFLICT (id) DO UPDATE SET moment = excluded.moment
    WHERE latest_moment.moment < excluded.moment";

const RESET: &str = "
INSERT INTO latest_moment (id, moment) VALUES (1, $1)
ON CONFLICT (id) DO UPDATE SET moment = excluded.moment";

impl Database {
    /// Returns the latest moment that was kept, if any was.
    pub async fn latest_moment(&self) -> Result<Option<Timestamp>, StoreError> {
        let found: Option<(i64,)> = on!(&mut self.system().await?, |db| sqlx::query_as(LATEST)
            .fetch_optional(&mut **db))?;
        Ok(found.map(|(millis,)| Timestamp::from_millis(millis)))
    }

    /// Keeps a moment, unless a later one is kept.
    pub async fn keep_latest_moment(&self, moment: Timestamp) -> Result<(), StoreError> {
        self.write_moment(KEEP, moment).await
    }

    /// Keeps a moment, even if a later one was kept: the operator says that the
    /// later one was wrong.
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

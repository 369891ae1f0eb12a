//! Deliveries: what is queued for receivers, what became of it, and what receivers call
//! their messages.

mod claims;
mod queue;
mod results;

use std::fmt;
use std::str::FromStr;

use changelog_core::{ConnectionId, Event, Timestamp};
use chrono::TimeDelta;
use sqlx::FromRow;

use super::engine::{execute, read};
use super::{Database, StoreError, Tenant, Tx, events};

pub use claims::Claim;
pub use queue::NewDelivery;
pub use results::{ConnectionHealth, Finished};

/// How long events and deliveries are kept.
pub(super) const KEPT: TimeDelta = TimeDelta::days(14);

/// A replay starts with the first attempt again.
const REPLAY: &str = "
UPDATE deliveries SET state = 'pending', attempts = 0, next_at = $4, is_claimed = 0, burst = NULL
WHERE organization_id = $1 AND connection_id = $2 AND sequence = $3 AND is_claimed = 0";

const REPLAY_DEAD: &str = "
UPDATE deliveries SET state = 'pending', attempts = 0, next_at = $3, is_claimed = 0, burst = NULL
WHERE organization_id = $1 AND connection_id = $2 AND sequence IN
    (SELECT sequence FROM deliveries
     WHERE organization_id = $1 AND connection_id = $2 AND state = 'dead'
     ORDER BY sequence LIMIT 1000) AND state = 'dead'";

macro_rules! select_listed {
    ($condition:literal) => {
        concat!(
            "SELECT d.sequence, d.state, d.attempts, d.next_at, d.is_claimed, d.created_at, \
             d.attempted_at, d.duration_ms, d.status, d.answer, d.reason, e.document \
             FROM deliveries d LEFT JOIN events e \
             ON e.organization_id = $1 AND e.sequence = d.sequence \
             WHERE d.organization_id = $1 AND d.connection_id = $2 ",
            $condition
        )
    };
}

const LIST: &str = select_listed!("AND d.sequence < $3 ORDER BY d.sequence DESC LIMIT 50");
/// Those that failed are few of many: they are found first, by their index.
const LIST_DEAD: &str = select_listed!(
    "AND d.sequence IN (SELECT f.sequence FROM deliveries f WHERE f.organization_id = $1 \
     AND f.connection_id = $2 AND f.state = 'dead' AND f.sequence < $3 \
     ORDER BY f.sequence DESC LIMIT 50) ORDER BY d.sequence DESC"
);
const SELECT_ONE: &str = select_listed!("AND d.sequence = $3");

/// Deletes 1,000 deliveries that are older than the time to keep them.
pub(super) const PURGE: &str = "
DELETE FROM deliveries WHERE (organization_id, connection_id, sequence) IN
    (SELECT organization_id, connection_id, sequence FROM deliveries WHERE created_at < $1
     ORDER BY created_at LIMIT 1000)";

/// Deletes 1,000 references that no event has used for the time to keep them.
pub(super) const PURGE_REFERENCES: &str = "
DELETE FROM receiver_messages WHERE (organization_id, connection_id, subject_id) IN
    (SELECT organization_id, connection_id, subject_id FROM receiver_messages
     WHERE updated_at < $1 ORDER BY updated_at LIMIT 1000)";

/// How long receivers' names of their messages are kept after their last use.
pub(super) const REFERENCES_KEPT: TimeDelta = TimeDelta::days(90);

/// What names a delivery: the connection, a period, and the place of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryId {
    /// The connection.
    pub connection: ConnectionId,
    /// The place of the event.
    pub sequence: i64,
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.connection, self.sequence)
    }
}

impl FromStr for DeliveryId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (connection, sequence) = text.split_once('.')?;
            Some(Self {
                connection: connection.parse().ok()?,
                sequence: sequence.parse().ok()?,
            })
        };
        parse().ok_or_else(|| "must be as `integration deliveries` shows it".to_owned())
    }
}

/// Whether an event is still to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// It is to be sent.
    Pending,
    /// The receiver has it.
    Delivered,
    /// It was not delivered, and is not sent again by itself.
    Dead,
}

impl DeliveryState {
    /// Returns its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }

    fn of(word: &str) -> Self {
        match word {
            "delivered" => Self::Delivered,
            "dead" => Self::Dead,
            _ => Self::Pending,
        }
    }
}

/// A delivery with its event, for people.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The place of the event.
    pub sequence: i64,
    /// Whether it is still to be sent.
    pub state: DeliveryState,
    /// The number of attempts.
    pub attempts: i64,
    /// When the next attempt is due, if it is pending.
    pub next_at: Timestamp,
    /// Whether it is being sent.
    pub is_claimed: bool,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When the last attempt was made.
    pub attempted_at: Option<Timestamp>,
    /// How long that took, in milliseconds.
    pub duration_ms: Option<i64>,
    /// The status code of its answer.
    pub status: Option<i64>,
    /// The beginning of its answer.
    pub answer: Option<String>,
    /// Why it failed.
    pub reason: Option<String>,
    /// The event; `None` if it can no longer be read.
    pub event: Option<Event>,
}

#[derive(FromRow)]
struct ListedRow {
    sequence: i64,
    state: String,
    attempts: i64,
    next_at: i64,
    is_claimed: i64,
    created_at: i64,
    attempted_at: Option<i64>,
    duration_ms: Option<i64>,
    status: Option<i64>,
    answer: Option<String>,
    reason: Option<String>,
    document: Option<String>,
}

impl From<ListedRow> for Delivery {
    fn from(row: ListedRow) -> Self {
        Self {
            sequence: row.sequence,
            state: DeliveryState::of(&row.state),
            attempts: row.attempts,
            next_at: Timestamp::from_millis(row.next_at),
            is_claimed: row.is_claimed != 0,
            created_at: Timestamp::from_millis(row.created_at),
            attempted_at: row.attempted_at.map(Timestamp::from_millis),
            duration_ms: row.duration_ms,
            status: row.status,
            answer: row.answer,
            reason: row.reason,
            event: row
                .document
                .and_then(|document| events::parse(&document).ok())
                .map(|(event, _)| event),
        }
    }
}

impl Database {
    /// Lists 50 deliveries of a connection before a place, newest first; with `dead` only
    /// those that are not sent again by themselves.
    pub async fn deliveries(
        &self,
        tenant: Tenant,
        connection: ConnectionId,
        before: Option<i64>,
        dead: bool,
    ) -> Result<Vec<Delivery>, StoreError> {
        let rows: Vec<ListedRow> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(if dead { LIST_DEAD } else { LIST })
                .bind(tenant.uuid())
                .bind(connection.0)
                .bind(before.unwrap_or(i64::MAX))
                .fetch_all(&mut **db)
        })?;
        Ok(rows.into_iter().map(Delivery::from).collect())
    }

    /// Finds a delivery.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn delivery(
        &self,
        tenant: Tenant,
        connection: ConnectionId,
        sequence: i64,
    ) -> Result<Delivery, StoreError> {
        let row: Option<ListedRow> = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_ONE)
                .bind(tenant.uuid())
                .bind(connection.0)
                .bind(sequence)
                .fetch_optional(&mut **db)
        })?;
        row.map(Delivery::from).ok_or(StoreError::NotFound)
    }
}

impl Tx {
    /// Queues a delivery again, whatever became of it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such delivery, or it is being sent.
    pub async fn replay(
        &mut self,
        tenant: Tenant,
        connection: ConnectionId,
        sequence: i64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let replayed = execute!(
            self,
            sqlx::query(REPLAY)
                .bind(tenant.uuid())
                .bind(connection.0)
                .bind(sequence)
                .bind(now.millis())
        )?;
        if replayed == 0 {
            return Err(StoreError::NotFound);
        }
        self.wake_worker(tenant);
        Ok(())
    }

    /// Queues the oldest thousand dead deliveries of a connection again, and returns their
    /// number.
    pub async fn replay_dead(
        &mut self,
        tenant: Tenant,
        connection: ConnectionId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let replayed = execute!(
            self,
            sqlx::query(REPLAY_DEAD)
                .bind(tenant.uuid())
                .bind(connection.0)
                .bind(now.millis())
        )?;
        self.wake_worker(tenant);
        Ok(replayed)
    }
}

#[cfg(test)]
mod tests {
    use super::claims::{NEXT_DUE, RELEASE};
    use super::results::{ADVANCE_PENDING, RETRY_PENDING};
    use super::*;
    use crate::engine::explain;

    #[tokio::test]
    async fn deliveries_are_found_by_indexes() {
        for statement in [
            NEXT_DUE,
            RELEASE,
            RETRY_PENDING,
            ADVANCE_PENDING,
            REPLAY,
            REPLAY_DEAD,
            LIST,
            LIST_DEAD,
            SELECT_ONE,
            PURGE,
            PURGE_REFERENCES,
        ] {
            let plan = explain::of(statement).await;
            assert!(
                plan.iter().all(|step| !step.starts_with("SCAN d")
                    && !step.starts_with("SCAN e")
                    && !step.contains("TEMP B-TREE")),
                "{statement}: {plan:?}"
            );
        }
    }
}

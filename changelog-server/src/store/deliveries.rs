//! Deliveries: what is queued for receivers, what became of it, and what receivers call
//! their messages.
//!
//! A worker claims deliveries for a limited time. Each claim counts as an attempt, and
//! the number of attempts fences off a worker that is late: its result is ignored.
//! A delivery is claimed only when the earlier ones of the same change are done.

use std::fmt;
use std::str::FromStr;

use changelog_core::{ChangeId, ConnectionId, Event, ServiceId, Timestamp};
use chrono::TimeDelta;
use serde_json::Value as Json;
use sqlx::types::Uuid;
use sqlx::{FromRow, Postgres, QueryBuilder, Sqlite};

use super::connections::Connection;
use super::engine::{Dialect, Engine, Script, Value, execute, on, push_limit};
use super::events;
use super::{Actor, Database, StoreError, Tenant, Tx};

/// How long events and deliveries are kept.
pub(super) const KEPT: TimeDelta = TimeDelta::days(14);
/// The limit on deliveries of one message of a burst.
pub(super) const MAX_BURST: u64 = 500;
/// How far back deliveries are counted to recognize a burst.
const RECENT: u64 = 200;

const NEXT_DUE: &str = "
SELECT next_at FROM deliveries
WHERE organization_id = $1 AND connection_id = $2 AND state = 'pending'
ORDER BY next_at LIMIT 1";

/// On SQLite one server has all claims, so that none is valid when it starts. The time
/// makes it read the pending deliveries only.
const RELEASE: &str = "
UPDATE deliveries SET is_claimed = 0, next_at = $3
WHERE organization_id = $1 AND connection_id = $2 AND state = 'pending' AND next_at > 0
    AND is_claimed = 1";

const RETRY_PENDING: &str = "
UPDATE deliveries SET next_at = $3
WHERE organization_id = $1 AND connection_id = $2 AND state = 'pending' AND is_claimed = 0
    AND next_at > $3 AND burst IS NULL";

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
DELETE FROM receiver_messages WHERE (organization_id, connection_id, change_id) IN
    (SELECT organization_id, connection_id, change_id FROM receiver_messages
     WHERE updated_at < $1 ORDER BY updated_at LIMIT 1000)";

/// How long receivers' names of their messages are kept after their last use.
pub(super) const REFERENCES_KEPT: TimeDelta = TimeDelta::days(90);

/// A delivery to queue.
#[derive(Clone, Debug)]
pub struct NewDelivery {
    /// The connection.
    pub connection: ConnectionId,
    /// The place of the event.
    pub sequence: i64,
    /// The change of the event.
    pub change: ChangeId,
    /// The first service of the change.
    pub service: Option<ServiceId>,
    /// When it is due.
    pub due: Timestamp,
    /// The burst that it is sent with.
    pub burst: Option<String>,
}

/// A delivery that a worker has claimed.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The place of the event.
    pub sequence: i64,
    /// The number of this attempt, from 1.
    pub attempt: i64,
    /// The burst that it is sent with.
    pub burst: Option<String>,
    /// The event.
    pub event: Event,
    /// What the receiver calls its message about the change.
    pub reference: Option<Json>,
}

#[derive(FromRow)]
struct ClaimedRow {
    sequence: i64,
    change_id: Uuid,
    attempts: i64,
    burst: Option<String>,
}

/// The result of an attempt.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The place of the event.
    pub sequence: i64,
    /// The change of the event.
    pub change: ChangeId,
    /// The number of the attempt.
    pub attempt: i64,
    /// What follows.
    pub state: DeliveryState,
    /// When the next attempt is due, if one follows.
    pub next: Timestamp,
    /// When it was made.
    pub at: Timestamp,
    /// How long it took, in milliseconds.
    pub duration_ms: i64,
    /// The status code of the answer.
    pub status: Option<u16>,
    /// The beginning of the answer, without secrets.
    pub answer: String,
    /// Why it failed, in a sentence for people.
    pub reason: Option<String>,
    /// What the receiver calls its message about the change from now on.
    pub reference: Option<Json>,
}

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

/// What the attempts of one transaction mean for the connection.
#[derive(Clone, Debug, Default)]
pub struct ConnectionHealth {
    /// The receiver has taken a message; `Some(false)` if it has failed only.
    pub works: Option<bool>,
    /// Nothing is sent before this time.
    pub hold_until: Option<Timestamp>,
    /// Why the connection is disabled.
    pub disable: Option<String>,
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
                .and_then(|document| events::parse(&document).ok()),
        }
    }
}

impl Database {
    /// Returns when the next delivery of a connection is due, or its claim expires.
    pub async fn next_due(
        &self,
        tenant: Tenant,
        connection: ConnectionId,
    ) -> Result<Option<Timestamp>, StoreError> {
        let row: Option<(i64,)> = on!(&mut self.point_reader(tenant).await?, |db| {
            sqlx::query_as(NEXT_DUE)
                .bind(tenant.uuid())
                .bind(connection.0)
                .fetch_optional(&mut **db)
        })?;
        Ok(row.map(|(at,)| Timestamp::from_millis(at)))
    }

    /// Lists 50 deliveries of a connection before a place, newest first; with `dead` only
    /// those that are not sent again by themselves.
    pub async fn deliveries(
        &self,
        tenant: Tenant,
        connection: ConnectionId,
        before: Option<i64>,
        dead: bool,
    ) -> Result<Vec<Delivery>, StoreError> {
        let rows: Vec<ListedRow> = on!(&mut self.reader(tenant).await?, |db| {
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
        let row: Option<ListedRow> = on!(&mut self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_ONE)
                .bind(tenant.uuid())
                .bind(connection.0)
                .bind(sequence)
                .fetch_optional(&mut **db)
        })?;
        row.map(Delivery::from).ok_or(StoreError::NotFound)
    }

    /// Claims deliveries of a connection that are due, in the order of their times, at
    /// most `limit`, until `expiry`. With `turn` it first takes the turn to send, and
    /// leaves the next one at that time.
    pub async fn claim(
        &self,
        tenant: Tenant,
        connection: ConnectionId,
        (now, expiry): (Timestamp, Timestamp),
        limit: u64,
        turn: Option<Timestamp>,
    ) -> Result<Vec<Claim>, StoreError> {
        let mut tx = self.begin_for(tenant).await?;
        if let Some(next) = turn
            && !tx.take_turn(tenant, connection, now, next).await?
        {
            return Ok(Vec::new());
        }
        let due = Due {
            tenant,
            connection,
            now,
            expiry,
            limit,
            burst: None,
        };
        let mut rows = tx.claim(&due).await?;
        if let [row] = &rows[..]
            && let Some(burst) = row.burst.clone()
        {
            let rest = Due {
                limit: MAX_BURST,
                burst: Some(burst),
                ..due
            };
            rows.extend(tx.claim(&rest).await?);
        }
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let claims = tx.with_events(tenant, connection, rows).await?;
        tx.commit().await?;
        Ok(claims)
    }
}

/// Which deliveries to claim.
#[derive(Clone, Debug)]
struct Due {
    tenant: Tenant,
    connection: ConnectionId,
    now: Timestamp,
    expiry: Timestamp,
    limit: u64,
    /// Only those of this burst, whatever the order within their changes: they are one
    /// message.
    burst: Option<String>,
}

impl Due {
    /// Selects them and locks them on PostgreSQL, without those that another server has
    /// locked. The update is a statement of its own: PostgreSQL may run a subselect with a
    /// limit several times.
    fn select<DB: Dialect>(&self) -> QueryBuilder<DB> {
        let (tenant, connection) = (self.tenant.uuid(), self.connection.0);
        let mut query =
            QueryBuilder::new("SELECT d.sequence FROM deliveries d WHERE d.organization_id = ");
        DB::bind(&mut query, tenant.into());
        query.push(" AND d.connection_id = ");
        DB::bind(&mut query, connection.into());
        query.push(" AND d.state = 'pending' AND d.next_at <= ");
        DB::bind(&mut query, self.now.millis().into());
        if let Some(burst) = &self.burst {
            query.push(" AND d.burst = ");
            DB::bind(&mut query, burst.as_str().into());
        } else {
            query.push(" AND NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.organization_id = ");
            DB::bind(&mut query, tenant.into());
            query.push(" AND e.connection_id = ");
            DB::bind(&mut query, connection.into());
            query.push(
                " AND e.change_id = d.change_id AND e.state = 'pending' \
                 AND e.sequence < d.sequence)",
            );
        }
        query.push(" ORDER BY d.next_at, d.sequence");
        push_limit(&mut query, self.limit, 0);
        query.push(DB::FOR_UPDATE).push(DB::SKIP_LOCKED);
        query
    }

    fn update<DB: Dialect>(&self, sequences: Vec<i64>) -> QueryBuilder<DB> {
        let mut query = QueryBuilder::new(
            "UPDATE deliveries SET attempts = attempts + 1, is_claimed = 1, next_at = ",
        );
        DB::bind(&mut query, self.expiry.millis().into());
        query.push(" WHERE organization_id = ");
        DB::bind(&mut query, self.tenant.uuid().into());
        query.push(" AND connection_id = ");
        DB::bind(&mut query, self.connection.0.into());
        query.push(" AND sequence");
        DB::push_in(&mut query, sequences);
        query.push(" RETURNING sequence, change_id, attempts, burst");
        query
    }
}

impl Tx {
    /// Lists the services of the deliveries of a connection that were queued since a time,
    /// of the last 200.
    pub async fn recent_deliveries(
        &mut self,
        tenant: Tenant,
        connection: ConnectionId,
        since: Timestamp,
    ) -> Result<Vec<Option<ServiceId>>, StoreError> {
        let rows: Vec<(Option<Uuid>, i64)> = on!(&mut self.connection, |db| async {
            let mut query = select_recent(tenant, connection);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let recent = rows.into_iter().take_while(|(_, at)| *at >= since.millis());
        Ok(recent.map(|(service, _)| service.map(ServiceId)).collect())
    }

    /// Queues deliveries.
    pub async fn insert_deliveries(
        &mut self,
        tenant: Tenant,
        deliveries: &[NewDelivery],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        match &mut self.connection {
            Engine::Sqlite(db) => {
                insert::<Sqlite>(tenant, deliveries, now)
                    .run(&mut **db)
                    .await
            }
            Engine::Postgres(db) => {
                let script = insert::<Postgres>(tenant, deliveries, now);
                script.run(&mut **db).await
            }
        }
    }

    async fn claim(&mut self, due: &Due) -> Result<Vec<ClaimedRow>, StoreError> {
        let rows: Vec<(i64,)> = on!(&mut self.connection, |db| async {
            due.select().build_query_as().fetch_all(&mut **db).await
        })?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let sequences: Vec<i64> = rows.into_iter().map(|(sequence,)| sequence).collect();
        on!(&mut self.connection, |db| async {
            let mut query = due.update(sequences);
            query.build_query_as().fetch_all(&mut **db).await
        })
    }

    /// Reads the events of claimed deliveries, in their order.
    async fn with_events(
        &mut self,
        tenant: Tenant,
        connection: ConnectionId,
        mut rows: Vec<ClaimedRow>,
    ) -> Result<Vec<Claim>, StoreError> {
        #[derive(FromRow)]
        struct EventRow {
            sequence: i64,
            document: String,
        }
        #[derive(FromRow)]
        struct ReferenceRow {
            change_id: Uuid,
            reference: String,
        }
        rows.sort_by_key(|row| row.sequence);
        let sequences: Vec<i64> = rows.iter().map(|row| row.sequence).collect();
        let changes: Vec<Uuid> = rows.iter().map(|row| row.change_id).collect();
        let documents: Vec<EventRow> = on!(&mut self.connection, |db| async {
            let mut query = select_events(tenant, sequences);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let references: Vec<ReferenceRow> = on!(&mut self.connection, |db| async {
            let mut query = select_references(tenant, connection, changes);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let mut claims = Vec::with_capacity(rows.len());
        for row in rows {
            let found = documents.iter().find(|one| one.sequence == row.sequence);
            let reference = references
                .iter()
                .find(|one| one.change_id == row.change_id)
                .and_then(|one| serde_json::from_str(&one.reference).ok());
            if let Some(Ok(event)) = found.map(|one| events::parse(&one.document)) {
                claims.push(Claim {
                    sequence: row.sequence,
                    attempt: row.attempts,
                    burst: row.burst,
                    event,
                    reference,
                });
            } else {
                // Its claim expires; it is deleted with old deliveries.
                tracing::error!(sequence = row.sequence, "an event cannot be read");
            }
        }
        Ok(claims)
    }

    /// Records the results of attempts, except of those whose claim has expired, and what
    /// they mean for the connection.
    pub async fn finish_deliveries(
        &mut self,
        tenant: Tenant,
        connection: &Connection,
        finished: &[Finished],
        health: &ConnectionHealth,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        match &mut self.connection {
            Engine::Sqlite(db) => {
                let script = finish::<Sqlite>(tenant, connection.id, finished);
                script.run(&mut **db).await?;
            }
            Engine::Postgres(db) => {
                let script = finish::<Postgres>(tenant, connection.id, finished);
                script.run(&mut **db).await?;
            }
        }
        match health.works {
            Some(true) if connection.failing_since.is_some() => {
                self.set_failing(tenant, connection.id, None).await?;
                // The receiver works again: queued retries are sent now.
                self.retry_pending(tenant, connection.id, now).await?;
            }
            Some(false) if connection.failing_since.is_none() => {
                self.set_failing(tenant, connection.id, Some(now)).await?;
            }
            _ => {}
        }
        if let Some(until) = health.hold_until {
            self.hold_connection(tenant, connection.id, until).await?;
        }
        if let Some(reason) = &health.disable {
            let actor = Actor::service();
            self.disable_connection(tenant, &actor, connection, reason, now.to_datetime())
                .await?;
        }
        Ok(())
    }

    /// Makes all pending deliveries of a connection due, except those that are sent.
    pub(super) async fn retry_pending(
        &mut self,
        tenant: Tenant,
        connection: ConnectionId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(RETRY_PENDING)
                .bind(tenant.uuid())
                .bind(connection.0)
                .bind(now.millis())
        )?;
        Ok(())
    }

    /// Gives up the claims of a connection: their worker has ended.
    pub async fn release_claims(
        &mut self,
        tenant: Tenant,
        connection: ConnectionId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        execute!(
            self,
            sqlx::query(RELEASE)
                .bind(tenant.uuid())
                .bind(connection.0)
                .bind(now.millis())
        )
    }

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

fn insert<DB: Dialect>(tenant: Tenant, deliveries: &[NewDelivery], now: Timestamp) -> Script<DB> {
    let rows: Vec<[Value<'_>; 11]> = deliveries
        .iter()
        .map(|new| {
            [
                tenant.uuid().into(),
                new.connection.0.into(),
                new.sequence.into(),
                new.change.0.into(),
                new.service.map(|id| id.0).into(),
                DeliveryState::Pending.as_str().into(),
                0.into(),
                new.due.millis().into(),
                0.into(),
                new.burst.as_deref().into(),
                now.millis().into(),
            ]
        })
        .collect();
    let mut script = Script::new();
    script.insert(
        "INSERT INTO deliveries (organization_id, connection_id, sequence, change_id, service_id, \
         state, attempts, next_at, is_claimed, burst, created_at) ",
        &rows,
        " ON CONFLICT DO NOTHING",
    );
    script
}

fn finish<DB: Dialect>(
    tenant: Tenant,
    connection: ConnectionId,
    finished: &[Finished],
) -> Script<DB> {
    let mut script = Script::new();
    if finished.is_empty() {
        return script;
    }
    let query = script.statement(
        "UPDATE deliveries SET state = done.column3, next_at = done.column4, is_claimed = 0, \
         attempted_at = done.column5, duration_ms = done.column6, status = done.column7, \
         answer = done.column8, reason = done.column9 FROM (",
    );
    let rows = finished.iter().map(|done| {
        [
            Value::from(done.sequence),
            done.attempt.into(),
            done.state.as_str().into(),
            done.next.millis().into(),
            done.at.millis().into(),
            done.duration_ms.into(),
            done.status.map(i64::from).into(),
            done.answer.as_str().into(),
            done.reason.as_deref().into(),
        ]
    });
    super::engine::push_values(query, rows);
    query.push(") AS done WHERE deliveries.organization_id = ");
    DB::bind(query, tenant.uuid().into());
    query.push(" AND deliveries.connection_id = ");
    DB::bind(query, connection.0.into());
    query.push(
        " AND deliveries.sequence = done.column1 AND deliveries.attempts = done.column2 \
         AND deliveries.state = 'pending'",
    );
    let references: Vec<(Uuid, String, i64)> = finished
        .iter()
        .filter_map(|done| {
            let reference = done.reference.as_ref()?.to_string();
            Some((done.change.0, reference, done.at.millis()))
        })
        .collect();
    let rows: Vec<[Value<'_>; 5]> = references
        .iter()
        .map(|(change, reference, at)| {
            [
                tenant.uuid().into(),
                connection.0.into(),
                (*change).into(),
                reference.as_str().into(),
                (*at).into(),
            ]
        })
        .collect();
    script.insert(
        "INSERT INTO receiver_messages \
         (organization_id, connection_id, change_id, reference, updated_at) ",
        &rows,
        " ON CONFLICT (organization_id, connection_id, change_id) \
         DO UPDATE SET reference = excluded.reference, updated_at = excluded.updated_at",
    );
    script
}

fn select_recent<DB: Dialect>(tenant: Tenant, connection: ConnectionId) -> QueryBuilder<DB> {
    let mut query =
        QueryBuilder::new("SELECT service_id, created_at FROM deliveries WHERE organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND connection_id = ");
    DB::bind(&mut query, connection.0.into());
    query.push(" ORDER BY sequence DESC");
    push_limit(&mut query, RECENT, 0);
    query
}

fn select_events<DB: Dialect>(tenant: Tenant, sequences: Vec<i64>) -> QueryBuilder<DB> {
    let mut query =
        QueryBuilder::new("SELECT sequence, document FROM events WHERE organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND sequence");
    DB::push_in(&mut query, sequences);
    query
}

fn select_references<DB: Dialect>(
    tenant: Tenant,
    connection: ConnectionId,
    changes: Vec<Uuid>,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(
        "SELECT change_id, reference FROM receiver_messages WHERE organization_id = ",
    );
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND connection_id = ");
    DB::bind(&mut query, connection.0.into());
    query.push(" AND change_id");
    DB::push_in_ids(&mut query, changes);
    query
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::explain;

    #[tokio::test]
    async fn deliveries_are_found_by_indexes() {
        for statement in [
            NEXT_DUE,
            RELEASE,
            RETRY_PENDING,
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

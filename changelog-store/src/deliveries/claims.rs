//! Claims: deliveries that a worker has taken to send them.
//!
//! A worker claims deliveries for a limited time. Each claim counts as an attempt, and
//! the number of attempts fences off a worker that is late: its result is ignored.
//! A delivery is claimed only when the earlier ones of the same subject are done.

use std::collections::HashSet;

use changelog_core::{ConnectionId, Event, Timestamp};
use serde_json::Value as Json;
use sqlx::types::Uuid;
use sqlx::{FromRow, QueryBuilder};

use crate::engine::{Dialect, PushValue, execute, on, push_limit, read};
use crate::trace_parent::TraceParent;
use crate::{Database, StoreError, Tenant, Tx, events};

/// The limit on deliveries of one message of a burst.
const MAX_BURST: u64 = 500;

pub(super) const NEXT_DUE: &str = "
SELECT next_at FROM deliveries
WHERE organization_id = $1 AND connection_id = $2 AND state = 'pending'
ORDER BY next_at LIMIT 1";

/// On SQLite one server has all claims, so that none is valid when it starts. The time
/// makes it read the pending deliveries only.
pub(super) const RELEASE: &str = "
UPDATE deliveries SET is_claimed = 0, next_at = $3
WHERE organization_id = $1 AND connection_id = $2 AND state = 'pending' AND next_at > 0
    AND is_claimed = 1";

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
    /// The trace of the request that caused it.
    pub trace: Option<TraceParent>,
    /// What the receiver calls its message about the subject.
    pub reference: Option<Json>,
    /// Whether that message shows a later event already, so that this one must not replace
    /// it: an event that failed and was replayed.
    pub is_outdated: bool,
}

#[derive(FromRow)]
struct ClaimedRow {
    sequence: i64,
    subject_id: Uuid,
    attempts: i64,
    burst: Option<String>,
}

#[derive(FromRow)]
struct ReferenceRow {
    subject_id: Uuid,
    reference: String,
    sequence: i64,
}

impl Database {
    /// Returns when the next delivery of a connection is due, or its claim expires.
    pub async fn next_due(
        &self,
        tenant: Tenant,
        connection: ConnectionId,
    ) -> Result<Option<Timestamp>, StoreError> {
        let row: Option<(i64,)> = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(NEXT_DUE)
                .bind(tenant.uuid())
                .bind(connection.0)
                .fetch_optional(&mut **db)
        })?;
        Ok(row.map(|(at,)| Timestamp::from_millis(at)))
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
        let mut found = tx.lock_due(&due).await?;
        if let [(_, Some(burst))] = &found[..] {
            let burst = Due {
                limit: MAX_BURST,
                burst: Some(burst.clone()),
                ..due.clone()
            };
            found = tx.lock_due(&burst).await?;
        }
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let sequences = found.into_iter().map(|(sequence, _)| sequence).collect();
        let rows = tx.claim(&due, sequences).await?;
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
    /// Only those of this burst, which are one message: also several of a subject.
    burst: Option<String>,
}

impl Due {
    /// Selects them and locks them on PostgreSQL, without those that another server has
    /// locked. The update is a statement of its own: PostgreSQL may run a subselect with a
    /// limit several times.
    fn select<DB: Dialect>(&self) -> QueryBuilder<DB> {
        let (tenant, connection) = (self.tenant.uuid(), self.connection.0);
        let mut query = QueryBuilder::new(
            "SELECT d.sequence, d.burst FROM deliveries d WHERE d.organization_id = ",
        );
        DB::bind(&mut query, tenant.into());
        query.push_value(" AND d.connection_id = ", connection);
        query.push(" AND d.state = 'pending' AND d.next_at <= ");
        DB::bind(&mut query, self.now.millis().into());
        if let Some(burst) = &self.burst {
            query.push_value(" AND d.burst = ", burst.as_str());
        }
        // No earlier one of its subject is pending, except in the same message. PostgreSQL would
        // make a join of NOT EXISTS, and for a table that has just grown one that reads all that
        // is pending, for each row.
        query.push(if self.burst.is_some() {
            " AND (SELECT count(*) FROM deliveries e WHERE e.organization_id = "
        } else {
            " AND d.sequence = (SELECT min(e.sequence) FROM deliveries e \
             WHERE e.organization_id = "
        });
        DB::bind(&mut query, tenant.into());
        query.push_value(" AND e.connection_id = ", connection);
        query.push(" AND e.subject_id = d.subject_id AND e.state = 'pending'");
        if let Some(burst) = &self.burst {
            query.push(" AND e.sequence < d.sequence AND (e.burst IS NULL OR e.burst <> ");
            DB::bind(&mut query, burst.as_str().into());
            query.push_value(" OR e.next_at > ", self.now.millis());
            query.push(")) = 0");
        } else {
            query.push(")");
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
        query.push_value(" WHERE organization_id = ", self.tenant.uuid());
        query.push_value(" AND connection_id = ", self.connection.0);
        query.push(" AND sequence");
        DB::push_in(&mut query, sequences);
        query.push(" RETURNING sequence, subject_id, attempts, burst");
        query
    }
}

impl Tx {
    /// Returns the places and the bursts of deliveries to claim.
    async fn lock_due(&mut self, due: &Due) -> Result<Vec<(i64, Option<String>)>, StoreError> {
        on!(&mut self.connection, |db| async {
            due.select().build_query_as().fetch_all(&mut **db).await
        })
    }

    async fn claim(
        &mut self,
        due: &Due,
        sequences: Vec<i64>,
    ) -> Result<Vec<ClaimedRow>, StoreError> {
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
        rows.sort_by_key(|row| row.sequence);
        let sequences: Vec<i64> = rows.iter().map(|row| row.sequence).collect();
        let subjects: Vec<Uuid> = rows.iter().map(|row| row.subject_id).collect();
        let documents: Vec<EventRow> = on!(&mut self.connection, |db| async {
            let mut query = select_events(tenant, sequences);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let references: Vec<ReferenceRow> = on!(&mut self.connection, |db| async {
            let mut query = select_references(tenant, connection, subjects);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let mut claims = Vec::with_capacity(rows.len());
        for row in rows {
            let found = documents.iter().find(|one| one.sequence == row.sequence);
            let known = references
                .iter()
                .find(|one| one.subject_id == row.subject_id);
            if let Some(Ok((event, trace))) = found.map(|one| events::parse(&one.document)) {
                claims.push(Claim {
                    sequence: row.sequence,
                    attempt: row.attempts,
                    burst: row.burst,
                    event,
                    trace,
                    reference: known.and_then(|one| serde_json::from_str(&one.reference).ok()),
                    is_outdated: known.is_some_and(|one| one.sequence > row.sequence),
                });
            } else {
                // Its claim expires; it is deleted with old deliveries.
                tracing::error!(sequence = row.sequence, "an event cannot be read");
            }
        }
        Ok(claims)
    }

    /// Returns those of some subjects that a receiver has messages about, which it can edit.
    pub async fn posted_subjects(
        &mut self,
        tenant: Tenant,
        connection: ConnectionId,
        subjects: Vec<Uuid>,
    ) -> Result<HashSet<Uuid>, StoreError> {
        let rows: Vec<ReferenceRow> = on!(&mut self.connection, |db| async {
            let mut query = select_references(tenant, connection, subjects);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(rows.into_iter().map(|row| row.subject_id).collect())
    }

    /// Gives up claims that expire at a time, of deliveries that were not sent: they are due
    /// again, and have had no attempt. With `is_alone` they leave their burst.
    pub async fn return_claims(
        &mut self,
        tenant: Tenant,
        connection: ConnectionId,
        sequences: Vec<i64>,
        is_alone: bool,
        (now, expiry): (Timestamp, Timestamp),
    ) -> Result<(), StoreError> {
        if sequences.is_empty() {
            return Ok(());
        }
        on!(&mut self.connection, |db| async {
            let mut query = return_claims(tenant, connection, sequences, is_alone, (now, expiry));
            query.build().execute(&mut **db).await.map(drop)
        })
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
}

fn return_claims<DB: Dialect>(
    tenant: Tenant,
    connection: ConnectionId,
    sequences: Vec<i64>,
    is_alone: bool,
    (now, expiry): (Timestamp, Timestamp),
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(
        "UPDATE deliveries SET attempts = attempts - 1, is_claimed = 0, next_at = ",
    );
    DB::bind(&mut query, now.millis().into());
    query.push(if is_alone { ", burst = NULL" } else { "" });
    query.push_value(" WHERE organization_id = ", tenant.uuid());
    query.push_value(" AND connection_id = ", connection.0);
    query.push_value(" AND is_claimed = 1 AND next_at = ", expiry.millis());
    query.push(" AND sequence");
    DB::push_in(&mut query, sequences);
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
    subjects: Vec<Uuid>,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(
        "SELECT subject_id, reference, sequence FROM receiver_messages WHERE organization_id = ",
    );
    DB::bind(&mut query, tenant.uuid().into());
    query.push_value(" AND connection_id = ", connection.0);
    query.push(" AND subject_id");
    DB::push_in_ids(&mut query, subjects);
    query
}

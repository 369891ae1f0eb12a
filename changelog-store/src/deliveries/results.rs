//! Records what became of attempts.

use changelog_core::{ConnectionId, Timestamp};
use serde_json::Value as Json;
use sqlx::types::Uuid;

use super::DeliveryState;
use crate::connections::Connection;
use crate::engine::{Dialect, PushValue, Script, Value, execute, push_values, run_script};
use crate::{Actor, StoreError, Tenant, Tx};

pub(super) const RETRY_PENDING: &str = "
UPDATE deliveries SET next_at = $3
WHERE organization_id = $1 AND connection_id = $2 AND state = 'pending' AND is_claimed = 0
    AND next_at > $3";

/// A message that the receiver does not accept, although it accepts others, must not use up
/// its attempts each time that another one succeeds.
pub(super) const ADVANCE_PENDING: &str = "
UPDATE deliveries SET next_at = CASE WHEN earliest_at > $3 THEN earliest_at ELSE $3 END
WHERE organization_id = $1 AND connection_id = $2 AND state = 'pending' AND is_claimed = 0
    AND next_at > $3";

/// The result of an attempt.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The place of the event.
    pub sequence: i64,
    /// What the event is about.
    pub subject: Uuid,
    /// The number of the attempt.
    pub attempt: i64,
    /// What follows.
    pub state: DeliveryState,
    /// When the next attempt is due, if one follows.
    pub next: Timestamp,
    /// The earliest time of the next attempt if the receiver takes another message first.
    pub earliest: Timestamp,
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
    /// What the receiver calls its message about the subject from now on.
    pub reference: Option<Json>,
}

/// What the attempts of one transaction mean for the connection.
#[derive(Clone, Debug, Default)]
pub struct ConnectionHealth {
    /// The receiver has taken a message; `Some(false)` if it has failed only.
    pub works: Option<bool>,
    /// Since when it fails, if it has failed only.
    pub failing_since: Option<Timestamp>,
    /// Nothing is sent before this time.
    pub hold_until: Option<Timestamp>,
    /// Why the connection is disabled.
    pub disable: Option<String>,
}

impl Tx {
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
        run_script!(self, |DB| finish::<DB>(tenant, connection.id, finished))?;
        match health.works {
            Some(true) if connection.failing_since.is_some() => {
                self.set_failing(tenant, connection.id, None).await?;
                // The receiver works again.
                self.retry(ADVANCE_PENDING, tenant, connection.id, now)
                    .await?;
            }
            Some(false) if connection.failing_since != health.failing_since => {
                self.set_failing(tenant, connection.id, health.failing_since)
                    .await?;
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
    pub(crate) async fn retry_pending(
        &mut self,
        tenant: Tenant,
        connection: ConnectionId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.retry(RETRY_PENDING, tenant, connection, now).await
    }

    async fn retry(
        &mut self,
        statement: &'static str,
        tenant: Tenant,
        connection: ConnectionId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(statement)
                .bind(tenant.uuid())
                .bind(connection.0)
                .bind(now.millis())
        )?;
        Ok(())
    }
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
        "UPDATE deliveries SET state = done.column3, next_at = done.column4, \
         earliest_at = done.column5, is_claimed = 0, attempted_at = done.column6, \
         duration_ms = done.column7, status = done.column8, answer = done.column9, \
         reason = done.column10 FROM (",
    );
    let rows = finished.iter().map(|done| {
        [
            Value::from(done.sequence),
            done.attempt.into(),
            done.state.as_str().into(),
            done.next.millis().into(),
            done.earliest.millis().into(),
            done.at.millis().into(),
            done.duration_ms.into(),
            done.status.map(i64::from).into(),
            done.answer.as_str().into(),
            done.reason.as_deref().into(),
        ]
    });
    push_values(query, rows);
    // The whole primary key is given by itself, and no other index has this condition on the
    // state: else SQLite, and PostgreSQL for a table that has just grown, read all that is
    // pending or was sent, once for each row.
    query.push(") AS done WHERE deliveries.organization_id = ");
    DB::bind(query, tenant.uuid().into());
    query.push_value(" AND deliveries.connection_id = ", connection.0);
    query.push(" AND deliveries.sequence");
    DB::push_in(query, finished.iter().map(|done| done.sequence).collect());
    query.push(
        " AND deliveries.sequence = done.column1 AND deliveries.attempts = done.column2 \
         AND deliveries.state || '' = 'pending'",
    );
    let references: Vec<(Uuid, String, &Finished)> = finished
        .iter()
        .filter_map(|done| Some((done.subject, done.reference.as_ref()?.to_string(), done)))
        .collect();
    let rows: Vec<[Value<'_>; 6]> = references
        .iter()
        .map(|(subject, reference, done)| {
            [
                tenant.uuid().into(),
                connection.0.into(),
                (*subject).into(),
                reference.as_str().into(),
                done.sequence.into(),
                done.at.millis().into(),
            ]
        })
        .collect();
    script.insert(
        "INSERT INTO receiver_messages \
         (organization_id, connection_id, subject_id, reference, sequence, updated_at) ",
        &rows,
        " ON CONFLICT (organization_id, connection_id, subject_id) DO UPDATE SET \
         reference = excluded.reference, sequence = excluded.sequence, \
         updated_at = excluded.updated_at WHERE receiver_messages.sequence <= excluded.sequence",
    );
    script
}

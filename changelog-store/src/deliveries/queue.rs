//! Queues deliveries.

use std::collections::HashSet;

use changelog_core::{ConnectionId, ServiceId, Timestamp};
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::DeliveryState;
use crate::engine::{Dialect, PushValue, Script, Value, on, push_limit, run_script};
use crate::{StoreError, Tenant, Tx};

/// How far back deliveries are counted to recognize a burst.
const RECENT: u64 = 200;

/// A delivery to queue.
#[derive(Clone, Debug)]
pub struct NewDelivery {
    /// The connection.
    pub connection: ConnectionId,
    /// The place of the event.
    pub sequence: i64,
    /// What the event is about.
    pub subject: Uuid,
    /// The first service of the change, if it is about one.
    pub service: Option<ServiceId>,
    /// When it is due.
    pub due: Timestamp,
    /// The burst that it is sent with.
    pub burst: Option<String>,
}

impl Tx {
    /// Lists the services of the deliveries of a connection that were queued since a time, and
    /// when they were, the newest first; of the last 200.
    pub async fn recent_deliveries(
        &mut self,
        tenant: Tenant,
        connection: ConnectionId,
        since: Timestamp,
    ) -> Result<Vec<(Option<ServiceId>, Timestamp)>, StoreError> {
        let rows: Vec<(Option<Uuid>, i64)> = on!(&mut self.connection, |db| async {
            let mut query = select_recent(tenant, connection);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let recent = rows.into_iter().take_while(|(_, at)| *at >= since.millis());
        let recent =
            recent.map(|(service, at)| (service.map(ServiceId), Timestamp::from_millis(at)));
        Ok(recent.collect())
    }

    /// Deletes the deliveries about some subjects that are pending, were not tried yet, and are
    /// not part of a burst.
    pub async fn withdraw_deliveries(
        &mut self,
        tenant: Tenant,
        connection: ConnectionId,
        subjects: HashSet<Uuid>,
    ) -> Result<(), StoreError> {
        let subjects: Vec<Uuid> = subjects.into_iter().collect();
        run_script!(self, |DB| withdraw::<DB>(tenant, connection, subjects))
    }

    /// Queues deliveries.
    pub async fn insert_deliveries(
        &mut self,
        tenant: Tenant,
        deliveries: &[NewDelivery],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        run_script!(self, |DB| insert::<DB>(tenant, deliveries, now))
    }
}

fn withdraw<DB: Dialect>(
    tenant: Tenant,
    connection: ConnectionId,
    subjects: Vec<Uuid>,
) -> Script<DB> {
    let mut script = Script::new();
    let query = script.statement("DELETE FROM deliveries WHERE organization_id = ");
    DB::bind(query, tenant.uuid().into());
    query.push_value(" AND connection_id = ", connection.0);
    query.push(" AND state = 'pending' AND attempts = 0 AND burst IS NULL AND subject_id");
    DB::push_in_ids(query, subjects);
    script
}

fn insert<DB: Dialect>(tenant: Tenant, deliveries: &[NewDelivery], now: Timestamp) -> Script<DB> {
    let rows: Vec<[Value<'_>; 12]> = deliveries
        .iter()
        .map(|new| {
            [
                tenant.uuid().into(),
                new.connection.0.into(),
                new.sequence.into(),
                new.subject.into(),
                new.service.map(|id| id.0).into(),
                DeliveryState::Pending.as_str().into(),
                0.into(),
                new.due.millis().into(),
                new.due.millis().into(),
                0.into(),
                new.burst.as_deref().into(),
                now.millis().into(),
            ]
        })
        .collect();
    let mut script = Script::new();
    script.insert(
        "INSERT INTO deliveries (organization_id, connection_id, sequence, subject_id, service_id, \
         state, attempts, next_at, earliest_at, is_claimed, burst, created_at) ",
        &rows,
        " ON CONFLICT DO NOTHING",
    );
    script
}

fn select_recent<DB: Dialect>(tenant: Tenant, connection: ConnectionId) -> QueryBuilder<DB> {
    let mut query =
        QueryBuilder::new("SELECT service_id, created_at FROM deliveries WHERE organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push_value(" AND connection_id = ", connection.0);
    query.push(" ORDER BY sequence DESC");
    push_limit(&mut query, RECENT, 0);
    query
}

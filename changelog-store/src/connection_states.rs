//! How connections do: what is queued for them and what failed.

use changelog_core::{ConnectionId, Timestamp};
use sqlx::FromRow;
use sqlx::types::Uuid;

use super::connections::Disabled;
use super::engine::read;
use super::{Database, StoreError, Tenant};

/// The most deliveries of one state that are counted.
pub const MAX_COUNTED: i64 = 1_000;

/// Counts up to one more than [`MAX_COUNTED`]. Of the pending deliveries, those that were
/// attempted are due last. The literal limit is [`MAX_CONNECTIONS`](super::MAX_CONNECTIONS),
/// which two requests at once may exceed.
const SELECT_TOTALS: &str = "
SELECT c.id,
    (SELECT count(*) FROM (SELECT 1 AS one FROM deliveries d
        WHERE d.organization_id = $1 AND d.connection_id = c.id AND d.state = 'pending'
        ORDER BY d.next_at LIMIT 1001) AS counted) AS pending,
    (SELECT count(*) FROM (SELECT 1 AS one FROM deliveries d
        WHERE d.organization_id = $1 AND d.connection_id = c.id AND d.state = 'dead'
        ORDER BY d.sequence LIMIT 1001) AS counted) AS dead,
    (SELECT d.created_at FROM deliveries d
        WHERE d.organization_id = $1 AND d.connection_id = c.id
        ORDER BY d.sequence DESC LIMIT 1) AS newest_at,
    (SELECT d.reason FROM deliveries d
        WHERE d.organization_id = $1 AND d.connection_id = c.id AND d.state = 'pending'
        ORDER BY d.next_at DESC LIMIT 1) AS reason
FROM connections c WHERE c.organization_id = $1 LIMIT 100";

const SELECT_TROUBLED: &str = "
SELECT id, name, disabled_at, disabled_reason, failing_since FROM connections
WHERE organization_id = $1 AND (disabled_at IS NOT NULL OR failing_since <= $2)
ORDER BY name_folded LIMIT 100";

/// What is queued for a connection and what failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryTotals {
    /// The number of deliveries that are to be sent, up to one more than [`MAX_COUNTED`].
    pub pending: i64,
    /// The number of those that failed and are not sent again by themselves, in the same
    /// way.
    pub dead: i64,
    /// When the newest delivery was queued; `None` if there is none.
    pub newest_at: Option<Timestamp>,
    /// Why the last attempt to send one that is still pending failed.
    pub reason: Option<String>,
}

/// A connection that a person should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TroubledConnection {
    /// The id.
    pub id: ConnectionId,
    /// The name.
    pub name: String,
    /// Since when and why it sends nothing.
    pub disabled: Option<Disabled>,
    /// The first failure since the last success.
    pub failing_since: Option<Timestamp>,
}

#[derive(FromRow)]
struct TotalsRow {
    #[sqlx(try_from = "Uuid")]
    id: ConnectionId,
    pending: i64,
    dead: i64,
    newest_at: Option<i64>,
    reason: Option<String>,
}

#[derive(FromRow)]
struct TroubledRow {
    #[sqlx(try_from = "Uuid")]
    id: ConnectionId,
    name: String,
    disabled_at: Option<i64>,
    disabled_reason: Option<String>,
    failing_since: Option<i64>,
}

impl Database {
    /// Returns what is queued for each connection of an organization and what failed.
    pub async fn delivery_totals(
        &self,
        tenant: Tenant,
    ) -> Result<Vec<(ConnectionId, DeliveryTotals)>, StoreError> {
        let rows: Vec<TotalsRow> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_TOTALS)
                .bind(tenant.uuid())
                .fetch_all(&mut **db)
        })?;
        let totals = |row: TotalsRow| {
            let totals = DeliveryTotals {
                pending: row.pending,
                dead: row.dead,
                newest_at: row.newest_at.map(Timestamp::from_millis),
                reason: row.reason,
            };
            (row.id, totals)
        };
        Ok(rows.into_iter().map(totals).collect())
    }

    /// Lists the connections that are disabled, unless a person has disabled them, and
    /// those that have been failing since a time or longer, by name.
    pub async fn troubled_connections(
        &self,
        tenant: Tenant,
        failing_since: Timestamp,
    ) -> Result<Vec<TroubledConnection>, StoreError> {
        let rows: Vec<TroubledRow> = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_TROUBLED)
                .bind(tenant.uuid())
                .bind(failing_since.millis())
                .fetch_all(&mut **db)
        })?;
        let troubled = rows.into_iter().map(|row| TroubledConnection {
            id: row.id,
            name: row.name,
            disabled: Disabled::of(row.disabled_at, row.disabled_reason),
            failing_since: row.failing_since.map(Timestamp::from_millis),
        });
        let is_unwanted = |one: &TroubledConnection| {
            let disabled = one.disabled.as_ref();
            !disabled.is_some_and(Disabled::is_by_person)
        };
        Ok(troubled.filter(is_unwanted).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::explain;

    #[tokio::test]
    async fn indexes_are_used() {
        let plan = explain::of(SELECT_TROUBLED).await;
        assert!(plan[0].starts_with("SEARCH connections"), "{plan:?}");
        let plan = explain::of(SELECT_TOTALS).await;
        for step in &plan {
            let is_scan = ["SCAN c", "SCAN d"].contains(&step.as_str());
            assert!(!is_scan, "{plan:?}");
            assert!(!step.contains("TEMP B-TREE"), "{plan:?}");
        }
        for index in ["deliveries_due", "deliveries_dead"] {
            assert!(plan.iter().any(|step| step.contains(index)), "{plan:?}");
        }
    }
}

//! The alerts of sources, each with the incident that it has opened last.

use changelog_core::{IncidentId, Severity, Timestamp};
use chrono::TimeDelta;
use sqlx::FromRow;
use sqlx::types::Uuid;

use crate::engine::{execute, on};
use crate::{Source, StoreError, Tx};

/// How long an alert is known after its last request: a sender that repeats notifications less
/// often opens another incident.
pub(crate) const ALERTS_KEPT: TimeDelta = TimeDelta::days(90);

/// Deletes 1,000 alerts that are older than the time to keep them.
pub(crate) const PURGE: &str = "
DELETE FROM incident_alerts WHERE (organization_id, source_id, key_hash) IN
    (SELECT organization_id, source_id, key_hash FROM incident_alerts WHERE updated_at < $1
     ORDER BY updated_at LIMIT 1000)";

const SELECT: &str = "
SELECT incident_id, is_firing, severity, last_at, updated_at FROM incident_alerts
WHERE organization_id = $1 AND source_id = $2 AND key_hash = $3";

const PUT: &str = "
INSERT INTO incident_alerts (organization_id, source_id, key_hash, incident_id, is_firing,
                             severity, last_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (organization_id, source_id, key_hash) DO UPDATE SET
    incident_id = excluded.incident_id, is_firing = excluded.is_firing,
    severity = excluded.severity, last_at = excluded.last_at, updated_at = excluded.updated_at";

/// What is known of an alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAlert {
    /// The incident that it has opened last.
    pub incident: Option<IncidentId>,
    /// Whether it fires.
    pub is_firing: bool,
    /// How bad it is, where the sender has said so.
    pub severity: Option<Severity>,
    /// When it came into this state.
    pub last_at: Timestamp,
    /// When that was told.
    pub told_at: Timestamp,
}

#[derive(FromRow)]
struct Row {
    incident_id: Option<Uuid>,
    is_firing: i64,
    severity: Option<String>,
    last_at: i64,
    updated_at: i64,
}

impl Tx {
    /// Finds an alert by the SHA-256 of its key.
    pub async fn alert(
        &mut self,
        source: &Source,
        key: &[u8],
    ) -> Result<Option<StoredAlert>, StoreError> {
        let row: Option<Row> = on!(&mut self.connection, |db| sqlx::query_as(SELECT)
            .bind(source.tenant.uuid())
            .bind(source.id.0)
            .bind(key)
            .fetch_optional(&mut **db))?;
        Ok(row.map(|row| StoredAlert {
            incident: row.incident_id.map(IncidentId),
            is_firing: row.is_firing != 0,
            severity: row.severity.and_then(|word| word.parse().ok()),
            last_at: Timestamp::from_millis(row.last_at),
            told_at: Timestamp::from_millis(row.updated_at),
        }))
    }

    /// Stores what is known of an alert.
    pub async fn put_alert(
        &mut self,
        source: &Source,
        key: &[u8],
        alert: &StoredAlert,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(PUT)
                .bind(source.tenant.uuid())
                .bind(source.id.0)
                .bind(key)
                .bind(alert.incident.map(|id| id.0))
                .bind(i64::from(alert.is_firing))
                .bind(alert.severity.as_ref().map(Severity::as_str))
                .bind(alert.last_at.millis())
                .bind(alert.told_at.millis())
        )?;
        Ok(())
    }
}

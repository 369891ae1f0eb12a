//! When the suspects of incidents are ranked, and what is stored of them.
//!
//! `rank_at` says when: at once for an incident that was opened or whose service, environment
//! or start was changed; while it is open, again at intervals, and soon when a change before it
//! was recorded late, updated or moved. The older an incident is, the rarer that becomes, so
//! that many open incidents do not outweigh what is recorded.

use std::collections::{HashMap, HashSet};

use changelog_core::{EventKind, Gap, Incident, IncidentId, IncidentSuspect, Timestamp};
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::types::Uuid;

use super::{LISTED_SUSPECTS, StoredSuspects, to_json};
use crate::activity::clamped;
use crate::engine::{execute, read};
use crate::{Actor, Database, StoreError, Tenant, Tx};

/// The limit on suspects that an incident has.
pub const MAX_SUSPECTS: usize = 10;
/// The limit on gaps of coverage that are stored with them.
const MAX_GAPS: usize = 10;
/// How often the suspects of an open incident are ranked again, even if nothing leads to it.
const RERANK_INTERVAL: TimeDelta = TimeDelta::minutes(10);
/// How long after its start an open incident is ranked again.
const RERANKED: TimeDelta = TimeDelta::days(7);
/// The shortest and the longest time between two rankings; in between, a sixtieth of the age
/// of the incident.
const MIN_PAUSE: TimeDelta = TimeDelta::seconds(2);
const MAX_PAUSE: TimeDelta = TimeDelta::minutes(5);
/// The limit on incidents that a change leads to rank again at once.
const MAX_RERANKED: i64 = 100;
/// The limit on incidents that are taken together.
const MAX_DUE: u64 = 20;
/// The limit on organizations that are looked for together.
const MAX_TENANTS: u64 = 200;

const DUE_TENANTS: &str =
    "SELECT organization_id FROM incidents WHERE rank_at <= $1 ORDER BY rank_at LIMIT $2";

const DUE: &str = "
SELECT id, rank_at FROM incidents
WHERE organization_id = $1 AND rank_at <= $2 ORDER BY rank_at LIMIT $3";

/// The open incidents that started after a change, the newest first, whose next ranking is
/// later than they may have one.
const RERANK: &str = "
UPDATE incidents SET rank_at = CASE WHEN rerank_from > $3 THEN rerank_from ELSE $3 END
WHERE organization_id = $1
    AND rank_at > CASE WHEN rerank_from > $3 THEN rerank_from ELSE $3 END
    AND id IN (SELECT id FROM incidents
               WHERE organization_id = $1 AND is_open = 1 AND started_at >= $2
               ORDER BY started_at DESC LIMIT $4)";

const KEEP: &str = "
UPDATE incidents SET suspects = $3, rank_at = $4, rerank_from = $5
WHERE organization_id = $1 AND id = $2";

/// An incident whose suspects are to be ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueIncident {
    /// The incident.
    pub id: IncidentId,
    /// Since when; another value means that it became due again meanwhile.
    due_at: i64,
}

/// Suspects that were ranked just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedSuspects {
    /// The suspects, most suspicious first.
    pub suspects: Vec<IncidentSuspect>,
    /// The gaps of coverage in the period that was searched.
    pub gaps: Vec<Gap>,
}

impl Database {
    /// Returns organizations that have suspects to rank.
    pub async fn find_ranking_work(&self, now: Timestamp) -> Result<HashSet<Tenant>, StoreError> {
        let rows: Vec<(Uuid,)> = read!(self.system().await?, |db| {
            sqlx::query_as(DUE_TENANTS)
                .bind(now.millis())
                .bind(clamped(MAX_TENANTS))
                .fetch_all(&mut **db)
        })?;
        Ok(rows.into_iter().map(|(id,)| Tenant(id.into())).collect())
    }

    /// Returns incidents of an organization whose suspects are to be ranked: new ones first.
    pub async fn incidents_to_rank(
        &self,
        tenant: Tenant,
        now: Timestamp,
    ) -> Result<Vec<DueIncident>, StoreError> {
        let rows: Vec<(Uuid, i64)> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(DUE)
                .bind(tenant.uuid())
                .bind(now.millis())
                .bind(clamped(MAX_DUE))
                .fetch_all(&mut **db)
        })?;
        let due = rows.into_iter().map(|(id, due_at)| DueIncident {
            id: id.into(),
            due_at,
        });
        Ok(due.collect())
    }

    /// Takes, of each organization, the time of the earliest change that this process has
    /// recorded or updated since the last call.
    pub fn take_late_changes(&self) -> HashMap<Tenant, Timestamp> {
        self.notifier.take_late_changes()
    }

    /// Lets the suspects of open incidents be ranked again that a change at a time may be
    /// among: one that was recorded late, updated or moved.
    pub async fn rerank_incidents(
        &self,
        tenant: Tenant,
        changed_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let since = changed_at.max(now.plus(-RERANKED));
        let mut tx = self.begin_for(tenant).await?;
        let due = execute!(
            tx,
            sqlx::query(RERANK)
                .bind(tenant.uuid())
                .bind(since.millis())
                .bind(now.millis())
                .bind(MAX_RERANKED)
        )?;
        if due > 0 {
            tx.commit().await?;
            self.ranking_work.add(tenant);
        }
        Ok(())
    }
}

impl Tx {
    /// Stores the suspects of an incident, and records their event if they are the first, or if
    /// the first three of an open incident have become others.
    pub async fn keep_suspects(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        due: DueIncident,
        ranked: RankedSuspects,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let locked = self.lock_incident(tenant, due.id).await?;
        if locked.rank_at != Some(due.due_at) {
            // Another server has ranked it, or it is to be ranked by other words.
            return Ok(());
        }
        let mut incident = locked.incident;
        let is_first = incident.ranked_at.is_none();
        let shown = shown(&incident.suspects);
        incident.suspects = ranked.suspects;
        incident.suspects.truncate(MAX_SUSPECTS);
        incident.gaps = ranked.gaps;
        incident.gaps.truncate(MAX_GAPS);
        incident.ranked_at = Some(now.into());
        if is_first {
            incident.first_suspects.clone_from(&incident.suspects);
        }
        let is_event = incident.is_open() && (is_first || shown != self::shown(&incident.suspects));
        if is_event {
            let kind = EventKind::IncidentSuspects;
            self.record_incident_event(tenant, actor, kind, !is_first, &incident, now)
                .await?;
        }
        let (next, from) = next_ranking(&incident, now.into());
        let suspects = to_json(&StoredSuspects::take(&mut incident))?;
        execute!(
            self,
            sqlx::query(KEEP)
                .bind(tenant.uuid())
                .bind(incident.id.0)
                .bind(suspects)
                .bind(next.map(Timestamp::millis))
                .bind(from.millis())
        )?;
        if is_first || is_event {
            self.notify_of_ranking(tenant, incident.id, now);
        }
        Ok(())
    }
}

/// Returns the changes that are shown first.
fn shown(suspects: &[IncidentSuspect]) -> Vec<changelog_core::ChangeId> {
    let first = suspects.iter().take(LISTED_SUSPECTS);
    first.map(|suspect| suspect.change.id).collect()
}

/// Returns when the suspects of an incident are ranked next, and from when on a change may lead
/// to that.
fn next_ranking(incident: &Incident, now: Timestamp) -> (Option<Timestamp>, Timestamp) {
    let is_reranked = incident.is_open() && incident.started_at > now.plus(-RERANKED);
    let age = TimeDelta::milliseconds(now.millis() - incident.started_at.millis());
    let pause = (age / 60).clamp(MIN_PAUSE, MAX_PAUSE);
    (
        is_reranked.then(|| now.plus(RERANK_INTERVAL)),
        now.plus(pause),
    )
}

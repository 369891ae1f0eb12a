//! Ranks the suspects of incidents in the background: at once when an incident was opened, and
//! again while it is open. The ranking is that of [`crate::around`].

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use changelog_core::{AroundFilter, Incident, IncidentSuspect, SuspectedChange, Timestamp};
use tokio::sync::watch;
use tokio::time::{interval, sleep};

use crate::app::App;
use crate::around::investigate;
use crate::store::{Actor, DueIncident, MAX_SUSPECTS, RankedSuspects, StoreError, Tenant};

/// How often incidents are looked for without a notification: those of another server, and
/// those that are ranked again.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How often the changes that were recorded late, updated or moved are looked at together.
const LATE_CHANGES_INTERVAL: Duration = Duration::from_secs(2);
/// The wait after an error of the database.
const ERROR_WAIT: Duration = Duration::from_secs(2);

/// Ranks until `stop` is true.
pub(crate) async fn run(app: App, mut stop: watch::Receiver<bool>) {
    let mut poll = interval(POLL_INTERVAL);
    let mut late = interval(LATE_CHANGES_INTERVAL);
    while !*stop.borrow() {
        let ready = tokio::select! {
            ready = app.store.ranking_work() => ready,
            _ = poll.tick() => due_tenants(&app).await,
            _ = late.tick() => {
                note_late_changes(&app).await;
                continue;
            }
            _ = stop.changed() => continue,
        };
        rank_all(&app, ready, &stop).await;
    }
}

async fn due_tenants(app: &App) -> HashSet<Tenant> {
    let found = app.store.find_ranking_work(app.now().into()).await;
    found.unwrap_or_else(|error| {
        tracing::warn!(%error, "the organizations with suspects to rank are unknown");
        HashSet::new()
    })
}

/// Lets incidents be ranked again that started after changes which were recorded late, updated
/// or moved.
async fn note_late_changes(app: &App) {
    let now: Timestamp = app.now().into();
    for (tenant, changed_at) in app.store.take_late_changes() {
        if let Err(error) = app.store.rerank_incidents(tenant, changed_at, now).await {
            tracing::warn!(%error, "late changes could not be compared with incidents");
        }
    }
}

/// Ranks the suspects of organizations in turns, until none has more. What was ranked once waits
/// as long as the last ranking took, so that requests have half of the time at least.
async fn rank_all(app: &App, ready: HashSet<Tenant>, stop: &watch::Receiver<bool>) {
    let mut queue: VecDeque<Tenant> = ready.into_iter().collect();
    while let Some(tenant) = queue.pop_front() {
        if *stop.borrow() {
            return;
        }
        for other in app.store.take_ranking_work() {
            if other != tenant && !queue.contains(&other) {
                queue.push_back(other);
            }
        }
        match rank_some(app, tenant).await {
            Ok(false) => {}
            Ok(true) => queue.push_back(tenant),
            Err(error) => {
                tracing::warn!(%error, "suspects could not be ranked");
                // They are found again by the next poll.
                sleep(ERROR_WAIT).await;
            }
        }
    }
}

/// Ranks the suspects of some incidents of an organization. Returns whether there may be more.
async fn rank_some(app: &App, tenant: Tenant) -> Result<bool, StoreError> {
    let due = app
        .store
        .incidents_to_rank(tenant, app.now().into())
        .await?;
    if due.is_empty() {
        return Ok(false);
    }
    let actor = Actor {
        has_receivers: app.store.has_receivers(tenant).await?,
        ..Actor::service()
    };
    for one in due {
        let started = Instant::now();
        rank_one(app, tenant, &actor, one).await?;
        sleep(started.elapsed()).await;
    }
    Ok(true)
}

async fn rank_one(
    app: &App,
    tenant: Tenant,
    actor: &Actor,
    due: DueIncident,
) -> Result<(), StoreError> {
    let incident = app.store.incident(tenant, due.id).await?;
    let ranked = rank(app, tenant, &incident).await?;
    let mut tx = app.store.begin_for(tenant).await?;
    tx.keep_suspects(tenant, actor, due, ranked, app.now())
        .await?;
    tx.commit().await
}

/// Returns what asks for the suspects of an incident.
pub(crate) fn question(incident: &Incident) -> AroundFilter {
    AroundFilter {
        at: Some(incident.started_at),
        service_id: incident.service_id,
        environment: incident.environment.clone(),
        ..AroundFilter::default()
    }
}

/// Ranks the suspects of an incident.
async fn rank(
    app: &App,
    tenant: Tenant,
    incident: &Incident,
) -> Result<RankedSuspects, StoreError> {
    let filter = AroundFilter {
        limit: MAX_SUSPECTS as u64,
        ..question(incident)
    };
    let found = investigate(app, tenant, &filter).await?;
    let mut suspects = Vec::new();
    for ranked in found.ranked {
        let document = found.documents.iter().find(|(id, _)| *id == ranked.id);
        // A change may have been deleted since it was ranked.
        if let Some((_, json)) = document {
            suspects.push(IncidentSuspect {
                score: ranked.score,
                reasons: ranked.reasons,
                change: SuspectedChange::from(json.parse()?),
            });
        }
    }
    Ok(RankedSuspects {
        suspects,
        gaps: found.answer.coverage.gaps,
    })
}

//! Records what alerts tell of: opens the incident of an alert that fires, opens it again if
//! the alert comes back soon, and resolves it.

use changelog_core::input::Input;
use changelog_core::{
    Incident, IncidentId, IncidentPatch, IncidentStatus, NewIncident, Service, ServiceId, Severity,
    Timestamp,
};
use changelog_sources::Alert;
use chrono::TimeDelta;

use super::apply::Origin;
use super::changes::services;
use crate::app::App;
use crate::store::{StoreError, StoredAlert, Tx, existing, hash_of};

/// How long a notification may be on its way: one of another state that was told later than that
/// after the last is no repetition.
const MAX_DELAY: TimeDelta = TimeDelta::minutes(1);
/// How long after the end of an incident an alert that fires again opens the same one.
const REOPENED: TimeDelta = TimeDelta::minutes(10);

/// What became of an alert.
pub(super) enum AppliedAlert {
    /// It has opened an incident.
    Opened(IncidentId),
    /// It has changed, resolved or opened again its incident.
    Updated(IncidentId),
    /// Nothing new.
    Known(Option<IncidentId>),
    /// No incident of it is known, and it opens none.
    Ignored(&'static str),
}

impl AppliedAlert {
    /// Returns the incident.
    pub(super) fn incident(&self) -> Option<IncidentId> {
        match self {
            Self::Opened(id) | Self::Updated(id) => Some(*id),
            Self::Known(id) => *id,
            Self::Ignored(_) => None,
        }
    }
}

/// Records the state of an alert.
pub(super) async fn apply(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    alert: &Alert,
) -> Result<AppliedAlert, StoreError> {
    let now: Timestamp = app.now().into();
    // A clock that is ahead must not make later states look older.
    let mut at = alert.at.min(now);
    let key = hash_of(&alert.key);
    let known = tx.alert(&origin.source, &key).await?;
    if let Some(told_at) = alert.told_at
        && alert.is_firing
        && known
            .as_ref()
            .is_some_and(|known| is_told_later(alert, known))
    {
        // Again, though since before it was resolved.
        at = at.max(told_at.min(now));
    }
    let (applied, incident) = match &known {
        Some(known) if is_older(alert, at, known) && !is_told_later(alert, known) => {
            return Ok(AppliedAlert::Known(known.incident));
        }
        Some(known) if known.is_firing == alert.is_firing => {
            let applied = worsen(app, tx, origin, known, alert).await?;
            (applied, known.incident)
        }
        Some(StoredAlert {
            incident: Some(id), ..
        }) if !alert.is_firing => (resolve(app, tx, origin, *id, at).await?, Some(*id)),
        known if alert.is_firing || alert.started_at.is_some() => {
            let last = known.as_ref().and_then(|known| known.incident);
            let applied = match recent(tx, origin, last, at).await? {
                Some(id) => reopen(app, tx, origin, id).await?,
                None => AppliedAlert::Opened(open(app, tx, origin, alert, at).await?),
            };
            let incident = applied.incident();
            (applied, incident)
        }
        _ => {
            let reason = "it resolves an alert that has not opened an incident";
            (AppliedAlert::Ignored(reason), None)
        }
    };
    let stored = StoredAlert {
        incident,
        is_firing: alert.is_firing,
        severity: alert.severity.clone(),
        last_at: known.map_or(at, |known| known.last_at.max(at)),
        told_at: alert.told_at.unwrap_or(now),
    };
    tx.put_alert(&origin.source, &key, &stored).await?;
    Ok(applied)
}

/// Returns whether an alert was in this state before it came into the one that is known. Of two
/// states of one moment the resolved one is the later one.
fn is_older(alert: &Alert, at: Timestamp, known: &StoredAlert) -> bool {
    at < known.last_at || at == known.last_at && alert.is_firing && !known.is_firing
}

/// Returns whether another state than the known one was told so much later that it is no repetition
/// that was delayed on its way.
fn is_told_later(alert: &Alert, known: &StoredAlert) -> bool {
    let is_later = |told_at: Timestamp| told_at >= known.told_at.plus(MAX_DELAY);
    alert.is_firing != known.is_firing && alert.told_at.is_some_and(is_later)
}

/// Opens an incident; a resolved one for an alert that was resolved before its sender could
/// report that it fires.
async fn open(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    alert: &Alert,
    at: Timestamp,
) -> Result<IncidentId, StoreError> {
    let (tenant, settings) = (origin.source.tenant, &origin.source.settings);
    let now = app.now();
    let new = NewIncident {
        title: alert.incident_title(),
        severity: Some(alert.severity.clone().unwrap_or(Severity::Warning)),
        environment: alert.environment(settings),
        started_at: Some(alert.started_at.unwrap_or(at).min(at)),
        url: alert.web_url(),
        ..NewIncident::default()
    };
    // What core's rules refuse of the link is left out.
    let mut new = match new.clone().checked(now.into()) {
        Ok(new) => new,
        Err(_) => NewIncident { url: None, ..new }.checked(now.into())?,
    };
    new.service_id = service(app, tx, origin, &alert.services(settings)).await?;
    let mut incident = tx.prepare_incident(tenant, &origin.actor, new, now).await?;
    incident.sender_id = alert.sender_id();
    if !alert.is_firing {
        incident.resolve(at);
    }
    tx.insert_incident(tenant, &origin.actor, &incident, now)
        .await?;
    Ok(incident.id)
}

/// Returns the first of some services that exists; else the first is created, if the source
/// says so.
async fn service(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    names: &[String],
) -> Result<Option<ServiceId>, StoreError> {
    for name in names {
        if let Some(service) = tx.item_named::<Service>(origin.source.tenant, name).await? {
            return Ok(Some(service.id));
        }
    }
    let first = names.get(..1).unwrap_or_default();
    let created = services(app, tx, origin, first).await?;
    Ok(created.first().copied())
}

/// Returns the last incident of an alert that fires at a time, if it is open or has ended so
/// recently that it is opened again.
async fn recent(
    tx: &mut Tx,
    origin: &Origin,
    last: Option<IncidentId>,
    at: Timestamp,
) -> Result<Option<IncidentId>, StoreError> {
    let Some(id) = last else {
        return Ok(None);
    };
    let incident = kept(tx, origin, id).await?;
    let is_recent = |incident: &Incident| {
        let resolved_at = incident.resolved_at;
        resolved_at.is_none_or(|resolved| at <= resolved.plus(REOPENED))
    };
    Ok(incident.filter(is_recent).map(|incident| incident.id))
}

/// Returns an incident, unless it was old and has been deleted.
async fn kept(
    tx: &mut Tx,
    origin: &Origin,
    id: IncidentId,
) -> Result<Option<Incident>, StoreError> {
    existing(tx.incident(origin.source.tenant, id).await)
}

async fn reopen(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    id: IncidentId,
) -> Result<AppliedAlert, StoreError> {
    let patch = IncidentPatch {
        status: Some(IncidentStatus::Open),
        ..IncidentPatch::default()
    };
    update(app, tx, origin, id, patch).await
}

/// Raises the severity of an open incident whose alert has become worse. Whatever people have
/// changed stays otherwise.
async fn worsen(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    known: &StoredAlert,
    alert: &Alert,
) -> Result<AppliedAlert, StoreError> {
    let is_worse = |severity: &Severity| {
        let before = known.severity.as_ref();
        before.is_none_or(|before| severity.is_worse_than(before))
    };
    let worse = alert.severity.clone().filter(is_worse);
    let (Some(id), Some(severity), true) = (known.incident, worse, alert.is_firing) else {
        return Ok(AppliedAlert::Known(known.incident));
    };
    let Some(incident) = kept(tx, origin, id).await? else {
        return Ok(AppliedAlert::Known(None));
    };
    if !incident.is_open() || !severity.is_worse_than(&incident.severity) {
        return Ok(AppliedAlert::Known(Some(id)));
    }
    let patch = IncidentPatch {
        severity: Some(severity),
        ..IncidentPatch::default()
    };
    update(app, tx, origin, id, patch).await
}

/// Resolves an incident, unless a person has already resolved it.
async fn resolve(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    id: IncidentId,
    at: Timestamp,
) -> Result<AppliedAlert, StoreError> {
    let Some(incident) = kept(tx, origin, id).await? else {
        return Ok(AppliedAlert::Known(None));
    };
    if !incident.is_open() {
        return Ok(AppliedAlert::Known(Some(id)));
    }
    let patch = IncidentPatch {
        status: Some(IncidentStatus::Resolved),
        resolved_at: Some(at.max(incident.started_at)),
        ..IncidentPatch::default()
    };
    update(app, tx, origin, id, patch).await
}

async fn update(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    id: IncidentId,
    patch: IncidentPatch,
) -> Result<AppliedAlert, StoreError> {
    tx.update_incident(origin.source.tenant, &origin.actor, id, patch, &app.clock)
        .await?;
    Ok(AppliedAlert::Updated(id))
}

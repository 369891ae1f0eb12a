//! Recording and updating incidents.

use changelog_core::{
    Action, EventKind, EventOfIncident, Incident, IncidentId, IncidentPatch, IncidentStatus,
    Invalid, NewIncident, ResourceType, Service, ServiceId, ServiceRef, Severity, ViolationCode,
    Violations,
};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use sqlx::FromRow;

use super::{Row, StoredSuspects, to_json};
use crate::activity::{Entry, changed, difference};
use crate::clock::Clock;
use crate::engine::{execute, on};
use crate::{Actor, StoreError, Tenant, Tx, new_id};

const INSERT: &str = "
INSERT INTO incidents (organization_id, id, is_open, started_at, service_id, cause_change_id,
                       rank_at, rerank_from, updated_at, document, suspects)
VALUES ($1, $2, $3, $4, $5, NULL, 0, 0, $6, $7, '{}')";

/// Locks the row on PostgreSQL between reading and updating it.
const LOCK: &str =
    "UPDATE incidents SET updated_at = updated_at WHERE organization_id = $1 AND id = $2";

const SELECT: &str = "
SELECT i.document, i.suspects, s.reference, i.rank_at FROM incidents i
LEFT JOIN services s ON s.organization_id = i.organization_id AND s.id = i.service_id
WHERE i.organization_id = $1 AND i.id = $2";

const UPDATE: &str = "
UPDATE incidents SET is_open = $3, started_at = $4, service_id = $5, cause_change_id = $6,
    rank_at = $7, updated_at = $8, document = $9
WHERE organization_id = $1 AND id = $2";

#[derive(FromRow)]
struct LockedRow {
    #[sqlx(flatten)]
    row: Row,
    rank_at: Option<i64>,
}

/// An incident that nobody else updates until the transaction ends.
pub(super) struct LockedIncident {
    pub(super) incident: Incident,
    /// When its suspects are to be ranked next.
    pub(super) rank_at: Option<i64>,
}

impl Tx {
    /// Returns the incident that input describes, without recording it. The service is given
    /// by its id or its name.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the organization does not have the service.
    pub async fn prepare_incident(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        new: NewIncident,
        now: DateTime<Utc>,
    ) -> Result<Incident, StoreError> {
        let service = match (new.service_id, &new.service_name) {
            (Some(id), _) => Some(self.service_ref(tenant, id).await?),
            (None, Some(name)) => {
                let found = self.item_named::<Service>(tenant, name).await?;
                let found = found.ok_or_else(|| no_service_named(name))?;
                Some(ServiceRef::from(&found))
            }
            (None, None) => None,
        };
        let mut incident = Incident {
            id: new_id(now).into(),
            title: new.title,
            severity: new.severity.unwrap_or(Severity::Warning),
            status: IncidentStatus::Open,
            service_id: None,
            service: None,
            environment: new.environment,
            started_at: new.started_at.unwrap_or(now.into()),
            resolved_at: None,
            url: new.url,
            source: actor.source.clone(),
            sender_id: None,
            created_by: actor.author(),
            suspects: Vec::new(),
            first_suspects: Vec::new(),
            ranked_at: None,
            gaps: Vec::new(),
            cause_change_id: None,
            cause: None,
            created_at: now.into(),
            updated_at: now.into(),
        };
        incident.set_service(service);
        Ok(incident)
    }

    /// Records an incident, with its entry in the activity log and its event. Its suspects
    /// are ranked right after the commit.
    pub async fn insert_incident(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        incident: &Incident,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(INSERT)
                .bind(tenant.uuid())
                .bind(incident.id.0)
                .bind(i64::from(incident.is_open()))
                .bind(incident.started_at.millis())
                .bind(incident.service_id.map(|id| id.0))
                .bind(incident.updated_at.millis())
                .bind(document(incident)?)
        )?;
        let mut metadata = Map::new();
        metadata.insert("severity".to_owned(), incident.severity.as_str().into());
        metadata.insert("status".to_owned(), incident.status.as_str().into());
        let entry = entry(Action::Created, incident, metadata);
        self.record(tenant, actor, entry, now).await?;
        let kind = if incident.is_open() {
            EventKind::IncidentOpened
        } else {
            EventKind::IncidentResolved
        };
        self.record_incident_event(tenant, actor, kind, false, incident, now)
            .await?;
        self.rank_after_commit(tenant);
        Ok(())
    }

    /// Updates an incident, records what has changed, and returns the incident.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the incident does not exist, [`StoreError::Invalid`]
    /// when the service does not exist, or when a time contradicts the status or the start.
    pub async fn update_incident(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        id: IncidentId,
        patch: IncidentPatch,
        clock: &Clock,
    ) -> Result<Incident, StoreError> {
        let locked = self.lock_incident(tenant, id).await?;
        // Read after locking the row, so that `updated_at` never decreases.
        let now = clock.now();
        let mut incident = locked.incident.clone();
        match patch.service_id {
            None => {}
            Some(None) => incident.set_service(None),
            Some(Some(service)) => {
                let service = self.service_ref(tenant, service).await?;
                incident.set_service(Some(service));
            }
        }
        let mut problems = Violations::default();
        patch.apply(&mut incident, now.into(), &mut problems);
        problems.into_result(())?;
        self.replace_incident(tenant, actor, locked, incident, now)
            .await
    }

    /// Writes what has become of a locked incident, with the entry in the activity log and
    /// the event that this is.
    async fn replace_incident(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        locked: LockedIncident,
        mut incident: Incident,
        now: DateTime<Utc>,
    ) -> Result<Incident, StoreError> {
        let before = locked.incident;
        let changes = differences(&before, &incident);
        if changes.is_empty() {
            return Ok(before);
        }
        incident.updated_at = now.into();
        let asks_anew = |incident: &Incident| {
            (
                incident.service_id,
                incident.environment.clone(),
                incident.started_at,
            )
        };
        let reopened = incident.is_open() && !before.is_open();
        let is_due = reopened || asks_anew(&before) != asks_anew(&incident);
        let rank_at = if is_due { Some(0) } else { locked.rank_at };
        self.write_incident(tenant, &incident, rank_at).await?;
        let entry = entry(Action::Updated, &incident, changed(changes));
        self.record(tenant, actor, entry, now).await?;
        let kind = match (before.is_open(), incident.is_open()) {
            (false, true) => Some(EventKind::IncidentOpened),
            (true, false) => Some(EventKind::IncidentResolved),
            _ => None,
        };
        if let Some(kind) = kind {
            self.record_incident_event(tenant, actor, kind, reopened, &incident, now)
                .await?;
        }
        if is_due {
            self.rank_after_commit(tenant);
        }
        Ok(incident)
    }

    /// Writes the row of an incident, without its suspects.
    pub(super) async fn write_incident(
        &mut self,
        tenant: Tenant,
        incident: &Incident,
        rank_at: Option<i64>,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(UPDATE)
                .bind(tenant.uuid())
                .bind(incident.id.0)
                .bind(i64::from(incident.is_open()))
                .bind(incident.started_at.millis())
                .bind(incident.service_id.map(|id| id.0))
                .bind(incident.cause_change_id.map(|id| id.0))
                .bind(rank_at)
                .bind(incident.updated_at.millis())
                .bind(document(incident)?)
        )?;
        Ok(())
    }

    /// Reads an incident that nobody else updates until the transaction ends.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn incident(
        &mut self,
        tenant: Tenant,
        id: IncidentId,
    ) -> Result<Incident, StoreError> {
        Ok(self.lock_incident(tenant, id).await?.incident)
    }

    pub(super) async fn lock_incident(
        &mut self,
        tenant: Tenant,
        id: IncidentId,
    ) -> Result<LockedIncident, StoreError> {
        execute!(self, sqlx::query(LOCK).bind(tenant.uuid()).bind(id.0))?;
        let row: Option<LockedRow> = on!(&mut self.connection, |db| sqlx::query_as(SELECT)
            .bind(tenant.uuid())
            .bind(id.0)
            .fetch_optional(&mut **db))?;
        let row = row.ok_or(StoreError::NotFound)?;
        Ok(LockedIncident {
            incident: row.row.try_into()?,
            rank_at: row.rank_at,
        })
    }

    /// Lets the suspects that are due be ranked after the commit.
    fn rank_after_commit(&mut self, tenant: Tenant) {
        let work = self.database.ranking_work.clone();
        self.after_commit
            .push(Box::pin(async move { work.add(tenant) }));
    }

    /// Records the event of an incident.
    pub(super) async fn record_incident_event(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        kind: EventKind,
        again: bool,
        incident: &Incident,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let event = EventOfIncident {
            id: new_id(now),
            kind,
            at: now.into(),
            actor: actor.name.clone(),
            actor_id: actor.person,
            again,
            incident: incident.clone(),
        };
        self.record_event(tenant, actor, event.at, &event).await
    }

    async fn service_ref(
        &mut self,
        tenant: Tenant,
        id: ServiceId,
    ) -> Result<ServiceRef, StoreError> {
        let found = self.items_by_id::<Service>(tenant, &[id.0]).await?;
        let found = found.first().map(ServiceRef::from);
        found.ok_or_else(|| {
            let message = format!("must be the id of a service of the organization, got {id}");
            not_found("/service_id", message)
        })
    }
}

/// Returns an entry of the activity log about an incident.
pub(super) fn entry(
    action: Action,
    incident: &Incident,
    metadata: Map<String, Value>,
) -> Entry<'_> {
    Entry {
        action,
        resource_type: ResourceType::Incident,
        resource_id: incident.id.0,
        label: &incident.title,
        metadata,
    }
}

/// Returns what has changed, as the activity log stores it.
fn differences(before: &Incident, after: &Incident) -> Map<String, Value> {
    let mut changes = difference(before, after);
    // The service with its name says what the id says.
    changes.remove("service_id");
    changes
}

/// Returns an incident as it is stored, without its suspects.
fn document(incident: &Incident) -> Result<String, StoreError> {
    let mut incident = incident.clone();
    StoredSuspects::take(&mut incident);
    to_json(&incident)
}

fn no_service_named(name: &str) -> StoreError {
    let message = format!(
        "must be a service of the organization, which has none named {name:?}; GET /api/services \
         lists them"
    );
    not_found("/service_name", message)
}

fn not_found(pointer: &str, message: String) -> StoreError {
    Invalid::one(pointer, ViolationCode::NotFound, message).into()
}

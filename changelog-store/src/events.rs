//! Events: what happened to changes, written in the transaction of the change and queued
//! for the receivers by another one.
//!
//! Only organizations with receivers have events. An event is one row however many
//! receivers there are; [`Tx::take_new_events`] takes the new ones of an organization, one
//! caller at a time, so that the deliveries of a change are queued in the order of its
//! events.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use changelog_core::{
    Change, Differences, Event, EventKind, EventOfChange, EventOfIncident, EventOfSource, HostId,
    HostRef, ServiceId, ServiceRef, Timestamp, UserId,
};
use serde::{Deserialize, Serialize};
use sqlx::types::Uuid;
use sqlx::{FromRow, QueryBuilder};
use tokio::sync::Notify;

use super::engine::{
    Dialect, Engine, PushValue, Script, Value, execute, on, push_limit, push_values, read,
    run_script,
};
use super::{Actor, Database, StoreError, Tenant, Tx};
use crate::trace_parent::TraceParent;

/// The limit on events that one transaction queues.
pub const MAX_NEW_EVENTS: usize = 200;

const REQUIRE: &str = "
UPDATE organizations SET has_receivers = 1 WHERE id = $1 AND has_receivers = 0";

/// The next organization with new events, however many are new.
const NEXT_WITH_NEW: &str = "
SELECT organization_id FROM events WHERE is_new = 1 AND organization_id > $1
ORDER BY organization_id, sequence LIMIT 1";
/// One look into the index for each connection, however much is queued for it. Without the
/// order, or with EXISTS, PostgreSQL may read all that is pending or was sent, for each
/// connection.
const WITH_PENDING: &str = "
SELECT DISTINCT c.organization_id FROM connections c
WHERE c.disabled_at IS NULL AND
    (SELECT 1 FROM deliveries d
     WHERE d.organization_id = c.organization_id AND d.connection_id = c.id
         AND d.state = 'pending' ORDER BY d.next_at LIMIT 1) IS NOT NULL";

const SERVICES: &str = "SELECT id, reference FROM services WHERE organization_id = ";
const HOSTS: &str = "SELECT id, reference FROM hosts WHERE organization_id = ";

/// Deletes 1,000 events that are older than the time to keep them.
pub(super) const PURGE: &str = "
DELETE FROM events WHERE (organization_id, sequence) IN
    (SELECT organization_id, sequence FROM events WHERE created_at < $1
     ORDER BY created_at LIMIT 1000)";

/// An event with its place among all events of the organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedEvent {
    /// The place, which orders the events of a change.
    pub sequence: i64,
    /// The event.
    pub event: Event,
    /// The trace of the request that caused it.
    trace: Option<TraceParent>,
    /// Whether it has names that the stored event has not.
    is_completed: bool,
}

/// An event as it is stored.
enum StoredEvent {
    Change(Box<StoredChange>),
    Source(EventOfSource),
    Incident(Box<EventOfIncident>, Option<TraceParent>),
}

/// The event of a change as it is stored. That of a creation has ids instead of references.
#[derive(Deserialize)]
struct StoredChange {
    id: Uuid,
    kind: EventKind,
    at: Timestamp,
    actor: String,
    #[serde(default)]
    actor_id: Option<UserId>,
    change: Change,
    #[serde(default)]
    changes: Differences,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    host_id: Option<HostId>,
    #[serde(default)]
    trace: Option<TraceParent>,
}

impl StoredEvent {
    fn read(document: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Head {
            kind: EventKind,
            #[serde(default)]
            trace: Option<TraceParent>,
        }
        let Head { kind, trace } = serde_json::from_str(document)?;
        Ok(if kind.is_of_source() {
            Self::Source(serde_json::from_str(document)?)
        } else if kind.is_of_incident() {
            Self::Incident(serde_json::from_str(document)?, trace)
        } else {
            Self::Change(serde_json::from_str(document)?)
        })
    }

    /// Returns the event of a creation.
    fn created(&self) -> Option<&StoredChange> {
        match self {
            Self::Change(stored) if stored.kind == EventKind::Created => Some(stored),
            _ => None,
        }
    }

    fn trace(&self) -> Option<TraceParent> {
        match self {
            Self::Change(stored) => stored.trace,
            Self::Source(_) => None,
            Self::Incident(_, trace) => *trace,
        }
    }

    /// Returns whether it has ids of services or a host, whose names are not stored.
    fn lacks_names(&self) -> bool {
        self.created()
            .is_some_and(|stored| stored.host_id.is_some() || !stored.change.service_ids.is_empty())
    }
}

impl From<StoredEvent> for Event {
    fn from(stored: StoredEvent) -> Self {
        match stored {
            StoredEvent::Change(stored) => Self::from(EventOfChange {
                id: stored.id,
                kind: stored.kind,
                at: stored.at,
                actor: stored.actor,
                actor_id: stored.actor_id,
                change: stored.change,
                changes: stored.changes,
                reason: stored.reason,
            }),
            StoredEvent::Source(event) => Self::Source(event),
            StoredEvent::Incident(event, _) => Self::Incident(event),
        }
    }
}

/// Reads an event as it is stored once it was queued, with its trace.
pub(super) fn parse(document: &str) -> Result<(Event, Option<TraceParent>), StoreError> {
    let stored = StoredEvent::read(document).map_err(|error| super::changes::broken(&error))?;
    let trace = stored.trace();
    Ok((stored.into(), trace))
}

/// Returns an event with its trace as it is stored.
fn to_json(event: &impl Serialize, trace: Option<TraceParent>) -> Result<String, StoreError> {
    let mut json = serde_json::to_string(event).map_err(|error| super::changes::broken(&error))?;
    if let Some(trace) = trace
        && json.pop() == Some('}')
    {
        json.push_str(",\"trace\":\"");
        json.push_str(&trace.to_string());
        json.push_str("\"}");
    }
    Ok(json)
}

/// Adds the statement that writes events: organization, event as JSON, time.
pub(super) fn push_new<'e, DB: Dialect>(
    script: &mut Script<DB>,
    events: &[(Tenant, &'e str, Timestamp)],
) {
    let row = |(tenant, document, at): &(Tenant, &'e str, Timestamp)| {
        [
            Value::from(tenant.uuid()),
            (*document).into(),
            at.millis().into(),
            1.into(),
        ]
    };
    let rows: Vec<[Value<'_>; 4]> = events.iter().map(row).collect();
    // The places are in the order of the rows.
    script.insert(
        "INSERT INTO events (organization_id, document, created_at, is_new) ",
        &rows,
        "",
    );
}

/// Selects the new events of an organization, and locks them.
fn select_new<DB: Dialect>(tenant: Tenant) -> QueryBuilder<DB> {
    let mut query =
        QueryBuilder::new("SELECT sequence, document FROM events WHERE organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND is_new = 1 ORDER BY sequence");
    push_limit(&mut query, MAX_NEW_EVENTS as u64, 0);
    query.push(DB::FOR_UPDATE);
    query
}

impl Database {
    /// Lets the changes of the organization have events from now on, because it is about to
    /// have a receiver. Of requests that are being handled, events may be missing.
    pub async fn require_events(&self, tenant: Tenant) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let required = execute!(tx, sqlx::query(REQUIRE).bind(tenant.uuid()))?;
        if required > 0 {
            tx.commit().await?;
        }
        Ok(())
    }

    /// Returns the organizations that have something to queue or to send.
    pub async fn find_event_work(&self) -> Result<HashSet<Tenant>, StoreError> {
        let mut found = self.organizations_in_turn(NEXT_WITH_NEW).await?;
        let rows: Vec<(Uuid,)> = read!(self.system().await?, |db| {
            sqlx::query_as(WITH_PENDING).fetch_all(&mut **db)
        })?;
        found.extend(rows.into_iter().map(|(id,)| Tenant(id.into())));
        Ok(found)
    }

    /// Returns what is notified when this process has recorded something to queue or to send.
    pub fn event_work(&self) -> Arc<Notify> {
        self.notifier.work()
    }

    /// Takes the organizations for which this process has recorded something to queue or to
    /// send.
    pub fn take_event_work(&self) -> HashSet<Tenant> {
        self.notifier.take_with_work()
    }

    /// Returns whether no other server serves this database.
    pub fn serves_alone(&self) -> bool {
        matches!(self.connections.writes, Engine::Sqlite(_))
    }
}

impl Tx {
    /// Wakes the worker of this process after the commit, because something may be to be
    /// queued or sent.
    pub(super) fn wake_worker(&mut self, tenant: Tenant) {
        let notifier = self.database.notifier.clone();
        self.after_commit.push(Box::pin(async move {
            notifier.wake_worker([tenant]);
        }));
    }

    /// Records an event in the transaction of what it is about, if the organization of the
    /// actor has receivers.
    pub async fn record_event(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        at: Timestamp,
        event: &impl Serialize,
    ) -> Result<(), StoreError> {
        if !actor.has_receivers {
            return Ok(());
        }
        let document = to_json(event, actor.trace)?;
        let events = [(tenant, document.as_str(), at)];
        run_script!(self, |DB| {
            let mut script = Script::<DB>::new();
            push_new(&mut script, &events);
            script
        })?;
        self.wake_worker(tenant);
        Ok(())
    }

    /// Takes the oldest events that are not queued yet, at most [`MAX_NEW_EVENTS`], in
    /// order, with the names of services and hosts. Another server that takes events of
    /// the organization waits until the transaction ends, and then finds those that are
    /// still new.
    pub async fn take_new_events(
        &mut self,
        tenant: Tenant,
    ) -> Result<Vec<NumberedEvent>, StoreError> {
        let rows: Vec<(i64, String)> = on!(&mut self.connection, |db| async {
            let mut query = select_new(tenant);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let mut stored = Vec::with_capacity(rows.len());
        for (sequence, document) in rows {
            match StoredEvent::read(&document) {
                Ok(event) => stored.push((sequence, event)),
                // Skipped, so that it does not delay the others. It is deleted with old events.
                Err(error) => tracing::error!(%error, sequence, "an event cannot be read"),
            }
        }
        self.complete(tenant, &mut stored).await?;
        let numbered = |(sequence, stored): (i64, StoredEvent)| NumberedEvent {
            sequence,
            trace: stored.trace(),
            is_completed: stored.lacks_names(),
            event: stored.into(),
        };
        Ok(stored.into_iter().map(numbered).collect())
    }

    /// Adds the services and hosts of created changes, which have only their ids.
    async fn complete(
        &mut self,
        tenant: Tenant,
        events: &mut [(i64, StoredEvent)],
    ) -> Result<(), StoreError> {
        let created = || events.iter().filter_map(|(_, stored)| stored.created());
        let services: HashSet<Uuid> = created()
            .flat_map(|stored| stored.change.service_ids.iter().map(|id| id.0))
            .collect();
        let hosts: HashSet<Uuid> = created()
            .filter_map(|stored| Some(stored.host_id?.0))
            .collect();
        let services: HashMap<ServiceId, ServiceRef> =
            self.references(SERVICES, tenant, services).await?;
        let hosts: HashMap<HostId, HostRef> = self.references(HOSTS, tenant, hosts).await?;
        for (_, stored) in events {
            if let StoredEvent::Change(stored) = stored
                && stored.kind == EventKind::Created
            {
                let ids = stored.change.service_ids.iter();
                let found = ids.filter_map(|id| services.get(id).cloned()).collect();
                stored.change.set_services(found);
                stored.change.host_ref = stored.host_id.and_then(|id| hosts.get(&id).cloned());
            }
        }
        Ok(())
    }

    async fn references<Id, T>(
        &mut self,
        select: &'static str,
        tenant: Tenant,
        ids: HashSet<Uuid>,
    ) -> Result<HashMap<Id, T>, StoreError>
    where
        Id: From<Uuid> + Eq + std::hash::Hash,
        T: for<'de> Deserialize<'de> + Send + Unpin,
    {
        #[derive(FromRow)]
        struct Row {
            id: Uuid,
            reference: String,
        }
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let rows: Vec<Row> = on!(&mut self.connection, |db| async {
            let mut query = select_references(select, tenant, ids);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let reference = |row: Row| {
            let parsed = serde_json::from_str(&row.reference);
            let value = parsed.map_err(|error| super::changes::broken(&error))?;
            Ok((row.id.into(), value))
        };
        rows.into_iter().map(reference).collect()
    }

    /// Marks events as queued, and stores them as they are sent. Those that nobody
    /// receives are deleted.
    pub async fn mark_events_queued(
        &mut self,
        tenant: Tenant,
        events: &[NumberedEvent],
        is_received: impl Fn(i64) -> bool,
    ) -> Result<(), StoreError> {
        let mut marks = Marks::default();
        for one in events {
            if !is_received(one.sequence) {
                marks.unwanted.push(one.sequence);
            } else if one.is_completed {
                let document = to_json(&one.event, one.trace)?;
                marks.completed.push((one.sequence, document));
            } else {
                marks.kept.push(one.sequence);
            }
        }
        run_script!(self, |DB| marks.script::<DB>(tenant))
    }
}

fn select_references<DB: Dialect>(
    select: &str,
    tenant: Tenant,
    ids: HashSet<Uuid>,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(select);
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND id");
    DB::push_in_ids(&mut query, ids.into_iter().collect());
    query
}

/// Events that were taken, by what becomes of them.
#[derive(Default)]
struct Marks {
    /// Those that are stored again, with names.
    completed: Vec<(i64, String)>,
    kept: Vec<i64>,
    /// Those that nobody receives.
    unwanted: Vec<i64>,
}

impl Marks {
    fn script<DB: Dialect>(self, tenant: Tenant) -> Script<DB> {
        let mut script = Script::new();
        if !self.completed.is_empty() {
            let query = script
                .statement("UPDATE events SET is_new = NULL, document = queued.column2 FROM (");
            let rows = self.completed.iter();
            let rows =
                rows.map(|(sequence, document)| [Value::from(*sequence), document.as_str().into()]);
            push_values(query, rows);
            query.push_value(") AS queued WHERE events.organization_id = ", tenant.uuid());
            query.push(" AND events.sequence = queued.column1");
        }
        for (statement, sequences) in [
            (
                "UPDATE events SET is_new = NULL WHERE organization_id = ",
                self.kept,
            ),
            ("DELETE FROM events WHERE organization_id = ", self.unwanted),
        ] {
            if !sequences.is_empty() {
                let query = script.statement(statement);
                DB::bind(query, tenant.uuid().into());
                query.push(" AND sequence");
                DB::push_in(query, sequences);
            }
        }
        script
    }
}

//! The requests of sources, as they arrived, and what became of them.

use std::collections::{BTreeMap, HashSet};

use changelog_core::ids::first_uuid_at;
use changelog_core::{ChangeId, IncidentId, SourceEventId, SourceId, Timestamp};
use changelog_sources::Headers;
use chrono::TimeDelta;
use sqlx::types::Uuid;
use sqlx::{FromRow, QueryBuilder};

use super::database::NewRows;
use super::engine::{Dialect, Script, Value, execute, on, push_limit, read};
use super::index::search::SearchDialect;
use super::{Database, Source, StoreError, Tenant, Tx};

/// How long requests are kept.
pub(super) const EVENTS_KEPT: TimeDelta = TimeDelta::days(14);
/// How much of the requests of an organization that were read is kept, in bytes.
pub(super) const MAX_STORED_BYTES: i64 = 64 * 1024 * 1024;
/// The limit on requests that one transaction reads.
const MAX_PENDING: u64 = 8;
/// The limit on the bodies that one transaction reads, in bytes, unless one is larger.
const MAX_PENDING_BYTES: i64 = 8 * 1024 * 1024;
/// The requests that are deleted together.
const TRIMMED: u64 = 200;

const INSERT: &str = "
INSERT INTO source_events (organization_id, id, source_id, received_at, request_id, headers, body,
                           size, outcome, change_ids) ";

/// The next organization with requests to read, however many they are.
const NEXT_WITH_PENDING: &str = "
SELECT organization_id FROM source_events WHERE outcome = 'pending' AND organization_id > $1
ORDER BY organization_id, id LIMIT 1";

/// An earlier request of the same name that was read and not set aside.
const EARLIER: &str = "
SELECT change_ids, incident_id FROM source_events
WHERE organization_id = $1 AND source_id = $2 AND request_id = $3 AND id < $4
    AND outcome NOT IN ('pending', 'set_aside')
ORDER BY id DESC LIMIT 1";

const FINISH: &str = "
UPDATE source_events SET outcome = $3, reason = $4, change_ids = $5, incident_id = $6
WHERE organization_id = $1 AND id = $2";

const NOTE: &str = "
UPDATE sources SET stored_bytes = stored_bytes + $3,
    last_event_at = CASE WHEN last_event_at > $4 THEN last_event_at ELSE $4 END
WHERE organization_id = $1 AND id = $2";

const ORGANIZATION_OF: &str = "SELECT organization_id FROM source_events WHERE id = $1";

/// Only what was read: its bytes are counted.
const REPLAY: &str = "
UPDATE source_events SET outcome = 'pending', reason = NULL
WHERE organization_id = $1 AND id = $2 AND outcome <> 'pending'";

const SIZE_OF: &str =
    "SELECT source_id, size FROM source_events WHERE organization_id = $1 AND id = $2";

/// On PostgreSQL a sum is `numeric` otherwise.
const STORED: &str =
    "SELECT CAST(SUM(stored_bytes) AS bigint) FROM sources WHERE organization_id = $1";

const OLDEST: &str = "
SELECT id, source_id, size FROM source_events
WHERE organization_id = $1 AND outcome <> 'pending' ORDER BY id LIMIT 200";

/// The organizations of the oldest requests.
const OLD: &str = "
SELECT organization_id FROM source_events WHERE id < $1 ORDER BY id LIMIT 1000";

const FORGET: &str = "
UPDATE sources SET stored_bytes = stored_bytes - $3 WHERE organization_id = $1 AND id = $2";

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceEvent {
    /// The id.
    pub id: SourceEventId,
    /// When it arrived.
    pub received_at: Timestamp,
    /// `pending`, `changed`, `updated`, `ignored`, `duplicate` or `set_aside`.
    pub outcome: String,
    /// Why, in a sentence fragment; `None` for a change.
    pub reason: Option<String>,
    /// The changes that it created or updated.
    pub change_ids: Vec<ChangeId>,
    /// The incident that it opened, changed or resolved.
    pub incident_id: Option<IncidentId>,
    /// The size of the body, in bytes.
    pub size: i64,
}

/// A request as it arrived, without proofs of origin.
#[derive(Debug)]
pub struct PendingEvent {
    /// The id.
    pub id: SourceEventId,
    /// The source that received it.
    pub source: SourceId,
    /// When it arrived.
    pub received_at: Timestamp,
    /// What the sender calls it.
    pub request_id: Option<String>,
    /// Its headers.
    pub headers: Headers,
    /// Its body.
    pub body: Vec<u8>,
}

/// A request that has just arrived.
#[derive(Debug)]
pub struct NewSourceEvent<'e> {
    /// The id, which has the time of arrival.
    pub id: SourceEventId,
    /// When it arrived.
    pub received_at: Timestamp,
    /// What the sender calls it.
    pub request_id: Option<String>,
    /// Its headers, without proofs of origin.
    pub headers: Headers,
    /// Its body.
    pub body: &'e [u8],
}

/// What became of a request, to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// As in [`SourceEvent`].
    pub outcome: &'static str,
    /// As in [`SourceEvent`].
    pub reason: Option<String>,
    /// As in [`SourceEvent`].
    pub change_ids: Vec<ChangeId>,
    /// As in [`SourceEvent`].
    pub incident_id: Option<IncidentId>,
}

#[derive(FromRow)]
struct Row {
    id: Uuid,
    received_at: i64,
    outcome: String,
    reason: Option<String>,
    change_ids: String,
    incident_id: Option<Uuid>,
    size: i64,
}

impl From<Row> for SourceEvent {
    fn from(row: Row) -> Self {
        Self {
            id: row.id.into(),
            received_at: Timestamp::from_millis(row.received_at),
            outcome: row.outcome,
            reason: row.reason,
            change_ids: serde_json::from_str(&row.change_ids).unwrap_or_default(),
            incident_id: row.incident_id.map(IncidentId),
            size: row.size,
        }
    }
}

#[derive(FromRow)]
struct PendingRow {
    id: Uuid,
    source_id: Uuid,
    received_at: i64,
    request_id: Option<String>,
    headers: String,
    body: Vec<u8>,
}

impl From<PendingRow> for PendingEvent {
    fn from(row: PendingRow) -> Self {
        Self {
            id: row.id.into(),
            source: row.source_id.into(),
            received_at: Timestamp::from_millis(row.received_at),
            request_id: row.request_id,
            headers: serde_json::from_str(&row.headers).unwrap_or_default(),
            body: row.body,
        }
    }
}

/// A request that is stored.
struct EventRow<'e> {
    source: &'e Source,
    event: &'e NewSourceEvent<'e>,
    headers: &'e str,
}

impl NewRows for EventRow<'_> {
    fn script<DB: SearchDialect>(&self, mut script: Script<DB>) -> Script<DB> {
        let row = [
            Value::Uuid(self.source.tenant.uuid()),
            Value::Uuid(self.event.id.0),
            Value::Uuid(self.source.id.0),
            Value::Number(self.event.received_at.millis()),
            Value::MaybeText(self.event.request_id.as_deref()),
            Value::Text(self.headers),
            Value::Bytes(self.event.body),
            Value::Number(size_of(self.event.body)),
            Value::Text("pending"),
            Value::Text("[]"),
        ];
        script.insert(INSERT, &[row], "");
        script
    }
}

impl Database {
    /// Stores a request durably, to be read later.
    pub async fn insert_source_event(
        &self,
        source: &Source,
        event: &NewSourceEvent<'_>,
    ) -> Result<(), StoreError> {
        let headers = serde_json::to_string(&event.headers);
        let headers = headers.map_err(|error| super::changes::broken(&error))?;
        let row = EventRow {
            source,
            event,
            headers: &headers,
        };
        let permit = self.connections.write_permit(Some(source.tenant.id()));
        let permit = permit.await?;
        if !self.write_at_once(&row, false).await? {
            drop(permit);
            let mut tx = self.begin_for(source.tenant).await?;
            tx.write(&row).await?;
            tx.commit().await?;
        }
        self.source_work.add(source.tenant);
        Ok(())
    }

    /// Returns the organizations that have requests to read.
    pub async fn find_source_work(&self) -> Result<HashSet<Tenant>, StoreError> {
        self.organizations_in_turn(NEXT_WITH_PENDING).await
    }

    /// Lists the requests of a source, newest first: those before `before`. The changes are those
    /// that have taken the place of joined ones.
    pub async fn source_events(
        &self,
        source: &Source,
        before: Option<SourceEventId>,
        limit: u64,
    ) -> Result<Vec<SourceEvent>, StoreError> {
        let rows: Vec<Row> = read!(self.reader(source.tenant).await?, |db| async {
            let mut query = select_events(source, before, limit);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let mut events: Vec<SourceEvent> = rows.into_iter().map(SourceEvent::from).collect();
        let ids = events.iter().flat_map(|event| event.change_ids.clone());
        let ids: HashSet<ChangeId> = ids.collect();
        let joined = self.joined_into(source.tenant, ids).await?;
        for event in events.iter_mut().filter(|_| !joined.is_empty()) {
            let ids = event.change_ids.iter();
            let ids: Vec<ChangeId> = ids.map(|id| *joined.get(id).unwrap_or(id)).collect();
            event.change_ids.clear();
            for id in ids {
                if !event.change_ids.contains(&id) {
                    event.change_ids.push(id);
                }
            }
        }
        Ok(events)
    }

    /// Returns requests of a source as they arrived, oldest first; missing ones are left
    /// out.
    pub async fn source_requests(
        &self,
        source: &Source,
        ids: impl IntoIterator<Item = SourceEventId>,
    ) -> Result<Vec<PendingEvent>, StoreError> {
        let ids: Vec<Uuid> = ids.into_iter().map(|id| id.0).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<PendingRow> = read!(self.reader(source.tenant).await?, |db| async {
            let mut query = select_bodies(source.tenant, ids);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let mut requests = oldest_first(rows);
        requests.retain(|request| request.source == source.id);
        Ok(requests)
    }

    /// Finds the organization of a request, for the operator.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn organization_of_event(&self, id: SourceEventId) -> Result<Tenant, StoreError> {
        let row: Option<(Uuid,)> = read!(self.system().await?, |db| {
            sqlx::query_as(ORGANIZATION_OF)
                .bind(id.0)
                .fetch_optional(&mut **db)
        })?;
        row.map(|(id,)| Tenant(id.into()))
            .ok_or(StoreError::NotFound)
    }

    /// Lets requests be read again.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn replay_source_event(
        &self,
        tenant: Tenant,
        id: SourceEventId,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin_for(tenant).await?;
        tx.replay_event(tenant, id).await?;
        tx.commit().await?;
        self.source_work.add(tenant);
        Ok(())
    }

    /// Lets the requests of a source be read again that were set aside. Returns how many.
    pub async fn replay_set_aside(&self, source: &Source) -> Result<usize, StoreError> {
        let mut replayed = 0;
        loop {
            let mut tx = self.begin_for(source.tenant).await?;
            let rows: Vec<(Uuid,)> = on!(&mut tx.connection, |db| async {
                let mut query = select_set_aside(source);
                query.build_query_as().fetch_all(&mut **db).await
            })?;
            for (id,) in &rows {
                tx.replay_event(source.tenant, (*id).into()).await?;
            }
            tx.commit().await?;
            self.source_work.add(source.tenant);
            replayed += rows.len();
            if rows.is_empty() {
                return Ok(replayed);
            }
        }
    }

    /// Deletes the requests that are too old, a thousand at most.
    pub async fn trim_old_source_events(&self, now: Timestamp) -> Result<(), StoreError> {
        let oldest_kept = first_uuid_at(now.plus(-EVENTS_KEPT));
        let rows: Vec<(Uuid,)> = read!(self.system().await?, |db| {
            sqlx::query_as(OLD).bind(oldest_kept).fetch_all(&mut **db)
        })?;
        let tenants: HashSet<Uuid> = rows.into_iter().map(|(id,)| id).collect();
        for id in tenants {
            self.trim_source_events(Tenant(id.into()), now).await?;
        }
        Ok(())
    }

    /// Deletes the oldest requests of an organization, as long as they are too old or take
    /// more than [`MAX_STORED_BYTES`].
    pub async fn trim_source_events(
        &self,
        tenant: Tenant,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let oldest_kept = first_uuid_at(now.plus(-EVENTS_KEPT));
        loop {
            let mut tx = self.begin_for(tenant).await?;
            let (stored,): (Option<i64>,) = on!(&mut tx.connection, |db| sqlx::query_as(STORED)
                .bind(tenant.uuid())
                .fetch_one(&mut **db))?;
            let mut excess = stored.unwrap_or_default() - MAX_STORED_BYTES;
            let rows: Vec<(Uuid, Uuid, i64)> = on!(&mut tx.connection, |db| {
                sqlx::query_as(OLDEST)
                    .bind(tenant.uuid())
                    .fetch_all(&mut **db)
            })?;
            let mut deleted = Vec::new();
            for (id, source, size) in rows {
                if excess <= 0 && id >= oldest_kept {
                    break;
                }
                excess -= size;
                deleted.push((id, source, size));
            }
            let is_last = (deleted.len() as u64) < TRIMMED;
            if !deleted.is_empty() {
                tx.delete_events(tenant, deleted).await?;
                tx.commit().await?;
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

impl Tx {
    /// Takes the oldest requests that are to be read, in the order of their arrival.
    /// Another server that takes requests of the organization waits until the transaction
    /// ends, and then finds those that are still to be read.
    pub async fn take_pending_events(
        &mut self,
        tenant: Tenant,
    ) -> Result<Vec<PendingEvent>, StoreError> {
        let sizes: Vec<(Uuid, i64)> = on!(&mut self.connection, |db| async {
            let mut query = select_pending(tenant);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let mut bytes = 0;
        let ids: Vec<Uuid> = sizes
            .into_iter()
            .take_while(|(_, size)| {
                let is_within = bytes < MAX_PENDING_BYTES;
                bytes += size;
                is_within
            })
            .map(|(id, _)| id)
            .collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<PendingRow> = on!(&mut self.connection, |db| async {
            let mut query = select_bodies(tenant, ids);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(oldest_first(rows))
    }

    /// Returns the changes and the incident of an earlier request of the same name that was
    /// read.
    pub async fn earlier_event(
        &mut self,
        tenant: Tenant,
        event: &PendingEvent,
    ) -> Result<Option<(Vec<ChangeId>, Option<IncidentId>)>, StoreError> {
        let Some(request_id) = &event.request_id else {
            return Ok(None);
        };
        let row: Option<(String, Option<Uuid>)> =
            on!(&mut self.connection, |db| sqlx::query_as(EARLIER)
                .bind(tenant.uuid())
                .bind(event.source.0)
                .bind(request_id)
                .bind(event.id.0)
                .fetch_optional(&mut **db))?;
        let earlier = |(ids, incident): (String, Option<Uuid>)| {
            let ids = serde_json::from_str(&ids).unwrap_or_default();
            (ids, incident.map(IncidentId))
        };
        Ok(row.map(earlier))
    }

    /// Records what became of a request.
    pub async fn finish_event(
        &mut self,
        tenant: Tenant,
        event: &PendingEvent,
        finding: &Finding,
    ) -> Result<(), StoreError> {
        let change_ids = serde_json::to_string(&finding.change_ids);
        let change_ids = change_ids.map_err(|error| super::changes::broken(&error))?;
        execute!(
            self,
            sqlx::query(FINISH)
                .bind(tenant.uuid())
                .bind(event.id.0)
                .bind(finding.outcome)
                .bind(&finding.reason)
                .bind(&change_ids)
                .bind(finding.incident_id.map(|id| id.0))
        )?;
        Ok(())
    }

    /// Adds requests of a source that were read to what is known of it: their bytes, and when
    /// the newest arrived.
    pub async fn note_events(
        &mut self,
        source: &Source,
        bytes: i64,
        newest: Timestamp,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(NOTE)
                .bind(source.tenant.uuid())
                .bind(source.id.0)
                .bind(bytes)
                .bind(newest.millis())
        )?;
        Ok(())
    }

    async fn replay_event(&mut self, tenant: Tenant, id: SourceEventId) -> Result<(), StoreError> {
        let row: Option<(Uuid, i64)> = on!(&mut self.connection, |db| sqlx::query_as(SIZE_OF)
            .bind(tenant.uuid())
            .bind(id.0)
            .fetch_optional(&mut **db))?;
        let (source, size) = row.ok_or(StoreError::NotFound)?;
        let replayed = execute!(self, sqlx::query(REPLAY).bind(tenant.uuid()).bind(id.0))?;
        if replayed > 0 {
            execute!(
                self,
                sqlx::query(FORGET)
                    .bind(tenant.uuid())
                    .bind(source)
                    .bind(size)
            )?;
        }
        Ok(())
    }

    /// Deletes requests that were read. Meanwhile, another server may have deleted some of them,
    /// or a user may have replayed them.
    async fn delete_events(
        &mut self,
        tenant: Tenant,
        events: Vec<(Uuid, Uuid, i64)>,
    ) -> Result<(), StoreError> {
        let ids: Vec<Uuid> = events.iter().map(|(id, ..)| *id).collect();
        let deleted: Vec<(Uuid,)> = on!(&mut self.connection, |db| async {
            let mut query = delete(tenant, ids);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let deleted: HashSet<Uuid> = deleted.into_iter().map(|(id,)| id).collect();
        let mut sizes = BTreeMap::new();
        for (_, source, size) in events.iter().filter(|(id, ..)| deleted.contains(id)) {
            *sizes.entry(*source).or_insert(0) += size;
        }
        for (source, size) in sizes {
            execute!(
                self,
                sqlx::query(FORGET)
                    .bind(tenant.uuid())
                    .bind(source)
                    .bind(size)
            )?;
        }
        Ok(())
    }
}

/// Returns the size of a body in bytes, as it is counted.
pub fn size_of(body: &[u8]) -> i64 {
    i64::try_from(body.len()).unwrap_or(i64::MAX)
}

fn select_events<DB: Dialect>(
    source: &Source,
    before: Option<SourceEventId>,
    limit: u64,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(
        "SELECT id, received_at, outcome, reason, change_ids, incident_id, size FROM source_events \
         WHERE organization_id = ",
    );
    DB::bind(&mut query, source.tenant.uuid().into());
    query.push(" AND source_id = ");
    DB::bind(&mut query, source.id.0.into());
    if let Some(before) = before {
        query.push(" AND id < ");
        DB::bind(&mut query, before.0.into());
    }
    query.push(" ORDER BY id DESC");
    push_limit(&mut query, limit, 0);
    query
}

fn select_set_aside<DB: Dialect>(source: &Source) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT id FROM source_events WHERE organization_id = ");
    DB::bind(&mut query, source.tenant.uuid().into());
    query.push(" AND source_id = ");
    DB::bind(&mut query, source.id.0.into());
    query.push(" AND outcome = 'set_aside' ORDER BY id");
    push_limit(&mut query, TRIMMED, 0);
    query
}

fn select_pending<DB: Dialect>(tenant: Tenant) -> QueryBuilder<DB> {
    let mut query =
        QueryBuilder::new("SELECT id, size FROM source_events WHERE organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND outcome = 'pending' ORDER BY id");
    push_limit(&mut query, MAX_PENDING, 0);
    query.push(DB::FOR_UPDATE);
    query
}

/// Sorts requests here: for the order, PostgreSQL would read all of the organization until it knows
/// how many they are.
fn oldest_first(mut rows: Vec<PendingRow>) -> Vec<PendingEvent> {
    rows.sort_by_key(|row| row.id);
    rows.into_iter().map(PendingEvent::from).collect()
}

fn select_bodies<DB: Dialect>(tenant: Tenant, ids: Vec<Uuid>) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(
        "SELECT id, source_id, received_at, request_id, headers, body FROM source_events \
         WHERE organization_id = ",
    );
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND id");
    DB::push_in_ids(&mut query, ids);
    query
}

fn delete<DB: Dialect>(tenant: Tenant, ids: Vec<Uuid>) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("DELETE FROM source_events WHERE organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND id");
    DB::push_in_ids(&mut query, ids);
    query.push(" AND outcome <> 'pending' RETURNING id");
    query
}

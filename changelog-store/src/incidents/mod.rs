//! Incidents: what broke, with the changes that may have caused it.

mod alerts;
mod cause;
mod ranking;
mod streamed;
mod write;

use std::collections::{BTreeSet, HashMap};

use changelog_core::ids::IdPrefix;
use changelog_core::{
    ChangeId, Gap, Incident, IncidentFilter, IncidentId, IncidentStatus, IncidentSuspect,
    ServiceId, Timestamp,
};
use serde::{Deserialize, Serialize};
use sqlx::types::Uuid;
use sqlx::{FromRow, QueryBuilder};

use super::activity::clamped;
use super::engine::{Dialect, PushValue, read};
use super::{Database, StoreError, Tenant};

pub use alerts::StoredAlert;
pub(super) use alerts::{ALERTS_KEPT, PURGE as PURGE_ALERTS};
pub use ranking::{DueIncident, MAX_SUSPECTS, RankedSuspects};
pub(super) use streamed::RecordedIncident;

/// The suspects that an incident has in a list.
pub const LISTED_SUSPECTS: usize = 3;
/// The limit on open incidents that are counted.
pub const MAX_COUNTED_INCIDENTS: u64 = 100;
/// The limit on incidents of one cause that are read.
const MAX_OF_CAUSE: u64 = 20;

macro_rules! select {
    () => {
        "SELECT i.document, i.suspects, s.reference FROM incidents i \
         LEFT JOIN services s ON s.organization_id = i.organization_id AND s.id = i.service_id \
         WHERE i.organization_id = "
    };
    ($condition:literal) => {
        concat!(select!(), "$1 AND ", $condition)
    };
}

const SELECT_OF: &str = select!();

const SELECT: &str = select!("i.id = $2");

const SELECT_OF_STATUS: &str = select!(
    "i.is_open = $2 AND i.started_at >= $3 AND i.started_at <= $4 \
     AND (i.started_at < $4 OR i.id < $5) \
     ORDER BY i.started_at DESC, i.id DESC LIMIT $6"
);

const SELECT_OF_SERVICE: &str = select!(
    "i.is_open = $2 AND i.started_at >= $3 AND i.started_at <= $4 \
     AND (i.started_at < $4 OR i.id < $5) \
     AND i.service_id = $7 ORDER BY i.started_at DESC, i.id DESC LIMIT $6"
);

const SELECT_OF_CAUSE: &str = select!("i.cause_change_id = $2 ORDER BY i.id DESC LIMIT $3");

const SELECT_BEFORE: &str = select!("i.id < $2 ORDER BY i.id DESC LIMIT $3");

const PLACE: &str =
    "SELECT is_open, started_at FROM incidents WHERE organization_id = $1 AND id = $2";

const COUNT_OPEN: &str = "
SELECT count(*) FROM (SELECT 1 FROM incidents
    WHERE organization_id = $1 AND is_open = 1 ORDER BY started_at DESC LIMIT $2) AS open";

const COUNT_OPEN_OF_SERVICE: &str = "
SELECT count(*) FROM (SELECT 1 FROM incidents
    WHERE organization_id = $1 AND service_id = $3 AND is_open = 1
    ORDER BY started_at DESC LIMIT $2) AS open";

/// What is stored of the suspects of an incident.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct StoredSuspects {
    suspects: Vec<IncidentSuspect>,
    first_suspects: Vec<IncidentSuspect>,
    ranked_at: Option<Timestamp>,
    gaps: Vec<Gap>,
}

impl StoredSuspects {
    /// Takes what an incident has of it.
    fn take(incident: &mut Incident) -> Self {
        Self {
            suspects: std::mem::take(&mut incident.suspects),
            first_suspects: std::mem::take(&mut incident.first_suspects),
            ranked_at: incident.ranked_at.take(),
            gaps: std::mem::take(&mut incident.gaps),
        }
    }

    fn add_to(self, incident: &mut Incident) {
        incident.suspects = self.suspects;
        incident.first_suspects = self.first_suspects;
        incident.ranked_at = self.ranked_at;
        incident.gaps = self.gaps;
    }
}

#[derive(FromRow)]
struct Row {
    document: String,
    suspects: String,
    reference: Option<String>,
}

impl TryFrom<Row> for Incident {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let mut incident: Self = from_json(&row.document)?;
        from_json::<StoredSuspects>(&row.suspects)?.add_to(&mut incident);
        if let Some(reference) = &row.reference {
            incident.set_service(Some(from_json(reference)?));
        }
        Ok(incident)
    }
}

fn from_json<T: for<'de> Deserialize<'de>>(json: &str) -> Result<T, StoreError> {
    serde_json::from_str(json).map_err(|error| super::changes::broken(&error))
}

fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| super::changes::broken(&error))
}

/// Where a list goes on: the incidents that start before this one, or with it and have a
/// smaller id.
#[derive(Clone, Copy, Debug)]
struct Place {
    is_open: bool,
    started_at: i64,
    id: Uuid,
}

impl Database {
    /// Finds an incident of an organization.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn incident(&self, tenant: Tenant, id: IncidentId) -> Result<Incident, StoreError> {
        let row: Option<Row> = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT)
                .bind(tenant.uuid())
                .bind(id.0)
                .fetch_optional(&mut **db)
        })?;
        row.ok_or(StoreError::NotFound)?.try_into()
    }

    /// Lists incidents with their first suspects: open ones first, then by their start, the
    /// latest first.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the list is to go on after an incident that does not
    /// exist.
    pub async fn incidents(
        &self,
        tenant: Tenant,
        filter: &IncidentFilter,
    ) -> Result<Vec<Incident>, StoreError> {
        if let Some(prefix) = &filter.id {
            return self.of_prefix(tenant, prefix, filter).await;
        }
        let after = match filter.before {
            Some(id) => Some(self.place_of(tenant, id).await?),
            None => None,
        };
        let mut incidents = Vec::new();
        for (status, is_open) in [
            (IncidentStatus::Open, true),
            (IncidentStatus::Resolved, false),
        ] {
            let is_wanted = filter
                .status
                .as_ref()
                .is_none_or(|wanted| *wanted == status);
            let after_all = after.is_some_and(|after| is_open && !after.is_open);
            let limit = filter.limit.saturating_sub(incidents.len() as u64);
            if !is_wanted || after_all || limit == 0 {
                continue;
            }
            let after = after.filter(|after| after.is_open == is_open);
            let mut found = self
                .of_status(tenant, filter, is_open, after, limit)
                .await?;
            incidents.append(&mut found);
        }
        Ok(incidents)
    }

    async fn of_prefix(
        &self,
        tenant: Tenant,
        prefix: &IdPrefix,
        filter: &IncidentFilter,
    ) -> Result<Vec<Incident>, StoreError> {
        let rows: Vec<Row> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select_of_prefix(tenant, prefix, filter);
            let query = query.build_query_as().persistent(false);
            query.fetch_all(&mut **db).await
        })?;
        listed(rows)
    }

    async fn of_status(
        &self,
        tenant: Tenant,
        filter: &IncidentFilter,
        is_open: bool,
        after: Option<Place>,
        limit: u64,
    ) -> Result<Vec<Incident>, StoreError> {
        let since = filter.since.map_or(i64::MIN, Timestamp::millis);
        let until = filter.until.map_or(i64::MAX, Timestamp::millis);
        // What starts at the end of the period is not part of it: no id is smaller.
        let end = (until, Uuid::nil());
        let end = after.map_or(end, |after| end.min((after.started_at, after.id)));
        let statement = match filter.service_id {
            Some(_) => SELECT_OF_SERVICE,
            None => SELECT_OF_STATUS,
        };
        let rows: Vec<Row> = read!(self.reader(tenant).await?, |db| {
            let mut query = sqlx::query_as(statement)
                .bind(tenant.uuid())
                .bind(i64::from(is_open))
                .bind(since)
                .bind(end.0)
                .bind(end.1)
                .bind(clamped(limit));
            if let Some(ServiceId(service)) = filter.service_id {
                query = query.bind(service);
            }
            query.fetch_all(&mut **db)
        })?;
        listed(rows)
    }

    async fn place_of(&self, tenant: Tenant, id: IncidentId) -> Result<Place, StoreError> {
        let row: Option<(i64, i64)> = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(PLACE)
                .bind(tenant.uuid())
                .bind(id.0)
                .fetch_optional(&mut **db)
        })?;
        let (is_open, started_at) = row.ok_or(StoreError::NotFound)?;
        Ok(Place {
            is_open: is_open != 0,
            started_at,
            id: id.0,
        })
    }

    /// Lists incidents with all of their suspects, the latest recorded first, after one that may
    /// have been deleted.
    pub async fn whole_incidents(
        &self,
        tenant: Tenant,
        before: Option<IncidentId>,
        limit: u64,
    ) -> Result<Vec<Incident>, StoreError> {
        let rows: Vec<Row> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_BEFORE)
                .bind(tenant.uuid())
                .bind(before.map_or(Uuid::max(), |id| id.0))
                .bind(clamped(limit))
                .fetch_all(&mut **db)
        })?;
        rows.into_iter().map(Incident::try_from).collect()
    }

    /// Lists the incidents whose cause a change was marked as, the newest first, at most 20.
    pub async fn incidents_caused_by(
        &self,
        tenant: Tenant,
        change: ChangeId,
    ) -> Result<Vec<Incident>, StoreError> {
        let rows: Vec<Row> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_OF_CAUSE)
                .bind(tenant.uuid())
                .bind(change.0)
                .bind(clamped(MAX_OF_CAUSE))
                .fetch_all(&mut **db)
        })?;
        listed(rows)
    }

    /// Returns incidents with their first suspects; those that do not exist are left out.
    pub async fn incidents_by_id(
        &self,
        tenant: Tenant,
        ids: impl IntoIterator<Item = IncidentId>,
    ) -> Result<HashMap<IncidentId, Incident>, StoreError> {
        let ids: BTreeSet<Uuid> = ids.into_iter().map(|id| id.0).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let rows: Vec<Row> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select_by_id(tenant, ids);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let incidents = listed(rows)?.into_iter();
        Ok(incidents.map(|incident| (incident.id, incident)).collect())
    }

    /// Counts the open incidents of an organization or of one of its services, as far as
    /// [`MAX_COUNTED_INCIDENTS`].
    pub async fn count_open_incidents(
        &self,
        tenant: Tenant,
        service: Option<ServiceId>,
    ) -> Result<u64, StoreError> {
        let statement = match service {
            Some(_) => COUNT_OPEN_OF_SERVICE,
            None => COUNT_OPEN,
        };
        let (count,): (i64,) = read!(self.reader(tenant).await?, |db| {
            let mut query = sqlx::query_as(statement)
                .bind(tenant.uuid())
                .bind(clamped(MAX_COUNTED_INCIDENTS));
            if let Some(ServiceId(service)) = service {
                query = query.bind(service);
            }
            query.fetch_one(&mut **db)
        })?;
        Ok(u64::try_from(count).unwrap_or_default())
    }
}

/// Selects the incidents whose id begins with a prefix, the latest recorded first.
fn select_of_prefix<DB: Dialect>(
    tenant: Tenant,
    prefix: &IdPrefix,
    filter: &IncidentFilter,
) -> QueryBuilder<DB> {
    let (first, last) = prefix.range();
    let mut query = QueryBuilder::new(SELECT_OF);
    DB::bind(&mut query, tenant.uuid().into());
    query.push_value(" AND i.id >= ", first);
    query.push_value(" AND i.id <= ", last);
    if let Some(before) = filter.before {
        query.push_value(" AND i.id < ", before.0);
    }
    if let Some(status) = &filter.status {
        let is_open = i64::from(*status == IncidentStatus::Open);
        query.push_value(" AND i.is_open = ", is_open);
    }
    if let Some(service) = filter.service_id {
        query.push_value(" AND i.service_id = ", service.0);
    }
    if let Some(since) = filter.since {
        query.push_value(" AND i.started_at >= ", since.millis());
    }
    if let Some(until) = filter.until {
        query.push_value(" AND i.started_at < ", until.millis());
    }
    query.push_value(" ORDER BY i.id DESC LIMIT ", clamped(filter.limit));
    query
}

fn select_by_id<DB: Dialect>(tenant: Tenant, ids: BTreeSet<Uuid>) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(SELECT_OF);
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND i.id");
    DB::push_in_ids(&mut query, ids.into_iter().collect());
    query
}

fn listed(rows: Vec<Row>) -> Result<Vec<Incident>, StoreError> {
    let shortened = |row: Row| {
        let mut incident = Incident::try_from(row)?;
        incident.shorten(LISTED_SUSPECTS);
        Ok(incident)
    };
    rows.into_iter().map(shortened).collect()
}

//! The changes that `/api/changes/around` ranks, read from their columns: documents
//! may be large, and only a few of them are returned.

use std::ops::Range;

use changelog_core::change::around::Candidate;
use changelog_core::{HostId, HostRef, RiskLevel, ServiceId, ServiceRef, Status, Timestamp};
use sqlx::QueryBuilder;
use sqlx::types::{Text, Uuid};

use super::{REFERENCES, broken};
use crate::store::engine::{Dialect, on, push_limit};
use crate::store::index::sort_key;
use crate::store::{Database, StoreError, Tenant};

/// A row of [`select`].
type CandidateRow = (
    Uuid,
    i64,
    Text<RiskLevel>,
    Text<Status>,
    Option<String>,
    Option<String>,
);

/// Which changes are candidates.
#[derive(Clone, Copy, Debug)]
pub enum Compared {
    /// All of the organization.
    All,
    /// Those of this service.
    Service(ServiceId),
    /// Those on this host.
    Host(HostId),
}

impl Database {
    /// Reads the newest changes in a time range, in milliseconds since 1970.
    pub async fn candidates(
        &self,
        tenant: Tenant,
        compared: Compared,
        millis: Range<i64>,
        limit: u64,
    ) -> Result<Vec<Candidate>, StoreError> {
        let rows: Vec<CandidateRow> = on!(&mut self.reader(tenant).await?, |db| async {
            let mut query = select(tenant, compared, millis, limit);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        rows.into_iter().map(candidate).collect()
    }
}

fn candidate(
    (id, sort_key, risk_level, status, service, host): CandidateRow,
) -> Result<Candidate, StoreError> {
    let service: Option<ServiceRef> = parse(service)?;
    let host_ref: Option<HostRef> = parse(host)?;
    Ok(Candidate {
        id: id.into(),
        occurred_at: Timestamp::from_millis(sort_key::millis(sort_key)),
        risk_level: risk_level.0,
        status: status.0,
        service,
        host_ref,
    })
}

fn parse<T: serde::de::DeserializeOwned>(json: Option<String>) -> Result<Option<T>, StoreError> {
    json.map(|json| serde_json::from_str(&json))
        .transpose()
        .map_err(|error| broken(&error))
}

fn select<DB: Dialect>(
    tenant: Tenant,
    compared: Compared,
    millis: Range<i64>,
    limit: u64,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(
        "SELECT c.id, c.sort_key, c.risk_level, c.status, s.reference, h.reference \
         FROM (SELECT sort_key FROM changes WHERE organization_id = ",
    );
    DB::bind(&mut query, tenant.uuid().into());
    match compared {
        Compared::All => {}
        Compared::Service(id) => {
            query.push(" AND service_id = ");
            DB::bind(&mut query, id.0.into());
        }
        Compared::Host(id) => {
            query.push(" AND host_id = ");
            DB::bind(&mut query, id.0.into());
        }
    }
    sort_key::push_range(&mut query, "sort_key", sort_key::of_millis(millis));
    query.push(" ORDER BY sort_key DESC");
    push_limit(&mut query, limit, 0);
    query.push(
        ") AS newest JOIN changes c ON c.sort_key = newest.sort_key AND c.organization_id = ",
    );
    DB::bind(&mut query, tenant.uuid().into());
    query.push(REFERENCES);
    query
}

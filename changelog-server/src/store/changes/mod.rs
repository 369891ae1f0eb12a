//! Changes.
//!
//! A change is stored as the JSON that responses contain, so that reading it needs no
//! decoding or encoding; the other columns are there to find it. The service and the
//! host are inserted on reading, because their names may change.

mod candidates;
pub(super) mod create;
mod delete;
mod draft;
pub(super) mod list;
mod replace_taken_ids;
mod schedule;
mod update;

use std::borrow::Cow;
use std::collections::HashMap;

use changelog_core::{Change, ChangeId, HostId, RiskLevel, ServiceId, Status, Timestamp};
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::engine::{
    BatchLimits, Batcher, Dialect, Results, Script, Value, end_lease, execute, on,
};
use super::index::counts::{self, CountDelta};
use super::index::search::{self, Facets, SearchDialect};
use super::index::sort_key;
use super::{Database, StoreError, Tenant, Tx};

pub use candidates::Compared;
pub use create::{Created, Creation};
pub use draft::Draft;
pub use list::{ChangeList, ChangesJson};

/// The limit on changes that one statement reads by id.
const MAX_IDS_PER_STATEMENT: usize = 64;

/// The JSON of a change: the document without its closing brace, the service and the
/// host. The document ends with a string, so `rtrim` removes only that brace.
const JSON: &str = "rtrim(c.document, '}') || ',\"service\":' || COALESCE(s.reference, 'null')
    || ',\"host_ref\":' || COALESCE(h.reference, 'null') || '}'";

/// Joins the service and the host of a change.
const REFERENCES: &str = "
LEFT JOIN services s ON s.organization_id = c.organization_id AND s.id = c.service_id
LEFT JOIN hosts h ON h.organization_id = c.organization_id AND h.id = c.host_id";

/// Locks the row on PostgreSQL between reading and updating it.
const LOCK: &str = "
UPDATE changes SET document = document
WHERE organization_id = $1 AND sort_key = $2 AND id = $3";

/// A change as JSON, in its detail shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeJson(pub String);

impl ChangeJson {
    /// Parses the change.
    pub fn parse(&self) -> Result<Change, StoreError> {
        serde_json::from_str(&self.0).map_err(|error| broken(&error))
    }
}

/// Returns the error for a stored change that cannot be parsed.
pub(super) fn broken(error: &serde_json::Error) -> StoreError {
    StoreError::Database(std::sync::Arc::new(sqlx::Error::Decode(
        format!("a stored change cannot be parsed: {error}").into(),
    )))
}

impl Database {
    /// Finds changes of an organization, in the order of the ids; missing ones are left
    /// out.
    pub async fn changes_of(
        &self,
        tenant: Tenant,
        ids: impl IntoIterator<Item = ChangeId>,
    ) -> Result<Vec<(ChangeId, ChangeJson)>, StoreError> {
        let wanted: Vec<_> = ids.into_iter().map(|id| (tenant, id)).collect();
        let mut all = Vec::new();
        for wanted in wanted.chunks(MAX_IDS_PER_STATEMENT) {
            let found = by_ids(self.clone(), wanted.to_vec()).await?;
            for ((_, id), json) in wanted.iter().zip(found) {
                match json {
                    Err(StoreError::NotFound) => {}
                    json => all.push((*id, json?)),
                }
            }
        }
        Ok(all)
    }
}

/// Creates the batcher that finds changes by id.
pub(super) fn batcher(database: &Database) -> Batcher<Tenant, (Tenant, ChangeId), ChangeJson> {
    let database = database.clone();
    Batcher::new(
        BatchLimits {
            batches: usize::MAX,
            batches_per_lane: 1,
            weight: MAX_IDS_PER_STATEMENT,
            mixes_lanes: false,
        },
        |_| 1,
        move |wanted: Vec<(Tenant, ChangeId)>| by_ids(database.clone(), wanted),
    )
}

/// Finds changes, all of one organization.
async fn by_ids(database: Database, wanted: Vec<(Tenant, ChangeId)>) -> Results<ChangeJson> {
    let Some((tenant, _)) = wanted.first() else {
        return Ok(Vec::new());
    };
    let mut lease = database.point_reader(*tenant).await?;
    let rows: Vec<(Uuid, String)> = on!(&mut lease, |db| async {
        let ids = wanted.iter().map(|(_, id)| *id);
        let mut query = select_by_ids(*tenant, ids);
        query.build_query_as().fetch_all(&mut **db).await
    })?;
    end_lease(lease);
    let found: HashMap<Uuid, String> = rows.into_iter().collect();
    let json = |id: ChangeId| found.get(&id.0).cloned().map(ChangeJson);
    Ok(wanted
        .iter()
        .map(|(_, id)| json(*id).ok_or(StoreError::NotFound))
        .collect())
}

/// Selects the changes of one organization that have the sort keys computed from some
/// ids. The id of a selected change may be another one with the same sort key.
fn select_by_ids<DB: Dialect>(
    tenant: Tenant,
    ids: impl Iterator<Item = ChangeId>,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT c.id, ");
    query.push(JSON).push(" FROM changes c ").push(REFERENCES);
    query.push(" WHERE c.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND c.sort_key");
    DB::push_in(
        &mut query,
        ids.map(|id| sort_key::to_look_up(id.0)).collect(),
    );
    query
}

impl Tx {
    /// Reads a change and its sort key, and locks it on PostgreSQL.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the change does not exist.
    async fn lock_change(
        &mut self,
        tenant: Tenant,
        id: ChangeId,
    ) -> Result<(i64, Change), StoreError> {
        let sort_key = sort_key::to_look_up(id.0);
        execute!(
            self,
            sqlx::query(LOCK)
                .bind(tenant.uuid())
                .bind(sort_key)
                .bind(id.0)
        )?;
        let (json,): (String,) = on!(&mut self.connection, |db| async {
            let mut query = select_one(tenant, id);
            query.build_query_as().fetch_one(&mut **db).await
        })?;
        Ok((sort_key, ChangeJson(json).parse()?))
    }
}

/// Builds the statement that reads one change.
fn select_one<DB: Dialect>(tenant: Tenant, id: ChangeId) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT ");
    query.push(JSON).push(" FROM changes c");
    query.push(REFERENCES).push(" WHERE c.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND c.sort_key = ");
    DB::bind(&mut query, sort_key::to_look_up(id.0).into());
    query.push(" AND c.id = ");
    DB::bind(&mut query, id.0.into());
    query
}

/// A change as the tables store it.
struct ChangeRow<'c> {
    tenant: Tenant,
    sort_key: i64,
    id: ChangeId,
    risk_level: &'c RiskLevel,
    status: &'c Status,
    service_id: Option<ServiceId>,
    host_id: Option<HostId>,
    /// In milliseconds since 1970.
    scheduled_for: Option<i64>,
    tags: &'c [String],
    document: Cow<'c, str>,
    /// Its words in the search index.
    words: Cow<'c, str>,
}

impl<'c> ChangeRow<'c> {
    /// Returns the row of a change at a sort key.
    fn new(tenant: Tenant, sort_key: i64, change: &'c Change) -> Self {
        let mut row = Self {
            tenant,
            sort_key,
            id: change.id,
            risk_level: &change.risk_level,
            status: &change.status,
            service_id: change.service.as_ref().map(|service| service.id),
            host_id: change.host_ref.as_ref().map(|host| host.id),
            scheduled_for: change.scheduled_for.map(Timestamp::millis),
            tags: &change.tags,
            document: draft::document(change).into(),
            words: Cow::default(),
        };
        row.words = search::indexed_text(tenant, &change.title, &row.facets()).into();
        row
    }

    /// Returns the facets that it is filtered by.
    fn facets(&self) -> Facets<'c> {
        Facets {
            risk_level: self.risk_level,
            status: self.status,
            service_id: self.service_id,
            host_id: self.host_id,
            tags: self.tags,
        }
    }

    /// Returns the values that it is counted by.
    fn count_delta(&self) -> CountDelta<'c> {
        CountDelta {
            tenant: self.tenant,
            facets: self.facets(),
            millis: sort_key::millis(self.sort_key),
        }
    }
}

/// Adds the statements that insert changes, their tags, search entries and counts.
fn push_new<DB: SearchDialect>(script: &mut Script<DB>, changes: &[ChangeRow<'_>], slot: i64) {
    let rows: Vec<[Value<'_>; 9]> = changes
        .iter()
        .map(|change| {
            [
                change.sort_key.into(),
                change.tenant.uuid().into(),
                change.id.0.into(),
                change.risk_level.as_str().into(),
                change.status.as_str().into(),
                change.service_id.map(|id| id.0).into(),
                change.host_id.map(|id| id.0).into(),
                change.scheduled_for.into(),
                change.document.as_ref().into(),
            ]
        })
        .collect();
    script.insert(
        "INSERT INTO changes \
         (sort_key, organization_id, id, risk_level, status, service_id, host_id, scheduled_for, \
         document) ",
        &rows,
        "",
    );
    let tags = changes.iter().flat_map(|change| {
        let tags = change.tags.iter();
        tags.map(|tag| (change.tenant, tag.as_str(), change.sort_key))
    });
    push_tags(script, tags);
    let words: Vec<_> = changes
        .iter()
        .map(|change| (change.tenant, change.sort_key, change.words.as_ref()))
        .collect();
    DB::index(script, &words);
    let counted = changes.iter().map(|change| (1, change.count_delta()));
    counts::push(script, slot, counted);
}

/// Adds the statement that inserts tags of changes: organization, tag, sort key.
fn push_tags<'c, DB: Dialect>(
    script: &mut Script<DB>,
    tags: impl Iterator<Item = (Tenant, &'c str, i64)>,
) {
    let rows: Vec<[Value<'_>; 3]> = tags
        .map(|(tenant, tag, sort_key)| [tenant.uuid().into(), tag.into(), sort_key.into()])
        .collect();
    script.insert(
        "INSERT INTO change_tags (organization_id, tag, sort_key) ",
        &rows,
        "",
    );
}

//! Changes: created, read one by one and in pages, updated.
//!
//! A change is kept as the JSON that it is answered with, so that reading one
//! is neither decoding nor encoding it, and a page of them is one value; the
//! columns beside it are what changes are found by. The service and the host
//! are put in on reading, because their names may change.

mod candidates;
pub(super) mod create;
mod delete;
mod draft;
pub(super) mod list;
mod schedule;
mod update;

use std::borrow::Cow;
use std::collections::HashMap;

use changelog_core::{Change, ChangeId, HostId, RiskLevel, ServiceId, Status, Timestamp};
use sqlx::types::Uuid;
use sqlx::{Postgres, QueryBuilder, Sqlite};

use super::engine::batcher::Answers;
use super::engine::{Dialect, Engine, Script, Value, execute, on, push_values};
use super::index::counts::{self, Counted};
use super::index::search::{self, Marks, SearchDialect};
use super::index::sort_key;
use super::{Database, Store, StoreError, Tenant, Tx};

pub use candidates::Compared;
pub use create::{Created, Creation, Form};
pub use draft::Draft;
pub use list::ChangeList;

/// How many changes are read by one statement at most.
pub(super) const MOST: usize = 64;

/// The JSON of a change: what is kept of it ends with a text and a brace.
const JSON: &str = "rtrim(c.document, '}') || ',\"service\":' || COALESCE(s.reference, 'null')
    || ',\"host_ref\":' || COALESCE(h.reference, 'null') || '}'";

/// Where the service and the host of a change come from.
const REFERENCES: &str = "
LEFT JOIN services s ON s.organization_id = c.organization_id AND s.id = c.service_id
LEFT JOIN hosts h ON h.organization_id = c.organization_id AND h.id = c.host_id";

/// Locks the row on PostgreSQL, so that what was read is what is changed.
const LOCK: &str = "
UPDATE changes SET document = document
WHERE organization_id = $1 AND place >= $2 AND place < $3 AND id = $4";

/// A change as JSON, in its detail shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeJson(pub String);

impl ChangeJson {
    /// Reads it.
    pub fn parse(&self) -> Result<Change, StoreError> {
        serde_json::from_str(&self.0).map_err(|error| broken(&error))
    }
}

/// What is kept cannot be read.
fn broken(error: &serde_json::Error) -> StoreError {
    StoreError::Database(std::sync::Arc::new(sqlx::Error::Decode(
        format!("a change is kept in a form that cannot be read: {error}").into(),
    )))
}

impl Store {
    /// Finds a change of an organization.
    pub async fn change(&self, tenant: Tenant, id: ChangeId) -> Result<ChangeJson, StoreError> {
        self.changes_by_id.read(tenant, (tenant, id)).await
    }

    /// Finds some changes of an organization, in the order of the ids; those that
    /// it does not have are left out.
    pub async fn changes_of(
        &self,
        tenant: Tenant,
        ids: impl IntoIterator<Item = ChangeId>,
    ) -> Result<Vec<(ChangeId, ChangeJson)>, StoreError> {
        let wanted: Vec<_> = ids.into_iter().map(|id| (tenant, id)).collect();
        let mut all = Vec::new();
        for wanted in wanted.chunks(MOST) {
            let found = by_id(self.database.clone(), wanted.to_vec()).await?;
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

/// Finds changes of one organization.
pub(super) async fn by_id(
    database: Database,
    wanted: Vec<(Tenant, ChangeId)>,
) -> Answers<ChangeJson> {
    let Some((tenant, _)) = wanted.first() else {
        return Ok(Vec::new());
    };
    let mut lease = database.point_reader(*tenant).await?;
    let rows: Vec<(Uuid, Uuid, String)> = on!(&mut lease, |db| async {
        let mut query = select_by_id(&wanted);
        query.build_query_as().fetch_all(&mut **db).await
    })?;
    drop(lease);
    let found: HashMap<(Uuid, Uuid), String> = rows
        .into_iter()
        .map(|(organization, id, json)| ((organization, id), json))
        .collect();
    let mut answers = Vec::new();
    for (tenant, id) in wanted {
        let json = match found.get(&(tenant.uuid(), id.0)) {
            Some(json) => Some(json.clone()),
            None => database.displaced(tenant, id).await?,
        };
        answers.push(json.map(ChangeJson).ok_or(StoreError::NotFound));
    }
    Ok(answers)
}

/// Reads changes off the places that their ids say.
fn select_by_id<DB: Dialect>(wanted: &[(Tenant, ChangeId)]) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT c.organization_id, c.id, ");
    query.push(JSON).push(" FROM (");
    let rows = wanted.iter().map(|(tenant, id)| {
        [
            tenant.uuid().into(),
            id.0.into(),
            sort_key::where_id_can_be(id.0).start.into(),
        ]
    });
    push_values(&mut query, rows);
    query.push(
        ") AS wanted JOIN changes c ON c.organization_id = wanted.column1 \
         AND c.id = wanted.column2 AND c.place = wanted.column3",
    );
    query.push(REFERENCES);
    query
}

impl Database {
    /// Finds a change that is not where its id says: it may be older than
    /// places are, or not be there at all.
    async fn displaced(&self, tenant: Tenant, id: ChangeId) -> Result<Option<String>, StoreError> {
        Ok(self.find(tenant, id).await?.map(|(_, json)| json))
    }

    /// Finds a change and its place.
    async fn find(
        &self,
        tenant: Tenant,
        id: ChangeId,
    ) -> Result<Option<(i64, String)>, StoreError> {
        on!(&mut self.point_reader(tenant).await?, |db| async {
            let mut query = select_one(tenant, id);
            query.build_query_as().fetch_optional(&mut **db).await
        })
    }

    /// Returns the place of a change, or, where there is none with this id, the
    /// place that it would have.
    async fn place_of(&self, tenant: Tenant, id: ChangeId) -> Result<i64, StoreError> {
        let found = self.find(tenant, id).await?.map(|(place, _)| place);
        Ok(found.or(sort_key::of(id.0)).unwrap_or(i64::MAX))
    }
}

impl Tx {
    /// Reads a change and its place, so that on PostgreSQL nobody else changes
    /// it before this transaction has ended.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] without such a change.
    async fn lock_change(
        &mut self,
        tenant: Tenant,
        id: ChangeId,
    ) -> Result<(i64, Change), StoreError> {
        let places = sort_key::where_id_can_be(id.0);
        execute!(
            self,
            sqlx::query(LOCK)
                .bind(tenant.uuid())
                .bind(places.start)
                .bind(places.end)
                .bind(id.0)
        )?;
        let (place, json): (i64, String) = on!(&mut self.connection, |db| async {
            let mut query = select_one(tenant, id);
            query.build_query_as().fetch_one(&mut **db).await
        })?;
        Ok((place, ChangeJson(json).parse()?))
    }
}

/// Reads a change and its place.
fn select_one<DB: Dialect>(tenant: Tenant, id: ChangeId) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT c.place, ");
    query.push(JSON).push(" FROM changes c");
    query.push(REFERENCES).push(" WHERE c.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    sort_key::push_range(&mut query, "c.place", sort_key::where_id_can_be(id.0));
    query.push(" AND c.id = ");
    DB::bind(&mut query, id.0.into());
    query
}

/// A change as the tables keep it.
struct Kept<'c> {
    tenant: Tenant,
    place: i64,
    id: ChangeId,
    risk_level: &'c RiskLevel,
    status: &'c Status,
    service_id: Option<ServiceId>,
    host_id: Option<HostId>,
    /// In milliseconds since 1970.
    scheduled_for: Option<i64>,
    tags: &'c [String],
    document: Cow<'c, str>,
    /// What it is found by in a search.
    words: Cow<'c, str>,
}

impl<'c> Kept<'c> {
    /// Returns a change as the tables keep it at a place.
    fn new(tenant: Tenant, place: i64, change: &'c Change) -> Self {
        let mut kept = Self {
            tenant,
            place,
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
        kept.words = search::document(tenant, &change.title, &kept.marks()).into();
        kept
    }

    /// Returns what it is filtered by.
    fn marks(&self) -> Marks<'c> {
        Marks {
            risk_level: self.risk_level,
            status: self.status,
            service_id: self.service_id,
            host_id: self.host_id,
            tags: self.tags,
        }
    }

    /// Returns what it is counted by.
    fn counted(&self) -> Counted<'c> {
        Counted {
            tenant: self.tenant,
            marks: self.marks(),
            millis: sort_key::millis(self.place),
        }
    }
}

/// Writes the statements that put new changes where they are read and found.
fn push_new<DB: SearchDialect>(script: &mut Script<DB>, changes: &[Kept<'_>], slot: i64) {
    let rows: Vec<[Value<'_>; 9]> = changes
        .iter()
        .map(|change| {
            [
                change.place.into(),
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
         (place, organization_id, id, risk_level, status, service_id, host_id, scheduled_for, \
         document) ",
        &rows,
        "",
    );
    let tags = changes.iter().flat_map(|change| {
        let tags = change.tags.iter();
        tags.map(|tag| (change.tenant, tag.as_str(), change.place))
    });
    push_tags(script, tags);
    let words: Vec<_> = changes
        .iter()
        .map(|change| (change.tenant, change.place, change.words.as_ref()))
        .collect();
    DB::index(script, &words);
    let counted = changes.iter().map(|change| (1, change.counted()));
    counts::push(script, slot, counted);
}

/// Writes the statement that records tags of changes: organization, tag, place.
fn push_tags<'c, DB: Dialect>(
    script: &mut Script<DB>,
    tags: impl Iterator<Item = (Tenant, &'c str, i64)>,
) {
    let rows: Vec<[Value<'_>; 3]> = tags
        .map(|(tenant, tag, place)| [tenant.uuid().into(), tag.into(), place.into()])
        .collect();
    script.insert(
        "INSERT INTO change_tags (organization_id, tag, place) ",
        &rows,
        "",
    );
}

impl Tx {
    /// Records changes that there were before this schema, at their places.
    pub(super) async fn carry(
        &mut self,
        changes: &[(Tenant, i64, Change)],
    ) -> Result<(), StoreError> {
        let kept: Vec<Kept<'_>> = changes
            .iter()
            .map(|(tenant, place, change)| Kept::new(*tenant, *place, change))
            .collect();
        let slot = self.slot;
        match &mut self.connection {
            Engine::Sqlite(db) => new::<Sqlite>(&kept, slot).run(&mut **db).await,
            Engine::Postgres(db) => new::<Postgres>(&kept, slot).run(&mut **db).await,
        }
    }
}

fn new<DB: SearchDialect>(changes: &[Kept<'_>], slot: i64) -> Script<DB> {
    let mut script = Script::new();
    push_new(&mut script, changes, slot);
    script
}

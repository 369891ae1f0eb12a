//! Changes.
//!
//! A change is stored as the JSON that responses contain, without the closing brace, so that reading it needs no
//! decoding or encoding; the other columns are there to find it. Services, the host and
//! the person that recorded it are inserted on reading, because their names may change.
//!
//! A change is found by its id through the [sort key](super::index::sort_key) that the
//! id determines. The few changes that were started at another time than they were
//! recorded for have another sort key; a second statement finds them by `moved_id`.

pub(super) mod candidates;
pub(super) mod create;
mod delete;
mod draft;
pub(super) mod list;
mod named;
mod replace_taken_ids;
mod schedule;
mod update;

use std::borrow::Cow;
use std::collections::HashMap;

use changelog_core::{
    Change, ChangeCursor, ChangeId, Environment, HostId, Outcome, ServiceId, Status, Timestamp,
};
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::engine::{
    BatchLimits, Batcher, Dialect, Results, Script, Value, end_lease, execute, on,
};
use super::index::counts::{self, CountDelta};
use super::index::search::{self, Facets, SearchDialect};
use super::index::sort_key;
use super::{Database, StoreError, Tenant, Tx};

pub use candidates::{CandidateSource, NewestOf};
pub use create::{Created, Creation};
pub use draft::Draft;
pub use list::{ChangeList, ChangesJson};

/// The limit on changes that one statement reads by id.
const MAX_IDS_PER_STATEMENT: usize = 64;

/// Writes the JSON of a change: the document, which lacks its closing brace, the person
/// that recorded it, all services if there are several, the first one, and the host. In
/// parentheses, so that the document is copied once and not by each operator. Few changes
/// have the first two, so that one comparison skips both.
fn push_json<DB: Dialect>(query: &mut QueryBuilder<DB>, tenant: Tenant) {
    query.push(
        "c.document || (CASE WHEN c.author_key IS NULL AND c.more_service_ids IS NULL \
         THEN ',\"service\":' \
         ELSE CASE WHEN c.author_key IS NULL THEN '' ELSE COALESCE(\
         (SELECT ',\"created_by\":' || a.reference FROM activity_actors a \
         WHERE a.actor_key = c.author_key AND a.organization_id = ",
    );
    DB::bind(query, tenant.uuid().into());
    query.push(
        "), '') END || CASE WHEN c.more_service_ids IS NULL THEN '' ELSE \
         ',\"services\":[' || s.reference || (SELECT string_agg(reference, '') \
         FROM (SELECT ',' || r.reference AS reference FROM change_services m \
         JOIN services r ON r.id = m.service_id AND r.organization_id = ",
    );
    DB::bind(query, tenant.uuid().into());
    query.push(" WHERE m.sort_key = c.sort_key AND m.organization_id = ");
    DB::bind(query, tenant.uuid().into());
    query.push(
        " ORDER BY m.place) AS further) || ']' END || ',\"service\":' END \
         || COALESCE(s.reference, 'null') \
         || ',\"host_ref\":' || COALESCE(h.reference, 'null') || '}')",
    );
}

/// Joins the first service and the host of a change.
const SERVICE_AND_HOST: &str = "
LEFT JOIN services s ON s.organization_id = c.organization_id AND s.id = c.service_id
LEFT JOIN hosts h ON h.organization_id = c.organization_id AND h.id = c.host_id";

/// Locks the row on PostgreSQL between reading and updating it.
const LOCK: &str = "
UPDATE changes SET document = document
WHERE organization_id = $1 AND sort_key = $2 AND id = $3";

/// The same for a change whose sort key does not follow from its id.
const LOCK_MOVED: &str = "
UPDATE changes SET document = document
WHERE organization_id = $1 AND moved_id = $2 RETURNING sort_key";

/// The sort key of such a change.
const SORT_KEY_OF_MOVED: &str = "
SELECT sort_key FROM changes WHERE organization_id = $1 AND moved_id = $2";

/// The limit on attempts to lock a change that other requests move meanwhile.
const MAX_LOCK_ATTEMPTS: usize = 3;

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
    let ids: Vec<Uuid> = wanted.iter().map(|(_, id)| id.0).collect();
    let rows: Vec<(Uuid, String)> = on!(&mut lease, |db| async {
        let mut query = select_by_ids(*tenant, &ids);
        query.build_query_as().fetch_all(&mut **db).await
    })?;
    let mut found: HashMap<Uuid, String> = rows.into_iter().collect();
    let missing: Vec<Uuid> = ids
        .into_iter()
        .filter(|id| !found.contains_key(id))
        .collect();
    if !missing.is_empty() {
        let rows: Vec<(Uuid, String)> = on!(&mut lease, |db| async {
            let mut query = select_at_both_places(*tenant, &missing);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        found.extend(rows);
    }
    end_lease(lease);
    let json = |id: ChangeId| found.get(&id.0).cloned().map(ChangeJson);
    Ok(wanted
        .iter()
        .map(|(_, id)| json(*id).ok_or(StoreError::NotFound))
        .collect())
}

/// Selects the changes of one organization that are at the sort keys of some ids. A change
/// that is found there may have another id.
fn select_by_ids<DB: Dialect>(tenant: Tenant, ids: &[Uuid]) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT c.id, ");
    push_json(&mut query, tenant);
    query.push(" FROM changes c ").push(SERVICE_AND_HOST);
    query.push(" WHERE c.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND c.sort_key");
    let sort_keys = ids.iter().map(|id| sort_key::to_look_up(*id));
    DB::push_in(&mut query, sort_keys.collect());
    query
}

/// Selects the changes of one organization that are at the sort keys of some ids or have
/// moved. One statement, because a change may move between two.
fn select_at_both_places<DB: Dialect>(tenant: Tenant, ids: &[Uuid]) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT c.id, ");
    push_json(&mut query, tenant);
    query.push(" FROM (SELECT p.sort_key FROM changes p WHERE p.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND p.sort_key");
    let sort_keys = ids.iter().map(|id| sort_key::to_look_up(*id));
    DB::push_in(&mut query, sort_keys.collect());
    query.push(" UNION ALL SELECT m.sort_key FROM changes m WHERE m.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND m.moved_id");
    DB::push_in_ids(&mut query, ids.to_vec());
    push_places_end(&mut query, tenant);
    query
}

/// Joins the changes whose sort keys a subquery has selected.
fn push_places_end<DB: Dialect>(query: &mut QueryBuilder<DB>, tenant: Tenant) {
    // LEFT, so that SQLite begins with the sort keys.
    query.push(
        ") AS place LEFT JOIN changes c ON c.sort_key = place.sort_key AND c.organization_id = ",
    );
    DB::bind(query, tenant.uuid().into());
    query.push(SERVICE_AND_HOST);
}

impl Database {
    /// Returns the sort key at which the change of a cursor is, or was when the client
    /// saw it.
    async fn sort_key_of(&self, tenant: Tenant, cursor: ChangeCursor) -> Result<i64, StoreError> {
        let id = cursor.id.0;
        if let Some(at) = cursor.at {
            return Ok(sort_key::at(at.millis(), id).unwrap_or(i64::MAX));
        }
        let moved: Option<(i64,)> = on!(&mut self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SORT_KEY_OF_MOVED)
                .bind(tenant.uuid())
                .bind(id)
                .fetch_optional(&mut **db)
        })?;
        Ok(moved.map_or_else(|| sort_key::of(id).unwrap_or(i64::MAX), |(key,)| key))
    }
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
        let mut sort_key = None;
        // Another request may move the change between the two statements.
        for _ in 0..MAX_LOCK_ATTEMPTS {
            sort_key = self.lock_place(tenant, id).await?;
            if sort_key.is_some() {
                break;
            }
        }
        let sort_key = sort_key.ok_or(StoreError::NotFound)?;
        let (json,): (String,) = on!(&mut self.connection, |db| async {
            let mut query = select_one(tenant, sort_key);
            query.build_query_as().fetch_one(&mut **db).await
        })?;
        Ok((sort_key, ChangeJson(json).parse()?))
    }

    /// Locks a change and returns its sort key; `None` if it was not found.
    async fn lock_place(
        &mut self,
        tenant: Tenant,
        id: ChangeId,
    ) -> Result<Option<i64>, StoreError> {
        let sort_key = sort_key::to_look_up(id.0);
        let locked = execute!(
            self,
            sqlx::query(LOCK)
                .bind(tenant.uuid())
                .bind(sort_key)
                .bind(id.0)
        )?;
        if locked > 0 {
            return Ok(Some(sort_key));
        }
        let moved: Option<(i64,)> = on!(&mut self.connection, |db| {
            sqlx::query_as(LOCK_MOVED)
                .bind(tenant.uuid())
                .bind(id.0)
                .fetch_optional(&mut **db)
        })?;
        Ok(moved.map(|(sort_key,)| sort_key))
    }

    /// Returns a sort key for a change at an effective time: that of its id, or another
    /// one of the same millisecond if a change has it.
    async fn free_place(
        &mut self,
        tenant: Tenant,
        id: ChangeId,
        at: Timestamp,
    ) -> Result<i64, StoreError> {
        let mut sort_key = sort_key::at(at.millis(), id.0).ok_or_else(|| {
            StoreError::Unavailable("the time is beyond what a sort key can hold".into())
        })?;
        loop {
            let taken: Option<(i64,)> = on!(&mut self.connection, |db| async {
                let mut query = select_sort_key(tenant, sort_key);
                query.build_query_as().fetch_optional(&mut **db).await
            })?;
            if taken.is_none() {
                return Ok(sort_key);
            }
            sort_key = sort_key::with_random_rest(sort_key, rand::random());
        }
    }
}

/// Selects a sort key that a change has.
fn select_sort_key<DB: Dialect>(tenant: Tenant, sort_key: i64) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT sort_key FROM changes WHERE sort_key = ");
    DB::bind(&mut query, sort_key.into());
    if !DB::SORT_KEYS_ARE_GLOBAL {
        query.push(" AND organization_id = ");
        DB::bind(&mut query, tenant.uuid().into());
    }
    query
}

/// Builds the statement that reads one change.
fn select_one<DB: Dialect>(tenant: Tenant, sort_key: i64) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT ");
    push_json(&mut query, tenant);
    query.push(" FROM changes c");
    query
        .push(SERVICE_AND_HOST)
        .push(" WHERE c.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND c.sort_key = ");
    DB::bind(&mut query, sort_key.into());
    query
}

/// A change as the tables store it.
struct ChangeRow<'c> {
    tenant: Tenant,
    sort_key: i64,
    change: &'c Change,
    host_id: Option<HostId>,
    /// The ids of the services after the first.
    more_service_ids: Option<String>,
    /// The person that recorded it, as `activity_actors` has it.
    author_key: Option<String>,
    document: Cow<'c, str>,
    /// Its words in the search index.
    words: Cow<'c, str>,
}

impl<'c> ChangeRow<'c> {
    /// Returns the row of a change at a sort key.
    fn new(tenant: Tenant, sort_key: i64, change: &'c Change) -> Self {
        let host_id = change.host_ref.as_ref().map(|host| host.id);
        let words = search::indexed_text(tenant, &change.title, &facets(change, host_id));
        let document = draft::document(change);
        Self::prepared(
            tenant,
            sort_key,
            change,
            host_id,
            document.into(),
            words.into(),
        )
    }

    /// Returns the row of a change whose document and words are known.
    fn prepared(
        tenant: Tenant,
        sort_key: i64,
        change: &'c Change,
        host_id: Option<HostId>,
        document: Cow<'c, str>,
        words: Cow<'c, str>,
    ) -> Self {
        let more: Vec<String> = change
            .service_ids
            .iter()
            .skip(1)
            .map(|id| id.0.simple().to_string())
            .collect();
        Self {
            tenant,
            sort_key,
            change,
            host_id,
            more_service_ids: (!more.is_empty()).then(|| more.join(",")),
            author_key: draft::person(change).map(|id| id.to_string()),
            document,
            words,
        }
    }

    /// Returns the first service.
    fn service_id(&self) -> Option<ServiceId> {
        self.change.service_ids.first().copied()
    }

    /// Returns the id if the sort key does not follow from it.
    fn moved_id(&self) -> Option<Uuid> {
        let id = self.change.id.0;
        (sort_key::of(id) != Some(self.sort_key)).then_some(id)
    }

    /// Returns when the change ended, in milliseconds since 1970, if that is not when it
    /// started.
    fn ended_at(&self) -> Option<i64> {
        let change = self.change;
        let ended_later = |at: &Timestamp| Some(*at) != change.started_at;
        change.ended_at.filter(ended_later).map(Timestamp::millis)
    }

    /// Returns when the change was undone, in milliseconds since 1970. A change that was
    /// recorded as rolled back, without an outcome and with one time only, has failed, as
    /// the specification says.
    fn undone_at(&self) -> Option<i64> {
        let change = self.change;
        let is_undone = match &change.outcome {
            Some(outcome) => *outcome == Outcome::Undone,
            None => change.status == Status::RolledBack && change.duration().is_some(),
        };
        let ended_at = change.ended_at.filter(|_| is_undone);
        ended_at.map(Timestamp::millis)
    }

    /// Returns the columns that an update may change, except the document.
    fn updatable_columns(&self) -> [(&'static str, Value<'_>); 12] {
        let change = self.change;
        let environment = change.environment.as_ref();
        [
            ("sort_key", self.sort_key.into()),
            ("risk_level", change.risk_level.as_str().into()),
            ("status", change.status.as_str().into()),
            ("service_id", self.service_id().map(|id| id.0).into()),
            ("host_id", self.host_id.map(|id| id.0).into()),
            (
                "scheduled_for",
                change.scheduled_for.map(Timestamp::millis).into(),
            ),
            ("moved_id", self.moved_id().into()),
            ("title", change.title.as_str().into()),
            ("environment", environment.map(Environment::as_str).into()),
            ("ended_at", self.ended_at().into()),
            ("undone_at", self.undone_at().into()),
            ("more_service_ids", self.more_service_ids.as_deref().into()),
        ]
    }

    /// Returns the rows of the services after the first: service and place.
    fn more_services(&self) -> impl Iterator<Item = (ServiceId, i64)> {
        self.change.service_ids.iter().copied().zip(0..).skip(1)
    }

    /// Returns the values that it is counted by.
    fn count_delta(&self) -> CountDelta<'c> {
        CountDelta {
            tenant: self.tenant,
            facets: facets(self.change, self.host_id),
            millis: sort_key::millis(self.sort_key),
        }
    }
}

/// Returns the facets that a change is filtered by.
fn facets(change: &Change, host_id: Option<HostId>) -> Facets<'_> {
    Facets {
        risk_level: &change.risk_level,
        status: &change.status,
        environment: change.environment.as_ref(),
        services: &change.service_ids,
        host_id,
        tags: &change.tags,
        author: change.created_by.as_ref().map(|author| author.id),
    }
}

/// Adds the statements that insert changes, their services, tags, search entries and
/// counts.
fn push_new<DB: SearchDialect>(script: &mut Script<DB>, changes: &[ChangeRow<'_>], slot: i64) {
    let rows: Vec<[Value<'_>; 16]> = changes
        .iter()
        .map(|row| {
            let [sort_key, columns @ ..] = row.updatable_columns().map(|(_, value)| value);
            let [
                risk,
                status,
                service,
                host,
                schedule,
                moved,
                title,
                place,
                ended,
                undone,
                more,
            ] = columns;
            [
                sort_key,
                row.tenant.uuid().into(),
                row.change.id.0.into(),
                risk,
                status,
                service,
                host,
                schedule,
                moved,
                title,
                place,
                ended,
                undone,
                more,
                row.author_key.as_deref().into(),
                row.document.as_ref().into(),
            ]
        })
        .collect();
    script.insert(
        "INSERT INTO changes \
         (sort_key, organization_id, id, risk_level, status, service_id, host_id, scheduled_for, \
         moved_id, title, environment, ended_at, undone_at, more_service_ids, author_key, document) ",
        &rows,
        "",
    );
    push_more_services(script, changes.iter());
    let tags = changes.iter().flat_map(|row| {
        let tags = row.change.tags.iter();
        tags.map(|tag| (row.tenant, tag.as_str(), row.sort_key))
    });
    push_tags(script, tags);
    let words: Vec<_> = changes
        .iter()
        .map(|change| (change.tenant, change.sort_key, change.words.as_ref()))
        .collect();
    DB::index_new(script, &words);
    let counted = changes.iter().map(|change| (1, change.count_delta()));
    counts::push(script, slot, counted);
}

/// Adds the statement that inserts the services of changes after the first.
fn push_more_services<'r, 'c: 'r, DB: Dialect>(
    script: &mut Script<DB>,
    changes: impl Iterator<Item = &'r ChangeRow<'c>>,
) {
    let rows: Vec<[Value<'_>; 4]> = changes
        .flat_map(|row| {
            let (tenant, sort_key) = (row.tenant, row.sort_key);
            row.more_services().map(move |(service, place)| {
                [
                    tenant.uuid().into(),
                    service.0.into(),
                    sort_key.into(),
                    place.into(),
                ]
            })
        })
        .collect();
    script.insert(
        "INSERT INTO change_services (organization_id, service_id, sort_key, place) ",
        &rows,
        "",
    );
}

/// Adds the statement that deletes rows of a table that belong to a change: those with
/// one of some values in a column of the primary key.
fn push_delete_of<DB: Dialect>(
    script: &mut Script<DB>,
    (table, column): (&str, &str),
    row: &ChangeRow<'_>,
    value: Value<'_>,
) {
    let query = script.statement("DELETE FROM ");
    query.push(table).push(" WHERE organization_id = ");
    DB::bind(query, row.tenant.uuid().into());
    query.push(" AND ").push(column).push(" = ");
    DB::bind(query, value);
    query.push(" AND sort_key = ");
    DB::bind(query, row.sort_key.into());
}

/// Adds the statements that delete the services after the first of a change.
fn push_delete_more_services<DB: Dialect>(script: &mut Script<DB>, row: &ChangeRow<'_>) {
    for (service, _) in row.more_services() {
        push_delete_of(
            script,
            ("change_services", "service_id"),
            row,
            service.0.into(),
        );
    }
}

/// Adds the statement that deletes a tag of a change.
fn push_delete_tag<DB: Dialect>(script: &mut Script<DB>, row: &ChangeRow<'_>, tag: &str) {
    push_delete_of(script, ("change_tags", "tag"), row, tag.into());
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

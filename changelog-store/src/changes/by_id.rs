//! Finds changes by their ids.

use std::collections::{BTreeMap, HashMap};

use changelog_core::{ChangeCursor, ChangeId};
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::{ChangeJson, SERVICE_AND_HOST, push_json};
use crate::engine::{
    BatchLimits, Batcher, Dialect, PushValue, Results, end_lease, on, push_rounded_values, read,
};
use crate::index::sort_key;
use crate::{Database, StoreError, Tenant};

/// The limit on changes that one statement reads by id.
const MAX_IDS_PER_STATEMENT: usize = 64;

/// The sort key of such a change.
const SORT_KEY_OF_MOVED: &str = "
SELECT sort_key FROM changes WHERE organization_id = $1 AND moved_id = $2";

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

/// Creates the batcher that finds changes by id. On PostgreSQL, where a round trip costs more
/// than the rows that it brings, a statement has those of all organizations that wait.
pub(crate) fn batcher(database: &Database) -> Batcher<Tenant, (Tenant, ChangeId), ChangeJson> {
    let database = database.clone();
    let mixes_lanes = database.connections.joins_scripts;
    Batcher::new(
        BatchLimits {
            batches: if mixes_lanes { 1 } else { usize::MAX },
            batches_per_lane: 1,
            weight: MAX_IDS_PER_STATEMENT,
            mixes_lanes,
        },
        |_| 1,
        move |wanted: Vec<(Tenant, ChangeId)>| by_ids(database.clone(), wanted),
    )
}

/// A change that was found: its organization, its id and its JSON.
type FoundRow = (Uuid, Uuid, String);

/// Finds changes. If they are of several organizations, no share of one is used.
async fn by_ids(database: Database, wanted: Vec<(Tenant, ChangeId)>) -> Results<ChangeJson> {
    let mut of_tenants: BTreeMap<Tenant, Vec<Uuid>> = BTreeMap::new();
    for (tenant, id) in &wanted {
        of_tenants.entry(*tenant).or_default().push(id.0);
    }
    let mut tenants = of_tenants.keys();
    let mut lease = match (tenants.next(), tenants.next()) {
        (None, _) => return Ok(Vec::new()),
        (Some(tenant), None) => database.point_reader(*tenant).await?,
        _ => database.connections.point_reader(None).await?,
    };
    let rows: Vec<FoundRow> = on!(&mut lease, |db| async {
        let mut query = select_by_ids(&of_tenants);
        query.build_query_as().fetch_all(&mut **db).await
    })?;
    let keyed = |(tenant, id, json): FoundRow| ((tenant, id), json);
    let mut found: HashMap<(Uuid, Uuid), String> = rows.into_iter().map(keyed).collect();
    for (tenant, ids) in &mut of_tenants {
        ids.retain(|id| !found.contains_key(&(tenant.uuid(), *id)));
        if !ids.is_empty() {
            let rows: Vec<FoundRow> = on!(&mut lease, |db| async {
                let mut query = select_at_both_places(*tenant, ids);
                query.build_query_as().fetch_all(&mut **db).await
            })?;
            found.extend(rows.into_iter().map(keyed));
        }
    }
    end_lease(lease);
    let json = |(tenant, id): &(Tenant, ChangeId)| found.get(&(tenant.uuid(), id.0)).cloned();
    let json = wanted.iter().map(json);
    Ok(json
        .map(|json| json.map(ChangeJson).ok_or(StoreError::NotFound))
        .collect())
}

/// Selects the changes that are at the sort keys of some ids. A change that is found there may
/// have another id.
fn select_by_ids<DB: Dialect>(of_tenants: &BTreeMap<Tenant, Vec<Uuid>>) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT c.organization_id, c.id, ");
    let mut one = of_tenants.iter();
    if let (Some((tenant, ids)), None) = (one.next(), one.next()) {
        push_json(&mut query, Some(*tenant));
        query.push(" FROM changes c ").push(SERVICE_AND_HOST);
        query.push_value(" WHERE c.organization_id = ", tenant.uuid());
        query.push(" AND c.sort_key");
        let sort_keys = ids.iter().map(|id| sort_key::to_look_up(*id));
        DB::push_in(&mut query, sort_keys.collect());
        return query;
    }
    let rows = of_tenants.iter().flat_map(|(tenant, ids)| {
        let row = |id: &Uuid| [tenant.uuid().into(), sort_key::to_look_up(*id).into()];
        ids.iter().map(row)
    });
    push_json(&mut query, None);
    query.push(" FROM (");
    push_rounded_values(&mut query, &rows.collect::<Vec<_>>());
    query.push(
        ") AS wanted JOIN changes c ON c.organization_id = wanted.column1 \
         AND c.sort_key = wanted.column2",
    );
    query.push(SERVICE_AND_HOST);
    query
}

/// Selects the changes of one organization that are at the sort keys of some ids or have
/// moved. One statement, because a change may move between two.
fn select_at_both_places<DB: Dialect>(tenant: Tenant, ids: &[Uuid]) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT c.organization_id, c.id, ");
    push_json(&mut query, Some(tenant));
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
pub(super) fn push_places_end<DB: Dialect>(query: &mut QueryBuilder<DB>, tenant: Tenant) {
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
    pub(super) async fn sort_key_of(
        &self,
        tenant: Tenant,
        cursor: ChangeCursor,
    ) -> Result<i64, StoreError> {
        let id = cursor.id.0;
        let moved: Option<(i64,)> = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SORT_KEY_OF_MOVED)
                .bind(tenant.uuid())
                .bind(id)
                .fetch_optional(&mut **db)
        })?;
        let moved = moved.map(|(key,)| key);
        let key = match (cursor.at, moved) {
            // In its millisecond it may have another place than its id says.
            (Some(at), Some(key)) if sort_key::millis(key) == at.millis() => Some(key),
            (Some(at), _) => sort_key::at(at.millis(), id),
            (None, Some(key)) => Some(key),
            (None, None) => sort_key::of(id),
        };
        Ok(key.unwrap_or(i64::MAX))
    }
}

/// Builds the statement that reads one change.
pub(super) fn select_one<DB: Dialect>(tenant: Tenant, sort_key: i64) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT ");
    push_json(&mut query, Some(tenant));
    query.push(" FROM changes c");
    query
        .push(SERVICE_AND_HOST)
        .push(" WHERE c.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push_value(" AND c.sort_key = ", sort_key);
    query
}

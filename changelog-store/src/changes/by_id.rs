//! Finds changes by their ids.

use std::collections::HashMap;

use changelog_core::{ChangeCursor, ChangeId};
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::{ChangeJson, SERVICE_AND_HOST, push_json};
use crate::engine::{BatchLimits, Batcher, Dialect, PushValue, Results, end_lease, on, read};
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

/// Creates the batcher that finds changes by id.
pub(crate) fn batcher(database: &Database) -> Batcher<Tenant, (Tenant, ChangeId), ChangeJson> {
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
    query.push_value(" WHERE c.organization_id = ", tenant.uuid());
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
    push_json(&mut query, tenant);
    query.push(" FROM changes c");
    query
        .push(SERVICE_AND_HOST)
        .push(" WHERE c.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push_value(" AND c.sort_key = ", sort_key);
    query
}

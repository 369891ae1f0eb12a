//! Services and hosts: the statements that both have in common. A column is named after the
//! field that it has.

use std::collections::HashMap;
use std::ops::Range;

use changelog_core::{Input, Named};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use sqlx::types::Uuid;
use sqlx::{FromRow, QueryBuilder};
use sqlx_postgres::PgRow;
use sqlx_sqlite::SqliteRow;

use super::activity::{clamped, difference, fields};
use super::engine::error::or_conflict;
use super::engine::{Dialect, Lease, PushValue, Value, execute, on, push_limit, read};
use super::{ChartScope, Database, Outcome, Quota, StoreError, Summary, Tenant, Tx, new_id};

/// What the store has to know of services and of hosts.
pub trait StoredItem: Named {
    /// The column of `changes` that refers to one.
    const COLUMN: &'static str;
    /// Whether a change can have further ones, in `change_services`.
    const HAS_FURTHER: bool;
    /// The limit on how many an organization has.
    const QUOTA: Quota;

    /// What is read: the id, the fields of the input, and the time of the creation.
    type Row: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin;
    /// What changes show of one.
    type Reference: Serialize + for<'i> From<&'i Self>;

    /// Returns what a row has.
    fn from_row(row: Self::Row, tenant: Tenant) -> Self;

    /// Returns what charts count for one.
    fn chart_scope(id: Self::Id) -> ChartScope;

    /// Returns the outcome of creating it.
    fn outcome(self) -> Outcome;

    /// Checks what an item refers to, and adds the names to its differences from `before`.
    fn check(
        &self,
        _tx: &mut Tx,
        _tenant: Tenant,
        _before: Option<&Self>,
        _changes: &mut Map<String, Json>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Ok(()) }
    }

    /// Writes what is known of an item elsewhere, where it differs from `before`.
    fn write_elsewhere(
        &self,
        tx: &mut Tx,
        tenant: Tenant,
        before: Option<&Self>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Which items of an organization are read, ordered by name.
#[derive(Clone, Copy, Debug)]
enum Which<'w> {
    All,
    Page { limit: u64, offset: u64 },
    After { name: &'w str, limit: u64 },
    Beginning { prefix: &'w str, limit: u64 },
    WithName(&'w str),
    WithIds(&'w [Uuid]),
}

impl Database {
    /// Lists the items of an organization, ordered by name.
    pub async fn items<T: StoredItem>(&self, tenant: Tenant) -> Result<Vec<T>, StoreError> {
        read_items(self.reader(tenant).await?, tenant, Which::All).await
    }

    /// Lists at most `limit` items of an organization, ordered by name: those whose names
    /// come after `name`.
    pub async fn items_after<T: StoredItem>(
        &self,
        tenant: Tenant,
        name: &str,
        limit: u64,
    ) -> Result<Vec<T>, StoreError> {
        let which = Which::After { name, limit };
        read_items(self.reader(tenant).await?, tenant, which).await
    }

    /// Lists the ids and names of the items of an organization, ordered by name.
    pub async fn item_names<T: StoredItem>(
        &self,
        tenant: Tenant,
    ) -> Result<Vec<(T::Id, String)>, StoreError> {
        let rows: Vec<(Uuid, String)> = read!(self.reader(tenant).await?, |db| async {
            let columns = ["id", T::NAME_FIELD];
            let mut query = select::<T, _>(&columns, tenant, Which::All);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let names = rows.into_iter().map(|(id, name)| (id.into(), name));
        Ok(names.collect())
    }

    /// Lists at most `limit` names of items that begin with `prefix`, in their order; ASCII
    /// case is ignored.
    pub async fn item_names_from<T: StoredItem>(
        &self,
        tenant: Tenant,
        prefix: &str,
        limit: u64,
    ) -> Result<Vec<String>, StoreError> {
        let rows: Vec<(String,)> = read!(self.reader(tenant).await?, |db| async {
            let which = Which::Beginning { prefix, limit };
            let mut query = select::<T, _>(&[T::NAME_FIELD], tenant, which);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(rows.into_iter().map(|(name,)| name).collect())
    }

    /// Lists a page of the items of an organization, ordered by name, each with a summary of
    /// its changes; `days`, numbers since 1970 in UTC, are counted apart.
    pub async fn item_page<T: StoredItem>(
        &self,
        tenant: Tenant,
        limit: u64,
        offset: u64,
        days: Range<i64>,
    ) -> Result<Vec<Summary<T>>, StoreError> {
        let which = Which::Page { limit, offset };
        let items = read_items(self.reader(tenant).await?, tenant, which).await?;
        self.summarize(tenant, items, days).await
    }

    /// Finds items of an organization by their ids.
    pub async fn items_by_id<T: StoredItem>(
        &self,
        tenant: Tenant,
        ids: &[T::Id],
    ) -> Result<HashMap<T::Id, T>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let ids: Vec<Uuid> = ids.iter().map(|id| (*id).into()).collect();
        let which = Which::WithIds(&ids);
        let items = read_items(self.reader(tenant).await?, tenant, which).await?;
        Ok(items.into_iter().map(|item: T| (item.id(), item)).collect())
    }

    /// Finds an item of an organization by its name, ignoring ASCII case.
    pub async fn item_named<T: StoredItem>(
        &self,
        tenant: Tenant,
        name: &str,
    ) -> Result<Option<T>, StoreError> {
        let which = Which::WithName(name);
        let items = read_items(self.point_reader(tenant).await?, tenant, which).await?;
        Ok(items.into_iter().next())
    }

    /// Finds an item of an organization.
    pub async fn item<T: StoredItem>(&self, tenant: Tenant, id: T::Id) -> Result<T, StoreError> {
        let ids: [Uuid; 1] = [id.into()];
        let which = Which::WithIds(&ids);
        let items = read_items(self.point_reader(tenant).await?, tenant, which).await?;
        items.into_iter().next().ok_or(StoreError::NotFound)
    }
}

impl Tx {
    /// Creates an item.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when a service that it depends on does not exist,
    /// [`StoreError::Conflict`] when its name is taken,
    /// [`StoreError::QuotaExceeded`] when the organization has too many.
    pub async fn insert_item<T: StoredItem>(
        &mut self,
        tenant: Tenant,
        new: &T::New,
        now: DateTime<Utc>,
    ) -> Result<T, StoreError> {
        let item = T::create(new.clone(), new_id(now).into(), tenant.id(), now.into());
        item.check(self, tenant, None, &mut Map::new()).await?;
        let columns = columns(&item);
        let inserted = execute!(self, insert(tenant, &item, &columns, now).build())?;
        if inserted == 0 {
            return Err(StoreError::Conflict);
        }
        self.write_words(tenant, None, &item).await?;
        item.write_elsewhere(self, tenant, None).await?;
        self.check_quota(tenant, T::QUOTA).await?;
        Ok(item)
    }

    /// Updates an item and returns it with the differences, `{field: {from, to}}`.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when a service that it is to depend on does not exist or
    /// is this one, [`StoreError::Conflict`] when its new name is taken.
    pub async fn update_item<T: StoredItem>(
        &mut self,
        tenant: Tenant,
        id: T::Id,
        patch: &T::Patch,
    ) -> Result<(T, Map<String, Json>), StoreError> {
        execute!(self, lock::<T, _>(tenant, id).build())?;
        let found = self.items_by_id::<T>(tenant, &[id.into()]).await?;
        let before = found.into_iter().next();
        let before = before.ok_or(StoreError::NotFound)?;
        let mut item = before.clone();
        item.apply(patch.clone())?;
        let mut changes = difference(&before, &item);
        let earlier = Some(&before);
        item.check(self, tenant, earlier, &mut changes).await?;
        if !changes.is_empty() {
            let columns = columns(&item);
            or_conflict(execute!(self, update(tenant, &item, &columns).build()))?;
            self.write_words(tenant, earlier, &item).await?;
            item.write_elsewhere(self, tenant, earlier).await?;
        }
        Ok((item, changes))
    }

    /// Finds items of an organization by their ids.
    pub(super) async fn items_by_id<T: StoredItem>(
        &mut self,
        tenant: Tenant,
        ids: &[Uuid],
    ) -> Result<Vec<T>, StoreError> {
        self.items_where(tenant, Which::WithIds(ids)).await
    }

    /// Finds an item of an organization by its name, ignoring ASCII case.
    pub async fn item_named<T: StoredItem>(
        &mut self,
        tenant: Tenant,
        name: &str,
    ) -> Result<Option<T>, StoreError> {
        let items = self.items_where(tenant, Which::WithName(name)).await?;
        Ok(items.into_iter().next())
    }

    async fn items_where<T: StoredItem>(
        &mut self,
        tenant: Tenant,
        which: Which<'_>,
    ) -> Result<Vec<T>, StoreError> {
        let rows: Vec<T::Row> = on!(&mut self.connection, |db| async {
            let mut query = select_items::<T, _>(tenant, which);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let items = rows.into_iter().map(|row| T::from_row(row, tenant));
        Ok(items.collect())
    }
}

async fn read_items<T: StoredItem>(
    lease: Lease,
    tenant: Tenant,
    which: Which<'_>,
) -> Result<Vec<T>, StoreError> {
    let rows: Vec<T::Row> = read!(lease, |db| async {
        let mut query = select_items::<T, _>(tenant, which);
        query.build_query_as().fetch_all(&mut **db).await
    })?;
    let items = rows.into_iter().map(|row| T::from_row(row, tenant));
    Ok(items.collect())
}

fn select_items<T: StoredItem, DB: Dialect>(tenant: Tenant, which: Which<'_>) -> QueryBuilder<DB> {
    let columns = [&["id"], T::New::FIELDS, &["created_at"]].concat();
    select::<T, DB>(&columns, tenant, which)
}

fn select<T: StoredItem, DB: Dialect>(
    columns: &[&'static str],
    tenant: Tenant,
    which: Which<'_>,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT ");
    query.push(columns.join(", "));
    query.push(" FROM ").push(T::PLURAL);
    query.push_value(" WHERE organization_id = ", tenant.uuid());
    let folded = |query: &mut QueryBuilder<DB>, operator, name: &str| {
        query.push(" AND ").push(T::NAME_FIELD).push("_folded");
        query.push(operator);
        let name = name.to_ascii_lowercase();
        DB::bind(query, name.as_str().into());
    };
    match which {
        Which::All | Which::Page { .. } => {}
        Which::After { name, .. } => folded(&mut query, " > ", name),
        Which::Beginning { prefix, .. } => {
            folded(&mut query, " >= ", prefix);
            // Comes after every name that begins so.
            folded(&mut query, " < ", &format!("{prefix}{}", char::MAX));
        }
        Which::WithName(name) => {
            folded(&mut query, " = ", name);
            return query;
        }
        Which::WithIds(ids) => {
            query.push(" AND id");
            DB::push_in_ids(&mut query, ids.to_vec());
            return query;
        }
    }
    query.push(" ORDER BY ").push(T::NAME_FIELD).push("_folded");
    match which {
        Which::Page { limit, offset } => push_limit(&mut query, limit, clamped(offset)),
        Which::After { limit, .. } | Which::Beginning { limit, .. } => {
            push_limit(&mut query, limit, 0);
        }
        _ => {}
    }
    query
}

/// Returns the columns that updates write.
fn columns<T: StoredItem>(item: &T) -> Map<String, Json> {
    let mut columns = fields(item);
    columns.retain(|name, _| T::New::FIELDS.contains(&name.as_str()));
    let folded = item.name().to_ascii_lowercase();
    columns.insert(format!("{}_folded", T::NAME_FIELD), folded.into());
    let reference = serde_json::to_string(&T::Reference::from(item));
    columns.insert("reference".to_owned(), reference.unwrap_or_default().into());
    columns
}

/// Converts a JSON string or array to the value of a column.
fn value(field: &Json) -> Value<'_> {
    match field {
        Json::Array(list) => Value::List(list),
        text => text.as_str().into(),
    }
}

/// Inserts no row on a conflict: an error would end the transaction on PostgreSQL,
/// which still has to record the outcome.
fn insert<T: StoredItem, DB: Dialect>(
    tenant: Tenant,
    item: &T,
    columns: &Map<String, Json>,
    now: DateTime<Utc>,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("INSERT INTO ");
    query.push(T::PLURAL);
    query.push(" (organization_id, id, created_at");
    for column in columns.keys() {
        query.push(", ").push(column);
    }
    query.push_value(") VALUES (", tenant.uuid());
    query.push_value(", ", Value::Uuid(item.id().into()));
    query.push_value(", ", now.timestamp_millis());
    for field in columns.values() {
        query.push_value(", ", value(field));
    }
    query.push(") ON CONFLICT (organization_id, ");
    query.push(T::NAME_FIELD).push("_folded) DO NOTHING");
    query
}

/// Locks the row on PostgreSQL between reading and updating it.
fn lock<T: StoredItem, DB: Dialect>(tenant: Tenant, id: T::Id) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("UPDATE ");
    query.push(T::PLURAL).push(" SET ").push(T::NAME_FIELD);
    query.push(" = ").push(T::NAME_FIELD);
    push_key(&mut query, tenant, id.into());
    query
}

fn update<T: StoredItem, DB: Dialect>(
    tenant: Tenant,
    item: &T,
    columns: &Map<String, Json>,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("UPDATE ");
    query.push(T::PLURAL);
    for (number, (column, field)) in columns.iter().enumerate() {
        query.push(if number == 0 { " SET " } else { ", " });
        query.push(column).push_value(" = ", value(field));
    }
    push_key(&mut query, tenant, item.id().into());
    query
}

fn push_key<DB: Dialect>(query: &mut QueryBuilder<DB>, tenant: Tenant, id: Uuid) {
    query.push_value(" WHERE organization_id = ", tenant.uuid());
    query.push_value(" AND id = ", id);
}

#[cfg(test)]
mod tests {
    use changelog_core::{Host, Service};
    use sqlx_sqlite::Sqlite;

    use super::*;
    use crate::engine::explain;

    async fn requires_plan<T: StoredItem>(which: Which<'_>, expected: &str) {
        let tenant = Tenant(Uuid::from_u128(2).into());
        let query = select_items::<T, Sqlite>(tenant, which);
        let plan = explain::of(&query.into_string()).await;
        assert_eq!(plan, [expected], "{which:?}");
    }

    #[tokio::test]
    async fn services_and_hosts_are_looked_up_by_indexes() {
        for count in [1, 2, 100] {
            let ids = vec![Uuid::from_u128(1); count];
            let expected = "SEARCH services USING INDEX sqlite_autoindex_services_1 \
                            (organization_id=? AND id=?)";
            requires_plan::<Service>(Which::WithIds(&ids), expected).await;
        }
        let page = Which::Page {
            limit: 26,
            offset: 50,
        };
        let expected =
            "SEARCH services USING INDEX sqlite_autoindex_services_2 (organization_id=?)";
        requires_plan::<Service>(page, expected).await;
        let expected = "SEARCH hosts USING INDEX sqlite_autoindex_hosts_2 (organization_id=?)";
        requires_plan::<Host>(page, expected).await;
    }
}

//! The activity log: written with what it records, in one transaction.

use changelog_core::activity::ActorFilter;
use changelog_core::{
    Action, ActivityEntry, ActivityFilter, ActivityId, Actor as NamedActor, ResourceType,
    Timestamp, UserId,
};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value};
use sqlx::types::{Json, Text, Uuid};
use sqlx::{FromRow, QueryBuilder};

use super::engine::{execute, on};
use super::{Actor, Store, StoreError, Tenant, Tx, new_id};

const INSERT: &str = "
INSERT INTO activity (organization_id, id, actor_id, actor_name, action, resource_type, resource_id,
                      resource_label, metadata, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

const INSERT_ACTOR: &str = "
INSERT INTO activity_actors (organization_id, actor_key, actor_id, actor_name)
VALUES ($1, $2, $3, $4)
ON CONFLICT (organization_id, actor_key) DO UPDATE SET actor_name = excluded.actor_name
WHERE activity_actors.actor_name <> excluded.actor_name";

const SELECT: &str = "
SELECT id, actor_id, actor_name, action, resource_type, resource_id, resource_label, metadata,
       created_at
FROM activity WHERE organization_id = ";

const ACTORS: &str = "
SELECT actor_id, actor_name FROM activity_actors WHERE organization_id = $1
ORDER BY actor_name, actor_key";

/// What an entry says besides who and when.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// What was done.
    pub action: Action,
    /// To what kind of thing.
    pub resource_type: ResourceType,
    /// To which one.
    pub resource_id: Uuid,
    /// How a person knows it.
    pub label: &'a str,
    /// More about it; an object.
    pub metadata: Map<String, Value>,
}

#[derive(FromRow)]
struct Row {
    #[sqlx(try_from = "Uuid")]
    id: ActivityId,
    actor_id: Option<Uuid>,
    actor_name: String,
    action: Text<Action>,
    resource_type: Text<ResourceType>,
    resource_id: Uuid,
    resource_label: String,
    metadata: Json<Value>,
    created_at: i64,
}

impl From<Row> for ActivityEntry {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            actor_id: row.actor_id.map(UserId),
            actor_name: row.actor_name,
            action: row.action.0,
            resource_type: row.resource_type.0,
            resource_id: row.resource_id,
            resource_label: row.resource_label,
            metadata: row.metadata.0,
            created_at: Timestamp::from_millis(row.created_at),
        }
    }
}

impl Store {
    /// Lists entries of an organization's activity log, newest first.
    pub async fn activity(
        &self,
        tenant: Tenant,
        filter: &ActivityFilter,
    ) -> Result<Vec<ActivityEntry>, StoreError> {
        let rows: Vec<Row> = on!(&self.pool, |db| async move {
            let mut query = QueryBuilder::new(SELECT);
            query.push_bind(tenant.uuid());
            if let Some(resource) = &filter.resource {
                query
                    .push(" AND resource_type = ")
                    .push_bind(resource.as_str());
            }
            match filter.actor {
                Some(ActorFilter::ApiKeys) => {
                    query.push(" AND actor_id IS NULL");
                }
                Some(ActorFilter::Person(person)) => {
                    query.push(" AND actor_id = ").push_bind(person.0);
                }
                None => {}
            }
            query
                .push(" ORDER BY id DESC LIMIT ")
                .push_bind(clamped(filter.limit));
            query.push(" OFFSET ").push_bind(clamped(filter.offset));
            query.build_query_as().fetch_all(db).await
        })?;
        Ok(rows.into_iter().map(ActivityEntry::from).collect())
    }

    /// Lists the distinct actors that have entries, by name.
    pub async fn actors(&self, tenant: Tenant) -> Result<Vec<NamedActor>, StoreError> {
        let rows: Vec<(Option<Uuid>, String)> = on!(&self.pool, |db| {
            sqlx::query_as(ACTORS).bind(tenant.uuid()).fetch_all(db)
        })?;
        let actor = |(id, actor_name): (Option<Uuid>, String)| NamedActor {
            actor_id: id.map(UserId),
            actor_name,
        };
        Ok(rows.into_iter().map(actor).collect())
    }
}

impl Tx {
    /// Records who did what, in the transaction of what was done.
    pub async fn record(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        entry: Entry<'_>,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let person = actor.person.map(|person| person.0);
        let key = person.map_or_else(|| actor.name.clone(), |person| person.to_string());
        execute!(
            self,
            sqlx::query(INSERT)
                .bind(tenant.uuid())
                .bind(new_id(now))
                .bind(person)
                .bind(&actor.name)
                .bind(entry.action.as_str())
                .bind(entry.resource_type.as_str())
                .bind(entry.resource_id)
                .bind(entry.label)
                .bind(Json(&entry.metadata))
                .bind(now.timestamp_millis())
        )?;
        execute!(
            self,
            sqlx::query(INSERT_ACTOR)
                .bind(tenant.uuid())
                .bind(&key)
                .bind(person)
                .bind(&actor.name)
        )?;
        Ok(())
    }
}

/// Returns what differs between two versions of a record, as the activity log
/// keeps it: `{field: {from, to}}`. The time of the update itself is left out.
pub(super) fn difference<T: Serialize>(before: &T, after: &T) -> Map<String, Value> {
    let object = |record: &T| match serde_json::to_value(record) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let before = object(before);
    object(after)
        .into_iter()
        .filter(|(name, _)| name != "updated_at")
        .filter_map(|(name, to)| {
            let from = before.get(&name).cloned().unwrap_or_default();
            (from != to).then(|| (name, serde_json::json!({ "from": from, "to": to })))
        })
        .collect()
}

/// Brings a count into the range of the database's integers.
pub(super) fn clamped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

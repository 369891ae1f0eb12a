//! The activity log. An entry is written in the transaction of what it records, except
//! those about [keys and members](super::pending_activity).

use changelog_core::activity::{
    AGENT, API_KEY_PREFIX, OPERATOR, PIPELINE_PREFIX, SERVICE, SOURCE_PREFIX,
};
use changelog_core::ids::first_uuid_at;
use changelog_core::limits::MAX_TITLE_CHARS;
use changelog_core::{
    Action, ActivityEntry, ActivityId, ApiKeyId, Change, ChangeEvent, Named, ResourceType,
    Timestamp, UserId,
};
use changelog_core::{ActorType, HistoryActor};
use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;
use serde_json::{Map, Value};
use sqlx::types::{Json, Text, Uuid};
use sqlx::{FromRow, QueryBuilder};

use super::actors::{self, NewActor};
use super::change_notifier::StreamEntry;
use super::engine::{Dialect, PushValue, Script, Value as Sent, read, run_script};
use super::{Actor, Database, StoreError, Tenant, Tx, new_id};

/// The last 200 entries of a resource, without its creation. The condition on the
/// action must be the one of the partial index that finds them.
const HISTORY: &str = "
SELECT a.id, a.actor_id, a.key_id, a.actor_name, a.action, a.resource_type, a.resource_id,
       a.resource_label, a.metadata, a.created_at, a.address
FROM (SELECT id FROM activity
      WHERE organization_id = $1 AND resource_id = $2 AND resource_type = $3
          AND action <> 'created'
      ORDER BY id DESC LIMIT 200) AS page
LEFT JOIN activity a ON a.organization_id = $1 AND a.resource_type = $3 AND a.id = page.id
ORDER BY page.id DESC";

/// The creation of a resource, among the entries of a millisecond.
const CREATED: &str = "
SELECT id, actor_id, key_id, actor_name, action, resource_type, resource_id, resource_label,
       metadata, created_at, address
FROM activity
WHERE organization_id = $1 AND id >= $4 AND id < $5
    AND resource_id = $2 AND resource_type = $3 AND action = 'created'";

/// The content of an entry, without actor and time.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The action.
    pub action: Action,
    /// The kind of resource.
    pub resource_type: ResourceType,
    /// The id of the resource.
    pub resource_id: Uuid,
    /// Its name or title.
    pub label: &'a str,
    /// Further details.
    pub metadata: Map<String, Value>,
}

impl<'a> Entry<'a> {
    /// Returns the entry of an action on a change.
    pub fn of_change(action: Action, change: &'a Change, metadata: Map<String, Value>) -> Self {
        Self {
            action,
            resource_type: ResourceType::Change,
            resource_id: change.id.0,
            label: &change.title,
            metadata,
        }
    }

    /// Returns the entry of an action on a service or host.
    pub fn of_item<T: Named>(action: Action, item: &'a T, metadata: Map<String, Value>) -> Self {
        Self {
            action,
            resource_type: T::RESOURCE_TYPE,
            resource_id: item.id().into(),
            label: item.name(),
            metadata,
        }
    }
}

/// Returns the metadata of an update that changed some fields.
pub fn changed(changes: Map<String, Value>) -> Map<String, Value> {
    [("changes".to_owned(), changes.into())]
        .into_iter()
        .collect()
}

/// An entry that is about to be recorded.
#[derive(Debug)]
pub(super) struct NewEntry<'a> {
    tenant: Tenant,
    id: ActivityId,
    actor: &'a Actor,
    address: Option<String>,
    entry: Entry<'a>,
    now: DateTime<Utc>,
}

impl<'a> NewEntry<'a> {
    pub(super) fn new(
        tenant: Tenant,
        id: ActivityId,
        actor: &'a Actor,
        mut entry: Entry<'a>,
        now: DateTime<Utc>,
    ) -> Self {
        if let Some(agent) = &actor.agent {
            let named = entry.metadata.entry(AGENT);
            named.or_insert_with(|| agent.name.as_str().into());
        }
        Self {
            tenant,
            id,
            actor,
            address: actor.address.map(|address| address.to_string()),
            entry,
            now,
        }
    }

    /// Returns the entry as streams of changes send it, if they do.
    fn stream_entry(&self) -> Option<StreamEntry> {
        Some(StreamEntry {
            id: self.id,
            resource: self.entry.resource_id,
            event: ChangeEvent::of_action(&self.entry.resource_type, &self.entry.action)?,
        })
    }

    fn person(&self) -> Option<Uuid> {
        self.actor.person.map(|person| person.0)
    }

    fn key(&self) -> Option<Uuid> {
        let source = self.actor.source.as_ref().map(|source| source.id.0);
        let pipeline = self.actor.pipeline.as_ref().map(|one| one.workload.0);
        self.actor.key.map(|key| key.0).or(source).or(pipeline)
    }
}

/// Adds the statement that inserts entries into a table with the columns of the
/// activity log.
pub(super) fn push_rows<DB: Dialect>(
    script: &mut Script<DB>,
    table: &'static str,
    entries: &[NewEntry<'_>],
) {
    let rows: Vec<[Sent<'_>; 12]> = entries
        .iter()
        .map(|new| {
            [
                new.tenant.uuid().into(),
                new.id.0.into(),
                new.person().into(),
                new.key().into(),
                new.actor.name.as_str().into(),
                new.entry.action.as_str().into(),
                new.entry.resource_type.as_str().into(),
                new.entry.resource_id.into(),
                new.entry.label.into(),
                (&new.entry.metadata).into(),
                new.now.timestamp_millis().into(),
                new.address.as_deref().into(),
            ]
        })
        .collect();
    let before = format!(
        "INSERT INTO {table} (organization_id, id, actor_id, key_id, actor_name, action, \
         resource_type, resource_id, resource_label, metadata, created_at, address) "
    );
    script.insert(&before, &rows, "");
}

/// Adds the statement that writes entries.
pub(super) fn push<DB: Dialect>(script: &mut Script<DB>, entries: &[NewEntry<'_>]) {
    push_rows(script, "activity", entries);
}

#[derive(FromRow)]
pub(super) struct Row {
    #[sqlx(try_from = "Uuid")]
    pub(super) id: ActivityId,
    pub(super) actor_id: Option<Uuid>,
    pub(super) key_id: Option<Uuid>,
    pub(super) actor_name: String,
    pub(super) action: Text<Action>,
    pub(super) resource_type: Text<ResourceType>,
    pub(super) resource_id: Uuid,
    pub(super) resource_label: String,
    pub(super) metadata: Json<Value>,
    pub(super) created_at: i64,
    pub(super) address: Option<String>,
}

/// An entry of the activity log with the fields that the API does not return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// The entry as the API returns it.
    pub entry: ActivityEntry,
    /// The caller's IP address; `None` for the operator.
    pub address: Option<String>,
    /// The API key; `None` for a person and for the operator.
    pub key: Option<ApiKeyId>,
}

impl StoredEntry {
    /// Returns who did it, under the name that is recorded.
    pub fn actor(&self) -> HistoryActor {
        let name = self.entry.actor_name.as_str();
        let (kind, id) = match self.entry.actor_id {
            Some(person) => (ActorType::Person, Some(person.0)),
            None if name == OPERATOR || name == SERVICE => (ActorType::Operator, None),
            None if name.starts_with(SOURCE_PREFIX) => {
                (ActorType::Source, self.key.map(|source| source.0))
            }
            None if name.starts_with(PIPELINE_PREFIX) => {
                (ActorType::Workload, self.key.map(|workload| workload.0))
            }
            None => (ActorType::ApiKey, self.key.map(|key| key.0)),
        };
        let name = match kind {
            ActorType::ApiKey => name.strip_prefix(API_KEY_PREFIX),
            ActorType::Source => name.strip_prefix(SOURCE_PREFIX),
            ActorType::Workload => name.strip_prefix(PIPELINE_PREFIX),
            _ => None,
        };
        HistoryActor {
            kind,
            name: name.unwrap_or(&self.entry.actor_name).to_owned(),
            id,
        }
    }
}

impl From<Row> for StoredEntry {
    fn from(row: Row) -> Self {
        let entry = ActivityEntry {
            id: row.id,
            actor_id: row.actor_id.map(UserId),
            actor_name: row.actor_name,
            action: row.action.0,
            resource_type: row.resource_type.0,
            resource_id: row.resource_id,
            resource_label: row.resource_label,
            metadata: row.metadata.0,
            created_at: Timestamp::from_millis(row.created_at),
        };
        Self {
            entry,
            address: row.address,
            key: row.key_id.map(ApiKeyId),
        }
    }
}

impl Database {
    /// Lists the history of a resource, newest first: the last 200 entries, and its
    /// creation. The creation is found by the time in its id, because creations are
    /// not in the index of resources.
    pub async fn history(
        &self,
        tenant: Tenant,
        kind: ResourceType,
        id: Uuid,
        created_at: Timestamp,
    ) -> Result<Vec<StoredEntry>, StoreError> {
        let mut rows: Vec<Row> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(HISTORY)
                .bind(tenant.uuid())
                .bind(id)
                .bind(kind.as_str())
                .fetch_all(&mut **db)
        })?;
        let next = created_at.plus(TimeDelta::milliseconds(1));
        let created: Option<Row> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(CREATED)
                .bind(tenant.uuid())
                .bind(id)
                .bind(kind.as_str())
                .bind(first_uuid_at(created_at))
                .bind(first_uuid_at(next))
                .fetch_optional(&mut **db)
        })?;
        rows.extend(created);
        Ok(rows.into_iter().map(StoredEntry::from).collect())
    }
}

impl Database {
    /// Reads the newest entries of some resources, one of each, without those of their
    /// creation.
    pub(super) async fn newest_entries(
        &self,
        tenant: Tenant,
        kind: ResourceType,
        ids: &[Uuid],
    ) -> Result<Vec<StoredEntry>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<Row> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select_newest(tenant, &kind, ids);
            let query = query.build_query_as().persistent(false);
            query.fetch_all(&mut **db).await
        })?;
        Ok(rows.into_iter().map(StoredEntry::from).collect())
    }
}

fn select_newest<DB: Dialect>(
    tenant: Tenant,
    kind: &ResourceType,
    ids: &[Uuid],
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(
        "SELECT a.id, a.actor_id, a.key_id, a.actor_name, a.action, a.resource_type, \
         a.resource_id, a.resource_label, a.metadata, a.created_at, a.address FROM (",
    );
    for (index, id) in ids.iter().enumerate() {
        if index > 0 {
            query.push(" UNION ALL ");
        }
        query.push("SELECT id FROM (SELECT id FROM activity WHERE organization_id = ");
        DB::bind(&mut query, tenant.uuid().into());
        query.push_value(" AND resource_id = ", *id);
        query.push_value(" AND resource_type = ", kind.as_str());
        query.push(" AND action <> 'created' ORDER BY id DESC LIMIT 1) AS one");
    }
    query.push(") AS newest LEFT JOIN activity a ON a.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push_value(" AND a.resource_type = ", kind.as_str());
    query.push(" AND a.id = newest.id");
    query
}

impl Tx {
    /// Records an entry in the transaction of what it records.
    pub async fn record(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        entry: Entry<'_>,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let new = NewEntry::new(tenant, new_id(now).into(), actor, entry, now);
        let streamed = new.stream_entry();
        self.insert_entry(new).await?;
        if let Some(entry) = streamed {
            let notifier = self.database.notifier.clone();
            self.after_commit.push(Box::pin(async move {
                notifier.notify([(tenant, entry)].into_iter());
            }));
        }
        Ok(())
    }

    /// Inserts an entry, and its actor.
    pub(super) async fn insert_entry(&mut self, new: NewEntry<'_>) -> Result<(), StoreError> {
        let actor = [(new.tenant, new.actor)];
        let actors = self.database.known_actors.unknown(actor.into_iter());
        run_script!(self, |DB| script::<DB>(new, &actors))?;
        self.new_actors.extend(actors);
        Ok(())
    }
}

/// Writes the statements that record an entry.
fn script<DB: Dialect>(entry: NewEntry<'_>, actors: &[NewActor]) -> Script<DB> {
    let mut script = Script::new();
    push(&mut script, &[entry]);
    actors::push(&mut script, actors);
    script
}

/// The longest string that the activity log stores completely, in characters.
const MAX_COMPLETE_CHARS: usize = MAX_TITLE_CHARS;
/// The characters that are stored of a longer string.
const EXCERPT_CHARS: usize = 200;

/// Shortens long strings in a value to `{excerpt, length}`, so that a page of the log
/// stays small.
fn shortened(value: Value) -> Value {
    match value {
        Value::String(text) if text.chars().nth(MAX_COMPLETE_CHARS).is_some() => {
            let excerpt: String = text.chars().take(EXCERPT_CHARS).collect();
            serde_json::json!({ "excerpt": excerpt, "length": text.chars().count() })
        }
        Value::Array(values) => values.into_iter().map(shortened).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            fields
                .map(|(name, value)| (name, shortened(value)))
                .collect()
        }
        other => other,
    }
}

/// Returns the differences between two versions of a record as the activity log stores
/// them: `{field: {from, to}}`, with excerpts of long strings and without
/// `updated_at`.
pub(super) fn difference<T: Serialize>(before: &T, after: &T) -> Map<String, Value> {
    let before = fields(before);
    let mut after = fields(after);
    for name in before.keys() {
        // Fields without a value may be absent.
        after.entry(name).or_insert(Value::Null);
    }
    after
        .into_iter()
        // The services with their names say what the ids say.
        .filter(|(name, _)| name != "updated_at" && name != "service_ids")
        .filter_map(|(name, to)| {
            let from = before.get(&name).cloned().unwrap_or_default();
            (from != to).then(|| {
                let (from, to) = (shortened(from), shortened(to));
                (name, serde_json::json!({ "from": from, "to": to }))
            })
        })
        .collect()
}

/// Returns the fields of a record.
pub fn fields<T: Serialize>(record: &T) -> Map<String, Value> {
    match serde_json::to_value(record) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Converts a count to an integer of the database; larger ones become the maximum.
pub(super) fn clamped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::explain;

    #[test]
    fn long_strings_are_stored_as_excerpts() {
        let long = |letter: &str| letter.repeat(301);
        let version = |letter: &str| {
            serde_json::json!({
                "title": letter.repeat(300),
                "impact": long(letter),
                "links": [{ "label": "a", "url": long(letter) }],
                "updated_at": letter,
            })
        };
        let short =
            |letter: &str| serde_json::json!({ "excerpt": letter.repeat(200), "length": 301 });
        let expected = serde_json::json!({
            "title": { "from": "é".repeat(300), "to": "b".repeat(300) },
            "impact": { "from": short("é"), "to": short("b") },
            "links": {
                "from": [{ "label": "a", "url": short("é") }],
                "to": [{ "label": "a", "url": short("b") }],
            },
        });
        assert_eq!(
            Value::from(difference(&version("é"), &version("b"))),
            expected
        );
        // A difference after the excerpt is a difference.
        let (before, after) = (long("a"), format!("{}b", "a".repeat(300)));
        let changes = difference(
            &serde_json::json!({ "impact": before }),
            &serde_json::json!({ "impact": after }),
        );
        assert_eq!(changes["impact"]["from"], changes["impact"]["to"]);
    }

    #[tokio::test]
    async fn a_history_is_found_by_indexes() {
        let plan = explain::of(HISTORY).await;
        assert!(
            plan.iter().any(|step| step.starts_with(
                "SEARCH activity USING COVERING INDEX activity_by_thing \
                 (organization_id=? AND resource_id=? AND resource_type=?)"
            )),
            "{plan:?}"
        );
        let plan = explain::of(CREATED).await;
        assert_eq!(
            plan,
            ["SEARCH activity USING PRIMARY KEY \
                 (organization_id=? AND resource_type=? AND id>? AND id<?)"]
        );
    }
}

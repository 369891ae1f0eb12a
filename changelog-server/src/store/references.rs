//! How changes refer to services, hosts and the people that recorded them: as JSON, which is
//! remembered.
//!
//! An organization has a version, which each transaction that may change such a JSON
//! increases. A statement that reads changes reads the version too, in the same snapshot,
//! and what is remembered counts only for the version with which it was read. So a change is
//! never shown with a name that was replaced before it was read, whichever server replaced it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use changelog_core::{Author, AuthorType, HostRef, ServiceRef};
use quick_cache::sync::Cache;
use serde::de::DeserializeOwned;
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::engine::{Dialect, Script, on, read, run_script};
use super::{Database, StoreError, Tenant, Tx};

/// The limit on references that are remembered.
pub(super) const MAX_REMEMBERED: usize = 10_000;
/// The limit on references that one statement reads.
const MAX_IDS_PER_STATEMENT: usize = 64;

/// A row of [`select`]: kind, id, name, color or environment, version.
type Row = (String, Uuid, String, Option<String>, i64);

/// The references that this process has read, each with the version at which it was.
pub(super) type KnownReferences = Cache<(Tenant, Uuid), (i64, Arc<str>)>;

/// References by the ids of services, hosts and people.
#[derive(Debug, Default)]
pub(super) struct References(HashMap<Uuid, Arc<str>>);

impl References {
    /// Returns the reference to an author.
    pub(super) fn of_author(author: &Author) -> Self {
        let json = serde_json::to_string(author).unwrap_or_default();
        Self(HashMap::from([(author.id, json.into())]))
    }

    /// Adds what a row has, and returns its JSON.
    fn add(&mut self, (kind, id, name, detail, _): Row) -> Arc<str> {
        let json = match kind.as_str() {
            "service" => serde_json::to_string(&ServiceRef {
                id: id.into(),
                name,
                color: detail.unwrap_or_default(),
            }),
            "host" => serde_json::to_string(&HostRef {
                id: id.into(),
                hostname: name,
                environment: detail.and_then(|environment| environment.parse().ok()),
            }),
            _ => serde_json::to_string(&Author {
                kind: AuthorType::Person,
                name,
                id,
            }),
        };
        // Strings always serialize.
        let json: Arc<str> = json.unwrap_or_default().into();
        self.0.insert(id, json.clone());
        json
    }

    /// Returns the JSON of a reference.
    pub(super) fn json(&self, id: Uuid) -> Option<&str> {
        self.0.get(&id).map(|json| &**json)
    }

    /// Returns a reference of a kind; `None` if there is none.
    pub(super) fn to<T: DeserializeOwned>(&self, id: Uuid) -> Option<T> {
        serde_json::from_str(self.json(id)?).ok()
    }
}

impl Database {
    /// Returns the references to some services, hosts and people as they were at a version
    /// that a statement has read, or later.
    pub(super) async fn references(
        &self,
        tenant: Tenant,
        version: i64,
        ids: HashSet<Uuid>,
    ) -> Result<References, StoreError> {
        let known = &self.known_references;
        let mut found = References::default();
        let mut missing = Vec::new();
        for id in ids {
            match known.get(&(tenant, id)) {
                Some((known_at, json)) if known_at == version => {
                    found.0.insert(id, json);
                }
                _ => missing.push(id),
            }
        }
        for ids in missing.chunks(MAX_IDS_PER_STATEMENT) {
            let rows: Vec<Row> = read!(self.point_reader(tenant).await?, |db| async {
                let mut query = select(tenant, ids);
                query.build_query_as().fetch_all(&mut **db).await
            })?;
            for row in rows {
                let (id, version) = (row.1, row.4);
                known.insert((tenant, id), (version, found.add(row)));
            }
        }
        Ok(found)
    }
}

impl Tx {
    /// Returns references as this transaction sees them.
    pub(super) async fn references(
        &mut self,
        tenant: Tenant,
        ids: HashSet<Uuid>,
    ) -> Result<References, StoreError> {
        let ids: Vec<Uuid> = ids.into_iter().collect();
        let mut found = References::default();
        for ids in ids.chunks(MAX_IDS_PER_STATEMENT) {
            let rows: Vec<Row> = on!(&mut self.connection, |db| async {
                let mut query = select(tenant, ids);
                query.build_query_as().fetch_all(&mut **db).await
            })?;
            for row in rows {
                found.add(row);
            }
        }
        Ok(found)
    }

    /// Increases the version of an organization, because this transaction changes how its
    /// changes refer to something. Called before an actor is written, so that two
    /// transactions cannot deadlock.
    pub(super) async fn write_next_version(&mut self, tenant: Tenant) -> Result<(), StoreError> {
        run_script!(self, |DB| {
            let mut script = Script::<DB>::new();
            push_next_versions(&mut script, &[tenant]);
            script
        })
    }
}

/// Writes the version of an organization's references, as the column `version` of a SELECT.
pub(super) fn push_version<DB: Dialect>(query: &mut QueryBuilder<DB>, tenant: Tenant) {
    query.push("COALESCE((SELECT version FROM catalog_versions WHERE organization_id = ");
    DB::bind(query, tenant.uuid().into());
    query.push("), 0) AS version");
}

/// Adds the statement that increases the versions of organizations, each given once.
pub(super) fn push_next_versions<DB: Dialect>(script: &mut Script<DB>, tenants: &[Tenant]) {
    let rows = tenants.iter();
    let rows: Vec<_> = rows.map(|of| [of.uuid().into(), 1.into()]).collect();
    script.insert(
        "INSERT INTO catalog_versions (organization_id, version) ",
        &rows,
        " ON CONFLICT (organization_id) DO UPDATE SET version = catalog_versions.version + 1",
    );
}

fn select<DB: Dialect>(tenant: Tenant, ids: &[Uuid]) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT kind, id, name, detail, ");
    push_version(&mut query, tenant);
    query.push(" FROM (");
    for select in [
        "SELECT 'service' AS kind, id, name, color AS detail FROM services",
        " UNION ALL SELECT 'host', id, hostname, environment FROM hosts",
    ] {
        query.push(select).push(" WHERE organization_id = ");
        DB::bind(&mut query, tenant.uuid().into());
        query.push(" AND id");
        DB::push_in_ids(&mut query, ids.to_vec());
    }
    query.push(
        " UNION ALL SELECT 'person', actor_id, actor_name, NULL FROM activity_actors \
         WHERE organization_id = ",
    );
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND actor_key");
    DB::push_in_texts(&mut query, ids.iter().map(Uuid::to_string).collect());
    query.push(") AS found");
    query
}

#[cfg(test)]
mod tests {
    use sqlx::Sqlite;

    use super::*;
    use crate::store::engine::explain;

    #[tokio::test]
    async fn references_are_found_by_primary_keys() {
        let id = Uuid::from_u128(1);
        let query = select::<Sqlite>(Tenant(id.into()), &[id, id]);
        let plan = explain::of(&query.into_string()).await;
        for step in [
            "SEARCH services USING INDEX sqlite_autoindex_services_1 (organization_id=? AND id=?)",
            "SEARCH hosts USING INDEX sqlite_autoindex_hosts_1 (organization_id=? AND id=?)",
            "SEARCH activity_actors USING PRIMARY KEY (organization_id=? AND actor_key=?)",
            "SEARCH catalog_versions USING PRIMARY KEY (organization_id=?)",
        ] {
            assert!(plan.iter().any(|found| found == step), "{step}: {plan:?}");
        }
    }
}

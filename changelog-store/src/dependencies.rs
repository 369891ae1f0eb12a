//! Which services a service depends on.
//!
//! `services.depends_on` has the list as it was given, so that reading services needs
//! no other table; `service_dependencies` has the same for looking up both directions.

use std::collections::HashMap;

use changelog_core::{Service, ServiceId, ServiceRef, Violations};
use serde_json::{Value, json};
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::engine::{Dialect, Planning, PushValue, Script, push_limit, read, run_script};
use super::{Database, StoreError, Tenant, Tx, services};

/// How many of the services that depend on one service are read.
const MAX_DEPENDENTS: usize = 200;

/// The services that a service depends on and that depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// The services that it depends on, ordered by name.
    pub depends_on: Vec<ServiceRef>,
    /// The services that depend on it, ordered by name; at most 200, those created
    /// first.
    pub needed_by: Vec<ServiceRef>,
    /// Whether more services depend on it.
    pub has_more: bool,
}

impl Database {
    /// Finds the services that a service depends on and those that depend on it, each
    /// one step away.
    pub async fn dependencies_of(
        &self,
        tenant: Tenant,
        id: ServiceId,
    ) -> Result<Dependencies, StoreError> {
        // For an organization that has more services than most, the plan for all values
        // would read all of them.
        let reader = self.reader_with(tenant, Planning::ForValues).await?;
        let rows: Vec<(bool, String)> = read!(reader, |db| async {
            let mut query = select_both(tenant, id);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let mut found = Dependencies::default();
        for (is_dependency, reference) in rows {
            let service = serde_json::from_str::<ServiceRef>(&reference);
            let service = service.map_err(|error| sqlx::Error::Decode(error.into()))?;
            if is_dependency {
                found.depends_on.push(service);
            } else {
                found.needed_by.push(service);
            }
        }
        // In the order of the ids: the statement has no other.
        found.needed_by.sort_by_key(|service| service.id);
        found.has_more = found.needed_by.len() > MAX_DEPENDENTS;
        found.needed_by.truncate(MAX_DEPENDENTS);
        for services in [&mut found.depends_on, &mut found.needed_by] {
            services.sort_by_cached_key(|service| service.name.to_ascii_lowercase());
        }
        Ok(found)
    }
}

impl Tx {
    /// Checks that the services that a service is to depend on exist, and returns the
    /// difference for the activity log: `{from, to}`, with ids and names.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] with the places in `depends_on` of all that do not exist.
    pub(super) async fn check_dependencies(
        &mut self,
        tenant: Tenant,
        before: &[ServiceId],
        after: &[ServiceId],
    ) -> Result<Value, StoreError> {
        let ids: Vec<Uuid> = before.iter().chain(after).map(|id| id.0).collect();
        let services = self.items_by_id::<Service>(tenant, &ids).await?;
        let names: HashMap<ServiceId, String> = services
            .into_iter()
            .map(|service| (service.id, service.name))
            .collect();
        let mut missing = Violations::default();
        for (index, id) in after.iter().enumerate() {
            if !names.contains_key(id) {
                services::missing_service(&mut missing, format!("/depends_on/{index}"), *id);
            }
        }
        missing.into_result(())?;
        let references = |ids: &[ServiceId]| -> Value {
            let ids = ids.iter();
            ids.map(|id| json!({ "id": id, "name": names.get(id) }))
                .collect()
        };
        Ok(json!({ "from": references(before), "to": references(after) }))
    }

    /// Replaces the rows of a service that depended on the services `before`.
    pub(super) async fn write_dependencies(
        &mut self,
        tenant: Tenant,
        before: &[ServiceId],
        service: &Service,
    ) -> Result<(), StoreError> {
        if before == service.depends_on {
            return Ok(());
        }
        run_script!(self, |DB| replace::<DB>(tenant, before, service))
    }
}

/// Selects the references to the services in both directions.
fn select_both<DB: Dialect>(tenant: Tenant, id: ServiceId) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(
        "SELECT found.is_dependency, (SELECT s.reference FROM services s WHERE s.organization_id = ",
    );
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND s.id = found.id) FROM (");
    let half = |query: &mut QueryBuilder<DB>, select: &str, by: &str| {
        query.push("SELECT * FROM (SELECT ").push(select);
        query.push(" FROM service_dependencies WHERE organization_id = ");
        DB::bind(query, tenant.uuid().into());
        query.push(" AND ").push(by).push_value(" = ", id.0);
        query.push(" ORDER BY id");
    };
    half(
        &mut query,
        "depends_on_id AS id, TRUE AS is_dependency",
        "service_id",
    );
    query.push(") AS dependencies UNION ALL ");
    half(
        &mut query,
        "service_id AS id, FALSE AS is_dependency",
        "depends_on_id",
    );
    // One more reveals whether there are more.
    push_limit(&mut query, MAX_DEPENDENTS as u64 + 1, 0);
    query.push(") AS dependents) AS found");
    query
}

/// Returns the statements that replace the rows of a service.
fn replace<DB: Dialect>(tenant: Tenant, before: &[ServiceId], service: &Service) -> Script<DB> {
    let mut script = Script::new();
    if !before.is_empty() {
        let query = script.statement("DELETE FROM service_dependencies WHERE organization_id = ");
        DB::bind(query, tenant.uuid().into());
        query.push_value(" AND service_id = ", service.id.0);
    }
    let rows = service.depends_on.iter();
    let rows: Vec<_> = rows
        .map(|id| [tenant.uuid().into(), service.id.0.into(), id.0.into()])
        .collect();
    script.insert(
        "INSERT INTO service_dependencies (organization_id, service_id, depends_on_id) ",
        &rows,
        "",
    );
    script
}

#[cfg(test)]
mod tests {
    use sqlx_sqlite::Sqlite;

    use super::*;
    use crate::engine::explain;

    #[tokio::test]
    async fn both_directions_are_looked_up_by_indexes() {
        let id = Uuid::from_u128(1);
        let query = select_both::<Sqlite>(Tenant(id.into()), id.into());
        let plan = explain::of(&query.into_string()).await;
        for step in [
            "SEARCH service_dependencies USING PRIMARY KEY (organization_id=? AND service_id=?)",
            "SEARCH service_dependencies USING COVERING INDEX service_dependencies_by_dependency \
             (organization_id=? AND depends_on_id=?)",
            "SEARCH s USING INDEX sqlite_autoindex_services_1 (organization_id=? AND id=?)",
        ] {
            assert!(plan.iter().any(|found| found == step), "{step}: {plan:?}");
        }
        let slow = ["SCAN service", "TEMP B-TREE"];
        let is_slow = |step: &String| slow.iter().any(|part| step.contains(part));
        assert!(!plan.iter().any(is_slow), "{plan:?}");
    }
}

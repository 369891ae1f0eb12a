//! The environments of hosts, which changes on them get when they are recorded.
//!
//! A change keeps the environment that its host had: if the host moves to another one
//! later, the change was still made where the host was.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use changelog_core::{Environment, HostId, NewChange};
use quick_cache::sync::Cache;
use sqlx::types::Text;

use super::engine::read;
use super::{Database, StoreError, Tenant, Tx};

const SELECT: &str = "SELECT environment FROM hosts WHERE organization_id = $1 AND id = $2";

/// The limit on hosts whose environments are remembered.
const MAX_REMEMBERED: usize = 10_000;
/// How long an environment is remembered: another server may have changed it.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);

/// The environments that this process has read lately; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct HostEnvironments(Arc<Cache<(Tenant, HostId), ReadEnvironment>>);

/// An environment and when it was read.
type ReadEnvironment = (Option<Environment>, Instant);

impl Default for HostEnvironments {
    fn default() -> Self {
        Self(Arc::new(Cache::new(MAX_REMEMBERED)))
    }
}

impl Database {
    /// Gives changes without an environment that of their host. A host that does not exist
    /// has none; creating the change reports it.
    pub async fn complete_environments(
        &self,
        tenant: Tenant,
        changes: &mut [NewChange],
    ) -> Result<(), StoreError> {
        let mut found: HashMap<HostId, Option<Environment>> = HashMap::new();
        for change in changes {
            let Some(host) = change.host_id.filter(|_| change.environment.is_none()) else {
                continue;
            };
            change.environment = match found.entry(host) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(unknown) => {
                    let environment = self.host_environment(tenant, host).await?;
                    unknown.insert(environment).clone()
                }
            };
        }
        Ok(())
    }

    async fn host_environment(
        &self,
        tenant: Tenant,
        host: HostId,
    ) -> Result<Option<Environment>, StoreError> {
        let known = &self.host_environments.0;
        if let Some((environment, since)) = known.get(&(tenant, host))
            && since.elapsed() < REMEMBERED_FOR
        {
            return Ok(environment);
        }
        let read_at = Instant::now();
        let row: Option<(Option<Text<Environment>>,)> =
            read!(self.point_reader(tenant).await?, |db| {
                sqlx::query_as(SELECT)
                    .bind(tenant.uuid())
                    .bind(host.0)
                    .fetch_optional(&mut **db)
            })?;
        let Some((environment,)) = row else {
            return Ok(None);
        };
        let environment = environment.map(|environment| environment.0);
        known.insert((tenant, host), (environment.clone(), read_at));
        Ok(environment)
    }
}

impl Tx {
    /// Forgets the environment of a host when this transaction is committed.
    pub(super) fn forget_environment(&mut self, tenant: Tenant, host: HostId) {
        let HostEnvironments(known) = self.database.host_environments.clone();
        self.after_commit.push(Box::pin(async move {
            known.remove(&(tenant, host));
        }));
    }
}

//! The API keys, workload identities and people that recorded changes.

use changelog_core::UserId;
use sqlx::types::Uuid;

use super::engine::{execute, read};
use super::index::search::AuthorFilter;
use super::{Database, StoreError, Tenant, Tx, actors};

const SELECT_KEYS: &str = "SELECT id, name FROM api_keys WHERE organization_id = $1";

const SELECT_WORKLOADS: &str = "SELECT id, name FROM workloads WHERE organization_id = $1";

/// All that have ever acted in an organization; API keys have no id here.
const SELECT_PEOPLE: &str = "
SELECT actor_id, actor_name FROM activity_actors WHERE organization_id = $1";

const SELECT_ORGANIZATIONS: &str = "
SELECT organization_id FROM memberships WHERE user_id = $1 ORDER BY organization_id";

const RENAME: &str = "
UPDATE activity_actors SET actor_name = $3, reference = $4
WHERE organization_id = $1 AND actor_key = $2";

impl Database {
    /// Sets the name by which changes show a person that recorded them: in one
    /// transaction for each organization of the person, because the rows of two
    /// organizations may be on two servers. If one fails, its changes show the new name
    /// when the person next acts there.
    pub async fn rename_author(&self, person: UserId, name: &str) -> Result<(), StoreError> {
        let organizations: Vec<(Uuid,)> = read!(self.system().await?, |db| {
            sqlx::query_as(SELECT_ORGANIZATIONS)
                .bind(person.0)
                .fetch_all(&mut **db)
        })?;
        for (organization,) in organizations {
            let tenant = Tenant(organization.into());
            let mut tx = self.begin_for(tenant).await?;
            tx.rename_actor(tenant, person, name).await?;
            tx.commit().await?;
        }
        Ok(())
    }
}

impl Tx {
    /// Sets the name by which changes of an organization show a person that recorded them.
    pub(super) async fn rename_actor(
        &mut self,
        tenant: Tenant,
        person: UserId,
        name: &str,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(RENAME)
                .bind(tenant.uuid())
                .bind(person.to_string())
                .bind(name)
                .bind(actors::reference(person.0, name))
        )?;
        Ok(())
    }
}

impl Database {
    /// Returns the ids of the API keys, workload identities and people that a filter names; the ASCII case of
    /// a name is ignored.
    pub(super) async fn author_ids(
        &self,
        tenant: Tenant,
        author: &AuthorFilter,
    ) -> Result<Vec<Uuid>, StoreError> {
        let name = match author {
            AuthorFilter::Id(id) => return Ok(vec![*id]),
            AuthorFilter::Name(name) => name,
        };
        let mut ids = Vec::new();
        for statement in [SELECT_KEYS, SELECT_WORKLOADS, SELECT_PEOPLE] {
            let rows: Vec<(Option<Uuid>, String)> = read!(self.reader(tenant).await?, |db| {
                sqlx::query_as(statement)
                    .bind(tenant.uuid())
                    .fetch_all(&mut **db)
            })?;
            let named = rows
                .into_iter()
                .filter(|(_, of)| of.eq_ignore_ascii_case(name));
            ids.extend(named.filter_map(|(id, _)| id));
        }
        Ok(ids)
    }
}

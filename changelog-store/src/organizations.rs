//! Organizations and their plans.

use changelog_core::{
    Action, NewOrganization, Organization, OrganizationId, OwnerInput, Plan, ResourceType, Role,
    Timestamp, User,
};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use sqlx::FromRow;
use sqlx::types::{Text, Uuid};

use super::activity::Entry;
use super::engine::{execute, read};
use super::{Actor, Database, StoreError, Tenant, Tx, new_id};

const INSERT: &str = "
INSERT INTO organizations (id, name, plan, created_at) VALUES ($1, $2, $3, $4)";

const SELECT_ALL: &str = "
SELECT id, name, plan, created_at FROM organizations ORDER BY name, id";

const SELECT_BY_ID: &str = "SELECT id, name, plan, created_at FROM organizations WHERE id = $1";

const SELECT_WITH_RECEIVERS: &str = "SELECT id FROM organizations WHERE has_receivers = 1";

pub(super) const SELECT_ANY: &str = "SELECT id FROM organizations LIMIT 1";

const SELECT_TWO: &str = "SELECT id FROM organizations LIMIT 2";

const RENAME: &str = "UPDATE organizations SET name = $2 WHERE id = $1";

const SET_PLAN: &str = "UPDATE organizations SET plan = $2 WHERE id = $1";

#[derive(FromRow)]
struct OrganizationRow {
    #[sqlx(try_from = "Uuid")]
    id: OrganizationId,
    name: String,
    plan: Text<Plan>,
    created_at: i64,
}

impl From<OrganizationRow> for Organization {
    fn from(row: OrganizationRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            plan: row.plan.0,
            created_at: Timestamp::from_millis(row.created_at),
        }
    }
}

impl Database {
    /// Lists all organizations, by name.
    pub async fn organizations(&self) -> Result<Vec<Organization>, StoreError> {
        let rows: Vec<OrganizationRow> =
            read!(self.system().await?, |db| sqlx::query_as(SELECT_ALL)
                .fetch_all(&mut **db))?;
        Ok(rows.into_iter().map(Organization::from).collect())
    }

    /// Returns an organization.
    pub async fn organization(&self, tenant: Tenant) -> Result<Organization, StoreError> {
        let row: OrganizationRow = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_BY_ID)
                .bind(tenant.uuid())
                .fetch_one(&mut **db)
        })?;
        Ok(row.into())
    }

    /// Lists the organizations that have, or had, receivers of events.
    pub async fn tenants_with_receivers(&self) -> Result<Vec<Tenant>, StoreError> {
        let rows: Vec<(Uuid,)> = read!(self.system().await?, |db| sqlx::query_as(
            SELECT_WITH_RECEIVERS
        )
        .fetch_all(&mut **db))?;
        Ok(rows.into_iter().map(|(id,)| Tenant(id.into())).collect())
    }

    /// Returns whether there is an organization.
    pub async fn has_organizations(&self) -> Result<bool, StoreError> {
        let any: Option<(Uuid,)> = read!(self.system().await?, |db| {
            sqlx::query_as(SELECT_ANY).fetch_optional(&mut **db)
        })?;
        Ok(any.is_some())
    }

    /// Returns the organization if there is exactly one.
    pub async fn only_organization(&self) -> Result<Option<Tenant>, StoreError> {
        let found: Vec<(Uuid,)> = read!(self.system().await?, |db| {
            sqlx::query_as(SELECT_TWO).fetch_all(&mut **db)
        })?;
        Ok(match found.as_slice() {
            [(id,)] => Some(Tenant((*id).into())),
            _ => None,
        })
    }

    /// Finds organizations by an id or a name, ignoring ASCII case. Several may have
    /// the same name.
    pub async fn organizations_named(
        &self,
        id_or_name: &str,
    ) -> Result<Vec<(Tenant, Organization)>, StoreError> {
        let mut found = self.organizations().await?;
        let id: Option<OrganizationId> = id_or_name.parse().ok();
        found.retain(|organization| match id {
            Some(id) => organization.id == id,
            None => organization.name.eq_ignore_ascii_case(id_or_name.trim()),
        });
        Ok(found
            .into_iter()
            .map(|found| (Tenant(found.id), found))
            .collect())
    }
}

impl Tx {
    /// Creates an organization. `owner` is its owner and their password's hash.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the owner's address has an account.
    pub async fn create_organization(
        &mut self,
        new: &NewOrganization,
        owner: Option<(&OwnerInput, &str)>,
        now: DateTime<Utc>,
    ) -> Result<(Tenant, Organization, Option<User>), StoreError> {
        let (tenant, organization) = self.insert_organization(new, now).await?;
        let Some((owner, hash)) = owner else {
            return Ok((tenant, organization, None));
        };
        let user = self
            .insert_user(&owner.email, &owner.name, hash, now)
            .await?;
        self.insert_member(tenant, &Actor::operator(), &user, &Role::Owner, now)
            .await?;
        Ok((tenant, organization, Some(user)))
    }

    /// Creates an organization without members.
    pub async fn insert_organization(
        &mut self,
        new: &NewOrganization,
        now: DateTime<Utc>,
    ) -> Result<(Tenant, Organization), StoreError> {
        let organization = Organization {
            id: new_id(now).into(),
            name: new.name.clone(),
            plan: new.plan.clone(),
            created_at: now.into(),
        };
        execute!(
            self,
            sqlx::query(INSERT)
                .bind(organization.id.0)
                .bind(&organization.name)
                .bind(organization.plan.as_str())
                .bind(now.timestamp_millis())
        )?;
        self.delete_setup_token().await?;
        Ok((Tenant(organization.id), organization))
    }

    /// Records that everything of an organization was exported.
    pub async fn record_export(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        name: &str,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let what = (Action::Exported, name, Map::new());
        self.record_of_organization(tenant, actor, what, now).await
    }

    /// Records what was done to an organization as a whole.
    pub(super) async fn record_of_organization(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        (action, label, metadata): (Action, &str, Map<String, Value>),
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let entry = Entry {
            action,
            resource_type: ResourceType::Organization,
            resource_id: tenant.uuid(),
            label,
            metadata,
        };
        self.record(tenant, actor, entry, now).await
    }

    /// Renames an organization. This is not recorded.
    pub async fn rename_organization(
        &mut self,
        tenant: Tenant,
        name: &str,
    ) -> Result<(), StoreError> {
        execute!(self, sqlx::query(RENAME).bind(tenant.uuid()).bind(name))?;
        Ok(())
    }

    /// Sets the plan of an organization.
    pub async fn set_plan(&mut self, tenant: Tenant, plan: &Plan) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(SET_PLAN)
                .bind(tenant.uuid())
                .bind(plan.as_str())
        )?;
        Ok(())
    }
}

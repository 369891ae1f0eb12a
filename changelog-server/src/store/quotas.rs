//! How many things one organization may have: what one makes is paid for by
//! all.

use super::engine::{Engine, execute, on};
use super::{StoreError, Tenant, Tx};

/// From this many below a limit on, those who add count one after the other on
/// PostgreSQL. More than may add at the same moment.
const NEAR: i64 = 100;

/// Counts, but no further than to a limit.
macro_rules! count {
    ($rows:literal) => {
        concat!("SELECT count(*) FROM (", $rows, " LIMIT $2) AS counted")
    };
}

const HOSTS: &str = count!("SELECT 1 FROM hosts WHERE organization_id = $1");
const SERVICES: &str = count!("SELECT 1 FROM services WHERE organization_id = $1");
const API_KEYS: &str =
    count!("SELECT 1 FROM api_keys WHERE organization_id = $1 AND revoked_at IS NULL");
/// Who was invited takes a place until the invitation is withdrawn or expires.
const MEMBERS: &str = count!(
    "SELECT 1 FROM memberships WHERE organization_id = $1 \
     UNION ALL SELECT 1 FROM invitations WHERE organization_id = $1"
);

/// Lets those who add count one after the other.
const LOCK: &str = "UPDATE organizations SET name = name WHERE id = $1";

/// How many things one organization may have; without a number, any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Hosts.
    pub hosts: Option<u32>,
    /// Services.
    pub services: Option<u32>,
    /// Members, with those who are invited.
    pub members: Option<u32>,
    /// API keys that are not revoked.
    pub api_keys: Option<u32>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Hosts.
    Hosts,
    /// Services.
    Services,
    /// Members and invitations.
    Members,
    /// API keys that are not revoked.
    ApiKeys,
}

impl Counted {
    /// Returns how people call them.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Hosts => "hosts",
            Self::Services => "services",
            Self::Members => "members and invitations",
            Self::ApiKeys => "API keys",
        }
    }

    /// Returns the flag by which an operator sets the limit.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Hosts => "--max-hosts",
            Self::Services => "--max-services",
            Self::Members => "--max-members",
            Self::ApiKeys => "--max-api-keys",
        }
    }

    fn statement(self) -> &'static str {
        match self {
            Self::Hosts => HOSTS,
            Self::Services => SERVICES,
            Self::Members => MEMBERS,
            Self::ApiKeys => API_KEYS,
        }
    }
}

impl Tx {
    /// Makes sure that what was just added to an organization is not one too
    /// many; otherwise this transaction must not be committed.
    ///
    /// # Errors
    /// [`StoreError::QuotaExceeded`].
    pub(super) async fn keep_quota(
        &mut self,
        tenant: Tenant,
        counted: Counted,
    ) -> Result<(), StoreError> {
        let Quotas {
            hosts,
            services,
            members,
            api_keys,
        } = self.quotas;
        let limit = match counted {
            Counted::Hosts => hosts,
            Counted::Services => services,
            Counted::Members => members,
            Counted::ApiKeys => api_keys,
        };
        let Some(limit) = limit else {
            return Ok(());
        };
        let most = i64::from(limit);
        let mut count = self.count(tenant, counted, most + 1).await?;
        if count > most - NEAR && matches!(self.connection, Engine::Postgres(_)) {
            execute!(self, sqlx::query(LOCK).bind(tenant.uuid()))?;
            count = self.count(tenant, counted, most + 1).await?;
        }
        if count > most {
            Err(StoreError::QuotaExceeded { counted, limit })
        } else {
            Ok(())
        }
    }

    async fn count(
        &mut self,
        tenant: Tenant,
        counted: Counted,
        most: i64,
    ) -> Result<i64, StoreError> {
        let (count,): (i64,) = on!(&mut self.connection, |db| {
            sqlx::query_as(counted.statement())
                .bind(tenant.uuid())
                .bind(most)
                .fetch_one(&mut **db)
        })?;
        Ok(count)
    }
}

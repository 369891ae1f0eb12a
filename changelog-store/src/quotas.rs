//! Limits on the hosts, services, members and API keys of one organization, because
//! all organizations share one database.

/// Counts rows up to a limit.
macro_rules! count {
    ($rows:literal) => {
        concat!("SELECT count(*) FROM (", $rows, " LIMIT $2) AS counted")
    };
}

const HOSTS: &str = count!("SELECT 1 FROM hosts WHERE organization_id = $1");
const SERVICES: &str = count!("SELECT 1 FROM services WHERE organization_id = $1");
const API_KEYS: &str =
    count!("SELECT 1 FROM api_keys WHERE organization_id = $1 AND revoked_at IS NULL");
/// Expired invitations count until they are deleted.
const MEMBERS: &str = count!(
    "SELECT 1 FROM memberships WHERE organization_id = $1 \
     UNION ALL SELECT 1 FROM invitations WHERE organization_id = $1"
);

/// Makes transactions that add to an organization wait for each other on PostgreSQL.
pub(super) const LOCK: &str = "UPDATE organizations SET name = name WHERE id = $1";

/// The limits of one organization; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Hosts.
    pub hosts: Option<u32>,
    /// Services.
    pub services: Option<u32>,
    /// Members and invitations.
    pub members: Option<u32>,
    /// API keys that are not revoked.
    pub api_keys: Option<u32>,
}

/// A resource that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Hosts.
    Hosts,
    /// Services.
    Services,
    /// Members and invitations.
    Members,
    /// API keys that are not revoked.
    ApiKeys,
}

impl Quota {
    /// Returns the plural noun, for messages.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Hosts => "hosts",
            Self::Services => "services",
            Self::Members => "members and invitations",
            Self::ApiKeys => "API keys",
        }
    }

    /// Returns the server flag that sets the limit.
    pub(super) fn flag(self) -> &'static str {
        match self {
            Self::Hosts => "--max-hosts",
            Self::Services => "--max-services",
            Self::Members => "--max-members",
            Self::ApiKeys => "--max-api-keys",
        }
    }

    /// Returns its limit.
    pub(super) fn limit(self, quotas: &Quotas) -> Option<u32> {
        match self {
            Self::Hosts => quotas.hosts,
            Self::Services => quotas.services,
            Self::Members => quotas.members,
            Self::ApiKeys => quotas.api_keys,
        }
    }

    /// Returns the statement that counts it, up to a limit.
    pub(super) fn count_statement(self) -> &'static str {
        match self {
            Self::Hosts => HOSTS,
            Self::Services => SERVICES,
            Self::Members => MEMBERS,
            Self::ApiKeys => API_KEYS,
        }
    }
}

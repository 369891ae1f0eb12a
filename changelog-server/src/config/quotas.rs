//! The quotas of one organization.

use clap::Args;

use crate::store::Quotas;

/// The quotas of one organization.
#[derive(Clone, Debug, Args)]
pub struct QuotaSettings {
    /// The most hosts of an organization
    #[arg(
        long,
        env = "CHANGELOG_MAX_HOSTS",
        default_value_t = DEFAULT_QUOTAS.max_hosts,
        value_name = "N"
    )]
    pub max_hosts: u32,
    /// The most services of an organization
    #[arg(
        long,
        env = "CHANGELOG_MAX_SERVICES",
        default_value_t = DEFAULT_QUOTAS.max_services,
        value_name = "N"
    )]
    pub max_services: u32,
    /// The most members of an organization, including invitations
    #[arg(
        long,
        env = "CHANGELOG_MAX_MEMBERS",
        default_value_t = DEFAULT_QUOTAS.max_members,
        value_name = "N"
    )]
    pub max_members: u32,
    /// The most API keys of an organization, not counting revoked ones
    #[arg(
        long,
        env = "CHANGELOG_MAX_API_KEYS",
        default_value_t = DEFAULT_QUOTAS.max_api_keys,
        value_name = "N"
    )]
    pub max_api_keys: u32,
}

impl From<&QuotaSettings> for Quotas {
    fn from(settings: &QuotaSettings) -> Self {
        Self {
            hosts: Some(settings.max_hosts),
            services: Some(settings.max_services),
            members: Some(settings.max_members),
            api_keys: Some(settings.max_api_keys),
        }
    }
}

/// More than organizations need, and few enough to be listed.
const DEFAULT_QUOTAS: QuotaSettings = QuotaSettings {
    max_hosts: 10_000,
    max_services: 10_000,
    max_members: 1_000,
    max_api_keys: 1_000,
};

impl Default for QuotaSettings {
    fn default() -> Self {
        DEFAULT_QUOTAS
    }
}

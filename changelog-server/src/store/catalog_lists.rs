//! Services and hosts in other orders than that of their names, and those whose names
//! have some words.

use std::ops::Range;

use changelog_core::text::{query_words, words};
use changelog_core::{Host, HostId, Service, ServiceId};

use super::summaries::Summarized;
use super::{Database, StoreError, Summary, Tenant};

/// The most services or hosts of a list that has no pages.
pub const MAX_LISTED: usize = 50;
/// The words of names that a search reads for one word.
const MAX_MATCHES: u64 = 500;

impl Database {
    /// Finds at most 50 services whose names have, for each word of `text`, a word that
    /// begins with it.
    pub async fn services_found(
        &self,
        tenant: Tenant,
        text: &str,
        days: Range<i64>,
    ) -> Result<Vec<Summary<Service>>, StoreError> {
        let Some(longest) = longest_word(text) else {
            return Ok(Vec::new());
        };
        let (ids, _) = self.catalog_matches(tenant, &longest, MAX_MATCHES).await?;
        let found = self.services_by_id(tenant, ids.iter().copied()).await?;
        let mut named: Vec<_> = found
            .into_values()
            .filter(|service| has_words(&service.name, text))
            .map(|service| (service.name.to_ascii_lowercase(), service.id))
            .collect();
        named.sort_unstable();
        let ids: Vec<ServiceId> = named
            .into_iter()
            .map(|(_, id)| id)
            .take(MAX_LISTED)
            .collect();
        self.service_summaries(tenant, &ids, days).await
    }

    /// Finds at most 50 hosts whose names have, for each word of `text`, a word that
    /// begins with it.
    pub async fn hosts_found(
        &self,
        tenant: Tenant,
        text: &str,
        days: Range<i64>,
    ) -> Result<Vec<Summary<Host>>, StoreError> {
        let Some(longest) = longest_word(text) else {
            return Ok(Vec::new());
        };
        let (_, ids) = self.catalog_matches(tenant, &longest, MAX_MATCHES).await?;
        let found = self.hosts_by_id(tenant, &ids).await?;
        let mut named: Vec<_> = found
            .into_values()
            .filter(|host| has_words(&host.hostname, text))
            .map(|host| (host.hostname.to_ascii_lowercase(), host.id))
            .collect();
        named.sort_unstable();
        let ids: Vec<HostId> = named
            .into_iter()
            .map(|(_, id)| id)
            .take(MAX_LISTED)
            .collect();
        self.host_summaries(tenant, &ids, days).await
    }

    /// Returns at most 50 services of the latest 1,000 changes, the last changed first.
    pub async fn services_last_changed(
        &self,
        tenant: Tenant,
        days: Range<i64>,
    ) -> Result<Vec<Summary<Service>>, StoreError> {
        let ids = self.last_changed(tenant, Summarized::Service).await?;
        let ids: Vec<ServiceId> = ids.into_iter().take(MAX_LISTED).map(Into::into).collect();
        self.service_summaries(tenant, &ids, days).await
    }

    /// Returns at most 50 hosts of the latest 1,000 changes, the last changed first.
    pub async fn hosts_last_changed(
        &self,
        tenant: Tenant,
        days: Range<i64>,
    ) -> Result<Vec<Summary<Host>>, StoreError> {
        let ids = self.last_changed(tenant, Summarized::Host).await?;
        let ids: Vec<HostId> = ids.into_iter().take(MAX_LISTED).map(Into::into).collect();
        self.host_summaries(tenant, &ids, days).await
    }

    /// Returns the 50 services with the most changes on some days, given as numbers since
    /// 1970 in UTC.
    pub async fn services_most_changed(
        &self,
        tenant: Tenant,
        days: Range<i64>,
    ) -> Result<Vec<Summary<Service>>, StoreError> {
        let busiest = self
            .busiest_services(tenant, days.clone(), MAX_LISTED as u64)
            .await?;
        let ids: Vec<ServiceId> = busiest.into_iter().map(|(service, _)| service.id).collect();
        self.service_summaries(tenant, &ids, days).await
    }
}

/// Returns the word that the fewest names have, as far as its length tells.
fn longest_word(text: &str) -> Option<String> {
    let words = query_words(text).into_iter();
    words.max_by_key(|word| word.chars().count())
}

fn has_words(name: &str, text: &str) -> bool {
    let of_name = words(name);
    let has = |wanted: &String| of_name.iter().any(|word| word.starts_with(wanted.as_str()));
    query_words(text).iter().all(has)
}

//! Services and hosts in other orders than that of their names, and those whose names
//! have some words.

use std::ops::Range;

use changelog_core::Service;
use changelog_core::text::{query_words, words};

use super::catalog::StoredItem;
use super::{Database, StoreError, Summary, Tenant};

/// The most services or hosts of a list that has no pages.
pub const MAX_LISTED: usize = 50;
/// The words of names that a search reads for one word.
const MAX_MATCHES: u64 = 500;

impl Database {
    /// Finds at most 50 items whose names have, for each word of `text`, a word that begins
    /// with it.
    pub async fn items_found<T: StoredItem>(
        &self,
        tenant: Tenant,
        text: &str,
        days: Range<i64>,
    ) -> Result<Vec<Summary<T>>, StoreError> {
        let Some(longest) = longest_word(text) else {
            return Ok(Vec::new());
        };
        let ids = self.items_matching::<T>(tenant, &longest, MAX_MATCHES);
        let found = self.items_by_id::<T>(tenant, &ids.await?).await?;
        let found = found.into_values();
        let mut items: Vec<T> = found.filter(|item| has_words(item.name(), text)).collect();
        items.sort_by_cached_key(|item| item.name().to_ascii_lowercase());
        items.truncate(MAX_LISTED);
        self.summarize(tenant, items, days).await
    }

    /// Returns at most 50 items of the latest 1,000 changes, the last changed first.
    pub async fn items_last_changed<T: StoredItem>(
        &self,
        tenant: Tenant,
        days: Range<i64>,
    ) -> Result<Vec<Summary<T>>, StoreError> {
        let mut ids = self.last_changed::<T>(tenant).await?;
        ids.truncate(MAX_LISTED);
        let mut found = self.items_by_id::<T>(tenant, &ids).await?;
        let in_order = ids.iter().filter_map(|id| found.remove(id));
        self.summarize(tenant, in_order.collect(), days).await
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
        let services = busiest.into_iter().map(|(service, _)| service);
        self.summarize(tenant, services.collect(), days).await
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

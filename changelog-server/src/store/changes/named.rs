//! Finding changes by their id or its beginning.

use std::ops::RangeInclusive;

use changelog_core::{ChangeFilter, Status};
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::list::{ChangeList, ChangesJson, time_of};
use super::{REFERENCES, broken, push_json};
use crate::store::engine::{Dialect, Value, on};
use crate::store::index::search::{ChangeMatcher, IndexTerms};
use crate::store::index::sort_key;
use crate::store::{Database, StoreError, Tenant};

/// The limit on changes that the beginning of an id finds. If more have it, it is
/// searched for as a word.
const MAX_NAMED: usize = 200;

/// A change that the beginning of an id found.
pub(super) struct NamedChange {
    sort_key: i64,
    json: String,
}

impl Database {
    /// Finds the changes whose ids begin with some digits, newest first; none if there
    /// are too many.
    pub(super) async fn changes_named(
        &self,
        tenant: Tenant,
        digits: &str,
    ) -> Result<Vec<NamedChange>, StoreError> {
        let ids = ids_of(digits);
        let mut named = Vec::new();
        for is_moved in [false, true] {
            let Some(query_range) = Named::new(&ids, is_moved) else {
                continue;
            };
            let rows: Vec<(Uuid, i64, String)> =
                on!(&mut self.reader(tenant).await?, |db| async {
                    let mut query = query_range.select(tenant);
                    query.build_query_as().fetch_all(&mut **db).await
                })?;
            if rows.len() > MAX_NAMED {
                return Ok(Vec::new());
            }
            let found = rows.into_iter().filter(|(id, key, _)| {
                ids.contains(id) && is_moved == (sort_key::of(*id) != Some(*key))
            });
            named.extend(found.map(|(_, sort_key, json)| NamedChange { sort_key, json }));
        }
        named.sort_by_key(|change| std::cmp::Reverse(change.sort_key));
        Ok(named)
    }

    /// Returns the page of those changes that a filter selects.
    pub(super) async fn select_among(
        &self,
        tenant: Tenant,
        filter: &ChangeFilter,
        matcher: &ChangeMatcher,
        mut named: Vec<NamedChange>,
    ) -> Result<ChangeList, StoreError> {
        let time = time_of(filter);
        let mut selected = Vec::new();
        for change in named.drain(..) {
            let terms = IndexTerms::from_json(&change.json).map_err(|error| broken(&error))?;
            let millis = sort_key::millis(change.sort_key);
            let is_running = terms.has_status(&Status::InProgress);
            let in_time = millis < time.end && (millis >= time.start || is_running);
            if in_time && matcher.matches(&terms) {
                selected.push(change);
            }
        }
        let count = selected.len() as u64;
        if let Some(cursor) = filter.before {
            let before = self.sort_key_of(tenant, cursor).await?;
            selected.retain(|change| change.sort_key < before);
        }
        let skipped = (filter.page - 1).saturating_mul(filter.per_page);
        let page: Vec<String> = selected
            .into_iter()
            .skip(usize::try_from(skipped).unwrap_or(usize::MAX))
            .take(usize::try_from(filter.per_page).unwrap_or(usize::MAX))
            .map(|change| change.json)
            .collect();
        Ok(ChangeList {
            json: ChangesJson(page.join(",")),
            count,
        })
    }
}

/// Returns the first and the last id that begin with some digits, at most 32.
fn ids_of(digits: &str) -> RangeInclusive<Uuid> {
    let id = |fill: &str| {
        let rest = fill.repeat(32_usize.saturating_sub(digits.len()));
        Uuid::try_parse(&format!("{digits}{rest}")).unwrap_or_default()
    };
    id("0")..=id("f")
}

/// Where changes with a range of ids are looked for.
enum Named {
    /// At the sort keys that the ids determine.
    AtSortKeys(RangeInclusive<i64>),
    /// Among the changes that have other sort keys.
    Moved(RangeInclusive<Uuid>),
}

impl Named {
    fn new(ids: &RangeInclusive<Uuid>, is_moved: bool) -> Option<Self> {
        if is_moved {
            return Some(Self::Moved(ids.clone()));
        }
        let first = sort_key::of(*ids.start())?;
        let last = sort_key::of(*ids.end()).unwrap_or(i64::MAX);
        Some(Self::AtSortKeys(first..=last))
    }

    /// Builds the statement that reads them; a change at a sort key may have another id.
    fn select<DB: Dialect>(&self, tenant: Tenant) -> QueryBuilder<DB> {
        let mut query = QueryBuilder::new("SELECT c.id, c.sort_key, ");
        push_json(&mut query, tenant);
        query.push(" FROM changes c").push(REFERENCES);
        query.push(" WHERE c.organization_id = ");
        DB::bind(&mut query, tenant.uuid().into());
        let (column, first, last): (_, Value<'_>, Value<'_>) = match self {
            Self::AtSortKeys(keys) => ("c.sort_key", (*keys.start()).into(), (*keys.end()).into()),
            Self::Moved(ids) => ("c.moved_id", (*ids.start()).into(), (*ids.end()).into()),
        };
        query.push(" AND ").push(column).push(" >= ");
        DB::bind(&mut query, first);
        query.push(" AND ").push(column).push(" <= ");
        DB::bind(&mut query, last);
        query.push(" LIMIT ").push(MAX_NAMED + 1);
        query
    }
}

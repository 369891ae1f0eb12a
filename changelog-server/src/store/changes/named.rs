//! Finding changes by their id or its beginning.

use std::ops::RangeInclusive;

use changelog_core::{ChangeFilter, Status};
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::list::{ChangeList, ChangesJson, time_of};
use super::{JSON, REFERENCES, broken};
use crate::store::engine::{Dialect, on};
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
            let rows: Vec<(i64, String)> = on!(&mut self.reader(tenant).await?, |db| async {
                let mut query = select_named(tenant, &ids, is_moved);
                query.build_query_as().fetch_all(&mut **db).await
            })?;
            let change = |(sort_key, json)| NamedChange { sort_key, json };
            named.extend(rows.into_iter().map(change));
        }
        if named.len() > MAX_NAMED {
            named.clear();
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

/// Selects changes by a range of ids: those whose sort keys follow from their ids, or
/// those that have moved.
fn select_named<DB: Dialect>(
    tenant: Tenant,
    ids: &RangeInclusive<Uuid>,
    is_moved: bool,
) -> QueryBuilder<DB> {
    let (first, last) = (*ids.start(), *ids.end());
    let mut query = QueryBuilder::new("SELECT c.sort_key, ");
    query.push(JSON).push(" FROM changes c").push(REFERENCES);
    query.push(" WHERE c.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    let column = if is_moved {
        "c.moved_id"
    } else {
        let millis = |id| sort_key::moment(id).millis();
        let keys = sort_key::of_millis(millis(first)..millis(last).saturating_add(1));
        query.push(" AND c.moved_id IS NULL AND c.sort_key >= ");
        DB::bind(&mut query, keys.start.into());
        query.push(" AND c.sort_key < ");
        DB::bind(&mut query, keys.end.into());
        "c.id"
    };
    query.push(" AND ").push(column).push(" >= ");
    DB::bind(&mut query, first.into());
    query.push(" AND ").push(column).push(" <= ");
    DB::bind(&mut query, last.into());
    query.push(" LIMIT ").push(MAX_NAMED + 1);
    query
}

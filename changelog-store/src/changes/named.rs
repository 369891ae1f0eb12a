//! Finding changes by their id or its beginning.

use std::ops::RangeInclusive;

use changelog_core::{ChangeFilter, Status, ViolationCode, Violations};
use chrono::Utc;
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::by_id::push_places_end;
use super::list::{ChangeList, ChangesJson, time_of};
use super::{broken, push_json};
use crate::engine::{Dialect, PushValue, Value, read};
use crate::index::search::{ChangeMatcher, IndexTerms};
use crate::index::sort_key;
use crate::{Database, StoreError, Tenant};

/// The limit on changes that the beginning of an id finds.
const MAX_NAMED: usize = 200;

/// A change that the beginning of an id found.
pub(super) struct NamedChange {
    sort_key: i64,
    json: String,
}

impl Database {
    /// Finds the changes whose ids begin with some digits, newest first.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when more than 200 changes do.
    pub(super) async fn changes_named(
        &self,
        tenant: Tenant,
        digits: &str,
    ) -> Result<Vec<NamedChange>, StoreError> {
        let ids = ids_of(digits);
        let Some(first) = sort_key::of(*ids.start()) else {
            return Ok(Vec::new());
        };
        let keys = first..=sort_key::of(*ids.end()).unwrap_or(i64::MAX);
        // In one statement, because a change may move between two.
        let rows: Vec<(i64, String)> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select_named(tenant, &ids, &keys);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        if rows.len() > MAX_NAMED {
            let mut problems = Violations::default();
            let message = format!(
                "must have more digits of the id: more than {MAX_NAMED} changes have these"
            );
            problems.add("?text", ViolationCode::TooMany, message);
            problems.into_result(())?;
        }
        let named = rows.into_iter();
        let named = named.map(|(sort_key, json)| NamedChange { sort_key, json });
        let mut named: Vec<NamedChange> = named.collect();
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
            let is_now = time.contains(&Utc::now().timestamp_millis());
            let in_time = time.contains(&millis) || (millis < time.start && is_running && is_now);
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

/// Selects the changes with a range of ids: those at the sort keys that the ids determine,
/// and those that have moved.
fn select_named<DB: Dialect>(
    tenant: Tenant,
    ids: &RangeInclusive<Uuid>,
    keys: &RangeInclusive<i64>,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT c.sort_key, ");
    push_json(&mut query, Some(tenant));
    query.push(
        " FROM (SELECT sort_key FROM (SELECT p.sort_key FROM changes p WHERE p.organization_id = ",
    );
    DB::bind(&mut query, tenant.uuid().into());
    push_between(
        &mut query,
        "p.sort_key",
        (*keys.start()).into(),
        (*keys.end()).into(),
    );
    push_between(
        &mut query,
        "p.id",
        (*ids.start()).into(),
        (*ids.end()).into(),
    );
    query
        .push(" AND p.moved_id IS NULL LIMIT ")
        .push(MAX_NAMED + 1);
    query.push(") AS in_place UNION ALL SELECT sort_key FROM (SELECT m.sort_key FROM changes m WHERE m.organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    push_between(
        &mut query,
        "m.moved_id",
        (*ids.start()).into(),
        (*ids.end()).into(),
    );
    query.push(" LIMIT ").push(MAX_NAMED + 1).push(") AS moved");
    push_places_end(&mut query, tenant);
    query
}

/// Writes the condition that a column is within a range.
fn push_between<DB: Dialect>(
    query: &mut QueryBuilder<DB>,
    column: &str,
    first: Value<'_>,
    last: Value<'_>,
) {
    query.push(" AND ").push(column).push_value(" >= ", first);
    query.push(" AND ").push(column).push_value(" <= ", last);
}

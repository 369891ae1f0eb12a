//! Replaces the ids of drafts whose sort keys are taken. This is rare, because an id
//! has random bits after its millisecond.

use std::collections::HashSet;
use std::ops::Range;

use changelog_core::{ViolationCode, Violations};
use sqlx::QueryBuilder;

use super::create::Creation;
use super::draft::Draft;
use crate::activity;
use crate::engine::{Dialect, PushValue, on};
use crate::index::sort_key;
use crate::{StoreError, Tx};

/// The limit on sort keys that one search reads.
const KEYS_PER_SEARCH: i64 = 4_000;
/// The limit on searches, each from another sort key. They block other
/// creates, so a millisecond with less than one free key in a few thousand counts
/// as full.
const MAX_SEARCHES: usize = 4;

impl Tx {
    /// Gives new ids to the drafts whose sort keys are taken, by changes or by other
    /// drafts of the request.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when a millisecond is full.
    pub(super) async fn replace_taken_ids(
        &mut self,
        creation: &mut Creation,
    ) -> Result<(), StoreError> {
        let mut taken = self.existing_keys(creation).await?;
        for index in 0..creation.drafts.len() {
            let draft = &mut creation.drafts[index];
            if taken.insert(draft.sort_key) {
                continue;
            }
            let Some(key) = self.find_free_key(draft, &taken).await? else {
                let pointer = format!("{}/occurred_at", creation.pointer(index));
                let message = "must be another time: this millisecond is full of changes";
                let mut full = Violations::default();
                full.add(pointer, ViolationCode::OutOfRange, message);
                return Ok(full.into_result(())?);
            };
            draft.set_sort_key(key)?;
            taken.insert(key);
        }
        Ok(())
    }

    /// Returns the sort keys of a creation's drafts that changes have.
    async fn existing_keys(&mut self, creation: &Creation) -> Result<HashSet<i64>, StoreError> {
        let rows: Vec<(i64,)> = on!(&mut self.connection, |db| async {
            let mut query = select_existing_keys(creation);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(rows.into_iter().map(|(key,)| key).collect())
    }

    /// Searches the millisecond of a draft for a free sort key: first after the taken one,
    /// so that changes of a list keep their order, then from random starts.
    async fn find_free_key(
        &mut self,
        draft: &mut Draft,
        taken: &HashSet<i64>,
    ) -> Result<Option<i64>, StoreError> {
        for search in 0..MAX_SEARCHES {
            if search > 0 {
                draft.assign_random_id()?;
            }
            let range = sort_key::rest_of_millisecond(draft.sort_key);
            let rows: Vec<(i64,)> = on!(&mut self.connection, |db| async {
                let mut query = select_keys_in(draft, range.clone());
                query.build_query_as().fetch_all(&mut **db).await
            })?;
            let existing: Vec<i64> = rows.into_iter().map(|(key,)| key).collect();
            let is_complete = activity::clamped(existing.len() as u64) < KEYS_PER_SEARCH;
            // At least one of so many free keys is not in `taken`.
            let free = sort_key::free_among(range, &existing, is_complete, taken.len() + 1);
            if let Some(key) = free.into_iter().find(|key| !taken.contains(key)) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}

/// Selects the sort keys of a range that changes have.
fn select_keys_in<DB: Dialect>(draft: &Draft, range: Range<i64>) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT sort_key FROM changes WHERE sort_key >= ");
    DB::bind(&mut query, range.start.into());
    query.push_value(" AND sort_key < ", range.end);
    if !DB::SORT_KEYS_ARE_GLOBAL {
        query.push_value(" AND organization_id = ", draft.tenant.uuid());
    }
    query
        .push(" ORDER BY sort_key LIMIT ")
        .push(KEYS_PER_SEARCH);
    query
}

/// Selects the sort keys of drafts that changes have.
fn select_existing_keys<DB: Dialect>(creation: &Creation) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT sort_key FROM changes WHERE sort_key");
    let keys = creation.drafts.iter();
    // With a join, PostgreSQL may read all changes of the organization.
    DB::push_in(&mut query, keys.map(|draft| draft.sort_key).collect());
    if !DB::SORT_KEYS_ARE_GLOBAL {
        query.push_value(" AND organization_id = ", creation.tenant.uuid());
    }
    query
}

//! Finding where a page far down a list begins.

use sqlx::QueryBuilder;

use super::{DAY, END, KindFilter, Scope, push_spans};
use crate::engine::{push_limit, read};
use crate::index::sort_key;
use crate::{Database, StoreError};

/// Where a page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// The changes of the page have sort keys below this one.
    pub(crate) before: i64,
    /// How many of the newest changes below it come before the page.
    pub(crate) offset: i64,
}

/// How many days are read at first; each further read has four times as many.
const FIRST_DAYS: u64 = 32;

impl Database {
    /// Moves the start of a page to the end of the day in which the page begins,
    /// so that only the changes of that day remain to be skipped one by one. Skips days of a
    /// scope
    /// that begin at `since` or later, in milliseconds since 1970.
    pub(crate) async fn start_of_page(
        &self,
        filter: KindFilter<'_>,
        scope: &Scope<'_>,
        start: Start,
        since: i64,
    ) -> Result<Start, StoreError> {
        let first_day = since.div_euclid(DAY) + i64::from(since.rem_euclid(DAY) > 0);
        let (mut end, mut offset) = (END, start.offset);
        let mut limit = FIRST_DAYS;
        loop {
            let days: Vec<(i64, i64)> = read!(self.reader(filter.tenant).await?, |db| async {
                let mut query = QueryBuilder::new(
                    "SELECT start, CAST(SUM(n) AS BIGINT) FROM change_counts WHERE ",
                );
                filter.push(&mut query);
                let key = filter.key_of(scope);
                push_spans(&mut query, &key, scope.day(), first_day..end / DAY);
                query.push(" GROUP BY start ORDER BY start DESC");
                push_limit(&mut query, limit, 0);
                query.build_query_as().fetch_all(&mut **db).await
            })?;
            let is_all = (days.len() as u64) < limit;
            let skipped: i64 = days.iter().map(|(_, count)| count).sum();
            let is_within = offset < skipped;
            (end, offset) = skip_days(&days, end, offset);
            if is_all || is_within {
                break;
            }
            limit *= 4;
        }
        Ok(Start {
            before: sort_key::of_millis(0..end).end,
            offset,
        })
    }
}

/// Skips days before `end`, given as numbers and counts with the newest first, until the one
/// in which the change with this offset is. Returns the end of that day in
/// milliseconds and the offset that remains.
fn skip_days(days: &[(i64, i64)], mut end: i64, mut offset: i64) -> (i64, i64) {
    for (day, count) in days {
        if offset < *count {
            return ((day + 1) * DAY, offset);
        }
        offset -= count;
        end = day * DAY;
    }
    (end, offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_days_are_skipped() {
        let days = [(9, 3), (7, 2), (4, 10)];
        for (offset, expected) in [
            (0, (10 * DAY, 0)),
            (2, (10 * DAY, 2)),
            (3, (8 * DAY, 0)),
            (5, (5 * DAY, 0)),
            (14, (5 * DAY, 9)),
            (15, (4 * DAY, 0)),
            (99, (4 * DAY, 84)),
        ] {
            assert_eq!(skip_days(&days, END, offset), expected, "{offset}");
        }
        assert_eq!(skip_days(&[], END, 5), (END, 5));
    }
}

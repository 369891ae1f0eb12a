//! Selects that are merged in the order of an index that each of them has.

use sqlx::QueryBuilder;

use super::{Dialect, push_limit};

/// Appends selects of the same columns as one, whose rows are in descending order of a
/// column, and limits it: `columns` are what the selects have, of which `order` is one.
///
/// SQLite reads each select only as far as the page needs; PostgreSQL would read and sort
/// all of their rows without a limit for each.
pub(crate) fn push_merged<DB: Dialect, T>(
    query: &mut QueryBuilder<DB>,
    (columns, order): (&str, &str),
    selects: impl IntoIterator<Item = T>,
    push_select: impl Fn(&mut QueryBuilder<DB>, T),
    (limit, offset): (u64, i64),
) {
    let first = i64::try_from(limit)
        .unwrap_or(i64::MAX)
        .saturating_add(offset);
    for (number, select) in selects.into_iter().enumerate() {
        query.push(if number == 0 { "" } else { " UNION ALL " });
        query.push("SELECT ").push(columns).push(" FROM (");
        push_select(query, select);
        if !DB::MERGES_LAZILY {
            query.push(" ORDER BY ").push(order).push(" DESC LIMIT ");
            DB::bind(query, first.into());
        }
        query.push(") AS part").push(number);
    }
    query.push(" ORDER BY ").push(order).push(" DESC");
    push_limit(query, limit, offset);
}

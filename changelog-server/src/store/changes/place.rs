//! A change's place in the list, as a number: its id without what comes after
//! the first twenty bits that follow the milliseconds.
//!
//! Eight bytes order as the sixteen of the id do, and on SQLite they are the
//! row's own number, so that every index ends in the order of the list at no
//! cost, and the full-text index, which knows rows by their numbers, reads
//! newest first.

use std::ops::Range;

use changelog_core::Timestamp;
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use crate::store::engine::Dialect;

/// How many bits of an id follow its milliseconds in a place.
const BITS: u32 = 20;
/// The milliseconds that a place can hold: until the year 2248.
const LAST_MILLI: i64 = (1 << (63 - BITS)) - 1;

/// Returns the place of an id; `None` for an id that no change can have.
pub(super) fn of(id: Uuid) -> Option<i64> {
    let (high, low) = id.as_u64_pair();
    let millis = i64::try_from(high >> 16).ok()?;
    // Twelve bits after the version, eight after the variant.
    let rest = ((high & 0xfff) << 8) | ((low >> 54) & 0xff);
    (millis <= LAST_MILLI).then(|| (millis << BITS) | i64::try_from(rest).unwrap_or_default())
}

/// Returns where a change with this id can be: at its place, or, if it was
/// there before places were and its place was taken, after it in its millisecond
/// or at the start of the next.
pub(in crate::store) fn where_id_can_be(id: Uuid) -> Range<i64> {
    match of(id) {
        Some(place) => place..((place >> BITS) + 2) << BITS,
        None => 0..0,
    }
}

/// Returns the places of a range of milliseconds since 1970.
pub(in crate::store) fn of_millis(millis: Range<i64>) -> Range<i64> {
    let first = |millis: i64| millis.clamp(0, LAST_MILLI) << BITS;
    first(millis.start)..first(millis.end)
}

/// Returns the milliseconds since 1970 of a place.
pub(super) fn millis(place: i64) -> i64 {
    place >> BITS
}

/// Returns when the change with this id happened, which the id is made of.
pub(in crate::store) fn moment(id: Uuid) -> Timestamp {
    let (high, _) = id.as_u64_pair();
    Timestamp::from_millis(i64::try_from(high >> 16).unwrap_or(0))
}

/// Writes the condition that a place lies within a range; its ends are left
/// out where nothing lies beyond them.
pub(in crate::store) fn push_range<DB: Dialect>(
    query: &mut QueryBuilder<DB>,
    column: &str,
    places: Range<i64>,
) {
    if places.start > 0 {
        query.push(" AND ").push(column).push(" >= ");
        DB::bind(query, places.start.into());
    }
    if places.end < LAST_MILLI << BITS {
        query.push(" AND ").push(column).push(" < ");
        DB::bind(query, places.end.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use changelog_core::ids::{first_uuid_at, uuid_v7};

    #[test]
    fn places_order_as_ids_do() {
        let at = Timestamp::from_millis(1_763_713_800_123);
        let mut ids: Vec<Uuid> = (0..2_000)
            .map(|n| {
                let millis = Timestamp::from_millis(at.millis() + n % 7);
                uuid_v7(millis, (n % 2 == 0).then_some(250_000), rand::random())
            })
            .collect();
        ids.sort();
        let places: Vec<i64> = ids.iter().map(|id| of(*id).unwrap()).collect();
        assert!(places.is_sorted());
        assert_eq!(millis(places[0]), at.millis());
        assert_eq!(moment(ids[0]), at);
        assert_eq!(of(first_uuid_at(at)), Some(of_millis(at.millis()..0).start));
        assert!(where_id_can_be(ids[0]).contains(&places[0]));
        assert!(!where_id_can_be(ids[0]).contains(&of_millis(at.millis() + 2..0).start));
    }

    #[test]
    fn what_is_no_id_of_ours_has_no_place_or_an_empty_one() {
        assert_eq!(of(Uuid::max()), None);
        assert!(where_id_can_be(Uuid::max()).is_empty());
        assert_eq!(of(Uuid::nil()), Some(0));
    }
}

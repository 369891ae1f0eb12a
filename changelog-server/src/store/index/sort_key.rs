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
pub(crate) fn of(id: Uuid) -> Option<i64> {
    let (high, low) = id.as_u64_pair();
    let millis = i64::try_from(high >> 16).ok()?;
    // Twelve bits after the version, eight after the variant.
    let rest = ((high & 0xfff) << 8) | ((low >> 54) & 0xff);
    (millis <= LAST_MILLI).then(|| (millis << BITS) | i64::try_from(rest).unwrap_or_default())
}

/// Makes an id that has a place: what an id holds besides is random.
pub(crate) fn id_at(place: i64, random: u64) -> Uuid {
    let bits = place.unsigned_abs();
    let rest = bits & 0xf_ffff;
    let high = ((bits >> BITS) << 16) | 0x7000 | (rest >> 8);
    let low = (0b10 << 62) | ((rest & 0xff) << 54) | (random & ((1 << 54) - 1));
    Uuid::from_u64_pair(high, low)
}

/// Returns the places of the millisecond of a place, from this place on.
pub(crate) fn rest_of_millisecond(place: i64) -> Range<i64> {
    place..((place >> BITS) + 1) << BITS
}

/// Returns free places of a range, in their order: at most so many, and none
/// beyond the last of the taken ones unless those are all that there are.
pub(crate) fn free_among(range: Range<i64>, taken: &[i64], are_all: bool, most: usize) -> Vec<i64> {
    let end = match taken.last() {
        Some(last) if !are_all => *last,
        _ => range.end,
    };
    let mut taken = taken.iter().copied().peekable();
    (range.start..end)
        .filter(|place| taken.next_if_eq(place).is_none())
        .take(most)
        .collect()
}

/// Returns where a change with this id can be: at its place, or, if it was
/// there before places were and its place was taken, after it in its millisecond
/// or at the start of the next.
pub(crate) fn where_id_can_be(id: Uuid) -> Range<i64> {
    match of(id) {
        Some(place) => place..((place >> BITS) + 2) << BITS,
        None => 0..0,
    }
}

/// Returns the places of a range of milliseconds since 1970.
pub(crate) fn of_millis(millis: Range<i64>) -> Range<i64> {
    let first = |millis: i64| millis.clamp(0, LAST_MILLI) << BITS;
    first(millis.start)..first(millis.end)
}

/// Returns the milliseconds since 1970 of a place.
pub(crate) fn millis(place: i64) -> i64 {
    place >> BITS
}

/// Returns when the change with this id happened, which the id is made of.
pub(crate) fn moment(id: Uuid) -> Timestamp {
    let (high, _) = id.as_u64_pair();
    Timestamp::from_millis(i64::try_from(high >> 16).unwrap_or(0))
}

/// Writes the condition that a place lies within a range; its ends are left
/// out where nothing lies beyond them.
pub(crate) fn push_range<DB: Dialect>(
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
    fn ids_are_made_for_places() {
        for place in [0, 0x000f_ffff, (1_763_713_800_123 << BITS) | 0xa_bcde] {
            for random in [0, u64::MAX] {
                let id = id_at(place, random);
                assert_eq!(of(id), Some(place));
                assert_eq!(id.get_version_num(), 7);
                assert_eq!(id.get_variant(), uuid::Variant::RFC4122);
            }
        }
        let place = (5 << BITS) + 7;
        assert_eq!(rest_of_millisecond(place), place..6 << BITS);
    }

    #[test]
    fn free_places_lie_between_those_that_are_taken() {
        assert_eq!(
            free_among(10..20, &[10, 11, 13, 16], false, 9),
            [12, 14, 15]
        );
        assert_eq!(free_among(10..20, &[10, 11, 13, 16], false, 2), [12, 14]);
        assert_eq!(free_among(10..16, &[10, 11, 13], true, 9), [12, 14, 15]);
        assert_eq!(free_among(10..12, &[], true, 9), [10, 11]);
        assert!(free_among(10..13, &[10, 11, 12], true, 9).is_empty());
        assert!(free_among(10..99, &[10, 11, 12], false, 9).is_empty());
    }

    #[test]
    fn what_is_no_id_of_ours_has_no_place_or_an_empty_one() {
        assert_eq!(of(Uuid::max()), None);
        assert!(where_id_can_be(Uuid::max()).is_empty());
        assert_eq!(of(Uuid::nil()), Some(0));
    }
}

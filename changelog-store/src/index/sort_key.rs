//! The sort key of a change: the milliseconds of its effective time and twenty bits of
//! its id as a number, unique within an organization. For a change that was started
//! when it was recorded, these are the first bits of the id.
//!
//! Eight bytes order as the time and the id do. On SQLite the sort key is the
//! row number, so that every index ends in the order of lists at no cost, and the
//! full-text index, which knows rows by their numbers, reads newest first.

use std::ops::Range;

use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use crate::engine::Dialect;

/// How many bits of an id follow its milliseconds in a sort key.
const BITS: u32 = 20;
/// The bits of a sort key that are not of its milliseconds.
const MASK: i64 = (1 << BITS) - 1;
/// The milliseconds that a sort key can hold: until the year 2248.
const LAST_MILLI: i64 = (1 << (63 - BITS)) - 1;

/// Returns the sort key of an id; `None` for an id that no change can have.
pub(crate) fn of(id: Uuid) -> Option<i64> {
    let (high, low) = id.as_u64_pair();
    let millis = i64::try_from(high >> 16).ok()?;
    // Twelve bits after the version, eight after the variant.
    let rest = ((high & 0xfff) << 8) | ((low >> 54) & 0xff);
    (millis <= LAST_MILLI).then(|| (millis << BITS) | i64::try_from(rest).unwrap_or_default())
}

/// Returns the sort key of the change with an id at an effective time, in milliseconds
/// since 1970; `None` for a time that no sort key can have.
pub(crate) fn at(millis: i64, id: Uuid) -> Option<i64> {
    let rest = of(id)? & MASK;
    (0..=LAST_MILLI)
        .contains(&millis)
        .then_some((millis << BITS) | rest)
}

/// Returns the sort key of another change in the millisecond of a sort key.
pub(crate) fn with_random_rest(sort_key: i64, random: u32) -> i64 {
    (sort_key & !MASK) | (i64::from(random) & MASK)
}

/// Returns an id of a time, in milliseconds since 1970, that ends as a sort key does; its
/// other bits are random.
pub(crate) fn id_of(millis: i64, sort_key: i64, random: u64) -> Uuid {
    id_at((millis << BITS) | (sort_key & MASK), random)
}

/// Returns an id that has a sort key; its other bits are random.
fn id_at(sort_key: i64, random: u64) -> Uuid {
    let bits = sort_key.unsigned_abs();
    let rest = bits & 0xf_ffff;
    let high = ((bits >> BITS) << 16) | 0x7000 | (rest >> 8);
    let low = (0b10 << 62) | ((rest & 0xff) << 54) | (random & ((1 << 54) - 1));
    Uuid::from_u64_pair(high, low)
}

/// Returns the sort keys of the millisecond of a sort key, from this sort key on.
pub(crate) fn rest_of_millisecond(sort_key: i64) -> Range<i64> {
    sort_key..((sort_key >> BITS) + 1) << BITS
}

/// Returns free sort keys of a range, in their order: at most so many, and none
/// beyond the last of the taken ones unless those are all that there are.
pub(crate) fn free_among(range: Range<i64>, taken: &[i64], are_all: bool, most: usize) -> Vec<i64> {
    let end = match taken.last() {
        Some(last) if !are_all => *last,
        _ => range.end,
    };
    let mut taken = taken.iter().copied().peekable();
    (range.start..end)
        .filter(|sort_key| taken.next_if_eq(sort_key).is_none())
        .take(most)
        .collect()
}

/// Returns the sort key to look a change up by: for an id that no change can
/// have, one that no change has.
pub(crate) fn to_look_up(id: Uuid) -> i64 {
    of(id).unwrap_or(-1)
}

/// Returns the sort keys of a range of milliseconds since 1970.
pub(crate) fn of_millis(millis: Range<i64>) -> Range<i64> {
    let first = |millis: i64| millis.clamp(0, LAST_MILLI) << BITS;
    first(millis.start)..first(millis.end)
}

/// Returns the milliseconds since 1970 of a sort key.
pub(crate) fn millis(sort_key: i64) -> i64 {
    sort_key >> BITS
}

/// Writes the condition that a sort key lies within a range; its ends are left
/// out where nothing lies beyond them.
pub(crate) fn push_range<DB: Dialect>(
    query: &mut QueryBuilder<DB>,
    column: &str,
    sort_keys: Range<i64>,
) {
    if sort_keys.start > 0 {
        query.push(" AND ").push(column).push(" >= ");
        DB::bind(query, sort_keys.start.into());
    }
    if sort_keys.end < LAST_MILLI << BITS {
        query.push(" AND ").push(column).push(" < ");
        DB::bind(query, sort_keys.end.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use changelog_core::Timestamp;
    use changelog_core::ids::{first_uuid_at, time_of_uuid, uuid_v7};

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
        let sort_keys: Vec<i64> = ids.iter().map(|id| of(*id).unwrap()).collect();
        assert!(sort_keys.is_sorted());
        assert_eq!(millis(sort_keys[0]), at.millis());
        assert_eq!(time_of_uuid(ids[0]), at);
        assert_eq!(of(first_uuid_at(at)), Some(of_millis(at.millis()..0).start));
    }

    #[test]
    fn ids_are_made_for_places() {
        for sort_key in [0, 0x000f_ffff, (1_763_713_800_123 << BITS) | 0xa_bcde] {
            for random in [0, u64::MAX] {
                let id = id_at(sort_key, random);
                assert_eq!(of(id), Some(sort_key));
                assert_eq!(id.get_version_num(), 7);
                assert_eq!(id.get_variant(), uuid::Variant::RFC4122);
            }
        }
        let sort_key = (5 << BITS) + 7;
        let moved = id_of(3, sort_key, 9);
        assert_eq!(time_of_uuid(moved), Timestamp::from_millis(3));
        assert_eq!(at(5, moved), Some(sort_key));
        assert_eq!(at(3, moved), of(moved));
        assert_eq!(with_random_rest(sort_key, 0xf00_0008), (5 << BITS) + 8);
        assert_eq!(at(LAST_MILLI + 1, moved), None);
        assert_eq!(rest_of_millisecond(sort_key), sort_key..6 << BITS);
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
        assert_eq!(to_look_up(Uuid::max()), -1);
        assert_eq!(of(Uuid::nil()), Some(0));
    }
}

//! Points for time and for numbers of changes, by doublings. They are computed with
//! whole numbers, so that every machine ranks alike.

use crate::time::Timestamp;

/// Points of a change at the moment itself.
const RECENT: i64 = 90;
/// How many of them a change loses each time that its age plus [`UNIT_MINUTES`] doubles.
const LOST_PER_DOUBLING: i64 = 10;
const UNIT_MINUTES: u64 = 30;
/// How many points a change loses each time that the number of newer changes to its
/// service plus one doubles.
const CROWD_PER_DOUBLING: i64 = 6;
/// The most that a change loses because of newer changes to its service.
const MOST_CROWD: i64 = 24;

/// The bits of the fraction of a logarithm.
const FRACTION: u32 = 16;

/// Returns the points for an age in minutes: `max(0, 90 - 10 * log2(1 + minutes / 30))`,
/// rounded.
pub(super) fn recency(minutes: u64) -> i32 {
    let doublings = log2(minutes.saturating_add(UNIT_MINUTES)) - log2(UNIT_MINUTES);
    let lost = rounded(LOST_PER_DOUBLING * doublings);
    i32::try_from((RECENT - lost).max(0)).unwrap_or(0)
}

/// Returns the points for the number of newer changes to the same service:
/// `-min(24, 6 * log2(1 + number))`, rounded.
pub(super) fn crowd(newer: u64) -> i32 {
    let lost = rounded(CROWD_PER_DOUBLING * log2(newer.saturating_add(1)));
    i32::try_from(-lost.min(MOST_CROWD)).unwrap_or(0)
}

/// Returns the whole minutes from one time to a later one; 0 if it is not later.
pub(super) fn minutes(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.millis().saturating_sub(from.millis())).unwrap_or(0) / 60_000
}

/// Returns an age in its largest unit, such as "5 minutes".
pub(super) fn length(minutes: u64) -> String {
    let (count, unit) = match minutes {
        0 => return "less than a minute".to_owned(),
        1..60 => (minutes, "minute"),
        60..1_440 => (minutes / 60, "hour"),
        _ => (minutes / 1_440, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

/// Returns the binary logarithm of a number from 1 on, times 2 to the power of
/// [`FRACTION`], rounded down.
fn log2(number: u64) -> i64 {
    let whole = number.max(1).ilog2();
    // Between 1 and 2, with 63 bits after the point.
    let mut mantissa = u128::from(number.max(1)) << (63 - whole);
    let mut log = i64::from(whole);
    for _ in 0..FRACTION {
        mantissa = (mantissa * mantissa) >> 63;
        let doubled = mantissa >> 64 > 0;
        if doubled {
            mantissa >>= 1;
        }
        log = log << 1 | i64::from(doubled);
    }
    log
}

/// Rounds a number with a fraction of [`FRACTION`] bits.
fn rounded(number: i64) -> i64 {
    (number + (1 << (FRACTION - 1))) >> FRACTION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_has_fewer_points_and_says_its_age() {
        for (minutes, points, text) in [
            (0, 90, "less than a minute"),
            (1, 90, "1 minute"),
            (5, 88, "5 minutes"),
            (30, 80, "30 minutes"),
            (59, 74, "59 minutes"),
            (60, 74, "1 hour"),
            (90, 70, "1 hour"),
            (6 * 60, 53, "6 hours"),
            (1_440, 34, "1 day"),
            (3 * 1_440, 18, "3 days"),
            (7 * 1_440, 6, "7 days"),
            (365 * 1_440, 0, "365 days"),
            (u64::MAX / 2, 0, "6405119470038038 days"),
        ] {
            assert_eq!((recency(minutes), length(minutes).as_str()), (points, text));
        }
    }

    #[test]
    fn newer_changes_cost_a_bounded_number_of_points() {
        let points = [0, 1, 2, 3, 7, 14, 15, 16, 1_000, u64::MAX].map(crowd);
        assert_eq!(points, [0, -6, -10, -12, -18, -23, -24, -24, -24, -24]);
    }

    /// The logarithm of the standard library may differ in its last digits from one
    /// machine to another, ours may not.
    #[test]
    fn logarithms_agree_with_those_of_the_standard_library() {
        for number in (1..5_000_u32).chain([u32::MAX - 1, u32::MAX]) {
            let difference = f64::from(number).log2() * f64::from(1 << FRACTION)
                - f64::from(i32::try_from(log2(number.into())).unwrap());
            assert!(
                (-0.01..1.01).contains(&difference),
                "{number}: {difference}"
            );
        }
        assert_eq!(log2(u64::MAX), (64 << FRACTION) - 1);
    }
}

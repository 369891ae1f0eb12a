//! The days that a range of time consists of.

use std::ops::Range;

/// A day of UTC, in milliseconds: the length of the spans that are counted.
pub(super) const DAY: i64 = 86_400_000;
/// The end of the last whole day of 64-bit milliseconds.
pub(super) const END: i64 = i64::MAX / DAY * DAY;

/// A range of milliseconds as whole days, and what remains at its two ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SpanCover {
    /// The numbers of the days since 1970.
    pub(super) days: Range<i64>,
    /// What lies before and after the days, in milliseconds; less than a day each.
    pub(super) remainders: Vec<Range<i64>>,
}

/// Covers a range of milliseconds since 1970 with whole days.
pub(super) fn cover(range: &Range<i64>) -> SpanCover {
    let (start, end) = (range.start, range.end.min(END));
    let first = start.div_euclid(DAY) + i64::from(start.rem_euclid(DAY) > 0);
    let days = first..end.div_euclid(DAY);
    let ends = if days.is_empty() {
        // Within a day, or around a midnight.
        [start..end, 0..0]
    } else {
        [start..days.start * DAY, days.end * DAY..end]
    };
    SpanCover {
        days,
        remainders: ends.into_iter().filter(|end| !end.is_empty()).collect(),
    }
}

/// A range of milliseconds as whole days, and the days at its ends.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NearestDays {
    /// The numbers of the days since 1970.
    pub(super) days: Range<i64>,
    /// The days at the ends that the range has a part of.
    pub(super) ends: Vec<DayAtEnd>,
}

/// A day that a range of milliseconds has a part of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DayAtEnd {
    /// Its number since 1970.
    pub(super) day: i64,
    /// Whether it is one of the whole days, because less time until now lies outside of
    /// the range.
    pub(super) is_whole: bool,
    /// Its milliseconds that are in the range.
    pub(super) within: Range<i64>,
    /// Its milliseconds before and after the range.
    pub(super) outside: Vec<Range<i64>>,
}

/// Covers a range of milliseconds since 1970 with whole days. A day at its ends is taken
/// as a whole if less time until `now` lies outside of the range than within it: nothing
/// has happened later.
pub(super) fn nearest_days(range: &Range<i64>, now: i64) -> NearestDays {
    let mut nearest = NearestDays::default();
    let (start, end) = (range.start, range.end.min(END));
    if start >= end {
        return nearest;
    }
    let (first, last) = (start.div_euclid(DAY), (end - 1).div_euclid(DAY));
    nearest.days = first..last + 1;
    for (day, is_needed) in [(first, true), (last, last > first)] {
        let midnights = day * DAY..(day + 1) * DAY;
        let within = start.max(midnights.start)..end.min(midnights.end);
        if !is_needed || within == midnights {
            continue;
        }
        let outside = [midnights.start..within.start, within.end..midnights.end];
        let past = |range: &Range<i64>| (range.end.min(now) - range.start.min(now)).max(0);
        let is_whole = outside.iter().map(past).sum::<i64>() < past(&within);
        if !is_whole && day == first {
            nearest.days.start += 1;
        } else if !is_whole {
            nearest.days.end -= 1;
        }
        nearest.ends.push(DayAtEnd {
            day,
            is_whole,
            within,
            outside: outside
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect(),
        });
    }
    nearest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_days_need_few_changes() {
        let hour = DAY / 24;
        let near = |start: i64, end: i64, now: i64| {
            let NearestDays { days, ends } = nearest_days(&(start * hour..end * hour), now * hour);
            let (mut added, mut removed) = (Vec::new(), Vec::new());
            let in_hours = |range: Range<i64>| (range.start / hour, range.end / hour);
            for end in ends {
                if end.is_whole {
                    removed.extend(end.outside.into_iter().map(in_hours));
                } else {
                    added.push(in_hours(end.within));
                }
            }
            (days, added, removed)
        };
        // The last 24 hours: nothing has happened since.
        assert_eq!(near(15, 39, 39), (1..2, vec![(15, 24)], vec![(39, 48)]));
        assert_eq!(near(9, 33, 33), (0..2, vec![], vec![(0, 9), (33, 48)]));
        // Long ago.
        assert_eq!(near(15, 39, 999), (1..2, vec![(15, 24)], vec![(39, 48)]));
        assert_eq!(near(9, 33, 999), (0..1, vec![(24, 33)], vec![(0, 9)]));
        assert_eq!(near(9, 33 + 48, 999), (0..3, vec![(72, 81)], vec![(0, 9)]));
        // Within a day.
        assert_eq!(near(1, 23, 999), (0..1, vec![], vec![(0, 1), (23, 24)]));
        assert_eq!(near(1, 3, 999), (1..1, vec![(1, 3)], vec![]));
        assert_eq!(near(1, 3, 3), (0..1, vec![], vec![(0, 1), (3, 24)]));
        assert_eq!(near(0, 48, 999), (0..2, vec![], vec![]));
        assert_eq!(near(5, 5, 999), (0..0, vec![], vec![]));
    }

    #[test]
    fn a_range_is_covered_without_gaps() {
        for (from, to, max_pieces) in [
            (0, 0, 0),
            (5, 5, 0),
            (9, 5, 0),
            (5, 9, 1),
            (DAY - 1, DAY + 1, 1),
            (0, DAY, 1),
            (1, 2 * DAY, 2),
            (0, 365 * DAY, 1),
            (1_700_000_000_123, 1_763_713_800_456, 3),
            (-5 * DAY - 1, 3, 3),
            (0, i64::MAX, 1),
            (7, i64::MAX, 2),
        ] {
            let SpanCover { days, remainders } = cover(&(from..to));
            let mut pieces = remainders.clone();
            if !days.is_empty() {
                pieces.push(days.start * DAY..days.end * DAY);
            }
            pieces.sort_by_key(|piece| piece.start);
            assert!(pieces.len() <= max_pieces, "{from}..{to}: {pieces:?}");
            let mut at = from;
            for piece in &pieces {
                assert_eq!(piece.start, at, "{from}..{to}: {pieces:?}");
                at = piece.end;
            }
            assert_eq!(at, to.min(END).max(from), "{from}..{to}: {pieces:?}");
            for piece in remainders {
                assert!(piece.end - piece.start < 2 * DAY, "{from}..{to}: {piece:?}");
            }
        }
    }
}

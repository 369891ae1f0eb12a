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

#[cfg(test)]
mod tests {
    use super::*;

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

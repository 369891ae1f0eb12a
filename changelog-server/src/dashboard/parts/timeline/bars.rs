//! The bars of a lane whose changes are counted.

use super::density::{Count, Counts};

/// The height of the highest bar, in pixels, and of the lowest one.
const MAX_HEIGHT: f64 = 20.0;
const MIN_HEIGHT: f64 = 3.0;
/// Where bars end in their lane, in pixels.
const BOTTOM: f64 = 24.0;

/// The changes of a part of the range.
pub(super) struct Bar {
    /// When the part begins, in milliseconds since 1970.
    pub(super) start: i64,
    pub(super) count: Count,
    /// The tops and the heights, in pixels, of the bar and of the share of undone changes at
    /// its lower end.
    pub(super) all: (f64, f64),
    pub(super) undone: Option<(f64, f64)>,
}

/// Returns the bars of a lane. Their areas grow with the square root of the numbers, so that
/// a lane with few changes can be seen next to one with many. Services have the scale of
/// the part with the most changes, and the lane of other services has one of its own.
pub(super) fn bars(counts: &Counts, most: u64, has_own_scale: bool) -> Vec<Bar> {
    let own = counts.values().map(|count| count.changes).max();
    let most = if has_own_scale {
        own.unwrap_or(0)
    } else {
        most
    };
    let bar = |(start, count): (&i64, &Count)| {
        let share = share(count.changes, most).sqrt();
        let height = (MAX_HEIGHT * share).max(MIN_HEIGHT);
        let undone = height * share_of_undone(*count);
        Bar {
            start: *start,
            count: *count,
            all: (BOTTOM - height, height),
            undone: (count.undone > 0).then_some((BOTTOM - undone, undone)),
        }
    };
    counts.iter().map(bar).collect()
}

/// The share of undone changes; if there is one, it can be seen.
fn share_of_undone(count: Count) -> f64 {
    share(count.undone, count.changes).max(0.1)
}

#[expect(clippy::cast_precision_loss, reason = "a drawing is not exact")]
fn share(part: u64, all: u64) -> f64 {
    (part as f64 / all.max(1) as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_how_many_and_which_share_was_undone() {
        let count = |changes, undone| Count { changes, undone };
        let counts = Counts::from([(0, count(100, 25)), (1, count(25, 0)), (2, count(1, 1))]);
        let heights = |most, own| {
            let bars = bars(&counts, most, own).into_iter();
            bars.map(|bar| (bar.all.1, bar.undone.map(|undone| undone.1)))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            heights(100, false),
            [(20.0, Some(5.0)), (10.0, None), (3.0, Some(3.0))]
        );
        assert_eq!(heights(400, false)[0], (10.0, Some(2.5)));
        assert_eq!(heights(400, true)[0], (20.0, Some(5.0)));
    }
}

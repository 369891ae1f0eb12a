//! The spans of time that lists offer with one click.

use changelog_core::Timestamp;
use chrono::{SecondsFormat, TimeDelta, Timelike};

use super::query_string::{address, with, without};

/// The parameter with the name of a [`TimeRange`].
pub(crate) const RANGE: &str = "range";

/// A span of time that ends now.
pub(crate) struct TimeRange {
    /// In addresses.
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    /// The words after "the last".
    pub(crate) words: &'static str,
    minutes: i64,
}

pub(crate) const TIME_RANGES: [TimeRange; 5] = [
    TimeRange::new("1h", "1 h", "hour", 60),
    TimeRange::new("4h", "4 h", "4 hours", 4 * 60),
    TimeRange::new("1d", "24 h", "24 hours", 24 * 60),
    TimeRange::new("1w", "7 d", "7 days", 7 * 24 * 60),
    TimeRange::new("1m", "30 d", "30 days", 30 * 24 * 60),
];

/// A choice of one address among several.
pub(crate) struct Choice {
    pub(crate) label: String,
    pub(crate) address: String,
    pub(crate) is_current: bool,
}

/// Returns the choices of a list: all times, and the ranges. `current` is the name of the
/// chosen range; `has_times` says whether the list has a first or a last time.
pub(crate) fn choices(path: &str, query: &str, current: &str, has_times: bool) -> Vec<Choice> {
    let query = without(query, &["since", "until", RANGE]);
    let ranges = TIME_RANGES.iter().map(|range| Choice {
        label: range.label.to_owned(),
        address: address(path, &with(&query, RANGE, range.name)),
        is_current: range.name == current,
    });
    let all = Choice {
        label: "Any time".to_owned(),
        address: address(path, &query),
        is_current: !has_times,
    };
    std::iter::once(all).chain(ranges).collect()
}

impl TimeRange {
    const fn new(
        name: &'static str,
        label: &'static str,
        words: &'static str,
        minutes: i64,
    ) -> Self {
        Self {
            name,
            label,
            words,
            minutes,
        }
    }

    /// Returns the beginning, rounded down to the minute so that a page does not
    /// change every second.
    pub(crate) fn start(&self, now: Timestamp) -> String {
        let start = now.plus(-TimeDelta::minutes(self.minutes)).to_datetime();
        let start = start.with_second(0).unwrap_or(start);
        start.to_rfc3339_opts(SecondsFormat::Secs, true)
    }
}

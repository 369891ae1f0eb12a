//! Times as users write and read them.

mod arg;

use std::time::Duration;

use changelog_core::Timestamp;
use chrono::Utc;

pub(crate) use arg::{TimeArg, parse, parse_minutes, parse_scheduled};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    Utc::now().into()
}

/// Formats a length of time, such as `3.2 s` or `1 h 5 min`.
pub(crate) fn duration(lasted: Duration) -> String {
    let seconds = lasted.as_secs().cast_signed();
    match seconds {
        0..MINUTE => format!("{:.1} s", lasted.as_secs_f64()),
        MINUTE..HOUR => format!("{} min {} s", seconds / MINUTE, seconds % MINUTE),
        _ => format!("{} h {} min", seconds / HOUR, seconds % HOUR / MINUTE),
    }
}

/// Formats a time relative to now, such as `3m ago` or `in 2h`; a time that is
/// 30 days or more away as a date.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    let seconds = (now.millis() - at.millis()) / 1000;
    let distance = seconds.abs();
    let text = match distance {
        0..5 => return "now".to_owned(),
        5..MINUTE => format!("{distance}s"),
        MINUTE..HOUR => format!("{}m", distance / MINUTE),
        HOUR..DAY => format!("{}h", distance / HOUR),
        _ if distance < 30 * DAY => format!("{}d", distance / DAY),
        _ => return at.to_datetime().format("%Y-%m-%d").to_string(),
    };
    if seconds > 0 {
        format!("{text} ago")
    } else {
        format!("in {text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-21T08:30:00.000Z";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn durations_are_readable() {
        for (millis, text) in [
            (60, "0.1 s"),
            (3_200, "3.2 s"),
            (61_000, "1 min 1 s"),
            (7_260_000, "2 h 1 min"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn relative_times_have_one_unit() {
        for (time, expected) in [
            (NOW, "now"),
            ("2026-11-21T08:29:50Z", "10s ago"),
            ("2026-11-21T08:27:00Z", "3m ago"),
            ("2026-11-21T05:31:00Z", "2h ago"),
            ("2026-11-19T08:30:00Z", "2d ago"),
            ("2026-10-01T08:30:00Z", "2026-10-01"),
            ("2026-11-21T10:30:00Z", "in 2h"),
            ("2027-01-21T10:30:00Z", "2027-01-21"),
        ] {
            assert_eq!(relative(at(time), at(NOW)), expected, "{time}");
        }
    }
}

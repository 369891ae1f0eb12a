//! Times as users write and read them: `2h`, a date, `3m ago`.

use std::time::Duration;

use changelog_core::Timestamp;
use chrono::{Local, MappedLocalTime, NaiveDate, NaiveTime, TimeDelta, TimeZone, Utc};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;

/// A time that a user gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeArg {
    /// RFC 3339.
    Exact(Timestamp),
    /// A day in this machine's time zone.
    Day(NaiveDate),
    /// An age: the time that long ago.
    Ago(Duration),
}

/// Parses RFC 3339, a date, or an age such as `2h`, `7d` or `1h30m`.
pub(crate) fn parse(text: &str) -> Result<TimeArg, String> {
    let text = text.trim();
    if let Ok(at) = text.parse() {
        return Ok(TimeArg::Exact(at));
    }
    if let Ok(day) = text.parse() {
        return Ok(TimeArg::Day(day));
    }
    if let Some(age) = age(text) {
        return Ok(TimeArg::Ago(age));
    }
    Err(
        "must be an RFC 3339 time such as 2026-11-21T08:30:00Z, a date such as 2026-11-21, \
         or an age such as 90s, 15m, 2h, 7d or 1w"
            .to_owned(),
    )
}

/// Parses RFC 3339 or a date. An age would be in the past.
pub(crate) fn parse_scheduled(text: &str) -> Result<TimeArg, String> {
    match parse(text) {
        Ok(TimeArg::Ago(_)) | Err(_) => Err(
            "must be an RFC 3339 time such as 2026-12-01T04:00:00Z, or a date such as 2026-12-01"
                .to_owned(),
        ),
        scheduled => scheduled,
    }
}

impl TimeArg {
    /// Returns the time; for a day, its beginning.
    pub(crate) fn start(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Exact(at) => at,
            Self::Day(day) => midnight(day),
            Self::Ago(age) => now.plus(-TimeDelta::from_std(age).unwrap_or(TimeDelta::MAX)),
        }
    }

    /// Returns the time; for a day, its end, so that "until the 21st" includes
    /// the 21st.
    pub(crate) fn end(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Day(day) => midnight(day.succ_opt().unwrap_or(day)),
            _ => self.start(now),
        }
    }
}

/// Parses a length of time, such as `2h`, `90m` or `1d12h`, in whole minutes.
pub(crate) fn parse_minutes(text: &str) -> Result<u64, String> {
    match age(text.trim()) {
        Some(length) if length.as_secs() >= MINUTE.unsigned_abs() => {
            Ok(length.as_secs() / MINUTE.unsigned_abs())
        }
        _ => Err("must be at least a minute, such as 15m, 2h or 1d".to_owned()),
    }
}

/// Parses one or more numbers, each with a unit.
fn age(text: &str) -> Option<Duration> {
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.chars().next()?;
        let seconds = match unit {
            's' => 1,
            'm' => MINUTE,
            'h' => HOUR,
            'd' => DAY,
            'w' => WEEK,
            _ => return None,
        };
        let part = number
            .parse::<u64>()
            .ok()?
            .checked_mul(seconds.unsigned_abs())?;
        total = total.checked_add(part)?;
        rest = &tail[unit.len_utf8()..];
    }
    (!text.is_empty()).then(|| Duration::from_secs(total))
}

/// Returns the beginning of a day in this machine's time zone.
fn midnight(day: NaiveDate) -> Timestamp {
    let local = day.and_time(NaiveTime::MIN);
    match Local.from_local_datetime(&local) {
        MappedLocalTime::Single(at) | MappedLocalTime::Ambiguous(at, _) => {
            at.with_timezone(&Utc).into()
        }
        // In some places summer time begins at midnight, so that the day begins
        // an hour later. Midnight in UTC would be off by hours.
        MappedLocalTime::None => Local
            .from_local_datetime(&(local + TimeDelta::hours(1)))
            .earliest()
            .map_or_else(
                || local.and_utc().into(),
                |at| at.with_timezone(&Utc).into(),
            ),
    }
}

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
    fn ages_count_back_from_now() {
        for (age, expected) in [
            ("90s", "2026-11-21T08:28:30.000Z"),
            ("15m", "2026-11-21T08:15:00.000Z"),
            ("2h", "2026-11-21T06:30:00.000Z"),
            ("7d", "2026-11-14T08:30:00.000Z"),
            ("1w", "2026-11-14T08:30:00.000Z"),
            ("1h30m", "2026-11-21T07:00:00.000Z"),
            ("0s", NOW),
        ] {
            let time = parse(age).unwrap();
            assert_eq!(time.start(at(NOW)), at(expected), "{age}");
            assert_eq!(time.end(at(NOW)), at(expected), "{age}");
        }
    }

    #[test]
    fn an_age_longer_than_time_is_the_earliest_time() {
        let time = parse("99999999999999d").unwrap();
        assert_eq!(time.start(at(NOW)), Timestamp::from_millis(i64::MIN));
    }

    #[test]
    fn a_day_has_a_start_and_an_end() {
        let day = parse("2026-11-21").unwrap();
        let length = day.end(at(NOW)).millis() - day.start(at(NOW)).millis();
        assert_eq!(length, DAY * 1000);
    }

    #[test]
    fn other_texts_are_rejected() {
        for bad in [
            "",
            "h",
            "2",
            "2 h",
            "2y",
            "yesterday",
            "-2h",
            "2026-13-01",
            "2hh",
            "2h3",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
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
    fn lengths_are_whole_minutes() {
        assert_eq!(parse_minutes("1h30m"), Ok(90));
        assert_eq!(parse_minutes("90s"), Ok(1));
        assert!(parse_minutes("59s").is_err() && parse_minutes("x").is_err());
    }

    #[test]
    fn a_scheduled_time_is_no_age() {
        assert!(parse_scheduled("2026-12-01").is_ok());
        assert!(parse_scheduled("2h").is_err());
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

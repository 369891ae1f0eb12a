//! Times as users write them, in this machine's time zone.

use changelog_core::Timestamp;
use changelog_core::written_time::{Tense, WrittenTime, parse_length};
use chrono::Local;

use super::{MINUTE, now};

/// A time that a user gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeArg(WrittenTime);

impl TimeArg {
    /// Returns the time; for a day, its beginning.
    pub(crate) fn start(self, now: Timestamp) -> Timestamp {
        self.0.start(now, &Local)
    }

    /// Returns the time; for a day, its end.
    pub(crate) fn end(self, now: Timestamp) -> Timestamp {
        self.0.end(now, &Local)
    }
}

/// Parses a time that is probably in the past.
pub(crate) fn parse(text: &str) -> Result<TimeArg, String> {
    let time = WrittenTime::parse(text, now(), &Local, Tense::Past)?;
    time.map(TimeArg).ok_or_else(|| {
        "must be a time such as 08:30, yesterday 08:30, 2026-11-21 08:30 or \
         2026-11-21T08:30:00Z, a date such as yesterday or 2026-11-21, or an age such as 15m, 2h, \
         7d or 1w"
            .to_owned()
    })
}

/// Parses a time that is probably in the future. An age, which is in the past, is not
/// accepted.
pub(crate) fn parse_scheduled(text: &str) -> Result<TimeArg, String> {
    let time = WrittenTime::parse_scheduled(text, now(), &Local)?;
    time.map(TimeArg).ok_or_else(|| {
        "must be a time such as 22:00, tomorrow 04:00, 2026-12-01 04:00, \
         2026-12-01T04:00:00Z or in 2h, or a date such as 2026-12-01"
            .to_owned()
    })
}

/// Parses a length of time, such as `2h`, `90m` or `1d12h`, in whole minutes.
pub(crate) fn parse_minutes(text: &str) -> Result<u64, String> {
    match parse_length(text.trim()) {
        Some(length) if length.as_secs() >= MINUTE.unsigned_abs() => {
            Ok(length.as_secs() / MINUTE.unsigned_abs())
        }
        _ => Err("must be at least a minute, such as 15m, 2h or 1d".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use chrono::{NaiveDate, NaiveTime, TimeZone, Utc};

    use super::*;

    #[test]
    fn times_are_in_the_zone_of_this_machine() {
        let day = NaiveDate::from_ymd_opt(2026, 11, 21).unwrap();
        let noon = day.and_time(NaiveTime::from_hms_opt(12, 0, 0).unwrap());
        let noon = Local.from_local_datetime(&noon).unwrap();
        let time = parse("2026-11-21 12:00").unwrap();
        assert_eq!(time.start(now()), noon.with_timezone(&Utc).into());
        assert!(parse("whenever").is_err());
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
        assert!(parse_scheduled("in 2 hours").is_ok());
        for age in ["2h", "-2h", "2h ago"] {
            let message = parse_scheduled(age).unwrap_err();
            assert!(message.contains("in 2h"), "{age}: {message}");
        }
    }
}

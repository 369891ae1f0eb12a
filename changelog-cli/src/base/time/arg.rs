//! Times as users write them: `2h`, `08:30`, `yesterday`.

use std::time::Duration;

use changelog_core::Timestamp;
use chrono::{
    DateTime, Days, FixedOffset, Local, MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime,
    TimeDelta, TimeZone, Utc,
};

use super::{DAY, HOUR, MINUTE};

const WEEK: i64 = 7 * DAY;

/// The length of a date such as `2026-11-21`.
const DATE_LENGTH: usize = 10;

/// A time that a user gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeArg {
    Exact(Timestamp),
    /// A day in this machine's time zone.
    Day(NaiveDate),
    /// An age: the time that long ago.
    Ago(Duration),
    /// The time after that length of time.
    In(Duration),
}

/// Which day a time without a day belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tense {
    /// Today, or yesterday if the time has not come yet.
    Past,
    /// Today, or tomorrow if the time is over.
    Future,
}

/// Parses a time that is probably in the past: `now`, `08:30`, `yesterday`, `yesterday
/// 08:30`, a date, a date with a time, RFC 3339, an age such as `2h`, `-2h` or `1 hour
/// ago`, or `in 2h`.
pub(crate) fn parse(text: &str) -> Result<TimeArg, String> {
    parse_at(text, Local::now(), Tense::Past)?.ok_or_else(|| {
        "must be a time such as 08:30, yesterday 08:30, 2026-11-21 08:30 or \
         2026-11-21T08:30:00Z, a date such as yesterday or 2026-11-21, or an age such as 15m, 2h, \
         7d or 1w"
            .to_owned()
    })
}

/// Parses a time that is probably in the future. An age, which is in the past, is not
/// accepted.
pub(crate) fn parse_scheduled(text: &str) -> Result<TimeArg, String> {
    match parse_at(text, Local::now(), Tense::Future)? {
        Some(TimeArg::Ago(_)) => Err("must be in the future, such as in 2h".to_owned()),
        Some(time) => Ok(time),
        None => Err(
            "must be a time such as 22:00, tomorrow 04:00, 2026-12-01 04:00, \
             2026-12-01T04:00:00Z or in 2h, or a date such as 2026-12-01"
                .to_owned(),
        ),
    }
}

impl TimeArg {
    /// Returns the time; for a day, its beginning.
    pub(crate) fn start(self, now: Timestamp) -> Timestamp {
        let delta = |length| TimeDelta::from_std(length).unwrap_or(TimeDelta::MAX);
        match self {
            Self::Exact(at) => at,
            Self::Day(day) => midnight(day),
            Self::Ago(age) => now.plus(-delta(age)),
            Self::In(length) => now.plus(delta(length)),
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

/// Parses a time; none if it has no known form.
fn parse_at(text: &str, now: DateTime<Local>, tense: Tense) -> Result<Option<TimeArg>, String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("now") {
        return Ok(Some(TimeArg::Ago(Duration::ZERO)));
    }
    if let Ok(at) = text.parse() {
        return Ok(Some(TimeArg::Exact(at)));
    }
    if let Some(length) = relative_time(text) {
        return Ok(Some(length));
    }
    let today = now.date_naive();
    if let Some((day, rest)) = day(text, today) {
        if rest.is_empty() {
            return Ok(Some(TimeArg::Day(day)));
        }
        return Clock::parse(rest).map(|clock| clock.on(day)).transpose();
    }
    let Some(clock) = Clock::parse(text) else {
        return Ok(None);
    };
    let today = match clock.offset {
        Some(offset) => now.with_timezone(&offset).date_naive(),
        None => today,
    };
    let at = clock.on(today)?;
    let is_past = at.start(now.with_timezone(&Utc).into()) <= now.with_timezone(&Utc).into();
    let other = match tense {
        Tense::Past if !is_past => today.pred_opt(),
        Tense::Future if is_past => today.succ_opt(),
        _ => None,
    };
    other.map_or(Ok(at), |day| clock.on(day)).map(Some)
}

/// Splits a string into a leading day and the rest.
fn day(text: &str, today: NaiveDate) -> Option<(NaiveDate, &str)> {
    if let Some((date, rest)) = text.split_at_checked(DATE_LENGTH)
        && let Ok(day) = date.parse()
        && (rest.is_empty() || rest.starts_with(['T', 't', ' ']))
    {
        return Some((day, rest.get(1..).unwrap_or_default().trim()));
    }
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let day = match word.to_ascii_lowercase().as_str() {
        "today" => Some(today),
        "yesterday" => today.checked_sub_days(Days::new(1)),
        "tomorrow" => today.checked_add_days(Days::new(1)),
        _ => None,
    };
    Some((day?, rest.trim()))
}

/// A time of day.
#[derive(Clone, Copy)]
struct Clock {
    time: NaiveTime,
    /// None means this machine's time zone.
    offset: Option<FixedOffset>,
}

impl Clock {
    /// Parses `08:30`, `08:30:15.5`, `08:30Z`, `08:30+0100` or `08:30 +01:00`.
    fn parse(text: &str) -> Option<Self> {
        let (time, offset) = match text.strip_suffix(['Z', 'z']) {
            Some(time) => (time, Some(FixedOffset::east_opt(0)?)),
            None => match text.find(['+', '-']) {
                Some(sign) => (&text[..sign], Some(offset(&text[sign..])?)),
                None => (text, None),
            },
        };
        let time = time.trim_end();
        let time = NaiveTime::parse_from_str(time, "%H:%M")
            .or_else(|_| NaiveTime::parse_from_str(time, "%H:%M:%S%.f"));
        Some(Self {
            time: time.ok()?,
            offset,
        })
    }

    /// Returns the time on a day.
    fn on(self, day: NaiveDate) -> Result<TimeArg, String> {
        let local = day.and_time(self.time);
        let at = match self.offset {
            Some(offset) => offset.from_local_datetime(&local).earliest(),
            None => Some(in_local_zone(local)?.fixed_offset()),
        };
        let at = at.ok_or("is not a time that exists")?;
        Ok(TimeArg::Exact(at.with_timezone(&Utc).into()))
    }
}

/// Parses `+01`, `+0100` or `+01:00`.
fn offset(text: &str) -> Option<FixedOffset> {
    let (sign, digits) = text.split_at_checked(1)?;
    let digits = digits.replacen(':', "", 1);
    if !matches!(digits.len(), 2 | 4) || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let hours: i32 = digits[..2].parse().ok()?;
    let minutes: i32 = digits[2..].parse().unwrap_or_default();
    let seconds = (hours * 60 + minutes) * 60;
    FixedOffset::east_opt(if sign == "-" { -seconds } else { seconds })
}

/// Returns the time in this machine's time zone. When clocks are changed, some times
/// do not exist and others exist twice.
fn in_local_zone(local: NaiveDateTime) -> Result<DateTime<Local>, String> {
    match Local.from_local_datetime(&local) {
        MappedLocalTime::Single(at) => Ok(at),
        MappedLocalTime::Ambiguous(one, other) => {
            let (one, other) = (one.format("%FT%T%:z"), other.format("%FT%T%:z"));
            Err(format!(
                "is ambiguous, because clocks were set back: give {one} or {other}"
            ))
        }
        MappedLocalTime::None => {
            Err("does not exist in this time zone, because clocks were set forward".to_owned())
        }
    }
}

/// Parses a length of time, such as `2h`, `90m` or `1d12h`, in whole minutes.
pub(crate) fn parse_minutes(text: &str) -> Result<u64, String> {
    match length(text.trim()) {
        Some(length) if length.as_secs() >= MINUTE.unsigned_abs() => {
            Ok(length.as_secs() / MINUTE.unsigned_abs())
        }
        _ => Err("must be at least a minute, such as 15m, 2h or 1d".to_owned()),
    }
}

/// Parses an age (`2h`, `-2h`, `1 hour ago`) or a time in the future (`in 2h`, `+2h`).
fn relative_time(text: &str) -> Option<TimeArg> {
    let text = text.to_ascii_lowercase();
    let ahead = text.strip_prefix('+').or(text.strip_prefix("in "));
    if let Some(ahead) = ahead {
        return length(ahead.trim()).map(TimeArg::In);
    }
    let age = text.strip_prefix('-').or(text.strip_suffix(" ago"));
    length(age.unwrap_or(&text).trim()).map(TimeArg::Ago)
}

/// Parses one or more numbers, each with a unit.
fn length(text: &str) -> Option<Duration> {
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at(digits);
        let tail = tail.trim_start();
        let end = tail.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, tail) = tail.split_at(end.unwrap_or(tail.len()));
        let seconds = match unit {
            "s" | "sec" | "second" | "seconds" => 1,
            "m" | "min" | "minute" | "minutes" => MINUTE,
            "h" | "hour" | "hours" => HOUR,
            "d" | "day" | "days" => DAY,
            "w" | "week" | "weeks" => WEEK,
            _ => return None,
        };
        let part = number
            .parse::<u64>()
            .ok()?
            .checked_mul(seconds.unsigned_abs())?;
        total = total.checked_add(part)?;
        rest = tail.trim_start();
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

#[cfg(test)]
mod tests {
    use super::super::now;
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
            "2y",
            "whenever",
            "2026-13-01",
            "2026-11-21x08:30",
            "2hh",
            "2h3",
            "--2h",
            "in -2h",
            "25:00",
            "08:30+1",
            "08:30+99:00",
            "yesterday 8",
            "yesterdayish",
            "ä",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn relative_times_have_several_spellings() {
        let hours = |count: u64| Duration::from_secs(count * 3600);
        for text in [
            "2h",
            "-2h",
            "2h ago",
            "2 hours ago",
            "2 h",
            "120 MIN ago",
            "1h 60m",
        ] {
            assert_eq!(parse(text), Ok(TimeArg::Ago(hours(2))), "{text}");
        }
        for text in ["in 2h", "+2h", "in 2 hours"] {
            assert_eq!(parse(text), Ok(TimeArg::In(hours(2))), "{text}");
            assert_eq!(parse_scheduled(text), Ok(TimeArg::In(hours(2))), "{text}");
        }
        assert_eq!(parse("now"), Ok(TimeArg::Ago(Duration::ZERO)));
        assert_eq!(
            parse("in 2h").unwrap().start(at(NOW)),
            at("2026-11-21T10:30:00Z")
        );
    }

    /// Parses at noon of 21 November 2026 in the time zone of this machine.
    fn at_noon(text: &str, tense: Tense) -> TimeArg {
        let noon = Local.with_ymd_and_hms(2026, 11, 21, 12, 0, 0).unwrap();
        parse_at(text, noon, tense).unwrap().unwrap()
    }

    fn local(text: &str) -> TimeArg {
        let local = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").unwrap();
        TimeArg::Exact(in_local_zone(local).unwrap().with_timezone(&Utc).into())
    }

    #[test]
    fn a_time_of_day_is_the_last_or_the_next_one() {
        for (text, past, future) in [
            ("08:30", "2026-11-21 08:30:00", "2026-11-22 08:30:00"),
            ("8:30", "2026-11-21 08:30:00", "2026-11-22 08:30:00"),
            ("13:00:05", "2026-11-20 13:00:05", "2026-11-21 13:00:05"),
        ] {
            assert_eq!(at_noon(text, Tense::Past), local(past), "{text}");
            assert_eq!(at_noon(text, Tense::Future), local(future), "{text}");
        }
    }

    #[test]
    fn days_have_names_and_may_have_a_time() {
        let day = |day| TimeArg::Day(NaiveDate::from_ymd_opt(2026, 11, day).unwrap());
        for (text, expected) in [
            ("today", day(21)),
            ("Yesterday", day(20)),
            ("tomorrow", day(22)),
            ("2026-11-19", day(19)),
            ("yesterday 08:30", local("2026-11-20 08:30:00")),
            ("2026-11-19 08:30", local("2026-11-19 08:30:00")),
            ("2026-11-19T08:30:15", local("2026-11-19 08:30:15")),
        ] {
            assert_eq!(at_noon(text, Tense::Past), expected, "{text}");
        }
    }

    #[test]
    fn an_offset_has_several_spellings() {
        let expected = TimeArg::Exact(at(NOW));
        for text in [
            "2026-11-21T08:30Z",
            "2026-11-21T08:30:00Z",
            "2026-11-21 08:30z",
            "2026-11-21 09:30+01",
            "2026-11-21 09:30 +0100",
            "2026-11-21T09:30:00.000+01:00",
            "2026-11-21 03:30-05:00",
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        // "09:30+0100" is a time of a day at that offset.
        let TimeArg::Exact(at) = parse("09:30+0100").unwrap() else {
            panic!("not exact");
        };
        assert_eq!(at.millis() % (DAY * 1000), (8 * HOUR + 30 * MINUTE) * 1000);
        assert!(at <= now());
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
        for age in ["2h", "-2h", "2h ago"] {
            let message = parse_scheduled(age).unwrap_err();
            assert!(message.contains("in 2h"), "{age}: {message}");
        }
    }
}

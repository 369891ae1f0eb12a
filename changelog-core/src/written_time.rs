//! Times as people write them: `14:20`, `yesterday 08:30`, `2h`, `2026-11-21`.

use std::time::Duration;

use chrono::{
    DateTime, Days, FixedOffset, MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta,
    TimeZone, Utc,
};

use crate::time::Timestamp;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;

/// The length of a date such as `2026-11-21`.
const DATE_LENGTH: usize = 10;
/// The numbers of digits of a time in seconds and in milliseconds since 1970; fewer
/// digits could be anything.
const SECONDS_DIGITS: usize = 10;
const MILLIS_DIGITS: usize = 13;

/// A time that a person wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenTime {
    /// A moment.
    Exact(Timestamp),
    /// A day in the person's time zone.
    Day(NaiveDate),
    /// An age: the time that long ago.
    Ago(Duration),
    /// The time after that length of time.
    In(Duration),
}

/// Which day a time without a day belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tense {
    /// Today, or yesterday if the time has not come yet.
    Past,
    /// Today, or tomorrow if the time is over.
    Future,
}

impl WrittenTime {
    /// Parses a time in a time zone: `now`, `08:30`, `yesterday`, `yesterday 08:30`, a
    /// date, a date with a time, RFC 3339, seconds or milliseconds since 1970, an age such
    /// as `2h`, `-2h` or `1 hour ago`, or `in 2h`. Returns `None` if it has no known form.
    ///
    /// # Errors
    /// If clocks were changed so that the time does not exist or exists twice: why.
    pub fn parse<Z: TimeZone>(
        text: &str,
        now: Timestamp,
        zone: &Z,
        tense: Tense,
    ) -> Result<Option<Self>, String> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("now") {
            return Ok(Some(Self::Ago(Duration::ZERO)));
        }
        if let Some(at) = text.parse().ok().or_else(|| since_1970(text)) {
            return Ok(Some(Self::Exact(at)));
        }
        if let Some(length) = relative_time(text) {
            return Ok(Some(length));
        }
        let today = now.to_datetime().with_timezone(zone).date_naive();
        if let Some((day, rest)) = day(text, today) {
            if rest.is_empty() {
                return Ok(Some(Self::Day(day)));
            }
            let clock = Clock::parse(rest);
            return clock.map(|clock| clock.on(day, zone)).transpose();
        }
        let Some(clock) = Clock::parse(text) else {
            return Ok(None);
        };
        let today = match clock.offset {
            Some(offset) => now.to_datetime().with_timezone(&offset).date_naive(),
            None => today,
        };
        let at = clock.on(today, zone)?;
        let is_past = at.start(now, zone) <= now;
        let other = match tense {
            Tense::Past if !is_past => today.pred_opt(),
            Tense::Future if is_past => today.succ_opt(),
            _ => None,
        };
        other.map_or(Ok(at), |day| clock.on(day, zone)).map(Some)
    }

    /// Parses a time for which something is planned, as [`parse`](Self::parse) does with
    /// [`Tense::Future`].
    ///
    /// # Errors
    /// If it is an age such as `2h`, which was probably meant as `in 2h`, or for the reasons
    /// of [`parse`](Self::parse): why.
    pub fn parse_scheduled<Z: TimeZone>(
        text: &str,
        now: Timestamp,
        zone: &Z,
    ) -> Result<Option<Self>, String> {
        match Self::parse(text, now, zone, Tense::Future)? {
            Some(Self::Ago(_)) => Err("must be in the future, such as in 2h".to_owned()),
            time => Ok(time),
        }
    }

    /// Returns the time; for a day, its beginning.
    pub fn start<Z: TimeZone>(self, now: Timestamp, zone: &Z) -> Timestamp {
        let delta = |length| TimeDelta::from_std(length).unwrap_or(TimeDelta::MAX);
        match self {
            Self::Exact(at) => at,
            Self::Day(day) => midnight(day, zone),
            Self::Ago(age) => now.plus(-delta(age)),
            Self::In(length) => now.plus(delta(length)),
        }
    }

    /// Returns the time; for a day, its end, so that "until the 21st" includes
    /// the 21st.
    pub fn end<Z: TimeZone>(self, now: Timestamp, zone: &Z) -> Timestamp {
        match self {
            Self::Day(day) => midnight(day.succ_opt().unwrap_or(day), zone),
            _ => self.start(now, zone),
        }
    }
}

/// Returns the beginning of a day in a time zone.
pub fn midnight<Z: TimeZone>(day: NaiveDate, zone: &Z) -> Timestamp {
    let local = day.and_time(NaiveTime::MIN);
    match zone.from_local_datetime(&local) {
        MappedLocalTime::Single(at) | MappedLocalTime::Ambiguous(at, _) => {
            at.with_timezone(&Utc).into()
        }
        // In some places summer time begins at midnight, so that the day begins
        // an hour later. Midnight in UTC would be off by hours.
        MappedLocalTime::None => zone
            .from_local_datetime(&(local + TimeDelta::hours(1)))
            .earliest()
            .map_or_else(
                || local.and_utc().into(),
                |at| at.with_timezone(&Utc).into(),
            ),
    }
}

/// Parses one or more numbers, each with a unit, such as `2h`, `90m` or `1d12h`.
pub fn parse_length(text: &str) -> Option<Duration> {
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
        let part = number.parse::<u64>().ok()?.checked_mul(seconds)?;
        total = total.checked_add(part)?;
        rest = tail.trim_start();
    }
    (!text.is_empty()).then(|| Duration::from_secs(total))
}

/// Parses seconds or milliseconds since 1970, as monitoring systems write them in links.
fn since_1970(text: &str) -> Option<Timestamp> {
    if !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number: i64 = text.parse().ok()?;
    match text.len() {
        SECONDS_DIGITS => Some(Timestamp::from_millis(number.checked_mul(1000)?)),
        MILLIS_DIGITS => Some(Timestamp::from_millis(number)),
        _ => None,
    }
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
    /// None means the time zone of the person.
    offset: Option<FixedOffset>,
}

impl Clock {
    /// Parses `08:30`, `8:30 pm`, `08:30:15.5`, `08:30Z`, `08:30+0100` or `08:30 +01:00`.
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
            .or_else(|_| NaiveTime::parse_from_str(time, "%H:%M:%S%.f"))
            .or_else(|_| NaiveTime::parse_from_str(time, "%I:%M %p"))
            .or_else(|_| NaiveTime::parse_from_str(time, "%I:%M%p"));
        Some(Self {
            time: time.ok()?,
            offset,
        })
    }

    /// Returns the time on a day.
    fn on<Z: TimeZone>(self, day: NaiveDate, zone: &Z) -> Result<WrittenTime, String> {
        let local = day.and_time(self.time);
        let at = match self.offset {
            Some(offset) => offset.from_local_datetime(&local).earliest(),
            None => Some(in_zone(local, zone)?),
        };
        let at = at.ok_or("is not a time that exists")?;
        Ok(WrittenTime::Exact(at.with_timezone(&Utc).into()))
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

/// Returns a local time in a time zone. When clocks are changed, some times do not exist
/// and others exist twice.
fn in_zone<Z: TimeZone>(local: NaiveDateTime, zone: &Z) -> Result<DateTime<FixedOffset>, String> {
    match zone.from_local_datetime(&local) {
        MappedLocalTime::Single(at) => Ok(at.fixed_offset()),
        MappedLocalTime::Ambiguous(one, other) => {
            let form = |at: DateTime<Z>| at.fixed_offset().format("%FT%T%:z").to_string();
            Err(format!(
                "is ambiguous, because clocks were set back: give {} or {}",
                form(one),
                form(other)
            ))
        }
        MappedLocalTime::None => {
            Err("does not exist in this time zone, because clocks were set forward".to_owned())
        }
    }
}

/// Parses an age (`2h`, `-2h`, `now-2h`, `1 hour ago`) or a time in the future (`in 2h`, `+2h`).
fn relative_time(text: &str) -> Option<WrittenTime> {
    let text = text.to_ascii_lowercase();
    // `now-15m`, as dashboards write it.
    let after_now = text.strip_prefix("now").map(str::trim_start);
    let is_relative = |rest: &&str| rest.starts_with(['-', '+']);
    let text = after_now.filter(is_relative).unwrap_or(&text);
    let ahead = text.strip_prefix('+').or(text.strip_prefix("in "));
    if let Some(ahead) = ahead {
        return parse_length(ahead.trim()).map(WrittenTime::In);
    }
    let age = text.strip_prefix('-').or(text.strip_suffix(" ago"));
    parse_length(age.unwrap_or(text).trim()).map(WrittenTime::Ago)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-21T08:30:00.000Z";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// Two hours east of Greenwich.
    fn zone() -> FixedOffset {
        FixedOffset::east_opt(2 * 3600).unwrap()
    }

    fn parse(text: &str) -> Option<WrittenTime> {
        WrittenTime::parse(text, at(NOW), &zone(), Tense::Past).unwrap()
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
            assert_eq!(time.start(at(NOW), &zone()), at(expected), "{age}");
            assert_eq!(time.end(at(NOW), &zone()), at(expected), "{age}");
        }
    }

    #[test]
    fn an_age_longer_than_time_is_the_earliest_time() {
        let time = parse("99999999999999d").unwrap();
        let first = Timestamp::from_millis(i64::MIN);
        assert_eq!(time.start(at(NOW), &zone()), first);
    }

    #[test]
    fn a_day_has_a_start_and_an_end_in_its_zone() {
        let day = parse("2026-11-21").unwrap();
        assert_eq!(day.start(at(NOW), &zone()), at("2026-11-20T22:00:00Z"));
        assert_eq!(day.end(at(NOW), &zone()), at("2026-11-21T22:00:00Z"));
    }

    #[test]
    fn other_strings_are_no_times() {
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
            "176371380",
            "17637138001234",
            "\0",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
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
            assert_eq!(parse(text), Some(WrittenTime::Ago(hours(2))), "{text}");
        }
        for text in ["in 2h", "+2h", "in 2 hours"] {
            assert_eq!(parse(text), Some(WrittenTime::In(hours(2))), "{text}");
        }
        assert_eq!(parse("now"), Some(WrittenTime::Ago(Duration::ZERO)));
        let ahead = parse("in 2h").unwrap().start(at(NOW), &zone());
        assert_eq!(ahead, at("2026-11-21T10:30:00Z"));
    }

    #[test]
    fn a_time_of_day_is_the_last_or_the_next_one() {
        // It is 10:30 in the zone.
        for (text, past, future) in [
            ("08:30", "2026-11-21T06:30:00Z", "2026-11-22T06:30:00Z"),
            ("8:30", "2026-11-21T06:30:00Z", "2026-11-22T06:30:00Z"),
            ("10:30", NOW, "2026-11-22T08:30:00Z"),
            ("13:00:05", "2026-11-20T11:00:05Z", "2026-11-21T11:00:05Z"),
            ("01:00", "2026-11-20T23:00:00Z", "2026-11-21T23:00:00Z"),
            ("09:00Z", "2026-11-20T09:00:00Z", "2026-11-21T09:00:00Z"),
        ] {
            for (tense, expected) in [(Tense::Past, past), (Tense::Future, future)] {
                let time = WrittenTime::parse(text, at(NOW), &zone(), tense);
                let expected = WrittenTime::Exact(at(expected));
                assert_eq!(time, Ok(Some(expected)), "{text}");
            }
        }
    }

    #[test]
    fn days_have_names_and_may_have_a_time() {
        let day = |day| WrittenTime::Day(NaiveDate::from_ymd_opt(2026, 11, day).unwrap());
        let exact = |text| WrittenTime::Exact(at(text));
        for (text, expected) in [
            ("today", day(21)),
            ("Yesterday", day(20)),
            ("tomorrow", day(22)),
            ("2026-11-19", day(19)),
            ("yesterday 08:30", exact("2026-11-20T06:30:00Z")),
            ("2026-11-19 08:30", exact("2026-11-19T06:30:00Z")),
            ("2026-11-19T08:30:15", exact("2026-11-19T06:30:15Z")),
            ("1763713800", exact("2025-11-21T08:30:00Z")),
            ("1763713800123", exact("2025-11-21T08:30:00.123Z")),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn an_offset_has_several_spellings() {
        let expected = Some(WrittenTime::Exact(at(NOW)));
        for text in [
            "2026-11-21T08:30Z",
            "2026-11-21T08:30:00Z",
            "2026-11-21 08:30z",
            "2026-11-21 09:30+01",
            "2026-11-21 09:30 +0100",
            "2026-11-21T09:30:00.000+01:00",
            "2026-11-21 03:30-05:00",
            "09:30+0100",
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}

//! The time zone of the reader: what pages show and what forms mean.
//!
//! The script sets the cookie. A form has the zone that it was shown in as a hidden
//! field, because the reader may have switched the zone in another tab meanwhile.

#![expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "templates pass references"
)]

use changelog_core::Timestamp;
use changelog_core::written_time::{Tense, WrittenTime};
use std::ops::Range;

use chrono::{
    DateTime, Datelike, Days, NaiveDate, NaiveDateTime, SecondsFormat, TimeDelta, TimeZone, Utc,
};
use chrono_tz::Tz;

use crate::web::Request;

/// The cookie with the name of the zone in the IANA database.
const COOKIE: &str = "changelog_zone";
/// The hidden field with the name of the zone that the times of a form are in.
pub(crate) const FIELD: &str = "time_zone";

/// A time zone, and the present day there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zone {
    zone: Tz,
    today: NaiveDate,
}

impl Zone {
    /// Returns the zone of the reader; UTC if it is unknown.
    pub(crate) fn of(request: &Request, now: Timestamp) -> Self {
        Self::named(request.cookie(COOKIE).unwrap_or_default(), now)
    }

    /// Returns the zone with this name; UTC if there is none.
    pub(crate) fn named(name: &str, now: Timestamp) -> Self {
        let zone = name.parse().unwrap_or(Tz::UTC);
        Self {
            zone,
            today: local(zone, now).date_naive(),
        }
    }

    /// Returns the name in the IANA database, such as `Europe/Berlin`.
    pub(crate) fn name(&self) -> &'static str {
        self.zone.name()
    }

    /// Returns the present day.
    pub(crate) fn today(&self) -> NaiveDate {
        self.today
    }

    /// Returns the day of a time.
    pub(crate) fn date(&self, at: impl Into<Timestamp>) -> NaiveDate {
        local(self.zone, at.into()).date_naive()
    }

    /// Returns the first moment of a day.
    pub(crate) fn start_of_day(&self, date: NaiveDate) -> Timestamp {
        let midnight = date.and_time(chrono::NaiveTime::MIN);
        self.at(midnight).into()
    }

    /// Returns the times of a day that is written as `2026-11-21`.
    pub(crate) fn day(&self, text: &str) -> Option<Range<Timestamp>> {
        let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
        // Timestamps have years of four digits.
        let is_usual = (1970..9999).contains(&date.year());
        is_usual.then(|| self.start_of_day(date)..self.start_of_day(date + Days::new(1)))
    }

    /// Formats a time of day: `15:15`.
    pub(crate) fn clock(&self, at: &Timestamp) -> String {
        self.format(at, "%H:%M")
    }

    /// Formats a time to the minute: `2026-11-22 15:15`.
    pub(crate) fn minute(&self, at: &Timestamp) -> String {
        self.format(at, "%Y-%m-%d %H:%M")
    }

    /// Formats a time as briefly as its distance from today allows: `15:15`,
    /// `21 Nov 15:15` or `2025-11-21 15:15`.
    pub(crate) fn recent(&self, at: &Timestamp) -> String {
        let date = self.date(*at);
        let days = (self.today - date).num_days().abs();
        self.format(
            at,
            match days {
                0 => "%H:%M",
                1..=180 => "%-d %b %H:%M",
                _ => "%Y-%m-%d %H:%M",
            },
        )
    }

    /// Formats a time to the second, with its day and in UTC as well.
    pub(crate) fn exact(&self, at: &Timestamp) -> String {
        let local = self.format(at, "%A, %-d %B %Y, %H:%M:%S %Z");
        if self.zone == Tz::UTC {
            return local;
        }
        format!("{local} ({})", at.to_datetime().format("%H:%M:%S UTC"))
    }

    /// Formats a time as the value of a form's field.
    pub(crate) fn field(&self, at: &Timestamp) -> String {
        self.format(at, "%Y-%m-%dT%H:%M:%S")
    }

    /// Formats a time as the value of a form's field, with milliseconds if it has some.
    pub(crate) fn exact_field(&self, at: &Timestamp) -> String {
        self.format(at, "%Y-%m-%dT%H:%M:%S%.f")
    }

    /// Converts the value of a form's field to RFC 3339. Returns other text as it is,
    /// for validation to report it.
    pub(crate) fn parse_field(&self, text: &str) -> String {
        let formats = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S%.f"];
        let mut parsed = formats
            .iter()
            .filter_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
        match parsed.next() {
            Some(time) => self.at(time).to_rfc3339_opts(SecondsFormat::AutoSi, true),
            None => text.to_owned(),
        }
    }

    /// Parses a time that a person wrote, which is probably in the past; of a day, it is
    /// the beginning. Returns `None` if it has no known form.
    ///
    /// # Errors
    /// If the time does not exist or exists twice in this zone: why.
    pub(crate) fn parse_past(
        self,
        text: &str,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, String> {
        let time = WrittenTime::parse(text, now, &self.zone, Tense::Past)?;
        Ok(time.map(|time| time.start(now, &self.zone)))
    }

    /// Formats a time as briefly as [`Self::parse_past`] can read it: `15:15`,
    /// `15:15:09` or `2026-11-21 15:15`.
    pub(crate) fn written(self, at: Timestamp) -> String {
        let (day, rest) = (self.date(at), at.millis().rem_euclid(60_000));
        self.format(
            &at,
            match (day == self.today, rest) {
                (true, 0) => "%H:%M",
                (true, _) => "%H:%M:%S",
                (false, 0) => "%Y-%m-%d %H:%M",
                (false, _) => "%Y-%m-%d %H:%M:%S",
            },
        )
    }

    /// Returns the moment of a local time: the first, if clocks were set back over it;
    /// if they were set forward over it, as far after the gap as it is within.
    pub(crate) fn at(&self, time: NaiveDateTime) -> DateTime<Utc> {
        let earliest = self.zone.from_local_datetime(&time).earliest();
        let at = earliest.map(|at| at.to_utc()).or_else(|| {
            let before = time.checked_sub_days(Days::new(1))?;
            let before = self.zone.from_local_datetime(&before).earliest()?;
            before.to_utc().checked_add_signed(TimeDelta::days(1))
        });
        at.unwrap_or_else(|| time.and_utc())
    }

    fn format(&self, at: &Timestamp, format: &str) -> String {
        local(self.zone, *at).format(format).to_string()
    }
}

fn local(zone: Tz, at: Timestamp) -> DateTime<Tz> {
    at.to_datetime().with_timezone(&zone)
}

/// Formats a time for an address: `2026-11-22T14:15:00Z`, with milliseconds if it has some.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    at.to_datetime()
        .to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// Formats a day: `Sunday, 22 November 2026`.
pub(crate) fn day(date: &NaiveDate) -> String {
    date.format("%A, %-d %B %Y").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> Zone {
        Zone::named(name, "2026-11-22T10:00:00Z".parse().expect("a time"))
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn times_are_shown_in_the_zone() {
        let berlin = zone("Europe/Berlin");
        let noon = at("2026-11-22T11:05:09Z");
        assert_eq!(berlin.clock(&noon), "12:05");
        assert_eq!(berlin.recent(&noon), "12:05");
        assert_eq!(berlin.minute(&noon), "2026-11-22 12:05");
        assert_eq!(
            berlin.exact(&noon),
            "Sunday, 22 November 2026, 12:05:09 CET (11:05:09 UTC)"
        );
        assert_eq!(berlin.recent(&at("2026-11-21T23:30:00Z")), "00:30");
        assert_eq!(berlin.recent(&at("2026-11-21T22:30:00Z")), "21 Nov 23:30");
        assert_eq!(
            berlin.recent(&at("2025-11-21T22:30:00Z")),
            "2025-11-21 23:30"
        );
        // Unknown names are UTC.
        for name in ["", "Mars/Olympus", "../../etc/passwd"] {
            assert_eq!(zone(name).name(), "UTC");
        }
    }

    #[test]
    fn fields_are_read_as_they_were_shown() {
        for name in ["Europe/Berlin", "America/Los_Angeles", "Asia/Kathmandu"] {
            let zone = zone(name);
            for text in ["2026-11-22T11:05:09Z", "2026-07-01T00:00:00Z"] {
                assert_eq!(zone.parse_field(&zone.field(&at(text))), text, "{name}");
                assert_eq!(zone.field(&at(text)), zone.exact_field(&at(text)));
            }
        }
        let berlin = zone("Europe/Berlin");
        let exact = berlin.exact_field(&at("2026-11-26T10:00:00.250Z"));
        assert_eq!(exact, "2026-11-26T11:00:00.250");
        for (text, expected) in [
            ("2026-11-22T12:05", "2026-11-22T11:05:00Z"),
            ("2026-11-22T12:05:09.25", "2026-11-22T11:05:09.250Z"),
            // Clocks go forward at 02:00 and back at 03:00.
            ("2026-03-29T02:30", "2026-03-29T01:30:00Z"),
            ("2026-10-25T02:30", "2026-10-25T00:30:00Z"),
            ("2026-11-22T12:05:00+02:00", "2026-11-22T12:05:00+02:00"),
            ("soon", "soon"),
        ] {
            assert_eq!(berlin.parse_field(text), expected, "{text}");
        }
        assert_eq!(
            zone("").parse_field("2026-11-22T12:05"),
            "2026-11-22T12:05:00Z"
        );
    }

    #[test]
    fn days_are_read() {
        let berlin = zone("Europe/Berlin");
        let day = berlin.day("2026-10-25").expect("a day");
        assert_eq!(day.start, at("2026-10-24T22:00:00Z"));
        // Clocks went back.
        assert_eq!(day.end, at("2026-10-25T23:00:00Z"));
        for text in [
            "",
            "soon",
            "2026-02-29",
            "-262143-01-01",
            "+262142-12-31",
            "9999-12-31",
        ] {
            assert_eq!(berlin.day(text), None, "{text}");
        }
        // The first and the last times that can be written.
        for text in ["-262143-01-01T00:00", "+262142-12-31T23:59"] {
            for name in ["Europe/Berlin", "America/Los_Angeles"] {
                zone(name).parse_field(text);
            }
        }
    }

    #[test]
    fn days_begin_at_local_midnight() {
        for (name, date, expected) in [
            ("Europe/Berlin", "2026-11-22", "2026-11-21T23:00:00.000Z"),
            ("Asia/Kolkata", "2026-11-22", "2026-11-21T18:30:00.000Z"),
            // There clocks went forward at midnight.
            ("Asia/Beirut", "2026-03-29", "2026-03-28T22:00:00.000Z"),
        ] {
            let date: NaiveDate = date.parse().expect("a date");
            let zone = zone(name);
            let start = zone.start_of_day(date);
            assert_eq!(start.to_string(), expected, "{name}");
            assert_eq!(zone.date(start), date, "{name}");
        }
    }
}

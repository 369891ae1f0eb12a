//! Charts of the days of the last year as inline SVG. Each mark links to the list of its
//! day and has its numbers in its title; it differs from others by more than its color.
//! Only the newest mark is a tab stop: the script moves between marks by the arrow keys,
//! and a table below each chart has the same links.

mod bars;
mod calendar;
mod rate;

use std::fmt::Write;

use changelog_core::{RiskLevel, Status, Timestamp};
use chrono::{Datelike, Days, NaiveDate};

pub(crate) use bars::Bars;
pub(crate) use calendar::Calendar;
pub(crate) use rate::RollbackRate;

use super::format;
use super::zone::Zone;
use crate::store::{ChartScope, KindCounts, Store, StoreError, Tenant};

/// The number of weeks in the calendar; the last one ends after today.
const WEEKS: u64 = 53;

/// The changes of each day of the last year, in the zone of the reader. The first day is a
/// Monday, the last one today.
pub(crate) struct Year {
    first: NaiveDate,
    /// The start of each day, and the end of the last.
    starts: Vec<Timestamp>,
    days: Vec<KindCounts>,
}

/// A day and its changes.
#[derive(Clone, Copy)]
struct Day {
    date: NaiveDate,
    counts: KindCounts,
}

impl Year {
    /// Counts the changes of the year until the reader's present day.
    pub(crate) async fn read(
        store: &Store,
        tenant: Tenant,
        scope: ChartScope,
        zone: Zone,
    ) -> Result<Self, StoreError> {
        let mut year = Self::before(zone);
        year.days = store.counts_between(tenant, scope, &year.starts).await?;
        Ok(year)
    }

    /// Returns the year without its changes.
    fn before(zone: Zone) -> Self {
        let today = zone.today();
        let weekday = u64::from(today.weekday().num_days_from_monday());
        let first = today - Days::new((WEEKS - 1) * 7 + weekday);
        let dates = first.iter_days().take_while(|date| *date <= today);
        let dates = dates.chain([today + Days::new(1)]);
        Self {
            first,
            starts: dates.map(|date| zone.start_of_day(date)).collect(),
            days: Vec::new(),
        }
    }

    fn days(&self) -> impl DoubleEndedIterator<Item = Day> + ExactSizeIterator {
        let days = self.days.iter().enumerate();
        days.map(|(number, counts)| Day {
            date: self.first + Days::new(number as u64),
            counts: *counts,
        })
    }

    /// Returns the last days, at most so many.
    fn last(&self, count: usize) -> impl DoubleEndedIterator<Item = Day> + ExactSizeIterator {
        self.days().skip(self.days.len().saturating_sub(count))
    }

    /// Returns how many of the changes of the last days were rolled back or failed.
    pub(crate) fn rollback_rate(&self, days: usize) -> RollbackRate {
        RollbackRate::of(self.last(days).map(|day| day.counts))
    }

    /// Returns a bar for each of the last days, stacked by risk.
    pub(crate) fn bars(&self, days: usize) -> Bars {
        Bars::new(&self.last(days).collect::<Vec<_>>())
    }

    /// Returns a square for each day. `query` selects the same changes in a list.
    pub(crate) fn calendar(&self, query: &str) -> Calendar {
        Calendar::new(self, query)
    }
}

impl Day {
    /// Returns the address of the list of the day's changes, which `query` selects from
    /// those of other days.
    fn address(&self, query: &str) -> String {
        let separator = if query.is_empty() { "" } else { "&" };
        format!("/changes?{query}{separator}day={}", self.date)
    }

    fn name(&self) -> String {
        self.date.format("%a, %-d %b %Y").to_string()
    }

    /// Returns the day with its numbers.
    fn title(&self) -> String {
        let mut title = format!("{}: {}", self.name(), self.changes());
        for (count, words) in [(self.high(), "high risk"), (self.undone(), rate::UNDONE)] {
            if count > 0 {
                // Writing to a string cannot fail.
                let _ = write!(title, ", {} {words}", format::number(count));
            }
        }
        title
    }

    fn changes(&self) -> String {
        format::counted(self.counts.sum(), "change", "changes")
    }

    fn low(&self) -> u64 {
        self.counts.with_risk(&RiskLevel::Low)
    }

    fn medium(&self) -> u64 {
        self.counts.with_risk(&RiskLevel::Medium)
    }

    fn high(&self) -> u64 {
        self.counts.with_risk(&RiskLevel::High)
    }

    /// Returns the number of changes that were rolled back or failed.
    fn undone(&self) -> u64 {
        self.counts.with_status(&Status::RolledBack)
    }
}

/// A label at a position.
struct Label {
    at: String,
    anchor: &'static str,
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noon of a Wednesday in Berlin.
    pub(super) const NOW: &str = "2026-11-18T11:00:00Z";

    pub(super) fn counts(kinds: &[(RiskLevel, Status, u64)]) -> KindCounts {
        let mut counts = KindCounts::default();
        for (risk_level, status, count) in kinds {
            counts.add(risk_level, status, *count);
        }
        counts
    }

    /// Returns a year with changes on some days, given as days before today.
    pub(super) fn year(days: &[(usize, KindCounts)]) -> Year {
        let mut year = Year::before(Zone::named("Europe/Berlin", NOW.parse().unwrap()));
        year.days = vec![KindCounts::default(); year.starts.len() - 1];
        for (before, counts) in days {
            let number = year.days.len() - 1 - before;
            year.days[number] = *counts;
        }
        year
    }

    #[test]
    fn a_year_is_53_weeks_that_end_today() {
        let year = year(&[]);
        assert_eq!(year.first.to_string(), "2025-11-17");
        assert_eq!(year.days.len(), 52 * 7 + 3);
        assert_eq!(year.starts[0].to_string(), "2025-11-16T23:00:00.000Z");
        let end = year.starts.last().unwrap().to_string();
        assert_eq!(end, "2026-11-18T23:00:00.000Z");
        // In summer the zone has another offset.
        assert!(
            year.starts
                .contains(&"2026-06-30T22:00:00Z".parse().unwrap())
        );
        assert_eq!(year.last(7).next().unwrap().name(), "Thu, 12 Nov 2026");
        assert_eq!(year.last(999).len(), year.days.len());
    }

    #[test]
    fn a_day_names_what_is_bad() {
        let day = Day {
            date: "2026-11-21".parse().unwrap(),
            counts: counts(&[
                (RiskLevel::Low, Status::Completed, 1_200),
                (RiskLevel::High, Status::RolledBack, 2),
            ]),
        };
        assert_eq!(
            day.title(),
            "Sat, 21 Nov 2026: 1,202 changes, 2 high risk, 2 rolled back or failed"
        );
        assert_eq!(day.address(""), "/changes?day=2026-11-21");
        assert_eq!(
            day.address("host_id=1"),
            "/changes?host_id=1&day=2026-11-21"
        );
    }

    /// Returns the light and the dark value of a color of the style sheet.
    fn color(name: &str) -> [String; 2] {
        let sheet = include_str!("../../../../assets/css/base.css");
        let (_, rest) = sheet
            .split_once(&format!("--{name}: light-dark(#"))
            .expect(name);
        let (value, _) = rest.split_once(')').unwrap();
        let (light, dark) = value.split_once(", #").unwrap();
        [light.to_owned(), dark.to_owned()]
    }

    /// Returns the relative luminance of a color, as WCAG defines it.
    fn luminance(color: &str) -> f64 {
        let part = |start: usize| {
            let value = u8::from_str_radix(&color[start..start + 2], 16).unwrap();
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
    }

    fn assert_contrast(one: &str, other: &str, least: f64) {
        for (one_value, other_value) in color(one).iter().zip(color(other)) {
            let (one_light, other_light) = (luminance(one_value), luminance(&other_value));
            let (bright, dim) = (one_light.max(other_light), one_light.min(other_light));
            let contrast = (bright + 0.05) / (dim + 0.05);
            assert!(
                contrast >= least,
                "{one} #{one_value} on {other} #{other_value}: {contrast:.2}"
            );
        }
    }

    #[test]
    fn colors_of_charts_have_contrast() {
        for fill in ["low-fill", "medium-fill", "high-fill", "control"] {
            assert_contrast(fill, "surface", 3.0);
        }
        for text in ["quiet", "failed", "medium"] {
            assert_contrast(text, "surface", 4.5);
        }
        for steps in ["heat-0", "heat-1", "heat-2", "heat-3", "heat-4"].windows(2) {
            assert_contrast(steps[1], steps[0], 1.5);
        }
        assert_contrast("heat-0", "surface", 1.2);
    }
}

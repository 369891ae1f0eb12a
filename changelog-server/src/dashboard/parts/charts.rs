//! Charts as inline SVG. Each mark links to the list of its changes, has its
//! numbers in its title, and differs from others by more than its color.

use std::collections::BTreeMap;

use askama::Template;
use changelog_core::{RiskLevel, Status};
use chrono::{Datelike, SecondsFormat};

use super::format;
use crate::store::DayCount;

/// The number of days in the bar chart.
pub(crate) const BAR_DAYS: i64 = 30;
/// The width of a day in the bar chart, including its gaps, in SVG units.
const BAR_STEP: i64 = 40;
/// The height of the tallest bar, in SVG units.
const BAR_HEIGHT: f64 = 120.0;

/// The number of weeks in the calendar.
const WEEKS: i64 = 53;
/// The maximum number of days in the calendar.
const CALENDAR_DAYS: i64 = WEEKS * 7;
/// The distance of two squares of the calendar, in SVG units.
const SQUARE_STEP: i64 = 13;
/// The space for the names of weekdays and months, in SVG units.
const CALENDAR_LEFT: i64 = 28;
const CALENDAR_TOP: i64 = 18;

/// Returns the days that the charts need: of the last year, in days since 1970.
pub(crate) fn year(today: i64) -> std::ops::Range<i64> {
    today - CALENDAR_DAYS + 1..today + 1
}

/// How many of the changes that ended were rolled back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RollbackRate {
    pub(crate) rolled_back: u64,
    completed: u64,
}

impl RollbackRate {
    /// Fewer ended changes than this have no rate.
    pub(crate) const MIN_ENDED: u64 = 5;

    pub(crate) fn of<'d>(counts: impl Iterator<Item = &'d DayCount>) -> Self {
        counts.fold(Self::default(), |mut rate, day| {
            match day.status {
                Status::RolledBack => rate.rolled_back += day.count,
                Status::Completed => rate.completed += day.count,
                _ => {}
            }
            rate
        })
    }

    /// Returns how many changes have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.rolled_back + self.completed
    }

    /// Returns the rate in percent, if enough changes have ended.
    pub(crate) fn percent(&self) -> Option<u64> {
        (self.ended() >= Self::MIN_ENDED)
            .then(|| (self.rolled_back * 100 + self.ended() / 2) / self.ended())
    }
}

/// The counts of one day by risk.
#[derive(Clone, Copy, Debug, Default)]
struct RiskCounts {
    low: u64,
    medium: u64,
    high: u64,
}

impl RiskCounts {
    fn sum(self) -> u64 {
        self.low + self.medium + self.high
    }

    fn words(self) -> String {
        let Self { low, medium, high } = self;
        let sum = self.sum();
        let noun = format::plural(&sum, "change", "changes");
        format!("{sum} {noun} ({high} high, {medium} medium, {low} low risk)")
    }
}

fn by_day(counts: &[DayCount]) -> BTreeMap<i64, RiskCounts> {
    let mut days: BTreeMap<i64, RiskCounts> = BTreeMap::new();
    for count in counts {
        let day = days.entry(count.day).or_default();
        match count.risk_level {
            RiskLevel::High => day.high += count.count,
            RiskLevel::Medium => day.medium += count.count,
            _ => day.low += count.count,
        }
    }
    days
}

/// A day with changes.
struct Day {
    name: String,
    /// The list of the day's changes.
    address: String,
    counts: RiskCounts,
}

impl Day {
    /// `query` is the query string of the list, without its times.
    fn new(day: i64, counts: RiskCounts, query: &str) -> Self {
        let time = |day| format::start_of_day(day).to_rfc3339_opts(SecondsFormat::Secs, true);
        let mut query = form_urlencoded::Serializer::new(query.to_owned());
        query.append_pair("since", &time(day));
        query.append_pair("until", &time(day + 1));
        Self {
            name: format::day(day),
            address: format!("/changes?{}&{}", query.finish(), format::HAPPENED_QUERY),
            counts,
        }
    }
}

/// A label at a horizontal position.
struct Label {
    x: i64,
    anchor: &'static str,
    text: String,
}

/// A part of a bar.
struct Segment {
    risk: &'static str,
    /// The pattern over the color; empty for none.
    pattern: &'static str,
    top: f64,
    height: f64,
}

struct Bar {
    x: i64,
    day: Day,
    segments: Vec<Segment>,
}

/// A bar for each of the last days, stacked by risk.
#[derive(Template)]
#[template(path = "charts/bars.html")]
pub(crate) struct Bars {
    columns: Vec<Bar>,
    labels: Vec<Label>,
    /// The maximum number of changes on one day.
    max: u64,
}

/// Returns the bar chart of the days until `today`.
pub(crate) fn bars(counts: &[DayCount], today: i64) -> Bars {
    let days = by_day(counts);
    let first = today - BAR_DAYS + 1;
    let max = days.range(first..=today).map(|(_, counts)| counts.sum());
    let max = max.max().unwrap_or(0);
    let columns = days.range(first..=today).map(|(day, counts)| Bar {
        x: (day - first) * BAR_STEP,
        day: Day::new(*day, *counts, ""),
        segments: segments(*counts, max),
    });
    let labels = (first..=today).filter(|day| (today - day) % 7 == 0);
    let labels = labels.map(|day| {
        let left = (day - first) * BAR_STEP;
        // A centered label of the last day would not fit.
        let (x, anchor) = if day == today {
            (left + BAR_STEP, "end")
        } else {
            (left + BAR_STEP / 2, "middle")
        };
        let text = format::start_of_day(day).format("%-d %b").to_string();
        Label { x, anchor, text }
    });
    Bars {
        columns: columns.collect(),
        labels: labels.collect(),
        max,
    }
}

/// Stacks the parts of a bar from the bottom.
fn segments(counts: RiskCounts, max: u64) -> Vec<Segment> {
    let mut top = BAR_HEIGHT;
    let mut segments = Vec::new();
    for (risk, pattern, count) in [
        ("low", "", counts.low),
        ("medium", "dots", counts.medium),
        ("high", "hatch", counts.high),
    ] {
        if count > 0 {
            let height = BAR_HEIGHT * ratio(count, max);
            top -= height;
            segments.push(Segment {
                risk,
                pattern,
                top,
                height,
            });
        }
    }
    segments
}

#[expect(clippy::cast_precision_loss, reason = "a drawing is not exact")]
fn ratio(count: u64, max: u64) -> f64 {
    count as f64 / max.max(1) as f64
}

struct Square {
    x: i64,
    y: i64,
    /// The day and its shade from 1 to 4; `None` without changes.
    day: Option<(Day, u64)>,
}

/// A square for each day of the last year, in columns of weeks.
#[derive(Template)]
#[template(path = "charts/calendar.html")]
pub(crate) struct Calendar {
    squares: Vec<Square>,
    /// The names of weekdays and their vertical positions.
    weekdays: [(i64, &'static str); 3],
    months: Vec<Label>,
    width: i64,
    height: i64,
    total: u64,
    /// The maximum number of changes on one day.
    max: u64,
}

/// Returns the calendar of the year that ends with `today`. `query` is the query
/// string of the lists behind the squares, without their times.
pub(crate) fn calendar(counts: &[DayCount], today: i64, query: &str) -> Calendar {
    let mut days = by_day(counts);
    let weekday = format::start_of_day(today).weekday().num_days_from_monday();
    let first = today - i64::from(weekday) - (WEEKS - 1) * 7;
    days.retain(|day, counts| (first..=today).contains(day) && counts.sum() > 0);
    let max = days.values().map(|counts| counts.sum()).max().unwrap_or(0);
    let mut months = Vec::new();
    let mut month = 0;
    for day in (first..=today).step_by(7) {
        let date = format::start_of_day(day);
        if date.month() != month && date.day() <= 7 {
            month = date.month();
            months.push(Label {
                x: CALENDAR_LEFT + (day - first) / 7 * SQUARE_STEP,
                anchor: "start",
                text: date.format("%b").to_string(),
            });
        }
    }
    let squares = (first..=today).map(|day| Square {
        x: CALENDAR_LEFT + (day - first) / 7 * SQUARE_STEP,
        y: CALENDAR_TOP + (day - first) % 7 * SQUARE_STEP,
        day: days.get(&day).map(|counts| {
            // The busiest day has the darkest of the four shades.
            let shade = 1 + (counts.sum() * 4 - 1) / max;
            (Day::new(day, *counts, query), shade)
        }),
    });
    Calendar {
        squares: squares.collect(),
        weekdays: [(0, "Mon"), (2, "Wed"), (4, "Fri")]
            .map(|(row, name)| (CALENDAR_TOP + row * SQUARE_STEP + 9, name)),
        months,
        width: WEEKS * SQUARE_STEP + CALENDAR_LEFT,
        height: 7 * SQUARE_STEP + CALENDAR_TOP,
        total: days.values().map(|counts| counts.sum()).sum(),
        max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Wednesday.
    const TODAY: i64 = 20_845;

    fn count(day: i64, risk_level: RiskLevel, status: Status, count: u64) -> DayCount {
        DayCount {
            day,
            risk_level,
            status,
            count,
        }
    }

    #[test]
    fn bars_are_stacked_by_risk() {
        let counts = [
            count(TODAY, RiskLevel::Low, Status::Completed, 3),
            count(TODAY, RiskLevel::High, Status::Planned, 1),
            count(TODAY - 1, RiskLevel::Medium, Status::Completed, 1),
            count(TODAY - BAR_DAYS, RiskLevel::Low, Status::Completed, 9),
        ];
        let chart = bars(&counts, TODAY);
        assert_eq!(chart.max, 4);
        assert_eq!(chart.columns.len(), 2);
        let today = &chart.columns[1];
        assert_eq!(today.x, (BAR_DAYS - 1) * BAR_STEP);
        let parts = today.segments.iter();
        let parts: Vec<_> = parts
            .map(|part| (part.risk, part.top, part.height))
            .collect();
        assert_eq!(parts, [("low", 30.0, 90.0), ("high", 0.0, 30.0)]);
        let html = chart.render().unwrap();
        assert!(
            html.contains("4 changes (1 high, 0 medium, 3 low risk)"),
            "{html}"
        );
        let empty = bars(&[], TODAY).render().unwrap();
        assert!(empty.contains("No changes"), "{empty}");
    }

    #[test]
    fn the_calendar_ends_today_and_shades_by_the_busiest_day() {
        let counts = [
            count(TODAY, RiskLevel::Low, Status::Completed, 8),
            count(TODAY - 7, RiskLevel::High, Status::Completed, 1),
            count(TODAY - CALENDAR_DAYS, RiskLevel::Low, Status::Completed, 99),
        ];
        let calendar = calendar(&counts, TODAY, "host_id=1");
        assert_eq!((calendar.total, calendar.max), (9, 8));
        let shades = calendar.squares.iter().rev().step_by(7).take(2);
        let shades: Vec<_> = shades
            .map(|square| (square.x, square.day.as_ref().map(|(_, shade)| *shade)))
            .collect();
        assert_eq!(shades, [(704, Some(4)), (691, Some(1))]);
        // Monday to Wednesday of the last week.
        assert_eq!(calendar.squares.len(), 52 * 7 + 3);
        let html = calendar.render().unwrap();
        let link = "/changes?host_id=1&#38;since=";
        assert!(html.contains(link), "{html}");
    }

    #[test]
    fn a_rate_needs_enough_changes() {
        let rate = |completed, rolled_back| {
            let counts = [
                count(TODAY, RiskLevel::Low, Status::Completed, completed),
                count(TODAY, RiskLevel::Low, Status::RolledBack, rolled_back),
                count(TODAY, RiskLevel::Low, Status::Planned, 100),
            ];
            RollbackRate::of(counts.iter()).percent()
        };
        assert_eq!(rate(3, 1), None);
        assert_eq!(rate(4, 1), Some(20));
        assert_eq!(rate(0, 5), Some(100));
    }
}

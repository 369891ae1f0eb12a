//! A square for each day of the last year, in columns of weeks.

use askama::Template;
use chrono::{Datelike, NaiveDate, SecondsFormat};

use super::{Day, Label, RollbackRate, Year, rate};
use crate::dashboard::parts::format;

/// The distance of two squares, in pixels of the chart at its smallest size.
const STEP: usize = 14;
/// The space for the names of weekdays and of months.
const LEFT: usize = 32;
const TOP: usize = 18;
/// The number of shades of days with changes.
const SHADES: u64 = 4;

struct Square {
    y: usize,
    /// The day and its shade from 1 to [`SHADES`]; `None` without changes.
    day: Option<(Day, u64)>,
    is_tab_stop: bool,
    /// Whether many of its changes were rolled back or failed.
    is_marked: bool,
}

/// The squares of a week, from Monday on.
struct Week {
    x: usize,
    squares: Vec<Square>,
}

/// The changes of a month as far as it is in the year.
struct Month {
    name: String,
    address: String,
    changes: u64,
    high: u64,
    undone: u64,
    busiest: Day,
}

/// The last year as squares, with darker ones for days with more changes than others.
#[derive(Template)]
#[template(path = "charts/calendar.html")]
pub(crate) struct Calendar {
    weeks: Vec<Week>,
    /// The names of weekdays and their vertical positions.
    weekdays: [(usize, &'static str); 3],
    labels: Vec<Label>,
    width: usize,
    height: usize,
    total: u64,
    busiest: Option<Day>,
    has_marks: bool,
    /// The months with changes, newest first.
    months: Vec<Month>,
    query: String,
}

impl Calendar {
    pub(super) fn new(year: &Year, query: &str) -> Self {
        let days: Vec<Day> = year.days().collect();
        let mut sums: Vec<u64> = days.iter().map(|day| day.counts.sum()).collect();
        let last = sums.iter().rposition(|sum| *sum > 0);
        sums.retain(|sum| *sum > 0);
        sums.sort_unstable();
        let mut labels = Vec::new();
        let mut weeks = Vec::new();
        for (number, week) in days.chunks(7).enumerate() {
            let x = LEFT + number * STEP;
            let first = week.iter().find(|day| day.date.day() == 1);
            labels.extend(first.map(|day| Label {
                at: x.to_string(),
                anchor: "start",
                text: month_label(day.date),
            }));
            let squares = week.iter().enumerate().map(|(row, day)| {
                let is_changed = day.counts.sum() > 0;
                Square {
                    y: row * STEP,
                    day: is_changed.then(|| (*day, shade(day.counts.sum(), &sums))),
                    is_tab_stop: Some(number * 7 + row) == last,
                    is_marked: is_changed && RollbackRate::of([day.counts].into_iter()).is_high(),
                }
            });
            let squares: Vec<Square> = squares.collect();
            weeks.push(Week { x, squares });
        }
        let mut squares = weeks.iter().flat_map(|week| &week.squares);
        Self {
            has_marks: squares.any(|square| square.is_marked),
            weekdays: [(0, "Mon"), (2, "Wed"), (4, "Fri")]
                .map(|(row, name)| (TOP + row * STEP + 10, name)),
            labels,
            width: LEFT + weeks.len() * STEP,
            height: TOP + 7 * STEP,
            total: sums.iter().sum(),
            busiest: busiest(&days),
            months: months(year, &days, query),
            query: query.to_owned(),
            weeks,
        }
    }
}

/// Returns the shade of a day by the share of days with fewer changes: the busiest day alone
/// would leave all others pale.
fn shade(sum: u64, sorted: &[u64]) -> u64 {
    let fewer = sorted.partition_point(|other| *other < sum) as u64;
    1 + fewer * SHADES / sorted.len().max(1) as u64
}

/// Returns the first of the days with the most changes, if there are changes.
fn busiest(days: &[Day]) -> Option<Day> {
    let changed = days.iter().rev().filter(|day| day.counts.sum() > 0);
    changed.max_by_key(|day| day.counts.sum()).copied()
}

fn month_label(first: NaiveDate) -> String {
    let format = if first.month() == 1 { "%b %Y" } else { "%b" };
    first.format(format).to_string()
}

fn months(year: &Year, days: &[Day], query: &str) -> Vec<Month> {
    let mut months = Vec::new();
    let mut start = 0;
    for month in days.chunk_by(|one, next| one.date.month() == next.date.month()) {
        let end = start + month.len();
        if let Some(busiest) = busiest(month) {
            let time = |day: usize| {
                let at = year.starts[day].to_datetime();
                at.to_rfc3339_opts(SecondsFormat::Secs, true)
            };
            let mut query = form_urlencoded::Serializer::new(query.to_owned());
            query.append_pair("since", &time(start));
            query.append_pair("until", &time(end));
            months.push(Month {
                name: month[0].date.format("%B %Y").to_string(),
                address: format!("/changes?{}&{}", query.finish(), format::HAPPENED_QUERY),
                changes: month.iter().map(|day| day.counts.sum()).sum(),
                high: month.iter().map(Day::high).sum(),
                undone: month.iter().map(Day::undone).sum(),
                busiest,
            });
        }
        start = end;
    }
    months.reverse();
    months
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::parts::charts::tests::{counts, year};
    use changelog_core::{RiskLevel, Status};

    #[test]
    fn shades_are_quarters_of_the_days() {
        let sums = [1, 1, 2, 3, 5, 8, 9, 500];
        let shades: Vec<u64> = sums.iter().map(|sum| shade(*sum, &sums)).collect();
        assert_eq!(shades, [1, 1, 2, 2, 3, 3, 4, 4]);
        assert_eq!(shade(7, &[7, 7, 7]), 1);
    }

    #[test]
    fn the_calendar_ends_today() {
        let much = counts(&[
            (RiskLevel::Low, Status::Completed, 2_300),
            (RiskLevel::High, Status::RolledBack, 61),
        ]);
        let failed = counts(&[(RiskLevel::High, Status::RolledBack, 1)]);
        let calendar = year(&[(0, much), (7, failed), (50, much)]).calendar("host_id=1");
        assert_eq!(calendar.weeks.len(), 53);
        assert_eq!(calendar.weeks[52].squares.len(), 3);
        let busiest = calendar.busiest.unwrap();
        assert_eq!(busiest.date.to_string(), "2026-09-29");
        let months: Vec<_> = calendar
            .months
            .iter()
            .map(|month| (month.name.as_str(), month.changes))
            .collect();
        assert_eq!(
            months,
            [("November 2026", 2_362), ("September 2026", 2_361)]
        );
        let html = calendar.render().unwrap();
        for expected in [
            "href=\"/changes?host_id=1&#38;day=2026-11-18\"",
            "4,723 changes; busiest day: <a href=\"/changes?host_id=1&#38;day=2026-09-29\">2,361</a>",
            "since=2026-10-31T23%3A00%3A00Z&#38;until=2026-11-18T23%3A00%3A00Z&#38;not_status=planned",
            ">Jan 2026<",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
        // Of the three days, one is a tab stop and one failed.
        assert_eq!(html.matches("tabindex=\"-1\"").count(), 2, "{html}");
        assert_eq!(html.matches("class=\"mark\"").count(), 2, "{html}");
        let empty = year(&[]).calendar("").render().unwrap();
        assert!(empty.contains("No changes"), "{empty}");
    }

    #[test]
    fn a_day_is_short() {
        let day = counts(&[(RiskLevel::Low, Status::Completed, 2)]);
        let days: Vec<_> = (0..365).map(|before| (before, day)).collect();
        let html = year(&days).calendar("").render().unwrap();
        assert!(html.len() < 365 * 160 + 8_000, "{}", html.len());
    }
}

//! Charts as SVG that is written into the page: each mark is a link to the list
//! behind it, has its numbers in its title, and is told by more than its colour.

use std::collections::BTreeMap;
use std::fmt::Write;

use changelog_core::{RiskLevel, Status};
use chrono::{Datelike, SecondsFormat};

use super::format;
use crate::store::DayCount;

/// How many days the bars show.
pub(crate) const BAR_DAYS: i64 = 30;
/// How many weeks the calendar shows.
const WEEKS: i64 = 53;
/// How many days it shows at most.
pub(crate) const CALENDAR_DAYS: i64 = WEEKS * 7;

/// Fewer changes than this have no share.
const ENOUGH: u64 = 5;

/// How many changes of some days were rolled back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) rolled_back: u64,
    completed: u64,
}

impl Share {
    pub(crate) fn of<'d>(counts: impl Iterator<Item = &'d DayCount>) -> Self {
        counts.fold(Self::default(), |mut share, day| {
            match day.status {
                Status::RolledBack => share.rolled_back += day.count,
                Status::Completed => share.completed += day.count,
                _ => {}
            }
            share
        })
    }

    /// Returns how many have ended, well or not.
    pub(crate) fn ended(&self) -> u64 {
        self.rolled_back + self.completed
    }

    /// Returns the share in percent, when there are enough to tell.
    pub(crate) fn percent(&self) -> Option<u64> {
        (self.ended() >= ENOUGH).then(|| (self.rolled_back * 100 + self.ended() / 2) / self.ended())
    }
}

/// How many changes of each risk a day had: low, medium, high.
type Risks = [u64; 3];

fn by_day(counts: &[DayCount]) -> BTreeMap<i64, Risks> {
    let mut days: BTreeMap<i64, Risks> = BTreeMap::new();
    for count in counts {
        let index = match count.risk_level {
            RiskLevel::High => 2,
            RiskLevel::Medium => 1,
            _ => 0,
        };
        days.entry(count.day).or_default()[index] += count.count;
    }
    days
}

/// Returns the list of a day; `filter` is a query string that goes before.
fn address(day: i64, filter: &str) -> String {
    let moment = |day| format::start_of_day(day).to_rfc3339_opts(SecondsFormat::Secs, true);
    let mut query = form_urlencoded::Serializer::new(filter.to_owned());
    query.append_pair("since", &moment(day));
    query.append_pair("until", &moment(day + 1));
    format!("/changes?{}", query.finish()).replace('&', "&amp;")
}

fn told([low, medium, high]: Risks) -> String {
    let sum = low + medium + high;
    let noun = format::plural(&sum, "change", "changes");
    format!("{sum} {noun} ({high} high, {medium} medium, {low} low risk)")
}

/// Draws a bar a day, stacked by risk, for the days that end with one.
pub(crate) fn bars(counts: &[DayCount], today: i64) -> String {
    const HEIGHT: f64 = 120.0;
    const STEP: f64 = 40.0;
    let days = by_day(counts);
    let shown = today - BAR_DAYS + 1..=today;
    let risks = |day: i64| days.get(&day).copied().unwrap_or_default();
    let most = shown
        .clone()
        .map(|day| risks(day).iter().sum::<u64>())
        .max()
        .unwrap_or(0);
    let mut svg = String::from(
        r#"<div class="scroll newest" tabindex="0" role="group" aria-label="Changes a day by risk, the last 30 days; the table below has the numbers"><svg class="chart wide" viewBox="0 0 1200 145"><defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="hatch" d="M0 0V5"/></pattern><pattern id="dots" width="5" height="5" patternUnits="userSpaceOnUse"><path class="hatch" d="M2 2.5h1"/></pattern></defs>"#,
    );
    let mut table = String::new();
    let mut left = 0.0;
    for day in shown {
        let risks = risks(day);
        let sum: u64 = risks.iter().sum();
        if sum > 0 {
            let (address, told, name) = (address(day, ""), told(risks), format::day(day));
            // Writing to a text cannot fail.
            let _ = write!(
                svg,
                r#"<a href="{address}" aria-label="{name}: {told}"><title>{name}: {told}</title>"#
            );
            let mut top = HEIGHT;
            for (count, class) in risks.into_iter().zip(["low", "medium", "high"]) {
                let height = HEIGHT * share(count, most);
                top -= height;
                let place = format!(
                    r#"x="{:.1}" y="{top:.2}" width="{:.1}" height="{height:.2}""#,
                    left + 4.0,
                    STEP - 8.0
                );
                let _ = write!(svg, r#"<rect class="fill-{class}" {place}/>"#);
                let pattern = ["", "dots", "hatch"]
                    [usize::from(class == "medium") + 2 * usize::from(class == "high")];
                if !pattern.is_empty() && count > 0 {
                    let _ = write!(svg, r#"<rect fill="url(#{pattern})" {place}/>"#);
                }
            }
            svg.push_str("</a>");
            let [low, medium, high] = risks;
            let _ = write!(
                table,
                r#"<tr><td><a href="{address}">{name}</a></td><td class="number">{low}</td><td class="number">{medium}</td><td class="number">{high}</td></tr>"#
            );
        }
        let date = format::start_of_day(day);
        if (today - day) % 7 == 0 {
            // The last one would not fit in the middle.
            let (x, anchor) = if day == today {
                (left + STEP, "end")
            } else {
                (left + STEP / 2.0, "middle")
            };
            let _ = write!(
                svg,
                r#"<text x="{x:.1}" y="{:.1}" text-anchor="{anchor}">{}</text>"#,
                HEIGHT + 16.0,
                date.format("%-d %b")
            );
        }
        left += STEP;
    }
    let _ = write!(
        svg,
        r#"<path class="axis" d="M0 {HEIGHT}H1200"/><text x="2" y="10">{most}</text></svg></div>"#
    );
    svg.push_str(
        r#"<ul class="legend"><li><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="fill-low" width="10" height="10"/></svg> low</li><li><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="fill-medium" width="10" height="10"/><rect fill="url(#dots)" width="10" height="10"/></svg> medium, dotted</li><li><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="fill-high" width="10" height="10"/><rect fill="url(#hatch)" width="10" height="10"/></svg> high, hatched</li></ul>"#,
    );
    if table.is_empty() {
        svg.push_str(r#"<p class="empty">No changes in these days.</p>"#);
    } else {
        let _ = write!(
            svg,
            r#"<details><summary>The numbers</summary><div class="scroll"><table><thead><tr><th scope="col">Day</th><th scope="col" class="number">Low</th><th scope="col" class="number">Medium</th><th scope="col" class="number">High</th></tr></thead><tbody>{table}</tbody></table></div></details>"#
        );
    }
    svg
}

/// Draws a square a day for the year that ends with a day; `filter` is a query
/// string that the lists behind them go by, besides the day.
pub(crate) fn calendar(counts: &[DayCount], today: i64, filter: &str) -> String {
    const STEP: i64 = 13;
    let days = by_day(counts);
    let last = format::start_of_day(today);
    let weekday = i64::from(last.weekday().num_days_from_monday());
    let first = today - weekday - (WEEKS - 1) * 7;
    let sum_of = |day: i64| days.get(&day).map_or(0, |risks| risks.iter().sum::<u64>());
    let most = (first..=today).map(sum_of).max().unwrap_or(0);
    let total: u64 = (first..=today).map(sum_of).sum();
    let noun = format::plural(&total, "change", "changes");
    let mut svg = format!(
        r#"<p class="quiet">{total} {noun}; the busiest day had {most}.</p><div class="scroll newest" tabindex="0" role="group" aria-label="Calendar of the last year"><svg class="chart wide" viewBox="0 0 {} {}">"#,
        WEEKS * STEP + 28,
        7 * STEP + 18
    );
    for (row, name) in [(0, "Mon"), (2, "Wed"), (4, "Fri")] {
        // Writing to a text cannot fail.
        let _ = write!(
            svg,
            r#"<text x="0" y="{}">{name}</text>"#,
            18 + row * STEP + 9
        );
    }
    let mut month = 0;
    for day in first..=today {
        let (column, row) = ((day - first) / 7, (day - first) % 7);
        let (x, y) = (28 + column * STEP, 18 + row * STEP);
        let date = format::start_of_day(day);
        if row == 0 && date.month() != month && date.day() <= 7 {
            month = date.month();
            let _ = write!(svg, r#"<text x="{x}" y="10">{}</text>"#, date.format("%b"));
        }
        let square = format!(r#"x="{x}" y="{y}" width="11" height="11" rx="2""#);
        match days.get(&day) {
            Some(risks) if sum_of(day) > 0 => {
                // Four shades; the busiest day has the last.
                let heat = 1 + (sum_of(day) * 4 - 1) / most;
                let (address, told, name) = (address(day, filter), told(*risks), format::day(day));
                let _ = write!(
                    svg,
                    r#"<a href="{address}" aria-label="{name}: {told}"><title>{name}: {told}</title><rect class="h{heat}" {square}/></a>"#,
                );
            }
            _ => {
                let _ = write!(svg, r#"<rect class="h0" {square}/>"#);
            }
        }
    }
    svg.push_str("</svg></div>");
    svg
}

/// Returns the first day that charts need, and the day after the last.
pub(crate) fn year(today: i64) -> std::ops::Range<i64> {
    today - CALENDAR_DAYS + 1..today + 1
}

#[expect(clippy::cast_precision_loss, reason = "what is drawn is not exact")]
fn share(count: u64, most: u64) -> f64 {
    if most == 0 {
        0.0
    } else {
        count as f64 / most as f64
    }
}

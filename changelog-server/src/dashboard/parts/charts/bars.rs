//! A bar for each of some days, stacked by risk.

use askama::Template;
use changelog_core::RiskLevel;

use super::{Day, Label, rate};
use crate::dashboard::parts::format;

/// The height of the plot, in pixels: widths are shares of the chart's, so that labels keep
/// their size on every screen.
const PLOT_HEIGHT: u64 = 120;
/// The space above the plot, in pixels, where marks of the tallest bars are.
const TOP: u64 = 18;
/// The most lines of the vertical axis.
const MAX_LINES: u64 = 3;
/// Charts of up to so many days have a label for each day, others one a week.
const MAX_DAILY_LABELS: usize = 7;

/// A part of a bar.
struct Segment {
    risk: &'static str,
    /// The pattern over the color; empty for none.
    pattern: &'static str,
    top: String,
    height: String,
}

struct Bar {
    day: Day,
    /// Where the day begins, in percent of the width.
    left: String,
    segments: Vec<Segment>,
    /// The baseline of the mark above the bar, in pixels.
    mark: u64,
    is_tab_stop: bool,
}

/// A line of the vertical axis and its number.
struct Line {
    y: u64,
    number: u64,
}

/// A bar for each of the last days, with a mark above days with changes that were rolled
/// back or failed.
#[derive(Template)]
#[template(path = "charts/bars.html")]
pub(crate) struct Bars {
    days: usize,
    /// The days with changes.
    columns: Vec<Bar>,
    lines: Vec<Line>,
    labels: Vec<Label>,
    /// The width of a day, in percent.
    width: String,
}

impl Bars {
    pub(super) fn new(days: &[Day]) -> Self {
        let max = days.iter().map(|day| day.counts.sum()).max().unwrap_or(0);
        let step = line_step(max);
        let top = max.div_ceil(step).max(1) * step;
        let length = days.len();
        let share = |number: f64| format!("{:.2}%", number * 100.0 / as_f64(length as u64));
        let position = |index: usize| as_f64(index as u64);
        let last = days.iter().rposition(|day| day.counts.sum() > 0);
        let each = days.iter().enumerate();
        let changed = each.clone().filter(|(_, day)| day.counts.sum() > 0);
        let bars = changed.map(|(index, day)| Bar {
            left: share(position(index)),
            segments: segments(day, top),
            mark: TOP + PLOT_HEIGHT - day.counts.sum() * PLOT_HEIGHT / top - 4,
            is_tab_stop: Some(index) == last,
            day: *day,
        });
        let is_daily = length <= MAX_DAILY_LABELS;
        let labeled = each.filter(|(index, _)| is_daily || (length - 1 - index).is_multiple_of(7));
        let labels = labeled.map(|(index, day)| {
            // A centered label of the last of many days would not fit.
            let is_end = !is_daily && index + 1 == length;
            let (at, anchor) = if is_end {
                (1.0, "end")
            } else {
                (0.5, "middle")
            };
            let format = if is_daily { "%a %-d" } else { "%-d %b" };
            Label {
                at: share(position(index) + at),
                anchor,
                text: day.date.format(format).to_string(),
            }
        });
        Self {
            days: length,
            columns: bars.collect(),
            lines: (1..=top / step)
                .map(|line| Line {
                    y: TOP + PLOT_HEIGHT - line * step * PLOT_HEIGHT / top,
                    number: line * step,
                })
                .collect(),
            labels: labels.collect(),
            width: share(1.0),
        }
    }
}

/// Returns the distance of the lines of the vertical axis: 1, 2 or 5 times a power of ten.
fn line_step(max: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for step in [power, 2 * power, 5 * power] {
            if max <= step * MAX_LINES {
                return step;
            }
        }
        match power.checked_mul(10) {
            Some(next) if next <= u64::MAX / 15 => power = next,
            _ => return max,
        }
    }
}

/// Stacks the parts of a bar from the bottom; `full` changes fill the plot.
fn segments(day: &Day, full: u64) -> Vec<Segment> {
    let mut top = as_f64(TOP + PLOT_HEIGHT);
    let mut segments = Vec::new();
    for (risk_level, risk, pattern) in [
        (RiskLevel::Low, "low", ""),
        (RiskLevel::Medium, "medium", "dots"),
        (RiskLevel::High, "high", "hatch"),
    ] {
        let count = day.counts.with_risk(&risk_level);
        if count > 0 {
            let height = as_f64(PLOT_HEIGHT) * as_f64(count) / as_f64(full);
            top -= height;
            segments.push(Segment {
                risk,
                pattern,
                top: format!("{top:.1}"),
                height: format!("{height:.1}"),
            });
        }
    }
    segments
}

#[expect(clippy::cast_precision_loss, reason = "a drawing is not exact")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::parts::charts::tests::{counts, year};
    use changelog_core::Status;

    #[test]
    fn bars_are_stacked_by_risk() {
        let today = counts(&[
            (RiskLevel::Low, Status::Completed, 3),
            (RiskLevel::High, Status::RolledBack, 1),
        ]);
        let other = counts(&[(RiskLevel::Medium, Status::Completed, 1)]);
        let much = counts(&[(RiskLevel::Low, Status::Completed, 99)]);
        let bars = year(&[(0, today), (1, other), (30, much)]).bars(30);
        assert_eq!(bars.columns.len(), 2);
        let lines: Vec<_> = bars
            .lines
            .iter()
            .map(|line| (line.y, line.number))
            .collect();
        assert_eq!(lines, [(78, 2), (18, 4)]);
        let bar = &bars.columns[1];
        assert_eq!(
            (bar.left.as_str(), bar.mark, bar.is_tab_stop),
            ("96.67%", 14, true)
        );
        let parts = bar.segments.iter();
        let parts: Vec<_> = parts
            .map(|part| (part.risk, part.top.as_str(), part.height.as_str()))
            .collect();
        assert_eq!(parts, [("low", "48.0", "90.0"), ("high", "18.0", "30.0")]);
        let labels: Vec<&str> = bars
            .labels
            .iter()
            .map(|label| label.text.as_str())
            .collect();
        assert_eq!(labels, ["21 Oct", "28 Oct", "4 Nov", "11 Nov", "18 Nov"]);
        let html = bars.render().unwrap();
        for expected in [
            "<title>Wed, 18 Nov 2026: 4 changes, 1 high risk, 1 rolled back or failed</title>",
            "href=\"/changes?day=2026-11-18\"",
            "<td class=\"number\">3</td>",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
        assert_eq!(html.matches("<text class=\"mark\"").count(), 1, "{html}");
        assert_eq!(html.matches("tabindex=\"-1\"").count(), 1, "{html}");
    }

    #[test]
    fn a_week_has_a_label_for_each_day() {
        let bars = year(&[(2, counts(&[(RiskLevel::Low, Status::Completed, 3)]))]).bars(7);
        let labels: Vec<&str> = bars
            .labels
            .iter()
            .map(|label| label.text.as_str())
            .collect();
        assert_eq!(
            labels,
            [
                "Thu 12", "Fri 13", "Sat 14", "Sun 15", "Mon 16", "Tue 17", "Wed 18"
            ]
        );
        let empty = year(&[]).bars(7).render().unwrap();
        assert!(empty.contains("No changes in the last 7 days"), "{empty}");
    }

    #[test]
    fn the_axis_has_few_round_lines() {
        for (max, step) in [
            (0, 1),
            (1, 1),
            (3, 1),
            (4, 2),
            (7, 5),
            (15, 5),
            (16, 10),
            (100, 50),
            (2_361, 1_000),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(line_step(max), step, "{max}");
        }
    }
}

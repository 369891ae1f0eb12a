//! The tables: measurements and their goals.

use std::fmt::Write;

use changelog_tests::bench::note;

use crate::load::Latencies;
use crate::measure::Cost;
use crate::text::{float, grouped, rounded, time};

/// The unit of a figure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    PercentOfCeiling,
    Fsyncs,
    Times,
    Millis,
    Seconds,
    Megabytes,
}

/// A goal: the floor is required, the aim is desired.
pub(crate) struct Goal {
    floor: f64,
    aim: f64,
    unit: Unit,
    more_is_better: bool,
}

/// A figure with its description.
pub(crate) struct Outcome {
    value: f64,
    pub(crate) measured: String,
    ceiling: String,
}

#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    missed: Vec<String>,
}

/// The table of requests without goals.
#[derive(Default)]
pub(crate) struct Shapes {
    rows: Vec<Vec<String>>,
}

impl Goal {
    /// A goal where more is better.
    pub(crate) fn at_least(floor: f64, aim: f64, unit: Unit) -> Self {
        Self {
            floor,
            aim,
            unit,
            more_is_better: true,
        }
    }

    /// A goal where less is better.
    pub(crate) fn under(floor: f64, aim: f64, unit: Unit) -> Self {
        Self {
            floor,
            aim,
            unit,
            more_is_better: false,
        }
    }

    /// Scales the goal to a part of the work.
    pub(crate) fn for_part(self, part: u64, whole: u64) -> Self {
        let share = float(part) / float(whole);
        Self {
            floor: self.floor * share,
            aim: self.aim * share,
            ..self
        }
    }

    fn is_met(&self, bound: f64, value: f64) -> bool {
        if self.more_is_better {
            value >= bound
        } else {
            value < bound
        }
    }

    fn verdict(&self, value: f64) -> &'static str {
        if self.is_met(self.aim, value) {
            "aim"
        } else if self.is_met(self.floor, value) {
            "floor"
        } else {
            "**missed**"
        }
    }

    fn bound(&self, bound: f64) -> String {
        let sign = if self.more_is_better { "≥" } else { "<" };
        format!("{sign} {}{}", short(bound), self.unit.name())
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::PercentOfCeiling => " %",
            Self::Fsyncs => " fsyncs",
            Self::Times => " times",
            Self::Millis => " ms",
            Self::Seconds => " s",
            Self::Megabytes => " MB",
        }
    }

    /// Returns whether the unit is a ratio of two measurements.
    fn is_ratio(self) -> bool {
        matches!(self, Self::PercentOfCeiling | Self::Fsyncs | Self::Times)
    }
}

impl Outcome {
    pub(crate) fn new(value: f64, measured: String) -> Self {
        Self {
            value,
            measured,
            ceiling: String::new(),
        }
    }

    /// Sets the ceiling that the value is relative to.
    pub(crate) fn with_ceiling(self, ceiling: String) -> Self {
        Self { ceiling, ..self }
    }
}

impl Table {
    /// Adds a row, and prints it as progress.
    pub(crate) fn row(&mut self, work: &str, goal: &Goal, outcome: &Outcome) {
        let ratio = if goal.unit.is_ratio() {
            format!("{}{}", rounded(outcome.value), goal.unit.name())
        } else {
            String::new()
        };
        let verdict = goal.verdict(outcome.value);
        note(&format!(
            "  {work}: {} {ratio}, {verdict}",
            outcome.measured
        ));
        if !goal.is_met(goal.floor, outcome.value) {
            self.missed.push(work.to_owned());
        }
        self.rows.push(vec![
            work.to_owned(),
            outcome.measured.clone(),
            outcome.ceiling.clone(),
            ratio,
            goal.bound(goal.floor),
            goal.bound(goal.aim),
            verdict.to_owned(),
        ]);
    }

    pub(crate) fn markdown(&self) -> String {
        let header = [
            "Work (32 connections)",
            "Measured",
            "Ceiling",
            "Ratio",
            "Floor",
            "Aim",
            "Met",
        ];
        let missed = if self.missed.is_empty() {
            "none".to_owned()
        } else {
            self.missed.join("; ")
        };
        format!(
            "{}\nfloors missed: {missed}\n",
            markdown(&header, &self.rows)
        )
    }
}

/// The table of the costs of requests.
#[derive(Default)]
pub(crate) struct Costs {
    rows: Vec<Vec<String>>,
}

impl Costs {
    /// Adds a row, and prints it as progress.
    pub(crate) fn row(&mut self, name: &str, cost: &Cost, aim: &str) {
        let (processor, disk) = (
            format!("{} µs", rounded(cost.micros)),
            format!("{} KB", rounded(cost.kilobytes)),
        );
        note(&format!("  {name}: {processor}, {disk}"));
        self.rows
            .push(vec![name.to_owned(), processor, disk, aim.to_owned()]);
    }

    pub(crate) fn markdown(&self) -> String {
        markdown(
            &[
                "A request of 32 connections",
                "Processor",
                "Written to disk",
                "Aim",
            ],
            &self.rows,
        )
    }
}

impl Shapes {
    /// Adds a row, and prints it as progress.
    pub(crate) fn row(&mut self, name: &str, count: Option<u64>, latencies: &Latencies) {
        let (p50, p99) = (time(latencies.p50()), time(latencies.p99()));
        note(&format!("  {name}: p50 {p50}, p99 {p99}"));
        let count = count.map_or(String::new(), grouped);
        self.rows.push(vec![name.to_owned(), count, p50, p99]);
    }

    pub(crate) fn markdown(&self) -> String {
        markdown(&["One connection", "Matches", "p50", "p99"], &self.rows)
    }
}

/// Formats a table with aligned columns.
fn markdown(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .fold(header[column].len(), usize::max)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        for (cell, width) in cells.zip(&widths) {
            // Writing to a string cannot fail.
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
    };
    line(&mut header.iter().copied());
    let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    line(&mut rules.iter().map(String::as_str));
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

/// Formats a bound without trailing zeros.
fn short(bound: f64) -> String {
    let text = format!("{bound:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

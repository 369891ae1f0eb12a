//! How often the causes are found.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::questions::{Asked, Window};

/// The position of a cause in an order of changes, from 0; `None` if it is not there.
pub(crate) type Position = Option<usize>;

/// Where one answer, and the simple orders, have the cause.
pub(crate) struct Outcome {
    /// In the answer.
    pub(crate) ranked: Position,
    /// In the changes of the same window, newest first.
    pub(crate) newest: Position,
    /// The same, with those of the named service before all others.
    pub(crate) newest_of_service: Position,
}

/// The outcomes of all questions.
#[derive(Default)]
pub(crate) struct Tally(BTreeMap<(Asked, Window), Vec<Outcome>>);

impl Tally {
    pub(crate) fn add(&mut self, asked: Asked, window: Window, outcome: Outcome) {
        self.0.entry((asked, window)).or_default().push(outcome);
    }

    /// Writes the shares as a table.
    pub(crate) fn markdown(&self) -> String {
        let mut table = String::from(
            "| asked | window | questions | first | first 3 | first 10 | in the window \
             | newest first: first | first 3 | first 10 | newest of the service: first 3 |\n\
             |---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for ((asked, window), outcomes) in &self.0 {
            let share = |of: fn(&Outcome) -> Position, most: usize| {
                let found = outcomes.iter().filter_map(of);
                percent(
                    found.filter(|position| *position < most).count(),
                    outcomes.len(),
                )
            };
            let (ranked, newest) = (|one: &Outcome| one.ranked, |one: &Outcome| one.newest);
            let of_service = |one: &Outcome| one.newest_of_service;
            // Writing to a string cannot fail.
            let _ = writeln!(
                table,
                "| {} | {} | {} | {} | **{}** | {} | {} | {} | {} | {} | {} |",
                asked.label(),
                window.label(),
                outcomes.len(),
                share(ranked, 1),
                share(ranked, 3),
                share(ranked, 10),
                share(newest, usize::MAX),
                share(newest, 1),
                share(newest, 3),
                share(newest, 10),
                share(of_service, 3),
            );
        }
        table
    }
}

fn percent(part: usize, whole: usize) -> String {
    let [part, whole] = [part, whole].map(|count| u32::try_from(count).map_or(0.0, f64::from));
    format!("{:.1} %", part / whole * 100.0)
}

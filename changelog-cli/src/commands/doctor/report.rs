//! The checks of `chlog doctor`, and their table.

use comfy_table::{Cell, Color};
use serde::Serialize;

use crate::base::failure::{Exit, Failure};
use crate::base::text::one_line;
use crate::output::plain::{self, cell};

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Ok,
    Warning,
    Failed,
}

impl Verdict {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// A check and its result.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    #[serde(rename = "check")]
    pub(super) name: &'static str,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    /// What to do.
    pub(super) advice: Option<String>,
}

/// All checks.
#[derive(Default)]
pub(super) struct Report {
    pub(super) checks: Vec<Check>,
    /// The exit code and the reason with which recording a change would fail,
    /// from the first failed check.
    pub(super) exit: Option<(Exit, String)>,
}

impl Report {
    pub(super) fn add(
        &mut self,
        check: &'static str,
        verdict: Verdict,
        found: impl Into<String>,
    ) -> &mut Check {
        self.checks.push(Check {
            name: check,
            verdict,
            found: found.into(),
            advice: None,
        });
        let last = self.checks.len() - 1;
        &mut self.checks[last]
    }

    pub(super) fn ok(&mut self, check: &'static str, found: impl Into<String>) {
        self.add(check, Verdict::Ok, found);
    }

    pub(super) fn warn(&mut self, check: &'static str, found: impl Into<String>, advice: &str) {
        self.add(check, Verdict::Warning, found).advice = Some(advice.to_owned());
    }

    pub(super) fn fail(&mut self, check: &'static str, failure: &Failure) {
        let (message, hint) = failure.message_and_advice();
        self.exit
            .get_or_insert((failure.exit, format!("{check}: {message}")));
        let advice = hint.unwrap_or_else(|| match failure.exit {
            Exit::Unavailable => "check that the server is running and can be reached".to_owned(),
            _ => "see `chlog help`".to_owned(),
        });
        self.add(check, Verdict::Failed, message).advice = Some(advice);
    }
}

/// Draws the checks as a table, with the advice below each.
pub(super) fn table(checks: &[Check]) -> String {
    let rows = checks.iter().map(|check| {
        let color = match check.verdict {
            Verdict::Ok => Color::DarkGreen,
            Verdict::Warning => Color::DarkYellow,
            Verdict::Failed => Color::DarkRed,
        };
        let mut found = one_line(&check.found);
        if let Some(advice) = &check.advice {
            found = format!("{found}\n{}", one_line(advice));
        }
        [
            cell(check.verdict.as_str()).fg(color),
            cell(check.name),
            Cell::new(found),
        ]
    });
    plain::draw(&[], rows, None)
}

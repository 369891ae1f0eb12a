//! The summary of a run or a plan: title, description, risk level, status.

use std::fmt::Write;
use std::time::Duration;

use changelog_core::{Outcome, RiskLevel, Status};

use super::resources::{Counts, Resources, State, shown_address};
use crate::base::text::{first_line, plural, shorten, without_controls};
use crate::base::time;

/// How many errors are listed; the rest is counted.
const MAX_ERRORS: usize = 10;
/// The longest summary of an error, in characters: short enough for
/// [`MAX_ERRORS`] of them to fit into a description with all addresses.
const MAX_ERROR: usize = 300;
/// The longest directory or workspace in a title, in characters.
const MAX_PLACE: usize = 80;
/// The longest version of Terraform, in characters.
const MAX_VERSION: usize = 40;
/// The shortest secret that is hidden in the summaries of errors, in characters:
/// shorter ones occur in many words.
const MIN_HIDDEN: usize = 4;

/// The operation of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Plan,
    Apply,
    Destroy,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    #[default]
    Complete,
    Failed,
    /// Terraform was killed, or its output was cut off.
    Missing,
}

/// The recorded part of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) summary: String,
    pub(crate) address: Option<String>,
}

/// The errors of a run: the first ones, and the number of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Problems {
    listed: Vec<Problem>,
    more: u64,
}

impl Problems {
    pub(crate) fn add(&mut self, summary: &str, address: Option<&str>) {
        if self.listed.len() >= MAX_ERRORS {
            self.more += 1;
            return;
        }
        self.listed.push(Problem {
            summary: first_line(summary).unwrap_or_default(),
            address: address.map(shown_address),
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }
}

/// The summary of a run or a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Whether it is `OpenTofu`.
    pub(crate) tofu: bool,
    /// None if it failed before the operation was known.
    pub(crate) operation: Option<Operation>,
    pub(crate) ending: Ending,
    pub(crate) counts: Counts,
    pub(crate) resources: Resources,
    /// The number of changed outputs.
    pub(crate) outputs: u64,
    pub(crate) problems: Problems,
    /// The version of Terraform.
    pub(crate) version: Option<String>,
    pub(crate) duration: Option<Duration>,
    /// The directory, relative to the root of the repository.
    pub(crate) directory: Option<String>,
    /// The workspace, unless it is the default one.
    pub(crate) workspace: Option<String>,
    /// The providers and their versions.
    pub(crate) providers: Vec<String>,
}

impl Summary {
    /// Returns whether nothing was or will be changed, and nothing failed.
    pub(crate) fn is_no_op(&self) -> bool {
        self.ending == Ending::Complete
            && self.counts == Counts::default()
            && self.resources.is_empty()
            && self.outputs == 0
    }

    /// Hides known secrets in the summaries of errors, whose text providers choose.
    pub(crate) fn hide(&mut self, mut secrets: Vec<String>) {
        // Longest first: a value that is the beginning of another must not leave
        // the rest of the other unhidden.
        secrets.sort_by_key(|value| std::cmp::Reverse(value.len()));
        for problem in &mut self.problems.listed {
            for secret in &secrets {
                if secret.chars().count() >= MIN_HIDDEN && problem.summary.contains(secret) {
                    problem.summary = problem.summary.replace(secret, "(hidden)");
                }
            }
        }
    }

    pub(crate) fn title(&self) -> String {
        let program = if self.tofu { "tofu" } else { "terraform" };
        let operation = match self.operation {
            Some(Operation::Plan) => " plan",
            Some(Operation::Apply) => " apply",
            Some(Operation::Destroy) => " destroy",
            None => "",
        };
        let mut place = String::new();
        if let Some(directory) = self.directory.as_deref().and_then(without_controls) {
            place.push(' ');
            place.push_str(&shorten(&directory, MAX_PLACE));
        }
        if let Some(workspace) = &self.workspace {
            // Writing to a string cannot fail.
            let _ = write!(place, " ({})", shorten(workspace, MAX_PLACE));
        }
        format!("{program}{operation}{place}: {}", self.outcome())
    }

    fn outcome(&self) -> String {
        let words = if self.operation == Some(Operation::Plan) {
            ["to add", "to change", "to destroy", "to import"]
        } else {
            ["added", "changed", "destroyed", "imported"]
        };
        let counts = self.counts.text(words);
        let ending = match self.ending {
            Ending::Complete => {
                return counts.unwrap_or_else(|| {
                    match (self.resources.is_empty(), self.outputs) {
                        (false, _) => "only moved or forgotten",
                        (true, 0) => "no changes",
                        (true, _) => "only outputs changed",
                    }
                    .to_owned()
                });
            }
            Ending::Failed => "failed",
            Ending::Missing => "ended without a result",
        };
        match counts {
            Some(counts) => format!("{ending}, {counts}"),
            None => ending.to_owned(),
        }
    }

    /// Returns the description in Markdown: resources, errors, facts.
    pub(crate) fn description(&self) -> String {
        let mut parts = Vec::new();
        if !self.resources.is_empty() {
            parts.push(self.resources_text());
        }
        if self.outputs > 0 {
            parts.push(format!("{} changed.", plural(self.outputs, "output")));
        }
        if !self.problems.is_empty() {
            parts.push(self.problems_text());
        }
        if self.ending == Ending::Missing {
            parts.push("Output ended without a result; Terraform was probably killed.".to_owned());
        }
        let facts = self.facts();
        if !facts.is_empty() {
            parts.push(facts);
        }
        parts.join("\n\n")
    }

    fn resources_text(&self) -> String {
        let mut text = String::new();
        let is_complete = self.ending == Ending::Complete;
        for one in &self.resources.listed {
            let state = match one.state {
                State::Failed => ": failed",
                State::Planned if !is_complete => ": not done",
                State::Planned | State::Done => "",
            };
            let word = one.action.word();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- {word} `{}`{state}", one.address.replace('`', "'"));
        }
        if self.resources.more > 0 {
            let _ = writeln!(text, "- and {} more", self.resources.more);
        }
        text.trim_end().to_owned()
    }

    fn problems_text(&self) -> String {
        let mut text = "Errors:\n\n".to_owned();
        for problem in &self.problems.listed {
            let summary = shorten(&problem.summary, MAX_ERROR);
            let _ = match &problem.address {
                Some(address) => {
                    writeln!(text, "- {summary}, at `{}`", address.replace('`', "'"))
                }
                None => writeln!(text, "- {summary}"),
            };
        }
        if self.problems.more > 0 {
            let _ = writeln!(text, "- and {} more", self.problems.more);
        }
        text.trim_end().to_owned()
    }

    /// Returns the directory, the duration and the versions.
    fn facts(&self) -> String {
        let mut facts = Vec::new();
        if let Some(directory) = &self.directory {
            facts.push(format!("in `{}`", directory.replace('`', "'")));
        }
        if let Some(workspace) = &self.workspace {
            facts.push(format!("workspace `{}`", workspace.replace('`', "'")));
        }
        if let Some(duration) = self.duration {
            facts.push(format!("took {}", time::duration(duration)));
        }
        if let Some(version) = &self.version {
            let program = if self.tofu { "OpenTofu" } else { "Terraform" };
            facts.push(format!(
                "{program} {}",
                shorten(&first_line(version).unwrap_or_default(), MAX_VERSION)
            ));
        }
        facts.extend(self.providers.iter().cloned());
        facts.join(", ")
    }

    /// Proposes a risk level: high for a failure and for destroyed or replaced
    /// resources, medium for updated ones, low for created ones.
    pub(crate) fn risk(&self) -> RiskLevel {
        let failed = self.ending != Ending::Complete;
        if failed || self.resources.has_high_risk || self.counts.destroyed > 0 {
            RiskLevel::High
        } else if self.resources.has_medium_risk || self.counts.changed > 0 {
            RiskLevel::Medium
        } else {
            RiskLevel::Low
        }
    }

    /// Returns the status of the change, and its outcome unless it is only planned.
    pub(crate) fn result(&self) -> (Status, Option<Outcome>) {
        match (self.ending, self.operation) {
            (Ending::Complete, Some(Operation::Plan)) => (Status::Planned, None),
            (Ending::Complete, _) => (Status::Completed, Some(Outcome::Succeeded)),
            (Ending::Failed, _) => (Status::RolledBack, Some(Outcome::Failed)),
            (Ending::Missing, _) => (Status::RolledBack, Some(Outcome::Indeterminate)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::resources::{Action, MAX_ADDRESSES};
    use super::*;
    use changelog_core::limits::MAX_LONG_TEXT_CHARS;

    fn summary(actions: &[Action]) -> Summary {
        let mut summary = Summary {
            operation: Some(Operation::Apply),
            ..Summary::default()
        };
        for (index, action) in actions.iter().enumerate() {
            summary
                .resources
                .add(&format!("a.b[{index}]"), *action, State::Done);
            summary.counts.count(*action);
        }
        summary
    }

    #[test]
    fn the_riskiest_action_decides() {
        for (actions, risk) in [
            (&[Action::Create, Action::Import][..], RiskLevel::Low),
            (&[Action::Create, Action::Update], RiskLevel::Medium),
            (&[Action::Forget], RiskLevel::Medium),
            (&[Action::Update, Action::Replace], RiskLevel::High),
            (&[Action::Delete], RiskLevel::High),
            (&[], RiskLevel::Low),
        ] {
            assert_eq!(summary(actions).risk(), risk, "{actions:?}");
        }
        // Also if it is not among the listed ones.
        let mut many = vec![Action::Create; 60];
        many.push(Action::Replace);
        assert_eq!(summary(&many).risk(), RiskLevel::High);
    }

    #[test]
    fn titles_say_what_happened() {
        let mut one = summary(&[Action::Create, Action::Update, Action::Replace]);
        assert_eq!(
            one.title(),
            "terraform apply: 2 added, 1 changed, 1 destroyed"
        );
        one.directory = Some("infra/network".to_owned());
        one.workspace = Some("blue".to_owned());
        assert_eq!(
            one.title(),
            "terraform apply infra/network (blue): 2 added, 1 changed, 1 destroyed"
        );
        one.directory = None;
        one.workspace = None;
        one.operation = Some(Operation::Plan);
        assert_eq!(
            one.title(),
            "terraform plan: 2 to add, 1 to change, 1 to destroy"
        );
        assert_eq!(one.result(), (Status::Planned, None));
        one.operation = Some(Operation::Apply);
        one.ending = Ending::Failed;
        assert!(one.title().starts_with("terraform apply: failed, 2 added"));
        assert_eq!(
            (one.result(), one.risk()),
            ((Status::RolledBack, Some(Outcome::Failed)), RiskLevel::High)
        );
        one.counts = Counts::default();
        assert_eq!(one.title(), "terraform apply: failed");
        one.ending = Ending::Missing;
        assert_eq!(one.title(), "terraform apply: ended without a result");
        assert_eq!(one.result().1, Some(Outcome::Indeterminate));
        one.tofu = true;
        assert!(one.title().starts_with("tofu apply"));
        let mut nothing = summary(&[]);
        assert_eq!(nothing.title(), "terraform apply: no changes");
        assert!(nothing.is_no_op());
        nothing.outputs = 1;
        assert_eq!(nothing.title(), "terraform apply: only outputs changed");
        assert!(!nothing.is_no_op());
        assert_eq!(
            summary(&[Action::Move]).title(),
            "terraform apply: only moved or forgotten"
        );
    }

    #[test]
    fn a_description_lists_fifty_addresses_and_always_fits() {
        let mut long = summary(&[Action::Create; 60]);
        let text = long.description();
        assert_eq!(text.matches("- create").count(), MAX_ADDRESSES);
        assert!(text.contains("- and 10 more"), "{text}");
        long.resources = Resources::default();
        for index in 0..1_000 {
            let address = format!("{index}{}", "é".repeat(1_000));
            long.resources.add(&address, Action::Replace, State::Failed);
            long.problems.add(&"x".repeat(5_000), Some(&address));
        }
        long.ending = Ending::Failed;
        let text = long.description();
        assert!(
            text.chars().count() < MAX_LONG_TEXT_CHARS,
            "{}",
            text.chars().count()
        );
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn known_secrets_are_hidden_in_errors() {
        let mut failed = summary(&[]);
        failed
            .problems
            .add("cannot sign in with hunter2hunter2", None);
        // One begins with another.
        let secrets = ["hunter2", "hunter2hunter2", "in", ""];
        failed.hide(secrets.map(str::to_owned).to_vec());
        let text = failed.description();
        assert!(text.contains("cannot sign in with (hidden)"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(!text.contains("(hidden)("), "{text}");
    }
}

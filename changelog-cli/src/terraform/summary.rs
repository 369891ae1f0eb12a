//! What a run did, or a plan would do: its title, description, risk, status.

use std::fmt::Write;
use std::time::Duration;

use changelog_core::{RiskLevel, Status};

use crate::environment::context::cut;

/// How many addresses are named; the rest is counted.
pub(crate) const MAX_ADDRESSES: usize = 50;
/// How many errors are told; the rest is counted.
const MAX_ERRORS: usize = 10;
/// The longest address and the longest summary of an error, in characters:
/// all of them together fit into a description.
const MAX_ADDRESS: usize = 200;
const MAX_ERROR: usize = 300;
/// The shortest value that is hidden in the summaries of errors: shorter ones
/// stand in every other word.
const MIN_HIDDEN: usize = 4;

/// What is done to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Create,
    Update,
    Replace,
    Delete,
    Import,
    Move,
    Forget,
}

impl Action {
    /// Reads the word of the event stream; none for what changes nothing.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "create" => Self::Create,
            "update" => Self::Update,
            "replace" => Self::Replace,
            "delete" => Self::Delete,
            "import" => Self::Import,
            "move" => Self::Move,
            "remove" | "forget" => Self::Forget,
            _ => return None,
        })
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Replace => "replace",
            Self::Delete => "destroy",
            Self::Import => "import",
            Self::Move => "move",
            Self::Forget => "forget",
        }
    }

    fn risk(self) -> RiskLevel {
        match self {
            Self::Delete | Self::Replace => RiskLevel::High,
            Self::Update | Self::Forget => RiskLevel::Medium,
            Self::Create | Self::Import | Self::Move => RiskLevel::Low,
        }
    }
}

/// How far an action came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Planned,
    Done,
    Failed,
}

/// A resource that is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) address: String,
    pub(crate) action: Action,
    pub(crate) state: State,
}

/// The resources that are changed: the first ones, and how many more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TouchedList {
    pub(crate) named: Vec<Touched>,
    pub(crate) more: u64,
    /// What the most dangerous action makes it.
    high: bool,
    medium: bool,
}

impl TouchedList {
    pub(crate) fn add(&mut self, address: &str, action: Action, state: State) {
        match action.risk() {
            RiskLevel::High => self.high = true,
            RiskLevel::Medium => self.medium = true,
            _ => {}
        }
        if self.named.len() < MAX_ADDRESSES {
            let address = cut(&one_line(address), MAX_ADDRESS);
            self.named.push(Touched {
                address,
                action,
                state,
            });
        } else {
            self.more += 1;
        }
    }

    /// Finds what is named under this address.
    pub(crate) fn find(&mut self, address: &str) -> Option<&mut Touched> {
        let address = cut(&one_line(address), MAX_ADDRESS);
        self.named.iter_mut().find(|one| one.address == address)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Tells whether everything that is named is destroyed.
    pub(crate) fn only_deletes(&self) -> bool {
        !self.is_empty() && self.named.iter().all(|one| one.action == Action::Delete)
    }
}

/// How many resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) added: u64,
    pub(crate) changed: u64,
    pub(crate) destroyed: u64,
    pub(crate) imported: u64,
}

impl Counts {
    /// Counts an action that was done or is planned.
    pub(crate) fn count(&mut self, action: Action) {
        match action {
            Action::Create => self.added += 1,
            Action::Update => self.changed += 1,
            Action::Delete => self.destroyed += 1,
            Action::Import => self.imported += 1,
            Action::Replace => {
                self.added += 1;
                self.destroyed += 1;
            }
            Action::Move | Action::Forget => {}
        }
    }

    /// Says what is not zero, in the words for a plan or for what was done.
    fn words(self, words: [&str; 4]) -> Option<String> {
        let counts = [self.added, self.changed, self.destroyed, self.imported];
        let said: Vec<String> = counts
            .iter()
            .zip(words)
            .filter(|(count, _)| **count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        (!said.is_empty()).then(|| said.join(", "))
    }
}

/// What Terraform was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Plan,
    Apply,
    Destroy,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    #[default]
    Complete,
    Failed,
    /// It was killed, or what it said was cut off.
    Missing,
}

/// An error as far as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) summary: String,
    pub(crate) address: Option<String>,
}

/// The errors of a run: the first ones, and how many more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Problems {
    named: Vec<Problem>,
    more: u64,
}

impl Problems {
    pub(crate) fn add(&mut self, summary: &str, address: Option<&str>) {
        if self.named.len() >= MAX_ERRORS {
            self.more += 1;
            return;
        }
        self.named.push(Problem {
            summary: one_line(summary),
            address: address.map(|address| cut(&one_line(address), MAX_ADDRESS)),
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty()
    }
}

/// What a run did, or a plan would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Whether `OpenTofu` says it.
    pub(crate) tofu: bool,
    /// None if it failed before that was clear.
    pub(crate) operation: Option<Operation>,
    pub(crate) ending: Ending,
    pub(crate) counts: Counts,
    pub(crate) touched: TouchedList,
    /// How many outputs change.
    pub(crate) outputs: u64,
    pub(crate) problems: Problems,
    /// The version of Terraform.
    pub(crate) version: Option<String>,
    pub(crate) duration: Option<Duration>,
    /// Where it ran, as far as that is the repository's own name for it.
    pub(crate) folder: Option<String>,
    /// The providers and their versions.
    pub(crate) providers: Vec<String>,
}

impl Summary {
    /// Tells whether nothing was changed, nothing will be, and nothing failed.
    pub(crate) fn is_nothing(&self) -> bool {
        self.ending == Ending::Complete
            && self.counts == Counts::default()
            && self.touched.is_empty()
            && self.outputs == 0
    }

    /// Takes known secrets out of the summaries of errors, which providers
    /// write as they like.
    pub(crate) fn hide(&mut self, secrets: &[String]) {
        for problem in &mut self.problems.named {
            for secret in secrets {
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
        format!("{program}{operation}: {}", self.outcome())
    }

    fn outcome(&self) -> String {
        let words = if self.operation == Some(Operation::Plan) {
            ["to add", "to change", "to destroy", "to import"]
        } else {
            ["added", "changed", "destroyed", "imported"]
        };
        let counts = self.counts.words(words);
        let ending = match self.ending {
            Ending::Complete => {
                return counts.unwrap_or_else(|| {
                    match (self.touched.is_empty(), self.outputs) {
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

    /// Says in Markdown what was changed, what went wrong, by what, how long.
    pub(crate) fn description(&self) -> String {
        let mut parts = Vec::new();
        if !self.touched.is_empty() {
            parts.push(self.touched_text());
        }
        if self.outputs > 0 {
            parts.push(format!("{} changed.", plural(self.outputs, "output")));
        }
        if !self.problems.is_empty() {
            parts.push(self.problems_text());
        }
        if self.ending == Ending::Missing {
            parts.push("Its output ended without a result: it may have been killed.".to_owned());
        }
        let facts = self.facts();
        if !facts.is_empty() {
            parts.push(facts);
        }
        parts.join("\n\n")
    }

    fn touched_text(&self) -> String {
        let mut text = String::new();
        let whole = self.ending == Ending::Complete;
        for one in &self.touched.named {
            let state = match one.state {
                State::Failed => ": failed",
                State::Planned if !whole => ": not done",
                State::Planned | State::Done => "",
            };
            let word = one.action.word();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- {word} `{}`{state}", one.address.replace('`', "'"));
        }
        if self.touched.more > 0 {
            let _ = writeln!(text, "- and {} more", self.touched.more);
        }
        text.trim_end().to_owned()
    }

    fn problems_text(&self) -> String {
        let mut text = "Errors:\n\n".to_owned();
        for problem in &self.problems.named {
            let summary = cut(&problem.summary, MAX_ERROR);
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

    /// Says where, how long, and with what versions.
    fn facts(&self) -> String {
        let mut facts = Vec::new();
        if let Some(folder) = &self.folder {
            facts.push(format!("in `{}`", folder.replace('`', "'")));
        }
        if let Some(duration) = self.duration {
            facts.push(format!("took {}", seconds(duration)));
        }
        if let Some(version) = &self.version {
            let program = if self.tofu { "OpenTofu" } else { "Terraform" };
            facts.push(format!("{program} {}", cut(&one_line(version), 40)));
        }
        facts.extend(self.providers.iter().cloned());
        facts.join(", ")
    }

    /// Proposes a risk: what is destroyed or replaced is high, as is what
    /// failed; what is updated is medium; what is only created is low.
    pub(crate) fn risk(&self) -> RiskLevel {
        let failed = self.ending != Ending::Complete;
        if failed || self.touched.high || self.counts.destroyed > 0 {
            RiskLevel::High
        } else if self.touched.medium || self.counts.changed > 0 {
            RiskLevel::Medium
        } else {
            RiskLevel::Low
        }
    }

    pub(crate) fn status(&self) -> Status {
        match (self.ending, self.operation) {
            (Ending::Complete, Some(Operation::Plan)) => Status::Planned,
            (Ending::Complete, _) => Status::Completed,
            (Ending::Failed | Ending::Missing, _) => Status::RolledBack,
        }
    }
}

/// Puts a text on one line, without what a text must not have.
fn one_line(text: &str) -> String {
    let text = text.trim().lines().next().unwrap_or_default();
    text.chars().filter(|c| !c.is_control()).collect()
}

fn plural(count: u64, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

fn seconds(duration: Duration) -> String {
    let all = duration.as_secs();
    match all {
        0..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{} min {} s", all / 60, all % 60),
        _ => format!("{} h {} min", all / 3600, all % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use changelog_core::limits::MAX_LONG_TEXT_CHARS;

    fn summary(actions: &[Action]) -> Summary {
        let mut summary = Summary {
            operation: Some(Operation::Apply),
            ..Summary::default()
        };
        for (index, action) in actions.iter().enumerate() {
            summary
                .touched
                .add(&format!("a.b[{index}]"), *action, State::Done);
            summary.counts.count(*action);
        }
        summary
    }

    #[test]
    fn the_risk_is_that_of_the_worst_action() {
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
        // Also when it is not among those that are named.
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
        one.operation = Some(Operation::Plan);
        assert_eq!(
            one.title(),
            "terraform plan: 2 to add, 1 to change, 1 to destroy"
        );
        assert_eq!(one.status(), Status::Planned);
        one.operation = Some(Operation::Apply);
        one.ending = Ending::Failed;
        assert!(one.title().starts_with("terraform apply: failed, 2 added"));
        assert_eq!(
            (one.status(), one.risk()),
            (Status::RolledBack, RiskLevel::High)
        );
        one.counts = Counts::default();
        assert_eq!(one.title(), "terraform apply: failed");
        one.ending = Ending::Missing;
        assert_eq!(one.title(), "terraform apply: ended without a result");
        one.tofu = true;
        assert!(one.title().starts_with("tofu apply"));
        let mut nothing = summary(&[]);
        assert_eq!(nothing.title(), "terraform apply: no changes");
        assert!(nothing.is_nothing());
        nothing.outputs = 1;
        assert_eq!(nothing.title(), "terraform apply: only outputs changed");
        assert!(!nothing.is_nothing());
        assert_eq!(
            summary(&[Action::Move]).title(),
            "terraform apply: only moved or forgotten"
        );
    }

    #[test]
    fn a_description_names_fifty_addresses_and_always_fits() {
        let mut long = summary(&[Action::Create; 60]);
        let text = long.description();
        assert_eq!(text.matches("- create").count(), MAX_ADDRESSES);
        assert!(text.contains("- and 10 more"), "{text}");
        long.touched = TouchedList::default();
        for index in 0..1_000 {
            let address = format!("{index}{}", "é".repeat(1_000));
            long.touched.add(&address, Action::Replace, State::Failed);
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
    fn secrets_that_are_known_are_taken_out_of_errors() {
        let mut failed = summary(&[]);
        failed
            .problems
            .add("cannot sign in with hunter2hunter2", None);
        failed.hide(&["hunter2hunter2".to_owned(), "in".to_owned(), String::new()]);
        let text = failed.description();
        assert!(text.contains("cannot sign in with (hidden)"), "{text}");
    }

    #[test]
    fn durations_are_readable() {
        for (millis, text) in [
            (60, "0.1 s"),
            (3_200, "3.2 s"),
            (61_000, "1 min 1 s"),
            (7_260_000, "2 h 1 min"),
        ] {
            assert_eq!(seconds(Duration::from_millis(millis)), text);
        }
    }
}

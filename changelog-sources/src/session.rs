//! A session: the calls of one person or role with one tool, without a pause.

use changelog_core::Timestamp;
use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use crate::observation::{Call, Tool};

/// The pause that ends a session of calls.
pub const SESSION_PAUSE: TimeDelta = TimeDelta::minutes(3);
/// The calls that a description lists; of the others it has the number.
const MAX_LINES: usize = 50;
/// The areas that a title names.
const MAX_AREAS: usize = 3;
/// The areas that are counted, so that an operation stays small.
const MAX_COUNTED_AREAS: usize = 50;

/// The calls of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The first call; the last one is when its operation was last heard of.
    pub(crate) first_at: Timestamp,
    principal: String,
    is_person: bool,
    pub(crate) tool: Tool,
    calls: u64,
    /// The areas with the number of their calls, in the order of the first calls.
    areas: Vec<(String, u64)>,
    lines: Vec<String>,
    /// Whether a run that is a change of its own explains the calls.
    #[serde(default)]
    pub(crate) is_of_run: bool,
}

impl From<Call> for Session {
    fn from(call: Call) -> Self {
        Self {
            first_at: call.at,
            principal: call.principal,
            is_person: call.is_person,
            tool: call.tool,
            calls: 1,
            areas: vec![(call.area, 1)],
            lines: vec![call.line],
            is_of_run: false,
        }
    }
}

impl Session {
    /// Adds a call.
    pub(crate) fn add(&mut self, call: Call) {
        self.join(Self::from(call));
    }

    /// Adds the calls of another session.
    pub(crate) fn join(&mut self, other: Self) {
        self.calls += other.calls;
        self.first_at = self.first_at.min(other.first_at);
        for (area, calls) in other.areas {
            let mut known = self.areas.iter_mut();
            if let Some((_, count)) = known.find(|(name, _)| *name == area) {
                *count += calls;
            } else if self.areas.len() < MAX_COUNTED_AREAS {
                self.areas.push((area, calls));
            }
        }
        let room = MAX_LINES.saturating_sub(self.lines.len());
        self.lines.extend(other.lines.into_iter().take(room));
    }

    /// Returns whether it has more than one call.
    pub(crate) fn is_of_several(&self) -> bool {
        self.calls > 1
    }

    /// Returns whether a person made the calls in a console or at a terminal.
    pub(crate) fn is_by_hand(&self) -> bool {
        self.is_person && self.tool.is_by_hand()
    }

    /// Returns the automation that made the calls.
    pub(crate) fn automation(&self) -> Option<&str> {
        match &self.tool {
            Tool::Automation(name) => Some(name),
            _ => None,
        }
    }

    /// Returns how many calls there are, and to what: `14 calls, ec2 and iam`.
    pub(crate) fn calls(&self) -> String {
        let calls = match self.calls {
            1 => "1 call".to_owned(),
            calls => format!("{calls} calls"),
        };
        format!("{calls}, {}", joined(&self.areas))
    }

    /// Returns the title of several calls.
    pub(crate) fn title(&self) -> String {
        format!(
            "{} by {}: {}",
            self.tool.name(),
            self.principal,
            self.calls()
        )
    }

    /// Returns the description of several calls: a list in Markdown.
    pub(crate) fn description(&self) -> String {
        let mut lines: Vec<String> = self
            .lines
            .iter()
            .map(|line| format!("- `{}`", line.replace('`', "'")))
            .collect();
        let more = self.calls.saturating_sub(self.lines.len() as u64);
        if more > 0 {
            lines.push(format!("- and {more} more"));
        }
        lines.join("\n")
    }
}

/// Writes the most frequent areas: `ec2`, `ec2 and iam`, `ec2, iam and 3 more`.
fn joined(areas: &[(String, u64)]) -> String {
    let mut areas: Vec<&(String, u64)> = areas.iter().collect();
    areas.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut names: Vec<String> = areas
        .iter()
        .take(MAX_AREAS)
        .map(|(name, _)| name.clone())
        .collect();
    if areas.len() > MAX_AREAS {
        names.truncate(MAX_AREAS - 1);
        names.push(format!("{} more", areas.len() - names.len()));
    }
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

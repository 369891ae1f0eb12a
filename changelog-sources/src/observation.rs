//! What a request says, before it is joined with what is known already.

use changelog_core::{Link, Timestamp};
use serde::{Deserialize, Serialize};

use crate::alert::Alert;

/// What a request was read as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// What happened.
    pub observations: Vec<Observation>,
    /// Why the rest of the request is neither a change nor an alert, each reason once.
    pub ignored: Vec<String>,
}

impl Reading {
    /// Returns the reading of a request that says nothing about a change.
    pub fn ignored(reason: impl Into<String>) -> Self {
        Self {
            observations: Vec::new(),
            ignored: vec![reason.into()],
        }
    }

    /// Adds why a part of the request is no change.
    pub fn ignore(&mut self, reason: impl Into<String>) {
        let reason = reason.into();
        if !self.ignored.contains(&reason) {
            self.ignored.push(reason);
        }
    }
}

impl From<State> for Reading {
    fn from(state: State) -> Self {
        Self {
            observations: vec![Observation::State(Box::new(state))],
            ignored: Vec::new(),
        }
    }
}

impl From<Alert> for Reading {
    fn from(alert: Alert) -> Self {
        Self {
            observations: vec![Observation::Alert(Box::new(alert))],
            ignored: Vec::new(),
        }
    }
}

/// Why a body cannot be read: it is set aside, and can be read again once the service or
/// the settings of the source can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        Self(format!(
            "the body is not what this kind of source sends: {error}"
        ))
    }
}

/// One thing that a request says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The state of an operation that the sender has a name for: a deployment, a run.
    State(Box<State>),
    /// A single call, which becomes a change together with the others of its session.
    Call(Box<Call>),
    /// The state of an alert, which opens or resolves an incident.
    Alert(Box<Alert>),
}

/// The state of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// What the sender calls the operation: states of one key are one change.
    pub key: String,
    /// When it reached this state. A state never undoes a later one.
    pub at: Timestamp,
    /// How far it is.
    pub progress: Progress,
    /// When it started, where the sender says so.
    pub started_at: Option<Timestamp>,
    /// What is known of it.
    pub facts: Facts,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Not started: waiting, to be confirmed.
    Planned,
    /// Under way.
    Running,
    /// Finished.
    Succeeded,
    /// Undone by its sender after it had been made.
    Undone,
    /// Finished, and not as it should have.
    Failed,
}

impl Progress {
    /// Returns whether nothing more is expected.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Planned | Self::Running)
    }
}

/// A call to an API. Calls of one person or role with one tool without a pause of three
/// minutes are one session, and a session is one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What the sender calls it: a call of a known id is not counted again.
    pub id: String,
    /// When it was made.
    pub at: Timestamp,
    /// What became of it.
    pub progress: CallProgress,
    /// Who made it, as a person would say: `ada@example.com`, `role deployer`.
    pub principal: String,
    /// Whether a person made it, as far as can be told.
    pub is_person: bool,
    /// What it was made with.
    pub tool: Tool,
    /// The account, cluster or project: sessions do not extend over several.
    pub scope: String,
    /// What belongs together in the title of a session: `ec2`, `apps`.
    pub area: String,
    /// The call as a line of the description: `RunInstances i-0abc (eu-west-1)`.
    pub line: String,
    /// What is known of it. The title is that of a session of this call alone.
    pub facts: Facts,
}

impl Call {
    /// Returns what its session is known by.
    pub fn session(&self) -> String {
        format!("{}\n{}\n{}", self.scope, self.principal, self.tool.name())
    }
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallProgress {
    /// It was accepted, and its end may be reported.
    Accepted,
    /// It succeeded.
    Succeeded,
    /// It failed after it had been accepted.
    Failed,
}

/// What a call was made with, from its user agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    /// The sender's console in a browser.
    Console,
    /// The sender's command line, such as `aws` or `kubectl`, by its name.
    CommandLine(String),
    /// An automation, such as Terraform or Helm, by its name.
    Automation(String),
    /// Not known.
    Other,
}

impl Tool {
    /// Returns its name as a title begins with it.
    pub fn name(&self) -> &str {
        match self {
            Self::Console => "Console",
            Self::CommandLine(name) | Self::Automation(name) => name,
            Self::Other => "API",
        }
    }

    /// Returns whether it is a tool whose runs `chlog terraform` and HCP Terraform record.
    pub fn is_terraform(&self) -> bool {
        matches!(self, Self::Automation(name) if name == "Terraform" || name == "OpenTofu")
    }

    /// Returns whether a person uses it by hand.
    pub fn is_by_hand(&self) -> bool {
        matches!(self, Self::Console | Self::CommandLine(_))
    }
}

/// What is known of an operation. Nothing here may have a value that could be secret:
/// names of parameters, variables and annotations, never their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// What was done, in one line, as a person would write it.
    pub title: String,
    /// More about it, in Markdown.
    pub description: Option<String>,
    /// The names of services.
    pub services: Vec<String>,
    /// The name of a host.
    pub hostname: Option<String>,
    /// The sender's words for where it happened, the most telling first: the environment,
    /// the namespace, the cluster, the account, the branch.
    pub places: Vec<String>,
    /// The commit.
    pub commit: Option<String>,
    /// Links to the sender's pages, the most useful first.
    pub links: Vec<Link>,
    /// The person who did it.
    pub person: Option<String>,
    /// The automation that did it.
    pub agent: Option<String>,
    /// Tags, besides the kind of the source.
    pub tags: Vec<String>,
    /// Whether it deletes something.
    pub deletes: bool,
}

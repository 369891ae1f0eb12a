//! The automation that made a change, as the client claims it.

use serde::{Deserialize, Serialize};

use crate::input::ObjectReader;
use crate::limits::{MAX_NAME_CHARS, MAX_URL_CHARS};
use crate::problem::Violations;
use crate::rules::{self, TextKind};
use crate::wire_enum::wire_enum;

wire_enum! {
    /// Whether a person directed the automation while it acted.
    AgentMode, "a mode", example "autonomous" {
        /// A person watched or confirmed what it did.
        Interactive = "interactive",
        /// It acted by itself.
        Autonomous = "autonomous",
    }
}

/// The automation that made a change: a bot, a deployment tool, an AI agent. It is
/// shown as the client claims it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Agent {
    /// Its name.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub name: String,
    /// Whether a person directed it.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub mode: Option<AgentMode>,
    /// The run of it: an id or a URL.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::AgentRun>, required))]
    pub run: Option<String>,
}

/// The members of the object.
const NAMES: &[&str] = &["name", "mode", "run"];

pub(super) fn read(object: &mut ObjectReader<'_>, name: &str) -> Option<Agent> {
    object.object(name, NAMES, |agent| Agent {
        name: agent.required_string("name"),
        mode: agent.parsed("mode"),
        run: agent.string("run"),
    })
}

pub(super) fn check(problems: &mut Violations, agent: &mut Agent) {
    let chars = 1..=MAX_NAME_CHARS;
    rules::text(
        problems,
        "/agent/name",
        &mut agent.name,
        chars,
        TextKind::Line,
    );
    let run = &mut agent.run;
    rules::optional_text(problems, "/agent/run", run, MAX_URL_CHARS, TextKind::Line);
    // What an environment variable that is not set becomes.
    if run.as_ref().is_some_and(String::is_empty) {
        *run = None;
    }
}

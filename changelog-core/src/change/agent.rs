//! The automation that made a change, as the client claims it.

use std::str::FromStr;

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

impl Agent {
    /// Returns an agent of which only the name is known; refuses one that no change could have.
    pub fn of_name(name: &str) -> Result<Self, String> {
        let agent = Self {
            name: name.to_owned(),
            mode: None,
            run: None,
        };
        agent.checked()
    }

    /// Reads `NAME` or `NAME:MODE`, and refuses a name that no change could have.
    pub fn named(text: &str) -> Result<Self, String> {
        text.parse::<Self>()?.checked()
    }

    fn checked(mut self) -> Result<Self, String> {
        let mut problems = Violations::default();
        check(&mut problems, &mut self);
        problems
            .into_result(self)
            .map_err(|invalid| invalid.to_string())
    }
}

/// Returns which agent acted, and for whom if that was said.
pub fn acted(agent: &str, on_behalf_of: Option<&str>) -> String {
    match on_behalf_of {
        Some(person) => format!("{agent} for {person}"),
        None => agent.to_owned(),
    }
}

impl FromStr for Agent {
    type Err = String;

    /// Reads `NAME` or `NAME:MODE`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, mode) = match text.rsplit_once(':') {
            Some((name, mode)) => {
                let mode: AgentMode = mode
                    .trim()
                    .to_lowercase()
                    .parse()
                    .map_err(|invalid| format!("the mode {invalid}"))?;
                (name, Some(mode))
            }
            None => (text, None),
        };
        Ok(Self {
            name: name.to_owned(),
            mode,
            run: None,
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_has_a_name_and_may_have_a_mode() {
        for (text, name, mode) in [
            ("renovate", "renovate", None),
            (
                "renovate:autonomous",
                "renovate",
                Some(AgentMode::Autonomous),
            ),
            ("a:b:Interactive", "a:b", Some(AgentMode::Interactive)),
        ] {
            let agent: Agent = text.parse().unwrap();
            assert_eq!((agent.name.as_str(), agent.mode), (name, mode), "{text}");
        }
        let message = Agent::from_str("renovate:manual").unwrap_err();
        assert!(message.contains("interactive"), "{message}");
    }
}

//! The agent that runs the command, as the variables that coding agents set tell it.

use std::path::Path;
use std::sync::OnceLock;

use changelog_core::limits::MAX_URL_CHARS;
use changelog_core::{Agent, AgentMode};
use is_ai_agent::{AgentId, Signal};

use crate::base::failure::warn;
use crate::base::text::without_controls;

/// The variable that names the agent, or turns its recognition off.
pub(crate) const VARIABLE: &str = "CHLOG_AGENT";
/// What the variable may have to turn it off.
const OFF: &[&str] = &["off", "0", "false", "no", "none"];
/// The name where only is known that there is an agent.
const UNNAMED: &str = "unknown-agent";

/// What the environment says about an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Recognized {
    /// [`VARIABLE`] turns it off.
    Off,
    /// The agent, and the variable or file that tells of it.
    Agent(Agent, &'static str),
}

/// Returns what the environment of this command says. It is read once, so that an error in it
/// is reported once.
pub(crate) fn recognized(in_ci: bool) -> Option<Recognized> {
    static FOUND: OnceLock<Option<Recognized>> = OnceLock::new();
    let exists = |path: &str| Path::new(path).exists();
    let found = FOUND.get_or_init(|| read(&|name| std::env::var(name).ok(), &exists, in_ci));
    found.clone()
}

fn read(
    env: &dyn Fn(&str) -> Option<String>,
    exists: &dyn Fn(&str) -> bool,
    in_ci: bool,
) -> Option<Recognized> {
    if let Some(given) = env(VARIABLE).and_then(|given| without_controls(&given)) {
        if OFF.contains(&given.to_lowercase().as_str()) {
            return Some(Recognized::Off);
        }
        match Agent::named(&given) {
            Ok(agent) => return Some(Recognized::Agent(agent, VARIABLE)),
            Err(reason) => warn(&format!("{VARIABLE} is ignored: {reason}")),
        }
    }
    let found = is_ai_agent::detect_with(env, exists)?;
    let (signal, value) = match found.signal {
        Signal::EnvVar { name, value } => (name, Some(value)),
        Signal::File { path } => (path, None),
        _ => return None,
    };
    let name = match found.id {
        AgentId::Unknown => named(value.as_deref()).unwrap_or(UNNAMED.to_owned()),
        known => known.as_str().to_owned(),
    };
    let agent = Agent {
        name,
        mode: mode(env, in_ci),
        run: found.session_id.and_then(|id| without_controls(&id)),
    };
    fitting(agent).map(|agent| Recognized::Agent(agent, signal))
}

/// Returns the name in the value of a variable; `None` if it only says that there is an agent.
fn named(value: Option<&str>) -> Option<String> {
    let value = without_controls(value?)?;
    let is_yes = ["1", "true", "yes", "on"].contains(&value.to_lowercase().as_str());
    (!is_yes).then_some(value)
}

/// Returns whether a person directs the agent, if the environment says so.
fn mode(env: &dyn Fn(&str) -> Option<String>, in_ci: bool) -> Option<AgentMode> {
    let has = |name: &str| env(name).is_some_and(|value| !value.is_empty());
    let entry = env("CLAUDE_CODE_ENTRYPOINT").unwrap_or_default();
    // What programs start, by the SDK or with `-p`.
    let by_program = entry.starts_with("sdk") || entry.contains("action");
    let by_person = matches!(entry.as_str(), "cli" | "claude-vscode" | "claude-desktop");
    if in_ci || by_program || has("COPILOT_AGENT_JOB_ID") {
        Some(AgentMode::Autonomous)
    } else if by_person || has("COPILOT_AGENT") {
        Some(AgentMode::Interactive)
    } else {
        None
    }
}

/// Drops what does not fit into a change.
fn fitting(agent: Agent) -> Option<Agent> {
    let fitting = Agent::of_name(&agent.name).ok()?;
    Some(Agent {
        mode: agent.mode,
        run: agent.run.filter(|run| run.chars().count() <= MAX_URL_CHARS),
        ..fitting
    })
}

#[cfg(test)]
mod tests {
    use changelog_core::limits::MAX_NAME_CHARS;

    use super::*;

    fn recognized(variables: &[(&str, &str)], in_ci: bool) -> Option<Recognized> {
        let env = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        read(&env, &|_| false, in_ci)
    }

    #[test]
    fn agents_are_told_by_their_variables() {
        let autonomous = Some(AgentMode::Autonomous);
        let interactive = Some(AgentMode::Interactive);
        let long = "x".repeat(MAX_NAME_CHARS + 1);
        let long_run = "x".repeat(MAX_URL_CHARS + 1);
        for (variables, in_ci, expected) in [
            (&[][..], false, None),
            (
                &[("CLAUDECODE", "1"), ("CLAUDE_CODE_ENTRYPOINT", "cli")],
                false,
                Some(("claude-code", interactive.clone(), None)),
            ),
            (
                &[
                    ("CLAUDE_CODE_ENTRYPOINT", "sdk-cli"),
                    ("CLAUDE_CODE_SESSION_ID", "3f\n"),
                ],
                false,
                Some(("claude-code", autonomous.clone(), Some("3f"))),
            ),
            (
                &[("CURSOR_AGENT", "1")],
                false,
                Some(("cursor", None, None)),
            ),
            (
                &[("GEMINI_CLI", "1")],
                false,
                Some(("gemini-cli", None, None)),
            ),
            (
                &[("CODEX_SANDBOX", "seatbelt"), ("CODEX_THREAD_ID", "t-1")],
                true,
                Some(("codex", autonomous.clone(), Some("t-1"))),
            ),
            (
                &[("COPILOT_AGENT", "1")],
                false,
                Some(("github-copilot", interactive, None)),
            ),
            (&[("OPENCODE", "1")], false, Some(("opencode", None, None))),
            (
                &[("AI_AGENT", "deploy-bot")],
                false,
                Some(("deploy-bot", None, None)),
            ),
            (
                &[("AI_AGENT", "team:bot")],
                false,
                Some(("team:bot", None, None)),
            ),
            (&[("AI_AGENT", "1")], false, Some((UNNAMED, None, None))),
            (&[("AI_AGENT", "0")], false, None),
            (&[("AI_AGENT", &long)], false, None),
            (
                &[("CODEX_THREAD_ID", &long_run)],
                false,
                Some(("codex", None, None)),
            ),
            (
                &[("CLAUDECODE", "1"), (VARIABLE, "renovate:autonomous")],
                false,
                Some(("renovate", autonomous, None)),
            ),
            (
                &[("CLAUDECODE", "1"), (VARIABLE, "renovate:manual")],
                false,
                Some(("claude-code", None, None)),
            ),
        ] {
            let found = recognized(variables, in_ci).map(|found| match found {
                Recognized::Off => panic!("off: {variables:?}"),
                Recognized::Agent(agent, _) => (agent.name, agent.mode, agent.run),
            });
            let found = found.as_ref();
            let found =
                found.map(|(name, mode, run)| (name.as_str(), mode.clone(), run.as_deref()));
            assert_eq!(found, expected, "{variables:?}");
        }
    }

    #[test]
    fn recognition_can_be_turned_off() {
        for off in ["off", "OFF", "0", " no ", "None"] {
            let found = recognized(&[("CLAUDECODE", "1"), (VARIABLE, off)], false);
            assert_eq!(found, Some(Recognized::Off), "{off:?}");
        }
    }
}

//! What makes a change, as a filter tells it.

use super::{Agent, AgentMode, Author, AuthorType};
use crate::wire_enum::wire_enum;

/// The tag of a change that a person made in a console or at a terminal instead of by a
/// pipeline.
pub const BY_HAND: &str = "by-hand";

wire_enum! {
    /// What made a change.
    MadeBy, "what makes changes", example "hand" {
        /// An automation that the change names, such as an AI agent or Terraform.
        Agent = "agent",
        /// A person, in the dashboard.
        Person = "person",
        /// A pipeline or another program, with an API key or through a source.
        Pipeline = "pipeline",
        /// A person, in a console or at a terminal of the infrastructure: the change has
        /// the tag `by-hand`.
        Hand = "hand",
        /// An automation without a person behind it: one of those of `agent` that nobody
        /// directed, as far as the change says, and for which it names nobody.
        Unattended = "unattended",
    }
}

const AGENT: &[MadeBy] = &[MadeBy::Agent];
const UNATTENDED: &[MadeBy] = &[MadeBy::Agent, MadeBy::Unattended];
const PERSON: &[MadeBy] = &[MadeBy::Person];
const PIPELINE: &[MadeBy] = &[MadeBy::Pipeline];
const HAND: &[MadeBy] = &[MadeBy::Hand];

impl MadeBy {
    /// Returns all words for what made a change with these tags, agent and author, and this
    /// person on whose behalf it was made.
    pub fn of(
        tags: &[String],
        agent: Option<&Agent>,
        author: Option<&Author>,
        on_behalf_of: Option<&str>,
    ) -> &'static [Self] {
        let is_by_person = author.is_some_and(|author| author.kind == AuthorType::Person);
        if tags.iter().any(|tag| tag == BY_HAND) {
            HAND
        } else if let Some(agent) = agent {
            let is_directed = agent.mode == Some(AgentMode::Interactive);
            if is_directed || is_by_person || on_behalf_of.is_some() {
                AGENT
            } else {
                UNATTENDED
            }
        } else if is_by_person {
            PERSON
        } else {
            PIPELINE
        }
    }
}

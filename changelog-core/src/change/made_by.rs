//! What makes a change, as a filter tells it.

use super::{Agent, Author, AuthorType};
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
    }
}

impl MadeBy {
    /// Returns what made a change with these tags, agent and author.
    pub fn of(tags: &[String], agent: Option<&Agent>, author: Option<&Author>) -> Self {
        if tags.iter().any(|tag| tag == BY_HAND) {
            Self::Hand
        } else if agent.is_some() {
            Self::Agent
        } else if author.is_some_and(|author| author.kind == AuthorType::Person) {
            Self::Person
        } else {
            Self::Pipeline
        }
    }
}

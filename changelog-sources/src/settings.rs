//! What an organization sets for a source.

use std::collections::BTreeMap;

use changelog_core::{Environment, RiskLevel};
use serde::{Deserialize, Serialize};

/// How the requests of a source are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The service of changes for which the sender names none.
    pub service: Option<String>,
    /// The environment of changes for which the sender names none.
    pub environment: Option<Environment>,
    /// Whether services that the sender names are created when they are missing.
    pub create_missing: bool,
    /// The environment of an account, cluster, namespace, branch or environment of the
    /// sender, by its name without regard to case.
    pub environments: BTreeMap<String, Environment>,
    /// The names of the workflows of GitHub Actions that deploy.
    pub workflows: Vec<String>,
    /// The risk of a change.
    pub risk: RiskRules,
    /// How the JSON of a generic source is read.
    pub generic: GenericTemplates,
}

/// The risk of a change: the greatest of those that apply, or else low.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RiskRules {
    /// Of what deletes.
    pub deletes: RiskLevel,
    /// Of what failed.
    pub failures: RiskLevel,
    /// In production.
    pub production: RiskLevel,
}

impl Default for RiskRules {
    fn default() -> Self {
        Self {
            deletes: RiskLevel::High,
            failures: RiskLevel::High,
            production: RiskLevel::Medium,
        }
    }
}

/// Templates for the fields of a change, in the language of Jinja, over the JSON body: for
/// example `{{ deployment.service }} {{ deployment.version }}`. What is empty after
/// rendering is not set. `each` is a JSON pointer to a list of which every element is one
/// change; the others are then over the element.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GenericTemplates {
    /// A JSON pointer to a list, such as `/events`; the whole body if empty.
    pub each: String,
    /// What is ignored: if this renders to `true`.
    pub ignore: String,
    /// What tells one change from another; the id of the request if empty.
    pub key: String,
    /// The title, required.
    pub title: String,
    /// The description, in Markdown.
    pub description: String,
    /// `planned`, `in_progress`, `completed` or `failed`, or the sender's own word for one
    /// of them; `completed` if empty.
    pub status: String,
    /// When that status was reached, as RFC 3339 or seconds or milliseconds since 1970.
    pub at: String,
    /// The name of a service.
    pub service: String,
    /// The sender's word for the environment.
    pub environment: String,
    /// The person who did it.
    pub person: String,
    /// A URL.
    pub link: String,
    /// A commit.
    pub commit: String,
}

//! A CI run.

use changelog_core::Environment;

use crate::environment::repository::Repository;

/// The CI run that `chlog` is part of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    /// The name of the system.
    pub(crate) system: &'static str,
    pub(crate) repository: Option<Repository>,
    pub(crate) commit: Option<String>,
    pub(crate) reference: Option<Ref>,
    /// The user who started it.
    pub(crate) actor: Option<String>,
    /// The environment that it deploys to.
    pub(crate) environment: Option<Environment>,
    /// The URL of the run.
    pub(crate) url: Option<String>,
    /// The URL of the pull request.
    pub(crate) pull_request: Option<String>,
    /// The first line of the commit's message.
    pub(crate) subject: Option<String>,
}

/// A branch or a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ref {
    Branch(String),
    Tag(String),
}

impl Ref {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Branch(_) => "branch",
            Self::Tag(_) => "tag",
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Branch(name) | Self::Tag(name) => name,
        }
    }

    /// Parses a full name such as `refs/heads/main`; none if it is neither a
    /// branch nor a tag.
    pub(super) fn of_full(name: &str) -> Option<Self> {
        if let Some(branch) = name.strip_prefix("refs/heads/") {
            return Some(Self::Branch(branch.to_owned()));
        }
        let tag = name.strip_prefix("refs/tags/")?;
        Some(Self::Tag(tag.to_owned()))
    }
}

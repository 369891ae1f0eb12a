//! The fields of a change that settings can supply.

use changelog_core::RiskLevel;
use changelog_core::limits::{MAX_NAME_CHARS, MAX_TAGS};

/// The name of the setting for tags.
pub(super) const TAGS: &str = "default tags";

/// The fields of a change when the command does not give them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Defaults {
    pub(crate) service: Option<String>,
    pub(crate) host: Option<String>,
    /// Added to the tags that the command gives.
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) risk: Option<RiskLevel>,
    /// Whether to create a service or host that does not exist.
    pub(crate) create_missing: Option<bool>,
}

impl Defaults {
    /// Returns the name and the text of each field; none for a field that is
    /// not set.
    pub(super) fn named(&self) -> [(&'static str, Option<String>); 5] {
        let tags = self.tags.as_ref().map(|tags| tags.join(", "));
        [
            ("default service", self.service.clone()),
            ("default host", self.host.clone()),
            (TAGS, tags),
            ("default risk", self.risk.as_ref().map(ToString::to_string)),
            (
                "create missing",
                self.create_missing.map(|create| create.to_string()),
            ),
        ]
    }

    /// Fills the fields that are not set from a source of lower precedence; adds its
    /// tags.
    pub(super) fn or(self, lower: Self) -> Self {
        Self {
            service: self.service.or(lower.service),
            host: self.host.or(lower.host),
            tags: with_tags(self.tags, lower.tags.as_deref()),
            risk: self.risk.or(lower.risk),
            create_missing: self.create_missing.or(lower.create_missing),
        }
    }
}

/// Adds tags to others; none if there are neither.
pub(crate) fn with_tags(tags: Option<Vec<String>>, more: Option<&[String]>) -> Option<Vec<String>> {
    let Some(more) = more else {
        return tags;
    };
    let mut tags = tags.unwrap_or_default();
    add_tags(&mut tags, more);
    Some(tags)
}

/// Adds tags as far as there is room for them. A tag `KEY=VALUE` is not added if there
/// is one with its key.
pub(crate) fn add_tags(tags: &mut Vec<String>, more: &[String]) {
    for tag in more {
        let is_given = match tag.split_once('=') {
            Some((key, _)) => tags
                .iter()
                .any(|given| given.split_once('=').is_some_and(|(given, _)| given == key)),
            None => tags.contains(tag),
        };
        if !is_given && tags.len() < MAX_TAGS && tag.chars().count() <= MAX_NAME_CHARS {
            tags.push(tag.clone());
        }
    }
}

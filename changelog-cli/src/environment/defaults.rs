//! The fields of a change that settings can supply.

use changelog_core::RiskLevel;

/// The fields of a change when the command does not give them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Defaults {
    pub(crate) service: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) risk: Option<RiskLevel>,
}

impl Defaults {
    /// Returns the name and the text of each field; none for a field that is
    /// not set.
    pub(super) fn named(&self) -> [(&'static str, Option<String>); 4] {
        let tags = self.tags.as_ref().map(|tags| tags.join(", "));
        [
            ("default service", self.service.clone()),
            ("default host", self.host.clone()),
            ("default tags", tags),
            ("default risk", self.risk.as_ref().map(ToString::to_string)),
        ]
    }

    /// Fills the fields that are not set from a source of lower precedence.
    pub(super) fn or(self, lower: Self) -> Self {
        Self {
            service: self.service.or(lower.service),
            host: self.host.or(lower.host),
            tags: self.tags.or(lower.tags),
            risk: self.risk.or(lower.risk),
        }
    }
}

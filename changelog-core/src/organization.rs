//! Organizations and their plans.

use serde::{Deserialize, Serialize};

use crate::ids::OrganizationId;
use crate::input::{Input, ObjectReader};
use crate::limits::MAX_NAME_CHARS;
use crate::problem::Violations;
use crate::rules::{self, TextKind};
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// The plan of an organization, which the operator sets.
    Plan, "a plan", example "pro" {
        /// The dashboard only.
        Free = "free",
        /// The dashboard and the API.
        Pro = "pro",
    }
}

impl Plan {
    /// Returns whether the API keys of the organization work.
    pub fn includes_api(&self) -> bool {
        *self == Self::Pro
    }

    /// Returns whether people may sign in by the organization's identity provider.
    pub fn includes_sso(&self) -> bool {
        *self == Self::Pro
    }
}

/// An organization, which all records belong to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    /// The id.
    pub id: OrganizationId,
    /// The name.
    pub name: String,
    /// The plan.
    pub plan: Plan,
    /// The time of creation.
    pub created_at: Timestamp,
}

/// Input for creating an organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrganization {
    /// The name.
    pub name: String,
    /// The plan.
    pub plan: Plan,
}

impl Input for NewOrganization {
    const FIELDS: &'static [&'static str] = &["name", "plan"];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            name: object.required_string("name"),
            plan: object.parsed("plan").unwrap_or(Plan::Free),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        rules::text(
            problems,
            "/name",
            &mut self.name,
            1..=MAX_NAME_CHARS,
            TextKind::Name,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_at_their_limits() {
        for (size, taken) in [(0, false), (1, true), (99, true), (100, true), (101, false)] {
            let new = NewOrganization {
                name: "x".repeat(size),
                plan: Plan::Pro,
            };
            assert_eq!(new.checked(Timestamp::EPOCH).is_ok(), taken, "{size}");
        }
    }

    #[test]
    fn only_pro_includes_the_api() {
        assert_eq!(Plan::WORDS, ["free", "pro"]);
        assert!(Plan::Pro.includes_api());
        assert!(!Plan::Free.includes_api());
        assert!(Plan::Pro.includes_sso() && !Plan::Free.includes_sso());
        // A plan of the future is not guessed at.
        assert!(!Plan::Unknown("enterprise".into()).includes_api());
    }
}

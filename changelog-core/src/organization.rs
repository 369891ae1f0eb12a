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
    /// What an organization has subscribed to; the operator sets it.
    Plan, "a plan", example "pro" {
        /// The dashboard only.
        Free = "free",
        /// The dashboard and the API.
        Pro = "pro",
    }
}

impl Plan {
    /// Tells whether API keys of such an organization work.
    pub fn includes_api(&self) -> bool {
        *self == Self::Pro
    }
}

/// An organization: everything recorded belongs to one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    /// Its id.
    pub id: OrganizationId,
    /// Its name.
    pub name: String,
    /// Its plan.
    pub plan: Plan,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What makes an organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrganization {
    /// 1 to 100 characters.
    pub name: String,
    /// Its plan.
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
        // A plan of the future is not guessed at.
        assert!(!Plan::Unknown("enterprise".into()).includes_api());
    }
}

//! Ranks the changes before a moment at which something broke, and gives the reasons
//! for each rank.
//!
//! A score is the sum of the points of its reasons, so that the reasons shown next to
//! a change explain its rank.

mod filter;
mod rank;
mod recency;
mod reversal;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::{Change, ServiceRef};
use crate::coverage::Coverage;
use crate::host::Environment;
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

pub use filter::AroundFilter;
pub use rank::{Affected, Candidate, Ranked, Ranking, SymptomWord, rank};

wire_enum! {
    /// A reason for the rank of a change.
    ReasonCode, "a reason", example "same_service" {
        /// The affected service is the first service of the change.
        SameService = "same_service",
        /// The affected service is one of the further services of the change.
        TouchedService = "touched_service",
        /// The affected service depends on a service of the change.
        Dependency = "dependency",
        /// A service of the change depends on the affected service.
        Dependent = "dependent",
        /// The change was made on the affected host.
        SameHost = "same_host",
        /// The change was made in the affected environment.
        SameEnvironment = "same_environment",
        /// Words of the symptom are in the title or in the name of the service.
        Words = "words",
        /// How long before the moment the change started.
        Recent = "recent",
        /// The risk level of the change.
        Risk = "risk",
        /// A person made the change in a console or at a terminal, past the pipeline: it has
        /// the tag `by-hand`.
        ByHand = "by_hand",
        /// At least half of the other changes of the same agent in the window, and at least
        /// two, had failed or been undone before the moment.
        AgentInTrouble = "agent_in_trouble",
        /// The change was in progress at the moment.
        InProgress = "in_progress",
        /// The change had been undone before the moment.
        UndoneBefore = "undone_before",
        /// The change was undone after the moment.
        UndoneAfter = "undone_after",
        /// The title says that the change undoes an earlier one.
        Revert = "revert",
        /// The title says that the change repeats one that had been undone.
        Relanding = "relanding",
        /// There are newer changes to the same service.
        NewerOfService = "newer_of_service",
    }
}

/// A reason for the rank of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reason {
    /// The kind of reason.
    pub code: ReasonCode,
    /// Its share of the score; negative if the reason speaks against the change.
    #[cfg_attr(feature = "openapi", schema(example = 64))]
    pub points: i32,
    /// The reason in words.
    #[cfg_attr(feature = "openapi", schema(example = "same service: payments"))]
    pub text: String,
}

/// A change that may be the cause of what happened after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Suspect {
    /// The sum of the points of the reasons; may be negative.
    #[cfg_attr(feature = "openapi", schema(example = 154))]
    pub score: i32,
    /// The reasons for its score, most points first.
    pub reasons: Vec<Reason>,
    /// The change.
    pub change: Change,
}

/// The ranked changes before a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Around {
    /// The changes, highest score first.
    pub data: Vec<Suspect>,
    /// The end of the window.
    pub at: Timestamp,
    /// The start of the window.
    pub since: Timestamp,
    /// The length of the window in minutes.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, example = 1_440))]
    pub window_minutes: u64,
    /// Whether the window is longer than a day because the last day has nothing of
    /// weight.
    pub widened: bool,
    /// The number of changes that were compared.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, example = 12))]
    pub considered: u64,
    /// Whether all changes in the window were compared; otherwise the newest ones
    /// were, and the newest of those related to what was affected.
    pub complete: bool,
    /// Where the changes of the window were made.
    pub facets: AroundFacets,
    /// What is heard from now, and the gaps of the window.
    pub coverage: Coverage,
}

/// How many changes of a window there are by service and environment; planned changes
/// do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AroundFacets {
    /// The services with the most of the compared changes, busiest first. A change to several services
    /// counts for each of them.
    pub services: Vec<ServiceCount>,
    /// The environments, busiest first.
    pub environments: Vec<EnvironmentCount>,
}

/// The number of changes to a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceCount {
    /// The service.
    pub service: ServiceRef,
    /// The number of changes, at least 1.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, example = 7))]
    pub count: u64,
}

/// The number of changes in an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnvironmentCount {
    /// The environment.
    pub environment: Environment,
    /// The number of changes, at least 1.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, example = 12))]
    pub count: u64,
}

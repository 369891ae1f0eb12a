//! Changes to the infrastructure, done or planned.

pub mod around;
mod event;
pub mod fields;
mod filter;
mod imported_change;
mod input;
mod link;

use serde::{Deserialize, Serialize};

use crate::host::Environment;
use crate::ids::{ChangeId, HostId, OrganizationId, ServiceId};
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

pub use event::{ChangeEvent, ChangeUpdate, StreamFilter};
pub use filter::ChangeFilter;
pub use imported_change::ImportedChange;
pub use input::{ChangePatch, NewChange, NewChanges};
pub use link::Link;

wire_enum! {
    /// The risk level of a change.
    RiskLevel, "a risk level", example "high" {
        /// No visible effect is expected.
        Low = "low",
        /// Should be watched.
        Medium = "medium",
        /// May cause an outage.
        High = "high",
    }
}

wire_enum! {
    /// The status of a change. Any status may follow any other.
    Status, "a status", example "completed" {
        /// Not started yet.
        Planned = "planned",
        /// Under way.
        InProgress = "in_progress",
        /// Finished.
        Completed = "completed",
        /// Undone or failed.
        RolledBack = "rolled_back",
    }
}

/// The service of a change, as the change shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceRef {
    /// The service's id.
    pub id: ServiceId,
    /// The service's name.
    #[cfg_attr(feature = "openapi", schema(example = "payments"))]
    pub name: String,
    /// The service's color.
    #[cfg_attr(feature = "openapi", schema(example = "#6366f1"))]
    pub color: String,
}

/// The host of a change, as the change shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HostRef {
    /// The host's id.
    pub id: HostId,
    /// The host's name.
    #[cfg_attr(feature = "openapi", schema(example = "web-1"))]
    pub hostname: String,
    /// The environment of the host.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub environment: Option<Environment>,
}

/// A change with all its fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Change {
    /// The id.
    pub id: ChangeId,
    /// What was done, in one line.
    #[cfg_attr(feature = "openapi", schema(example = "Deploy api 2.3"))]
    pub title: String,
    /// What was done and how to undo it, in Markdown.
    #[cfg_attr(
        feature = "openapi",
        schema(required, example = "Rolls out the new rate limiter.")
    )]
    pub description: Option<String>,
    /// The risk level.
    pub risk_level: RiskLevel,
    /// The status.
    pub status: Status,
    /// What to expect from the change, in Markdown.
    #[cfg_attr(
        feature = "openapi",
        schema(required, example = "Two minutes of read-only mode")
    )]
    pub impact: Option<String>,
    /// The service that was changed.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub service: Option<ServiceRef>,
    /// The host that was changed.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub host_ref: Option<HostRef>,
    /// The tags, in the order given.
    #[cfg_attr(feature = "openapi", schema(example = json!(["terraform", "prod"])))]
    pub tags: Vec<String>,
    /// The links, in the order given.
    pub links: Vec<Link>,
    /// The time for which the change is scheduled.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub scheduled_for: Option<Timestamp>,
    /// The time at which the change happened.
    pub occurred_at: Timestamp,
    /// The organization that the change belongs to.
    pub organization_id: OrganizationId,
    /// The time at which the change was recorded.
    pub created_at: Timestamp,
    /// The time of the last update.
    pub updated_at: Timestamp,
}

/// The response to creating a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeCreated {
    /// The id.
    pub id: ChangeId,
    /// What was done, in one line.
    #[cfg_attr(feature = "openapi", schema(example = "Deploy api 2.3"))]
    pub title: String,
    /// The risk level.
    pub risk_level: RiskLevel,
    /// The status.
    pub status: Status,
    /// The organization that the change belongs to.
    pub organization_id: OrganizationId,
    /// The time at which the change was recorded.
    pub created_at: Timestamp,
}

//! Changes to the infrastructure, done or planned.

pub mod around;
mod export_row;
pub mod fields;
mod filter;
mod input;
mod link;

use serde::{Deserialize, Serialize};

use crate::host::Environment;
use crate::ids::{ChangeId, HostId, OrganizationId, ServiceId};
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

pub use export_row::ExportRow;
pub use filter::ChangeFilter;
pub use input::{ChangePatch, NewChange, NewChanges};
pub use link::Link;

wire_enum! {
    /// How dangerous a change is.
    RiskLevel, "a risk level", example "high" {
        /// Nobody will notice.
        Low = "low",
        /// Worth watching.
        Medium = "medium",
        /// Worth being awake for.
        High = "high",
    }
}

wire_enum! {
    /// Where a change stands. Any status may follow any other.
    Status, "a status", example "completed" {
        /// Announced.
        Planned = "planned",
        /// Being done.
        InProgress = "in_progress",
        /// Done.
        Completed = "completed",
        /// Undone, or failed.
        RolledBack = "rolled_back",
    }
}

/// The service of a change, as far as the change shows it.
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

/// The host of a change, as far as the change shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HostRef {
    /// The host's id.
    pub id: HostId,
    /// The host's name.
    #[cfg_attr(feature = "openapi", schema(example = "web-1"))]
    pub hostname: String,
    /// What the host is for.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub environment: Option<Environment>,
}

/// A change in full: the detail shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Change {
    /// Its id.
    pub id: ChangeId,
    /// What was done, in a line.
    #[cfg_attr(feature = "openapi", schema(example = "Deploy api 2.3"))]
    pub title: String,
    /// What was done, in full.
    #[cfg_attr(
        feature = "openapi",
        schema(required, example = "Rolls out the new rate limiter.")
    )]
    pub description: Option<String>,
    /// How dangerous it is.
    pub risk_level: RiskLevel,
    /// Where it stands.
    pub status: Status,
    /// What to expect from it.
    #[cfg_attr(
        feature = "openapi",
        schema(required, example = "Two minutes of read-only mode")
    )]
    pub impact: Option<String>,
    /// The service that it was made to.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub service: Option<ServiceRef>,
    /// The host that it was made on.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub host_ref: Option<HostRef>,
    /// Its tags, in the order given.
    #[cfg_attr(feature = "openapi", schema(example = json!(["terraform", "prod"])))]
    pub tags: Vec<String>,
    /// Its links, in the order given.
    pub links: Vec<Link>,
    /// When it is scheduled.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub scheduled_for: Option<Timestamp>,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// The organization that it belongs to.
    pub organization_id: OrganizationId,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// When the record was last changed.
    pub updated_at: Timestamp,
}

/// What creating a change answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeCreated {
    /// Its id.
    pub id: ChangeId,
    /// What was done, in a line.
    #[cfg_attr(feature = "openapi", schema(example = "Deploy api 2.3"))]
    pub title: String,
    /// How dangerous it is.
    pub risk_level: RiskLevel,
    /// Where it stands.
    pub status: Status,
    /// The organization that it belongs to.
    pub organization_id: OrganizationId,
    /// When it was recorded.
    pub created_at: Timestamp,
}

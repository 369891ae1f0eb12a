//! Changes to the infrastructure, done or planned.

mod agent;
pub mod annotation;
pub mod around;
mod author;
mod checks;
mod cursor;
mod event;
pub mod fields;
mod filter;
mod history;
mod imported_change;
mod link;
mod made_by;
mod new_change;
mod patch;
mod progress;
#[cfg(feature = "openapi")]
pub mod schemas;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use crate::host::{Environment, Host};
use crate::ids::{ChangeId, HostId, OrganizationId, ServiceId};
use crate::service::Service;
use crate::source::SourceRef;
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;
use crate::workload::VerifiedRun;

pub use agent::{Agent, AgentMode, acted};
pub use author::{Author, AuthorType};
pub use cursor::ChangeCursor;
pub use event::{ChangeEvent, ChangeUpdate, StreamFilter};
pub use filter::{ChangeFilter, UpcomingFilter};
pub use history::{ActorType, ChangeHistory, HistoryActor, HistoryEntry};
pub use imported_change::ImportedChange;
pub use link::Link;
pub use made_by::{BY_HAND, MadeBy};
pub use new_change::{NewChange, NewChanges};
pub use patch::ChangePatch;

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

impl Status {
    /// Returns whether a change of this status has ended.
    pub fn is_ended(&self) -> bool {
        matches!(self, Self::Completed | Self::RolledBack)
    }
}

wire_enum! {
    /// How a change ended, in more detail than its status.
    Outcome, "an outcome", example "succeeded" {
        /// It did what it should.
        Succeeded = "succeeded",
        /// It failed, and may have been made in part.
        Failed = "failed",
        /// It was made, and undone later.
        Undone = "undone",
        /// Its end was not seen, for example because the pipeline was killed.
        Indeterminate = "unknown",
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

impl From<&Service> for ServiceRef {
    fn from(service: &Service) -> Self {
        Self {
            id: service.id,
            name: service.name.clone(),
            color: service.color.clone(),
        }
    }
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

impl From<&Host> for HostRef {
    fn from(host: &Host) -> Self {
        Self {
            id: host.id,
            hostname: host.hostname.clone(),
            environment: host.environment.clone(),
        }
    }
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
    /// How the change ended, if that is known in more detail than the status.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub outcome: Option<Outcome>,
    /// The first of the services that were changed.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub service: Option<ServiceRef>,
    /// The ids of all services that were changed.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub service_ids: Vec<ServiceId>,
    /// All services that were changed, in the order of `service_ids`, if there are
    /// several; otherwise absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceRef>,
    /// The host that was changed.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub host_ref: Option<HostRef>,
    /// The environment that was changed. If the client gave none, it is the one that
    /// the host had when the change was recorded.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub environment: Option<Environment>,
    /// The tags, in the order given.
    #[cfg_attr(feature = "openapi", schema(example = json!(["terraform", "prod"])))]
    pub tags: Vec<String>,
    /// The links, in the order given.
    pub links: Vec<Link>,
    /// The time for which the change is scheduled.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub scheduled_for: Option<Timestamp>,
    /// The time at which the change was started; null while it is planned.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub started_at: Option<Timestamp>,
    /// The time at which the change was completed or rolled back.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub ended_at: Option<Timestamp>,
    /// The person for whom an API key acted, as the client claims.
    #[cfg_attr(feature = "openapi", schema(required, example = "ada@example.com"))]
    pub on_behalf_of: Option<String>,
    /// The automation that acted, as the client claims.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub agent: Option<Agent>,
    /// The commit that was deployed.
    #[cfg_attr(feature = "openapi", schema(required, example = "1a2b3c4d5e6f"))]
    pub commit: Option<String>,
    /// The time of that commit.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub committed_at: Option<Timestamp>,
    /// The time for which the change was recorded. Lists are ordered by
    /// `started_at`, or by this time while the change is planned.
    pub occurred_at: Timestamp,
    /// Who recorded the change.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub created_by: Option<Author>,
    /// The source that told of the change; null for one that was recorded otherwise.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub source: Option<SourceRef>,
    /// The organization that the change belongs to.
    pub organization_id: OrganizationId,
    /// The time at which the change was recorded.
    pub created_at: Timestamp,
    /// The time of the last update.
    pub updated_at: Timestamp,
    /// Who made the last update; absent if there was none, and unless a list is asked for
    /// it with `include=updated_by`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_by: Option<Author>,
}

impl Change {
    /// Returns the time by which changes are listed and counted: when the change was
    /// started, or else the time for which it was recorded.
    pub fn effective_at(&self) -> Timestamp {
        self.started_at.unwrap_or(self.occurred_at)
    }

    /// Returns what the token of the pipeline that recorded the change says of its run.
    pub fn verified_run(&self) -> Option<&VerifiedRun> {
        self.created_by.as_ref()?.verified.as_deref()
    }

    /// Returns whether the token of the pipeline says that this person has started the run.
    pub fn is_verified_actor(&self, name: &str) -> bool {
        let run = self.verified_run();
        run.is_some_and(|run| run.actor.as_deref() == Some(name))
    }

    /// Returns which agent made the change, for whom, and what of it is only claimed; `None` if
    /// it names none.
    pub fn acted(&self) -> Option<String> {
        let agent = &self.agent.as_ref()?.name;
        let person = self.on_behalf_of.as_deref();
        let verified = person.filter(|person| self.is_verified_actor(person));
        Some(match verified {
            Some(person) => acted(&format!("{agent} (claimed)"), Some(person)),
            None => format!("{} (claimed)", acted(agent, person)),
        })
    }

    /// Returns the place of the change in lists, to continue after it.
    pub fn cursor(&self) -> ChangeCursor {
        ChangeCursor {
            id: self.id,
            at: Some(self.effective_at()),
        }
    }

    /// Returns how long the change took, if its start and its end are known.
    pub fn duration(&self) -> Option<TimeDelta> {
        let duration = self.ended_at?.to_datetime() - self.started_at?.to_datetime();
        // A change that was recorded when it was over has one time only.
        (duration > TimeDelta::zero()).then_some(duration)
    }

    /// Returns all services that were changed.
    pub fn all_services(&self) -> &[ServiceRef] {
        if self.services.is_empty() {
            self.service.as_slice()
        } else {
            &self.services
        }
    }

    /// Sets all services that were changed.
    pub fn set_services(&mut self, services: Vec<ServiceRef>) {
        self.service_ids = services.iter().map(|service| service.id).collect();
        self.service = services.first().cloned();
        self.services = if services.len() > 1 {
            services
        } else {
            Vec::new()
        };
    }

    /// Returns what people read of the status: a failed change is rolled back on the
    /// wire, but nobody has rolled it back.
    pub fn status_label(&self) -> &str {
        match (&self.status, &self.outcome) {
            (Status::RolledBack, Some(Outcome::Failed)) => "failed",
            (Status::Completed | Status::RolledBack, Some(Outcome::Indeterminate)) => {
                "outcome unknown"
            }
            (Status::RolledBack, _) => "rolled back",
            (Status::InProgress, _) => "in progress",
            (status, _) => status.as_str(),
        }
    }
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

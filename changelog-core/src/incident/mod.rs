//! Incidents: what broke, from alerts or reported by people, with the changes that may have
//! caused it.

mod filter;
mod input;

use serde::{Deserialize, Serialize};

use crate::change::around::{Reason, Suspect};
use crate::change::{Author, Change, Outcome, RiskLevel, ServiceRef, Status};
use crate::coverage::Gap;
use crate::host::Environment;
use crate::ids::{ChangeId, IncidentId, ServiceId};
use crate::source::SourceRef;
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

pub use filter::IncidentFilter;
pub use input::{CauseInput, IncidentPatch, NewIncident};

wire_enum! {
    /// How bad an incident is.
    Severity, "a severity", example "critical" {
        /// Users are affected now; it needs attention at any hour.
        Critical = "critical",
        /// To be looked at soon.
        Warning = "warning",
        /// To be known.
        Info = "info",
    }
}

impl Severity {
    /// Returns whether this one is worse than another.
    pub fn is_worse_than(&self, other: &Self) -> bool {
        // The order of declaration begins with the worst.
        self < other
    }
}

wire_enum! {
    /// Whether an incident is still going on.
    IncidentStatus, "a status of an incident", example "open" {
        /// Going on.
        Open = "open",
        /// Over.
        Resolved = "resolved",
    }
}

/// An incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Incident {
    /// The id.
    pub id: IncidentId,
    /// What broke, in one line.
    #[cfg_attr(feature = "openapi", schema(example = "Checkout returns 502"))]
    pub title: String,
    /// How bad it is.
    pub severity: Severity,
    /// Whether it is still going on.
    pub status: IncidentStatus,
    /// The service that is affected.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub service_id: Option<ServiceId>,
    /// That service, as it was called when the incident was recorded.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub service: Option<ServiceRef>,
    /// The environment that is affected.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub environment: Option<Environment>,
    /// When it started.
    pub started_at: Timestamp,
    /// When it was over; null while it is open.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub resolved_at: Option<Timestamp>,
    /// A page about it: the alert, or the channel in which it is handled.
    #[cfg_attr(
        feature = "openapi",
        schema(required, example = "https://alerts.example.com/7")
    )]
    pub url: Option<String>,
    /// The source that reported it; null if a person or an API key did.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub source: Option<SourceRef>,
    /// What the sender of its alert calls it; null if nobody has sent one, or if it is longer
    /// than 500 characters.
    #[cfg_attr(feature = "openapi", schema(required, example = "PGR0VU2"))]
    pub sender_id: Option<String>,
    /// Who recorded it.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub created_by: Option<Author>,
    /// The changes that may have caused it, most suspicious first: at most 10, in a list of
    /// incidents at most 3. They are those of `/api/changes/around` for the service, the
    /// environment and the start of the incident, ranked again while it is open.
    #[serde(default)]
    pub suspects: Vec<IncidentSuspect>,
    /// The suspects when they were ranked first; as many as `suspects`.
    #[serde(default)]
    pub first_suspects: Vec<IncidentSuspect>,
    /// When the suspects were ranked; null if they were not yet.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub ranked_at: Option<Timestamp>,
    /// The sources that were silent in the time that was searched, at most 10: changes may
    /// be missing.
    #[serde(default)]
    pub gaps: Vec<Gap>,
    /// The change that people have marked as the cause.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub cause_change_id: Option<ChangeId>,
    /// What people have decided about the cause; null as long as nobody has.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub cause: Option<Cause>,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// When it was last changed; a new order of the suspects is no change.
    pub updated_at: Timestamp,
}

/// What people have decided about the cause of an incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Cause {
    /// The change; null if no recorded change is the cause.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub change_id: Option<ChangeId>,
    /// The title that the change had; null without a change.
    #[cfg_attr(feature = "openapi", schema(required, example = "Deploy payments 4.2"))]
    pub title: Option<String>,
    /// Who has decided it, as the activity log names them.
    #[cfg_attr(feature = "openapi", schema(example = "Ada"))]
    pub marked_by: String,
    /// When.
    pub marked_at: Timestamp,
}

/// A change that may be the cause of an incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IncidentSuspect {
    /// The sum of the points of the reasons; may be negative.
    #[cfg_attr(feature = "openapi", schema(example = 154))]
    pub score: i32,
    /// The reasons for its score, most points first.
    pub reasons: Vec<Reason>,
    /// The change as it was when it was ranked.
    pub change: SuspectedChange,
}

/// What an incident shows of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SuspectedChange {
    /// The id.
    pub id: ChangeId,
    /// What was done, in one line.
    #[cfg_attr(feature = "openapi", schema(example = "Deploy payments 4.2"))]
    pub title: String,
    /// The risk level.
    pub risk_level: RiskLevel,
    /// The status.
    pub status: Status,
    /// How it ended.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub outcome: Option<Outcome>,
    /// The first service.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub service: Option<ServiceRef>,
    /// The environment.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub environment: Option<Environment>,
    /// When it started, or else happened.
    pub at: Timestamp,
    /// Who recorded it.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub created_by: Option<Author>,
    /// The person for whom it was made, if the recorder says so.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub on_behalf_of: Option<String>,
}

impl From<Suspect> for IncidentSuspect {
    fn from(suspect: Suspect) -> Self {
        let Suspect {
            score,
            reasons,
            change,
        } = suspect;
        Self {
            score,
            reasons,
            change: change.into(),
        }
    }
}

impl From<Change> for SuspectedChange {
    fn from(change: Change) -> Self {
        Self {
            at: change.effective_at(),
            id: change.id,
            title: change.title,
            risk_level: change.risk_level,
            status: change.status,
            outcome: change.outcome,
            service: change.service,
            environment: change.environment,
            created_by: change.created_by,
            on_behalf_of: change.on_behalf_of,
        }
    }
}

impl Incident {
    /// Returns whether it is still going on.
    pub fn is_open(&self) -> bool {
        self.status == IncidentStatus::Open
    }

    /// Resolves it at a time, which is not before its start.
    pub fn resolve(&mut self, at: Timestamp) {
        self.status = IncidentStatus::Resolved;
        self.resolved_at = Some(at.max(self.started_at));
    }

    /// Opens it again.
    pub fn reopen(&mut self) {
        self.status = IncidentStatus::Open;
        self.resolved_at = None;
    }

    /// Sets the affected service.
    pub fn set_service(&mut self, service: Option<ServiceRef>) {
        self.service_id = service.as_ref().map(|service| service.id);
        self.service = service;
    }

    /// Leaves only the first suspects, as lists do.
    pub fn shorten(&mut self, suspects: usize) {
        self.suspects.truncate(suspects);
        self.first_suspects.truncate(suspects);
    }
}

//! The types of the change log, shared by the server, the client and `chlog`.
//!
//! Each noun has a module with its JSON shape, the input that creates (`New…`) and
//! updates it (`…Patch`), its filter (`…Filter`), and its rules. Nothing here does
//! I/O: no database, no HTTP, no clock.
//!
//! The other modules are shared: [`limits`] and [`headers`] are the constants of
//! the API, [`input`] reads and checks a JSON body and reports all violations at
//! once, [`problem`] is the error body, [`query`] reads and writes query strings,
//! and [`text`] splits titles into searchable words.

pub mod activity;
pub mod agent_client;
pub mod api_key;
pub mod change;
pub mod connection;
pub mod coverage;
pub mod csv;
pub mod erasure;
pub mod headers;
pub mod health;
pub mod host;
pub mod ids;
pub mod incident;
pub mod input;
pub mod issuer;
pub mod limits;
pub mod list;
pub mod membership;
pub mod named;
pub mod organization;
pub mod page;
pub mod permissions;
pub mod problem;
pub mod query;
pub mod retention;
mod rules;
#[cfg(feature = "openapi")]
#[doc(hidden)]
pub mod schema;
pub mod service;
pub mod source;
pub mod sso;
pub mod subscription;
pub mod text;
pub mod time;
pub mod user;
mod wire_enum;
pub mod workload;
pub mod written_time;

pub use activity::{
    Action, ActivityEntry, ActivityFilter, Actor, Difference, Differences, ResourceType,
};
pub use agent_client::{AgentClient, ToolServer};
pub use api_key::{ApiKey, CreatedApiKey, KeyInfo, NewApiKey, OrganizationRef};
pub use change::around::{
    Around, AroundFacets, AroundFilter, EnvironmentCount, Reason, ReasonCode, ServiceCount, Suspect,
};
pub use change::{
    ActorType, Agent, AgentMode, Author, AuthorType, Change, ChangeCreated, ChangeCursor,
    ChangeEvent, ChangeFilter, ChangeHistory, ChangePatch, ChangeUpdate, HistoryActor,
    HistoryEntry, HostRef, ImportedChange, Link, MadeBy, NewChange, NewChanges, Outcome, RiskLevel,
    ServiceRef, Status, StreamFilter, UpcomingFilter,
};
pub use connection::{
    ConnectionKind, ConnectionPatch, Event, EventFilter, EventKind, EventOfChange, EventOfIncident,
    EventOfSource, NewConnection, Receiver, ReceiverInput, SilentSource,
};
pub use coverage::{Coverage, CoveredSource, Gap};
pub use erasure::FurtherNames;
pub use health::{DbStatus, Health, HealthStatus};
pub use host::{Environment, Host, HostPatch, NewHost, Platform};
pub use ids::{
    ActivityId, ApiKeyId, ChangeId, ConnectionId, HostId, IncidentId, InvitationId, OrganizationId,
    ServiceId, SourceEventId, SourceId, UserId, WorkloadId,
};
pub use incident::{
    Cause, CauseInput, Incident, IncidentFilter, IncidentPatch, IncidentStatus, IncidentSuspect,
    NewIncident, Severity, SuspectedChange,
};
pub use input::{Input, InputError};
pub use membership::{Invitation, Member, NewInvitation, Role};
pub use named::Named;
pub use organization::{NewOrganization, Organization, Plan};
pub use page::{Data, Page};
pub use permissions::{Permissions, Scope};
pub use problem::{Invalid, Problem, ProblemCode, Violation, ViolationCode, Violations};
pub use retention::{RetentionInput, RetentionMonths};
pub use service::{NewService, Service, ServicePatch};
pub use source::{
    AlertTemplates, GenericTemplates, NewSource, RiskRules, SourceKind, SourcePatch, SourceRef,
    SourceSettings,
};
pub use sso::{GroupRole, SsoInput, SsoRedirect, SsoRoles};
pub use subscription::{MailMode, Subscription, SubscriptionOptions};
pub use time::Timestamp;
pub use user::{Credentials, OwnerInput, User, UserInput};
pub use workload::{ClaimPattern, LookupKey, NewWorkload, RefusedToken, VerifiedRun, Workload};

//! A typed, asynchronous client for the change log service.
//!
//! ```no_run
//! use changelog_client::{ChangeQuery, Client, RiskLevel, Status};
//! use futures_util::TryStreamExt;
//!
//! # async fn example() -> Result<(), changelog_client::Error> {
//! let client = Client::from_env()?;
//!
//! let service = client.services().ensure("payments").await?;
//! let change = client
//!     .changes()
//!     .create("Deploy payments 2.3")
//!     .service(service.id)
//!     .risk_level(RiskLevel::High)
//!     .status(Status::InProgress)
//!     .tag("deploy")
//!     .await?;
//! client.changes().update(change.id).status(Status::Completed).await?;
//!
//! let deployments = ChangeQuery::new().service(service.id).tag("deploy");
//! let mut list = client.changes().list().matching(deployments.clone()).stream();
//! while let Some(change) = list.try_next().await? {
//!     println!("{} {}", change.id, change.title);
//! }
//!
//! let mut watch = client.changes().watch().matching(deployments).stream();
//! while let Some(watched) = watch.try_next().await? {
//!     println!("new: {}", watched.change.title);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - **Retries.** Transient errors are retried with increasing delays
//!   ([`RetryPolicy`]) within the timeouts of the [`ClientBuilder`]. Every create
//!   has an idempotency key, so that it takes effect once however often it is
//!   sent.
//! - **Errors.** [`Error`] has an [`ErrorKind`] to match on, the service's error
//!   body and the id of the request.
//! - **Newer services.** An enum value that this version does not know, such as a
//!   new status, is decoded as `Unknown`.
//! - **Blocking.** The feature `blocking` adds `blocking::Client`.
//! - **Pipelines without keys.** [`ClientBuilder::id_token`] sends a token that the CI system
//!   signs for the job, and gets another one before it expires.
//! - **The API key** is not shown by `Debug`, and redirects, which could send it to
//!   another server, are not followed.

mod base_url;
#[cfg(feature = "blocking")]
pub mod blocking;
mod catalog;
mod changes;
mod client;
mod error;
mod hosts;
mod id_token;
mod incidents;
mod mcp;
mod mode;
mod proxy;
mod raw;
mod request;
mod reqwest_error;
mod response;
mod retry;
mod services;
mod setters;
mod tls;
mod transport;

pub use catalog::{Catalog, CreateItem, UpdateItem};
pub use changelog_core::limits;
pub use changelog_core::{
    ActorType, Around, Change, ChangeCreated, ChangeHistory, ChangeId, ChangePatch, DbStatus,
    Difference, Differences, Environment, Health, HealthStatus, HistoryActor, HistoryEntry, Host,
    HostId, HostPatch, HostRef, Incident, IncidentId, IncidentStatus, IncidentSuspect, KeyInfo,
    Link, Named, NewChange, NewHost, NewIncident, NewService, OrganizationId, Page, Platform,
    Problem, ProblemCode, Reason, ReasonCode, RiskLevel, Service, ServiceId, ServicePatch,
    ServiceRef, Severity, Status, Suspect, Timestamp, Violation,
};
pub use changes::{
    AroundChanges, ChangeQuery, Changes, CreateChange, CreateChanges, ListChanges, UpdateChange,
    WatchChanges, WatchedChange,
};
pub use client::{Client, ClientBuilder, Probe};
pub use error::{
    Error, ErrorKind, ErrorResponse, TransportError, TransportErrorKind, UnexpectedResponse,
};
pub use hosts::Hosts;
pub use http::Method;
pub use id_token::{IdTokenSource, claims_of};
pub use incidents::{
    Incidents, ListIncidents, OpenIncident, UpdateIncident, WatchIncidents, WatchedIncident,
};
pub use mode::{Async, Mode, ResponseFuture};
pub use request::new_idempotency_key;
pub use retry::RetryPolicy;
pub use services::Services;

/// Compiles the examples of the README and of the guide.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../README.md")]
    struct Readme;

    #[cfg(feature = "blocking")]
    #[doc = include_str!("../../docs/sdk.md")]
    struct Sdk;
}

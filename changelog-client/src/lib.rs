//! A typed client for the change log service.
//!
//! ```no_run
//! use changelog_client::{Client, RiskLevel, Status};
//! use futures_util::TryStreamExt;
//!
//! # async fn example() -> Result<(), changelog_client::Error> {
//! let client = Client::builder()
//!     .url("http://127.0.0.1:8080")
//!     .api_key("chlog_…")
//!     .build()?;
//!
//! let service = client.services().create("payments").send().await?;
//! client
//!     .changes()
//!     .create("Deploy payments 2.3")
//!     .service(service.id)
//!     .status(Status::Completed)
//!     .send()
//!     .await?;
//!
//! let risky: Vec<_> = client
//!     .changes()
//!     .list()
//!     .risk_level(RiskLevel::High)
//!     .stream()
//!     .try_collect()
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it takes care of
//! - Every create carries an idempotency key and happens once, however often
//!   it is sent. What may pass is tried again ([`RetryPolicy`]), within the
//!   timeouts of [`ClientBuilder`].
//! - [`Error`] is for matching, and carries the service's own words and the id
//!   of the request.
//! - A word that this version does not know (a status of a newer service)
//!   decodes as `Unknown` and does not break the rest.
//! - With the feature `blocking`, `blocking::Client` waits for those who are
//!   not asynchronous.
//! - The key is never shown by `Debug` and never sent to where a redirect
//!   points.

#[cfg(feature = "blocking")]
pub mod blocking;
mod changes;
mod client;
mod error;
mod hosts;
mod retry;
mod send;
mod services;
mod watch;

pub use changelog_core::limits;
pub use changelog_core::{
    Around, Change, ChangeCreated, ChangeFilter, ChangeId, ChangePatch, DbStatus, Environment,
    Health, HealthStatus, Host, HostId, HostPatch, HostRef, KeyInfo, Link, NewChange, NewHost,
    NewService, OrganizationId, Page, Platform, Problem, ProblemCode, Reason, ReasonCode,
    RiskLevel, Service, ServiceId, ServicePatch, ServiceRef, Status, Suspect, Timestamp, Violation,
};
pub use changes::{AroundChanges, Changes, CreateChange, CreateChanges, ListChanges, UpdateChange};
pub use client::{Client, ClientBuilder, Probe};
pub use error::{
    Error, ErrorKind, ErrorResponse, TransportError, TransportErrorKind, UnexpectedResponse,
};
pub use hosts::{CreateHost, Hosts, UpdateHost};
pub use retry::RetryPolicy;
pub use send::new_idempotency_key;
pub use services::{CreateService, Services, UpdateService};
pub use watch::{WatchChanges, Watched};

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

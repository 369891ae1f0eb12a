//! Sends a sample event at once, to try a connection. Nothing of it is recorded.

use chrono::{DateTime, Utc};

use super::http::ReceiverClient;
use super::message::{Attempt, Message};
use super::senders;
use super::target::Target;
use crate::store::{Connection, Tenant};

/// What to try.
pub(crate) struct Trial<'t> {
    pub(crate) tenant: Tenant,
    /// The name of the organization.
    pub(crate) organization: &'t str,
    pub(crate) connection: &'t Connection,
    /// Where the connection sends.
    pub(crate) target: &'t Target,
    /// The URL of the dashboard, without a slash at the end.
    pub(crate) dashboard: &'t str,
}

impl Trial<'_> {
    /// Sends the sample, and returns what became of it.
    pub(crate) async fn send(&self, http: &ReceiverClient, now: DateTime<Utc>) -> Attempt {
        let event = senders::test_event(self.tenant.id(), now.into());
        let message = Message {
            target: self.target,
            event: &event,
            grouped: &[],
            dashboard: self.dashboard,
            organization: self.organization,
            reference: None,
            now: now.into(),
        };
        senders::send(http, &self.connection.kind, &message).await
    }
}

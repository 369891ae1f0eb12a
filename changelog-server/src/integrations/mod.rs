//! Connections: events are written with the change, queued for each connection, and sent
//! at least once.

pub mod http;
pub mod key_file;
pub mod message;
mod queue;
mod schedule;
pub mod senders;
pub(crate) mod setup;
pub mod target;
pub(crate) mod trial;
pub(crate) mod worker;

use changelog_core::ConnectionId;

use crate::secrets::{Secrets, SecretsError};
use crate::store::{Connection, Tenant};
use http::ReceiverClient;
use target::Target;

/// What connections need besides the store.
#[derive(Clone)]
pub struct Integrations {
    /// The client that reaches receivers.
    pub(crate) http: ReceiverClient,
    secrets: Secrets,
}

impl std::fmt::Debug for Integrations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Integrations").finish_non_exhaustive()
    }
}

impl Integrations {
    /// Uses these keys, and reaches also receivers in these networks.
    pub fn new(secrets: Secrets, http: ReceiverClient) -> Self {
        Self { http, secrets }
    }

    /// Returns the keys.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Decrypts where a connection sends.
    pub(crate) fn target(
        &self,
        tenant: Tenant,
        connection: &Connection,
    ) -> Result<Target, SecretsError> {
        open_target(&self.secrets, tenant, connection)
    }
}

/// Decrypts where a connection sends.
pub(crate) fn open_target(
    secrets: &Secrets,
    tenant: Tenant,
    connection: &Connection,
) -> Result<Target, SecretsError> {
    let json = secrets.decrypt(&context(tenant, connection.id), &connection.target)?;
    serde_json::from_slice(&json).map_err(|_| SecretsError::Damaged)
}

/// Encrypts where a connection sends.
pub(crate) fn seal_target(
    secrets: &Secrets,
    tenant: Tenant,
    id: ConnectionId,
    target: &Target,
) -> Result<Vec<u8>, SecretsError> {
    let json = serde_json::to_vec(target).map_err(|_| SecretsError::Damaged)?;
    secrets.encrypt(&context(tenant, id), &json)
}

/// A target belongs to its connection, and cannot be moved to another one.
fn context(tenant: Tenant, id: ConnectionId) -> String {
    format!("connection {} {id}", tenant.id())
}

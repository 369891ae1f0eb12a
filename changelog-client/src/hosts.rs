//! The endpoints for hosts.

use std::net::IpAddr;

use changelog_core::{Environment, Host, HostId, HostPatch, NewHost, Platform};

use crate::error::Error;
use crate::request::ApiRequest;
use crate::transport::Transport;

/// The endpoints for hosts; see [`Client::hosts`](crate::Client::hosts).
#[derive(Clone, Debug)]
pub struct Hosts {
    transport: Transport,
}

impl Hosts {
    pub(crate) fn new(transport: Transport) -> Self {
        Self { transport }
    }

    /// Prepares to create a host with a hostname of 1 to 100 characters, unique
    /// regardless of ASCII case.
    pub fn create(&self, hostname: impl Into<String>) -> CreateHost {
        self.create_from(NewHost {
            hostname: hostname.into(),
            ..NewHost::default()
        })
    }

    /// Prepares to create a host from its fields.
    pub fn create_from(&self, host: NewHost) -> CreateHost {
        CreateHost {
            transport: self.transport.clone(),
            host,
            idempotency_key: None,
        }
    }

    /// Lists all hosts of the organization, sorted by hostname.
    pub fn list(&self) -> impl Future<Output = Result<Vec<Host>, Error>> + Send + use<> {
        let transport = self.transport.clone();
        async move { transport.send_for_data(&ApiRequest::get(&["hosts"])).await }
    }

    /// Gets a host.
    pub fn get(&self, id: HostId) -> impl Future<Output = Result<Host, Error>> + Send + use<> {
        let transport = self.transport.clone();
        async move {
            let request = ApiRequest::get(&["hosts", &id.to_string()]);
            transport.send_for_data(&request).await
        }
    }

    /// Prepares to update a host.
    pub fn update(&self, id: HostId) -> UpdateHost {
        self.update_with(id, HostPatch::default())
    }

    /// Prepares to update a host with a patch.
    pub fn update_with(&self, id: HostId, patch: HostPatch) -> UpdateHost {
        UpdateHost {
            transport: self.transport.clone(),
            id,
            patch,
        }
    }
}

/// A host to create; nothing is sent until [`CreateHost::send`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct CreateHost {
    transport: Transport,
    host: NewHost,
    idempotency_key: Option<String>,
}

impl CreateHost {
    /// Sets the fully qualified domain name: at most 253 characters.
    pub fn fqdn(mut self, name: impl Into<String>) -> Self {
        self.host.fqdn = Some(name.into());
        self
    }

    /// Sets the IP address.
    pub fn ip_address(mut self, address: IpAddr) -> Self {
        self.host.ip_address = Some(address.to_string());
        self
    }

    /// Sets the operating system: at most 100 characters.
    pub fn os(mut self, os: impl Into<String>) -> Self {
        self.host.os = Some(os.into());
        self
    }

    /// Sets the platform; `on-prem` by default.
    pub fn platform(mut self, platform: Platform) -> Self {
        self.host.platform = Some(platform);
        self
    }

    /// Sets the environment.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.host.environment = Some(environment);
        self
    }

    /// Adds a role of 1 to 100 characters; at most 50 roles.
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.host.roles.push(role.into());
        self
    }

    /// Sets the description: at most 1,000 characters.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.host.description = Some(text.into());
        self
    }

    /// Sets the idempotency key: 1 to 255 printable ASCII characters; a new one
    /// by default.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Creates the host.
    pub async fn send(self) -> Result<Host, Error> {
        let request = ApiRequest::create(&["hosts"], &self.host, self.idempotency_key)?;
        self.transport.send_for_data(&request).await
    }
}

/// An update of a host; nothing is sent until [`UpdateHost::send`]. Fields that
/// are not set keep their values.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct UpdateHost {
    transport: Transport,
    id: HostId,
    patch: HostPatch,
}

impl UpdateHost {
    /// Sets the hostname: 1 to 100 characters.
    pub fn hostname(mut self, hostname: impl Into<String>) -> Self {
        self.patch.hostname = Some(hostname.into());
        self
    }

    /// Sets the fully qualified domain name (at most 253 characters), or clears
    /// it.
    pub fn fqdn(mut self, name: Option<String>) -> Self {
        self.patch.fqdn = Some(name);
        self
    }

    /// Sets the IP address, or clears it.
    pub fn ip_address(mut self, address: Option<IpAddr>) -> Self {
        self.patch.ip_address = Some(address.map(|address| address.to_string()));
        self
    }

    /// Sets the operating system (at most 100 characters), or clears it.
    pub fn os(mut self, os: Option<String>) -> Self {
        self.patch.os = Some(os);
        self
    }

    /// Sets the platform.
    pub fn platform(mut self, platform: Platform) -> Self {
        self.patch.platform = Some(platform);
        self
    }

    /// Sets the environment, or clears it.
    pub fn environment(mut self, environment: Option<Environment>) -> Self {
        self.patch.environment = Some(environment);
        self
    }

    /// Replaces all roles: at most 50, of 1 to 100 characters.
    pub fn roles(mut self, roles: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.patch.roles = Some(roles.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the description (at most 1,000 characters), or clears it.
    pub fn description(mut self, text: Option<String>) -> Self {
        self.patch.description = Some(text);
        self
    }

    /// Updates the host, and returns it with its new values.
    pub async fn send(self) -> Result<Host, Error> {
        let request = ApiRequest::update(&["hosts", &self.id.to_string()], &self.patch)?;
        self.transport.send_for_data(&request).await
    }
}

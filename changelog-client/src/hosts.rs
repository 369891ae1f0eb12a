//! Requests about hosts.

use std::net::IpAddr;

use changelog_core::{Environment, Host, HostId, HostPatch, NewHost, Platform};

use crate::client::Client;
use crate::error::Error;
use crate::send::Call;

const PATH: &str = "hosts";

/// The requests about hosts.
#[derive(Clone, Debug)]
pub struct Hosts {
    client: Client,
}

impl Hosts {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Starts a host with this name: 1 to 100 characters.
    pub fn create(&self, hostname: impl Into<String>) -> CreateHost {
        self.create_from(NewHost {
            hostname: hostname.into(),
            ..NewHost::default()
        })
    }

    /// Starts a host from what was put together elsewhere.
    pub fn create_from(&self, host: NewHost) -> CreateHost {
        CreateHost {
            client: self.client.clone(),
            host,
            idempotency_key: None,
        }
    }

    /// Lists all hosts of the organization, by hostname.
    pub fn list(&self) -> impl Future<Output = Result<Vec<Host>, Error>> + Send + use<> {
        let client = self.client.clone();
        async move { client.record(&Call::get(&[PATH])).await }
    }

    /// Gets one host.
    pub fn get(&self, id: HostId) -> impl Future<Output = Result<Host, Error>> + Send + use<> {
        let client = self.client.clone();
        async move {
            let call = Call::get(&[PATH, &id.to_string()]);
            client.record(&call).await
        }
    }

    /// Starts an update of one host.
    pub fn update(&self, id: HostId) -> UpdateHost {
        self.update_with(id, HostPatch::default())
    }

    /// Starts an update of one host from what was put together elsewhere.
    pub fn update_with(&self, id: HostId, patch: HostPatch) -> UpdateHost {
        UpdateHost {
            client: self.client.clone(),
            id,
            patch,
        }
    }
}

/// A host that is to be created; [`CreateHost::send`] does it.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct CreateHost {
    client: Client,
    host: NewHost,
    idempotency_key: Option<String>,
}

impl CreateHost {
    /// Sets the fully qualified domain name: at most 253 characters.
    pub fn fqdn(mut self, name: impl Into<String>) -> Self {
        self.host.fqdn = Some(name.into());
        self
    }

    /// Sets the address.
    pub fn ip_address(mut self, address: IpAddr) -> Self {
        self.host.ip_address = Some(address.to_string());
        self
    }

    /// Sets the operating system: at most 100 characters.
    pub fn os(mut self, os: impl Into<String>) -> Self {
        self.host.os = Some(os.into());
        self
    }

    /// Sets where it runs; `on-prem` when not set.
    pub fn platform(mut self, platform: Platform) -> Self {
        self.host.platform = Some(platform);
        self
    }

    /// Sets what it is for.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.host.environment = Some(environment);
        self
    }

    /// Adds a role: 1 to 100 characters, at most 50 of them.
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.host.roles.push(role.into());
        self
    }

    /// Sets what else there is to know: at most 1000 characters.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.host.description = Some(text.into());
        self
    }

    /// Sets the idempotency key: 1 to 255 printable ASCII characters; a random
    /// one when not set.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Creates the host.
    pub async fn send(self) -> Result<Host, Error> {
        let call = Call::create(&[PATH], &self.host, self.idempotency_key)?;
        self.client.record(&call).await
    }
}

/// An update of a host that is to be made; what is not set stays as it is.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct UpdateHost {
    client: Client,
    id: HostId,
    patch: HostPatch,
}

impl UpdateHost {
    /// Sets the name: 1 to 100 characters.
    pub fn hostname(mut self, hostname: impl Into<String>) -> Self {
        self.patch.hostname = Some(hostname.into());
        self
    }

    /// Sets the fully qualified domain name, or takes it away.
    pub fn fqdn(mut self, name: Option<String>) -> Self {
        self.patch.fqdn = Some(name);
        self
    }

    /// Sets the address, or takes it away.
    pub fn ip_address(mut self, address: Option<IpAddr>) -> Self {
        self.patch.ip_address = Some(address.map(|address| address.to_string()));
        self
    }

    /// Sets the operating system, or takes it away.
    pub fn os(mut self, os: Option<String>) -> Self {
        self.patch.os = Some(os);
        self
    }

    /// Sets where it runs.
    pub fn platform(mut self, platform: Platform) -> Self {
        self.patch.platform = Some(platform);
        self
    }

    /// Sets what it is for, or that it is for nothing in particular.
    pub fn environment(mut self, environment: Option<Environment>) -> Self {
        self.patch.environment = Some(environment);
        self
    }

    /// Replaces all roles.
    pub fn roles(mut self, roles: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.patch.roles = Some(roles.into_iter().map(Into::into).collect());
        self
    }

    /// Sets what else there is to know, or takes it away.
    pub fn description(mut self, text: Option<String>) -> Self {
        self.patch.description = Some(text);
        self
    }

    /// Makes the update, and returns the host as it is then.
    pub async fn send(self) -> Result<Host, Error> {
        let call = Call::update(&[PATH, &self.id.to_string()], &self.patch)?;
        self.client.record(&call).await
    }
}

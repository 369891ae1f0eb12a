//! The endpoints for hosts.

use std::net::IpAddr;

use changelog_core::{Environment, Host, HostId, HostPatch, NewHost, Platform};

use crate::error::{Error, ErrorKind};
use crate::mode::{Async, Mode, Sender, into_future};
use crate::request::ApiRequest;
use crate::transport::Transport;

/// The endpoints for hosts; see [`Client::hosts`](crate::Client::hosts).
#[derive(Clone, Debug)]
pub struct Hosts<M = Async> {
    sender: Sender<M>,
}

impl<M: Mode> Hosts<M> {
    pub(crate) fn new(sender: Sender<M>) -> Self {
        Self { sender }
    }

    /// Prepares to create a host with a hostname of 1 to 100 characters, unique
    /// regardless of ASCII case.
    pub fn create(&self, hostname: impl Into<String>) -> CreateHost<M> {
        self.create_from(NewHost {
            hostname: hostname.into(),
            ..NewHost::default()
        })
    }

    /// Prepares to create a host from its fields.
    pub fn create_from(&self, host: NewHost) -> CreateHost<M> {
        CreateHost {
            sender: self.sender.clone(),
            host,
            idempotency_key: None,
        }
    }

    /// Lists all hosts of the organization, sorted by hostname.
    pub fn list(&self) -> M::Response<Vec<Host>> {
        self.sender.data(Ok(ApiRequest::get(&["hosts"])))
    }

    /// Gets a host.
    pub fn get(&self, id: HostId) -> M::Response<Host> {
        self.sender
            .data(Ok(ApiRequest::get(&["hosts", &id.to_string()])))
    }

    /// Finds a host by its name, regardless of ASCII case, in the list of all.
    pub fn find(&self, hostname: impl Into<String>) -> M::Response<Option<Host>> {
        let hostname = hostname.into();
        self.sender
            .run(|transport| async move { find(&transport, &hostname).await })
    }

    /// Finds a host by its name, regardless of ASCII case, and creates it if it does not
    /// exist.
    pub fn ensure(&self, hostname: impl Into<String>) -> M::Response<Host> {
        let hostname = hostname.into();
        self.sender.run(|transport| async move {
            if let Some(found) = find(&transport, &hostname).await? {
                return Ok(found);
            }
            let new = NewHost {
                hostname: hostname.clone(),
                ..NewHost::default()
            };
            let request = ApiRequest::create(&["hosts"], &new, None)?;
            match transport.send_for_data(&request).await {
                // Another client has created it meanwhile.
                Err(error) if error.kind() == Some(ErrorKind::Conflict) => {
                    find(&transport, &hostname).await?.ok_or(error)
                }
                created => created,
            }
        })
    }

    /// Prepares to update a host.
    pub fn update(&self, id: HostId) -> UpdateHost<M> {
        self.update_with(id, HostPatch::default())
    }

    /// Prepares to update a host with a patch.
    pub fn update_with(&self, id: HostId, patch: HostPatch) -> UpdateHost<M> {
        UpdateHost {
            sender: self.sender.clone(),
            id,
            patch,
        }
    }
}

async fn find(transport: &Transport, hostname: &str) -> Result<Option<Host>, Error> {
    let all: Vec<Host> = transport
        .send_for_data(&ApiRequest::get(&["hosts"]))
        .await?;
    let mut all = all.into_iter();
    Ok(all.find(|one| one.hostname.eq_ignore_ascii_case(hostname.trim())))
}

/// A host to create; nothing is sent until [`CreateHost::send`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct CreateHost<M = Async> {
    sender: Sender<M>,
    host: NewHost,
    idempotency_key: Option<String>,
}

impl<M: Mode> CreateHost<M> {
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
    pub fn send(self) -> M::Response<Host> {
        self.sender.data(ApiRequest::create(
            &["hosts"],
            &self.host,
            self.idempotency_key,
        ))
    }
}

/// An update of a host; nothing is sent until [`UpdateHost::send`]. Fields that
/// are not set keep their values.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct UpdateHost<M = Async> {
    sender: Sender<M>,
    id: HostId,
    patch: HostPatch,
}

impl<M: Mode> UpdateHost<M> {
    /// Sets the hostname: 1 to 100 characters.
    pub fn hostname(mut self, hostname: impl Into<String>) -> Self {
        self.patch.hostname = Some(hostname.into());
        self
    }

    /// Sets the fully qualified domain name: at most 253 characters.
    pub fn fqdn(mut self, name: impl Into<String>) -> Self {
        self.patch.fqdn = Some(Some(name.into()));
        self
    }

    /// Clears the fully qualified domain name.
    pub fn clear_fqdn(mut self) -> Self {
        self.patch.fqdn = Some(None);
        self
    }

    /// Sets the IP address.
    pub fn ip_address(mut self, address: IpAddr) -> Self {
        self.patch.ip_address = Some(Some(address.to_string()));
        self
    }

    /// Clears the IP address.
    pub fn clear_ip_address(mut self) -> Self {
        self.patch.ip_address = Some(None);
        self
    }

    /// Sets the operating system: at most 100 characters.
    pub fn os(mut self, os: impl Into<String>) -> Self {
        self.patch.os = Some(Some(os.into()));
        self
    }

    /// Clears the operating system.
    pub fn clear_os(mut self) -> Self {
        self.patch.os = Some(None);
        self
    }

    /// Sets the platform.
    pub fn platform(mut self, platform: Platform) -> Self {
        self.patch.platform = Some(platform);
        self
    }

    /// Sets the environment.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.patch.environment = Some(Some(environment));
        self
    }

    /// Clears the environment.
    pub fn clear_environment(mut self) -> Self {
        self.patch.environment = Some(None);
        self
    }

    /// Replaces all roles: at most 50, of 1 to 100 characters.
    pub fn roles(mut self, roles: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.patch.roles = Some(roles.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the description: at most 1,000 characters.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.patch.description = Some(Some(text.into()));
        self
    }

    /// Clears the description.
    pub fn clear_description(mut self) -> Self {
        self.patch.description = Some(None);
        self
    }

    /// Updates the host, and returns it with its new values.
    pub fn send(self) -> M::Response<Host> {
        self.sender.data(ApiRequest::update(
            &["hosts", &self.id.to_string()],
            &self.patch,
        ))
    }
}

into_future!(CreateHost => Host, UpdateHost => Host);

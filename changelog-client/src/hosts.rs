//! The fields of hosts.

use std::net::IpAddr;

use changelog_core::{Environment, Host, Platform};

use crate::catalog::{Catalog, CreateItem, UpdateItem};
use crate::mode::{Async, Mode};

/// The endpoints for hosts; see [`Client::hosts`](crate::Client::hosts).
pub type Hosts<M = Async> = Catalog<Host, M>;

impl<M: Mode> CreateItem<Host, M> {
    /// Sets the fully qualified domain name: at most 253 characters.
    pub fn fqdn(mut self, name: impl Into<String>) -> Self {
        self.new.fqdn = Some(name.into());
        self
    }

    /// Sets the IP address.
    pub fn ip_address(mut self, address: IpAddr) -> Self {
        self.new.ip_address = Some(address.to_string());
        self
    }

    /// Sets the operating system: at most 100 characters.
    pub fn os(mut self, os: impl Into<String>) -> Self {
        self.new.os = Some(os.into());
        self
    }

    /// Sets the platform; `on-prem` by default.
    pub fn platform(mut self, platform: Platform) -> Self {
        self.new.platform = Some(platform);
        self
    }

    /// Sets the environment.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.new.environment = Some(environment);
        self
    }

    /// Adds a role of 1 to 100 characters; at most 50 roles.
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.new.roles.push(role.into());
        self
    }

    /// Sets the description: at most 1,000 characters.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.new.description = Some(text.into());
        self
    }
}

impl<M: Mode> UpdateItem<Host, M> {
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
}

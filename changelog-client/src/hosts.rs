//! The fields of hosts.

use std::net::IpAddr;

use changelog_core::{Environment, Host, Platform};

use crate::catalog::{Catalog, CreateItem, UpdateItem};
use crate::mode::{Async, Mode};
use crate::setters::setters;

/// The endpoints for hosts; see [`Client::hosts`](crate::Client::hosts).
pub type Hosts<M = Async> = Catalog<Host, M>;

impl<M: Mode> CreateItem<Host, M> {
    setters! { new:
        /// Sets the fully qualified domain name: at most 253 characters.
        fqdn(name: impl Into<String>) => fqdn = Some(name.into());
        /// Sets the IP address.
        ip_address(address: IpAddr) => ip_address = Some(address.to_string());
        /// Sets the operating system: at most 100 characters.
        os(os: impl Into<String>) => os = Some(os.into());
        /// Sets the platform; `on-prem` by default.
        platform(platform: Platform) => platform = Some(platform);
        /// Sets the environment.
        environment(environment: Environment) => environment = Some(environment);
        /// Sets the description: at most 1,000 characters.
        description(text: impl Into<String>) => description = Some(text.into());
    }

    /// Adds a role of 1 to 100 characters; at most 50 roles.
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.new.roles.push(role.into());
        self
    }
}

impl<M: Mode> UpdateItem<Host, M> {
    setters! { patch:
        /// Sets the hostname: 1 to 100 characters.
        hostname(hostname: impl Into<String>) => hostname = Some(hostname.into());
        /// Sets the fully qualified domain name: at most 253 characters.
        fqdn(name: impl Into<String>) => fqdn = Some(Some(name.into()));
        /// Clears the fully qualified domain name.
        clear_fqdn() => fqdn = Some(None);
        /// Sets the IP address.
        ip_address(address: IpAddr) => ip_address = Some(Some(address.to_string()));
        /// Clears the IP address.
        clear_ip_address() => ip_address = Some(None);
        /// Sets the operating system: at most 100 characters.
        os(os: impl Into<String>) => os = Some(Some(os.into()));
        /// Clears the operating system.
        clear_os() => os = Some(None);
        /// Sets the platform.
        platform(platform: Platform) => platform = Some(platform);
        /// Sets the environment.
        environment(environment: Environment) => environment = Some(Some(environment));
        /// Clears the environment.
        clear_environment() => environment = Some(None);
        /// Replaces all roles: at most 50, of 1 to 100 characters.
        roles(roles: impl IntoIterator<Item = impl Into<String>>) =>
            roles = Some(roles.into_iter().map(Into::into).collect());
        /// Sets the description: at most 1,000 characters.
        description(text: impl Into<String>) => description = Some(Some(text.into()));
        /// Clears the description.
        clear_description() => description = Some(None);
    }
}

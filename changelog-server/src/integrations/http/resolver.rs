//! Finds the addresses of receivers, and leaves out those that are refused.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::networks::Networks;
use super::{Scheme, SendError};

/// Finds the addresses of a host name.
pub trait Lookup: Send + Sync + 'static {
    /// Returns the addresses of a name.
    fn addresses(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Finds addresses as the system does.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemLookup;

impl Lookup for SystemLookup {
    fn addresses(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Returns to the connector the addresses that it may connect to. The connector does not
/// look at the name again, so an answer that differs the next time changes nothing.
pub(super) struct CheckedResolver {
    pub(super) networks: Arc<Networks>,
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) scheme: Scheme,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let lookup = self.lookup.addresses(name.as_str().to_owned());
        let (networks, scheme) = (Arc::clone(&self.networks), self.scheme);
        Box::pin(async move {
            let found = lookup.await.map_err(|_| SendError::UnknownHost)?;
            if found.is_empty() {
                return Err(SendError::UnknownHost.into());
            }
            let permitted = found.into_iter();
            let permitted = permitted.filter(|address| networks.permit(*address, scheme));
            // The port is the URL's.
            let permitted: Vec<SocketAddr> = permitted.map(|address| (address, 0).into()).collect();
            if permitted.is_empty() {
                return Err(SendError::RefusedAddress.into());
            }
            Ok(Box::new(permitted.into_iter()) as Addrs)
        })
    }
}

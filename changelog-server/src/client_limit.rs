//! How many of something one client may have at once. A client is one IPv4
//! address or one IPv6 network.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::store::network_of;

type Counts = Arc<Mutex<HashMap<IpAddr, usize>>>;

fn lock(counts: &Counts) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts what each client has at the moment; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ClientLimit {
    max_per_client: usize,
    counts: Counts,
}

/// One of what a client has; returned to the limit on drop.
#[derive(Debug)]
pub(crate) struct ClientPermit {
    counts: Counts,
    client: IpAddr,
}

impl ClientLimit {
    /// Allows each client `max_per_client`, without any in use.
    pub(crate) fn new(max_per_client: usize) -> Self {
        Self {
            max_per_client,
            counts: Counts::default(),
        }
    }

    /// Takes one more for the client of an address; `None` at its limit.
    pub(crate) fn take(&self, address: IpAddr) -> Option<ClientPermit> {
        let client = network_of(address);
        let mut counts = lock(&self.counts);
        let count = counts.entry(client).or_default();
        if *count >= self.max_per_client {
            return None;
        }
        *count += 1;
        Some(ClientPermit {
            counts: Arc::clone(&self.counts),
            client,
        })
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        if let Some(count) = counts.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_an_ipv4_address_or_an_ipv6_network() {
        let network = |text: &str| network_of(text.parse().unwrap()).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("2001:db8:1:2:ffff::1"), "2001:db8:1:2::");
        assert_ne!(network("2001:db8:1:3::1"), network("2001:db8:1:2::1"));
    }

    #[test]
    fn a_dropped_permit_can_be_taken_again() {
        let limit = ClientLimit::new(1);
        let address = |text: &str| text.parse().unwrap();
        let first = limit.take(address("2001:db8::1")).unwrap();
        assert!(limit.take(address("2001:db8::2")).is_none());
        let other = limit.take(address("2001:db8:0:1::1")).unwrap();
        drop(first);
        drop(limit.take(address("2001:db8::2")).unwrap());
        drop(other);
        assert!(limit.counts.lock().unwrap().is_empty());
    }
}

//! Which client a limit counts: one IPv4 address, or one IPv6 network.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// The bits of an IPv6 address that name a network; whoever has one host in it
/// commonly has all of its 2^64 addresses.
const IPV6_NETWORK: u128 = !0 << 64;

/// Returns what stands for a client in every limit by address: an IPv4 address
/// itself, also when it is mapped into IPv6, and the /64 network of an IPv6
/// address, as its first address.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & IPV6_NETWORK).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// How many of something each client has at the moment; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ClientLimit {
    /// How many one client may have.
    most: usize,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One of what a client has; given back when this is dropped.
#[derive(Debug)]
pub(crate) struct ClientPermit {
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    client: IpAddr,
}

impl ClientLimit {
    /// Gives each client so many.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            taken: Arc::default(),
        }
    }

    /// Takes one more for the client of an address, unless it has its share.
    pub(crate) fn take(&self, address: IpAddr) -> Option<ClientPermit> {
        let client = network_of(address);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(client).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(ClientPermit {
            taken: Arc::clone(&self.taken),
            client,
        })
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_apart_by_ipv4_address_and_ipv6_network() {
        let network = |text: &str| network_of(text.parse().unwrap()).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("2001:db8:1:2:ffff::1"), "2001:db8:1:2::");
        assert_ne!(network("2001:db8:1:3::1"), network("2001:db8:1:2::1"));
    }

    #[test]
    fn a_client_has_its_share_again_when_one_is_given_back() {
        let limit = ClientLimit::new(1);
        let address = |text: &str| text.parse().unwrap();
        let first = limit.take(address("2001:db8::1")).unwrap();
        assert!(limit.take(address("2001:db8::2")).is_none());
        let other = limit.take(address("2001:db8:0:1::1")).unwrap();
        drop(first);
        drop(limit.take(address("2001:db8::2")).unwrap());
        drop(other);
        assert!(limit.taken.lock().unwrap().is_empty());
    }
}

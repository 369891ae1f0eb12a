//! Which client a limit counts: one IPv4 address, or one IPv6 network.

use std::net::{IpAddr, Ipv6Addr};

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
}

//! Which addresses receivers may have.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

use ipnet::IpNet;

use super::Scheme;

/// Networks that are not part of the internet, or whose addresses have one of IPv4 in them
/// that a relay forwards to (IANA's registry of special addresses).
const SPECIAL: [(&str, &str); 22] = [
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by carriers"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local, such as metadata of clouds"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "AS112"),
    ("192.52.193.0/24", "AMT"),
    ("192.88.99.0/24", "relays of 6to4"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "AS112"),
    ("198.18.0.0/15", "benchmarks"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/3", "multicast or reserved"),
    ("2001::/23", "protocol assignments"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("2620:4f:8000::/48", "AS112"),
    ("3fff::/20", "documentation"),
];

/// The only part of IPv6 that is assigned to the internet.
const GLOBAL_V6: &str = "2000::/3";
/// Addresses that a gateway translates to the IPv4 address in their last 32 bits.
const NAT64: &str = "64:ff9b::/96";

static SPECIAL_NETWORKS: LazyLock<Vec<(IpNet, &str)>> = LazyLock::new(|| {
    let parsed = SPECIAL
        .iter()
        .map(|(network, what)| (network.parse(), *what));
    let known = parsed.filter_map(|(network, what)| Some((network.ok()?, what)));
    known.collect()
});
static GLOBAL_V6_NETWORK: LazyLock<Option<IpNet>> = LazyLock::new(|| GLOBAL_V6.parse().ok());
static NAT64_NETWORK: LazyLock<Option<IpNet>> = LazyLock::new(|| NAT64.parse().ok());

/// The networks that receivers may be in.
pub(super) struct Networks {
    allowed: Vec<IpNet>,
}

impl Networks {
    pub(super) fn new(allowed: Vec<IpNet>) -> Self {
        Self { allowed }
    }

    /// Returns whether an address may be connected to.
    pub(super) fn permit(&self, address: IpAddr, scheme: Scheme) -> bool {
        // `::ffff:127.0.0.1` connects to 127.0.0.1.
        let address = address.to_canonical();
        self.allowed
            .iter()
            .any(|network| network.contains(&address))
            || (scheme == Scheme::Https && is_public(address))
    }
}

/// Returns whether an address is one of the internet.
fn is_public(address: IpAddr) -> bool {
    let is_in = |network: Option<IpNet>| network.is_some_and(|known| known.contains(&address));
    match address {
        IpAddr::V6(v6) if is_in(*NAT64_NETWORK) => {
            let [.., a, b, c, d] = v6.octets();
            is_public(Ipv4Addr::new(a, b, c, d).into())
        }
        IpAddr::V6(_) if !is_in(*GLOBAL_V6_NETWORK) => false,
        _ => special(address).is_none(),
    }
}

/// Returns the special network of an address, with what it is.
fn special(address: IpAddr) -> Option<&'static (IpNet, &'static str)> {
    let mut all = SPECIAL_NETWORKS.iter();
    all.find(|(network, _)| network.contains(&address))
}

/// Says why an address is refused.
pub(super) fn describe(address: IpAddr) -> String {
    let address = address.to_canonical();
    match special(address) {
        Some((network, what)) => format!("{address} is in {network} ({what})"),
        None if is_public(address) => format!("{address} would be reached without encryption"),
        None => format!("{address} is not an address of the internet"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(allowed: &[&str], address: &str, scheme: Scheme) -> bool {
        let allowed = allowed.iter().map(|one| one.parse().expect("a network"));
        let networks = Networks::new(allowed.collect());
        networks.permit(address.parse().expect("an address"), scheme)
    }

    #[test]
    fn every_network_is_written_correctly() {
        assert_eq!(SPECIAL_NETWORKS.len(), SPECIAL.len());
        assert!(GLOBAL_V6_NETWORK.is_some() && NAT64_NETWORK.is_some());
    }

    #[test]
    fn special_addresses_are_refused() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:7f00:1::1",
            "2001:2::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!permits(&[], address, Scheme::Https), "{address}");
        }
    }

    #[test]
    fn addresses_of_the_internet_are_reached_by_https_only() {
        for address in [
            "8.8.8.8",
            "1.1.1.1",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
        ] {
            assert!(permits(&[], address, Scheme::Https), "{address}");
            assert!(!permits(&[], address, Scheme::Http), "{address}");
        }
    }

    #[test]
    fn the_operator_allows_networks() {
        for (allowed, address, is_permitted) in [
            ("127.0.0.0/8", "127.0.0.1", true),
            ("127.0.0.0/8", "::ffff:127.0.0.1", true),
            ("127.0.0.0/8", "::1", false),
            ("127.0.0.0/8", "64:ff9b::7f00:1", false),
            ("10.0.0.0/8", "127.0.0.1", false),
            ("::1/128", "::1", true),
            ("fd00::/8", "fd12::1", true),
        ] {
            for scheme in [Scheme::Https, Scheme::Http] {
                let result = permits(&[allowed], address, scheme);
                assert_eq!(result, is_permitted, "{allowed} {address}");
            }
        }
    }
}

//! Who sent a request, behind the proxies that are trusted.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use ipnet::IpNet;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// Tells whether an address is a trusted proxy's.
pub(super) fn is_trusted(proxies: &[IpNet], address: IpAddr) -> bool {
    proxies.iter().any(|network| network.contains(&address))
}

/// Finds the client: the peer, or whom trusted proxies name. The last address in
/// `X-Forwarded-For` that is not a trusted proxy's is the client's; anything
/// before it, or before an entry that is not an address, may be made up.
pub(super) fn address(proxies: &[IpNet], peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    if !is_trusted(proxies, peer) {
        return peer;
    }
    let values = headers.get_all(FORWARDED_FOR).iter().rev();
    let entries = values.flat_map(|value| value.to_str().unwrap_or_default().rsplit(','));
    let mut client = peer;
    for entry in entries {
        let Some(address) = read(entry) else {
            break;
        };
        client = address;
        if !is_trusted(proxies, address) {
            break;
        }
    }
    client
}

/// Reads an entry: an address, alone or with a port; one of IPv6 may have
/// brackets, and either may be quoted.
fn read(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim();
    let entry = entry
        .strip_prefix('"')
        .and_then(|entry| entry.strip_suffix('"'))
        .unwrap_or(entry);
    let bare = entry
        .strip_prefix('[')
        .and_then(|entry| entry.strip_suffix(']'));
    let address = match bare {
        Some(v6) => IpAddr::V6(v6.parse().ok()?),
        None => entry
            .parse()
            .or_else(|_| entry.parse().map(|socket: SocketAddr| socket.ip()))
            .ok()?,
    };
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn client(forwarded: &[&str]) -> String {
        let proxies = ["127.0.0.1/32", "10.0.0.0/8"].map(|network| network.parse().unwrap());
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, HeaderValue::from_str(value).unwrap());
        }
        address(&proxies, "127.0.0.1".parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn every_form_of_an_address_is_read() {
        for (entry, address) in [
            ("192.0.2.7", "192.0.2.7"),
            (" 192.0.2.7:4711 ", "192.0.2.7"),
            ("\"192.0.2.7:4711\"", "192.0.2.7"),
            ("2001:db8::7", "2001:db8::7"),
            ("[2001:db8::7]", "2001:db8::7"),
            ("[2001:db8::7]:4711", "2001:db8::7"),
            ("\"[2001:db8::7]:4711\"", "2001:db8::7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
        ] {
            assert_eq!(client(&[entry]), address, "{entry}");
        }
    }

    #[test]
    fn the_last_address_that_is_no_proxys_is_the_clients() {
        assert_eq!(client(&[]), "127.0.0.1");
        assert_eq!(client(&["1.1.1.1, 192.0.2.7, 10.0.0.1:80"]), "192.0.2.7");
        assert_eq!(client(&["1.1.1.1", "192.0.2.7", "10.0.0.1"]), "192.0.2.7");
        // What stands before an entry that nobody understands may be made up.
        for entry in [
            "unknown",
            "_hidden",
            "",
            "192.0.2.7:",
            "[192.0.2.7]",
            "192.0.2.256",
        ] {
            let forwarded = format!("1.1.1.1, {entry}, 10.0.0.1");
            assert_eq!(client(&[&forwarded]), "10.0.0.1", "{entry}");
        }
    }

    #[test]
    fn a_peer_that_is_not_trusted_is_the_client() {
        let mut headers = HeaderMap::new();
        headers.insert(FORWARDED_FOR, HeaderValue::from_static("192.0.2.7"));
        let peer = "198.51.100.1".parse().unwrap();
        assert_eq!(address(&[], peer, &headers), peer);
    }
}

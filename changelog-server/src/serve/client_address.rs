//! The address of a request's client behind trusted proxies.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use ipnet::IpNet;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// Returns whether an address belongs to a trusted proxy.
pub(super) fn is_trusted(proxies: &[IpNet], address: IpAddr) -> bool {
    proxies.iter().any(|network| network.contains(&address))
}

/// Returns the client's address: the peer's, or the last one in `X-Forwarded-For`
/// that is not a trusted proxy's. A client can forge the entries before it, and
/// those before an entry that is not an address.
pub(super) fn address(proxies: &[IpNet], peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    if !is_trusted(proxies, peer) {
        return peer;
    }
    let values = headers.get_all(FORWARDED_FOR).iter().rev();
    let entries = values.flat_map(|value| value.to_str().unwrap_or_default().rsplit(','));
    let mut client = peer;
    for entry in entries {
        let Some(address) = parse_entry(entry) else {
            break;
        };
        client = address;
        if !is_trusted(proxies, address) {
            break;
        }
    }
    client
}

/// Parses an entry: an address, with or without a port. An IPv6 address may have
/// brackets, and every entry may be quoted.
fn parse_entry(entry: &str) -> Option<IpAddr> {
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
    fn every_address_form_is_parsed() {
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
    fn the_last_untrusted_address_is_the_client() {
        assert_eq!(client(&[]), "127.0.0.1");
        assert_eq!(client(&["1.1.1.1, 192.0.2.7, 10.0.0.1:80"]), "192.0.2.7");
        assert_eq!(client(&["1.1.1.1", "192.0.2.7", "10.0.0.1"]), "192.0.2.7");
        // A client can forge the entries before an invalid one.
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
    fn an_untrusted_peer_is_the_client() {
        let mut headers = HeaderMap::new();
        headers.insert(FORWARDED_FOR, HeaderValue::from_static("192.0.2.7"));
        let peer = "198.51.100.1".parse().unwrap();
        assert_eq!(address(&[], peer, &headers), peer);
    }
}

//! Networks whose receivers are allowed.

use std::net::IpAddr;

use clap::Args;
use ipnet::IpNet;

/// Networks whose receivers are allowed.
#[derive(Clone, Debug, Default, Args)]
pub struct AllowedReceivers {
    /// Networks whose receivers are allowed although they are private, also over plain http
    #[arg(
        long = "allow-receivers",
        help = "Networks, such as 10.0.0.0/8, whose receivers are allowed although they are \
                private or local, also over plain http; comma-separated",
        env = "CHANGELOG_ALLOW_RECEIVERS",
        value_name = "CIDR",
        value_delimiter = ',',
        value_parser = network
    )]
    pub networks: Vec<IpNet>,
}

/// Reads a network, or an address as the network that has only it.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    text.parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| "must be an address or a network such as 10.0.0.0/8".to_owned())
}

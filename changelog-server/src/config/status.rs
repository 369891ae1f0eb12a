//! The flags of `status`.

use std::net::SocketAddr;

use clap::Args;

use super::serve::reachable;

/// The arguments of `status`.
#[derive(Clone, Debug, Args)]
pub struct Status {
    /// The address of the metrics of a running server, to ask it for its slowest statements
    #[arg(
        long,
        help = "The --metrics-listen of a running server, to ask it for its slowest statements",
        env = "CHANGELOG_METRICS_LISTEN",
        value_name = "ADDR"
    )]
    pub metrics_listen: Option<SocketAddr>,
}

impl Status {
    /// Returns the URL of the listener, without a slash at the end.
    pub fn metrics_url(&self) -> Option<String> {
        let address = self.metrics_listen?;
        Some(format!("http://{}", reachable(address)))
    }
}

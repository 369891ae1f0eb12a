//! The flags of `health`.

use std::net::SocketAddr;

use clap::Args;
use url::Url;

use super::serve::{public_url, reachable};

/// The arguments of `health`.
#[derive(Clone, Debug, Args)]
pub struct Health {
    /// The address of the service; that of --listen when absent
    #[arg(long, value_name = "URL", value_parser = public_url)]
    pub url: Option<Url>,
    /// The address that the service listens on
    #[arg(
        long,
        env = "CHANGELOG_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDR"
    )]
    pub listen: SocketAddr,
}

impl Health {
    /// Returns the URL of the service, without a slash at the end.
    pub fn url(&self) -> String {
        match &self.url {
            Some(url) => url.origin().ascii_serialization(),
            None => format!("http://{}", reachable(self.listen)),
        }
    }
}

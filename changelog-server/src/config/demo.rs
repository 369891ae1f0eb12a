//! The flags of `demo`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// The arguments of `demo`.
#[derive(Clone, Debug, Args)]
pub struct Demo {
    /// The address to listen on; port 0 picks a free one
    #[arg(
        long,
        env = "CHANGELOG_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDR"
    )]
    pub listen: SocketAddr,
    /// The folder for the database, the sign-in and the key
    #[arg(long, default_value = "changelog-demo", value_name = "DIR")]
    pub data_dir: PathBuf,
}

//! The flags of `serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;

use changelog_core::OrganizationId;
use clap::{Args, value_parser};
use http::HeaderName;
use ipnet::IpNet;
use url::Url;

use super::receivers::network;
use super::{AllowedReceivers, QuotaSettings, SecretsFile};
use crate::mail::MailSettings;
use crate::store::Capacity;

/// The arguments of `serve`.
#[derive(Clone, Debug, Args)]
pub struct Serve {
    /// The address to listen on; port 0 picks a free one
    #[arg(
        long,
        env = "CHANGELOG_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDR"
    )]
    pub listen: SocketAddr,
    /// Trust the system's clock although the database has seen a later time
    #[arg(
        long,
        long_help = "Trust the system's clock although the database has seen a later time. Use this \
                     after the clock was ahead for some minutes and keys and sessions expired"
    )]
    pub trust_clock: bool,
    /// The address of the metrics for Prometheus; no metrics when absent
    #[arg(
        long,
        help = "The address at which Prometheus finds /metrics, such as 127.0.0.1:9464; they need \
                no key, so it must be reached by the operator's network only",
        env = "CHANGELOG_METRICS_LISTEN",
        value_name = "ADDR"
    )]
    pub metrics_listen: Option<SocketAddr>,
    /// How long to take requests after the signal to stop, while /readyz fails already, in
    /// seconds
    #[arg(
        long,
        help = "How long to take requests after the signal to stop while /readyz fails already, \
                in seconds; proxies need as long to notice",
        env = "CHANGELOG_DRAIN_DELAY",
        default_value_t = 0,
        value_name = "SECONDS",
        value_parser = value_parser!(u64).range(..=600)
    )]
    pub drain_delay: u64,
    /// The configuration of the service.
    #[command(flatten)]
    pub settings: Settings,
}

/// The configuration of the service.
#[derive(Clone, Debug, Default, Args)]
pub struct Settings {
    /// The URL that users open; cookies are Secure when it is https
    #[arg(
        help = "The URL that users open, such as https://changes.example.com; cookies are \
                Secure when it is https",
        long, env = "CHANGELOG_PUBLIC_URL", value_name = "URL", value_parser = public_url)]
    pub public_url: Option<Url>,
    /// Proxies whose X-Forwarded-For header is trusted, such as 10.0.0.0/8; comma-separated
    #[arg(
        long = "trusted-proxy",
        env = "CHANGELOG_TRUSTED_PROXIES",
        value_name = "CIDR",
        value_delimiter = ',',
        value_parser = network
    )]
    pub trusted_proxies: Vec<IpNet>,
    /// A header in which a trusted proxy names the email address of a person who has signed in
    /// at the proxy
    #[arg(
        long,
        help = "A header, such as X-Auth-Request-Email, in which a trusted proxy names the email \
                address of a person who has signed in at the proxy; the proxy must remove what \
                clients send in it",
        env = "CHANGELOG_TRUSTED_SIGN_IN_HEADER",
        value_name = "NAME",
        requires = "trusted_proxies"
    )]
    pub trusted_sign_in_header: Option<HeaderName>,
    /// The id of the organization whose identity provider the sign-in page offers to everyone
    #[arg(
        long,
        env = "CHANGELOG_SSO_ORGANIZATION",
        value_name = "ID",
        value_parser = organization_id
    )]
    pub sso_organization: Option<OrganizationId>,
    /// The most requests per second of one API key; no limit when absent
    #[arg(long, env = "CHANGELOG_RATE_LIMIT", value_name = "N")]
    pub rate_limit: Option<NonZeroU32>,
    /// The most connections to PostgreSQL that this server opens; 24 when absent
    #[arg(
        long,
        env = "CHANGELOG_DATABASE_CONNECTIONS",
        value_name = "N",
        value_parser = value_parser!(u32).range(i64::from(Capacity::MIN_CONNECTIONS)..=1_000)
    )]
    pub database_connections: Option<u32>,
    /// How much of the database one organization may use at once, in percent;
    /// 50 when absent
    #[arg(
        long,
        help = "How much of the connections for lists, searches and writes one organization may \
                use at once, in percent; 50 when absent. Requests beyond it wait for up to 2 s \
                and are then answered with 429",
        env = "CHANGELOG_ORGANIZATION_SHARE",
        value_name = "PERCENT",
        value_parser = value_parser!(u8).range(1..=100)
    )]
    pub organization_share: Option<u8>,
    /// The memory for responses that clients have not read yet, in MiB; 256 when absent
    #[arg(
        help = "The memory for responses that clients have not read yet, in MiB; an organization \
                may use a quarter of it [default: 256]",
        long,
        env = "CHANGELOG_RESPONSE_MEMORY",
        value_name = "MIB"
    )]
    pub response_memory: Option<NonZeroU32>,
    /// The mail server.
    #[command(flatten)]
    pub mail: MailSettings,
    /// Networks whose receivers are allowed.
    #[command(flatten)]
    pub receivers: AllowedReceivers,
    /// The key of stored secrets.
    #[command(flatten)]
    pub secrets: SecretsFile,
    /// The quotas of an organization.
    #[command(flatten)]
    pub quotas: QuotaSettings,
}

impl Settings {
    /// Returns how much of the database the service uses.
    pub fn capacity(&self) -> Capacity {
        let default = Capacity::default();
        Capacity {
            postgres_connections: self
                .database_connections
                .unwrap_or(default.postgres_connections),
            organization_share: self
                .organization_share
                .unwrap_or(default.organization_share),
        }
    }

    /// Returns the public URL, or else that of the address that the service listens on,
    /// without a slash at the end.
    pub fn url(&self, listening: SocketAddr) -> String {
        match &self.public_url {
            Some(url) => url.origin().ascii_serialization(),
            None => format!("http://{}", reachable(listening)),
        }
    }

    /// Returns the host of the public URL, or else of the address that the service listens
    /// on.
    pub fn host(&self, listening: SocketAddr) -> String {
        let url = self.public_url.as_ref();
        let host = url.and_then(|url| url.host_str());
        host.map_or_else(|| reachable(listening).ip().to_string(), str::to_owned)
    }

    /// Returns whether the public URL is https.
    pub fn is_https(&self) -> bool {
        self.public_url
            .as_ref()
            .is_some_and(|url| url.scheme() == "https")
    }
}

fn organization_id(text: &str) -> Result<OrganizationId, String> {
    text.parse().map_err(|bad| {
        format!("the id of an organization {bad}; `changelog-server org list` shows them")
    })
}

/// Returns the address at which the local machine reaches a listener.
pub(super) fn reachable(mut listening: SocketAddr) -> SocketAddr {
    if listening.ip().is_unspecified() {
        listening.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    listening
}

pub(super) fn public_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none();
    if plain {
        Ok(url)
    } else {
        Err("must be http:// or https:// and a host, without a path".into())
    }
}

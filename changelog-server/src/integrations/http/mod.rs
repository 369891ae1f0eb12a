//! Requests to receivers, whose addresses users choose: they must not reach the
//! networks that only the server reaches.
//!
//! - Addresses are resolved and checked before each connection, and the connection is
//!   made to exactly the addresses that were checked. A connection that is kept open
//!   continues to an address that was checked.
//! - Redirects are not followed, and proxies of the environment are not used.
//! - https only, except to networks that the operator allows.
//! - Answers are read to [`MAX_RESPONSE_BYTES`], or another limit, and not decompressed.

mod error;
mod networks;
mod resolver;
mod tls;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Method, StatusCode};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use reqwest::{Client, redirect};
use tokio::sync::OnceCell;
use url::{Host, Url};

pub use error::SendError;
pub use resolver::Lookup;

use networks::Networks;
use resolver::{CheckedResolver, SystemLookup};

use crate::trace_parent::{TRACEPARENT, TraceParent};

/// The limit on the bytes of an answer that are read.
pub const MAX_RESPONSE_BYTES: usize = 16 * 1024;
/// The limit on the headers of an answer.
const MAX_RESPONSE_HEADERS: usize = 64;
/// The time limit of opening a connection, with its name resolution.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit of a request, until its answer has been read.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// How long an unused connection is kept open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The unused connections to one receiver that are kept open.
const MAX_IDLE_CONNECTIONS: usize = 1;
const USER_AGENT: &str = concat!("changelog-server/", env!("CARGO_PKG_VERSION"));

/// A request to a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverRequest<'r> {
    /// The method.
    pub method: Method,
    /// The URL; https, or http to a network that the operator allows.
    pub url: &'r str,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// The answer of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, or as many of its first bytes as are read.
    pub body: Vec<u8>,
    /// Whether the body has more bytes.
    pub is_cut: bool,
}

/// Sends requests to receivers. Clones share their connections.
#[derive(Clone)]
pub struct ReceiverClient {
    inner: Arc<Inner>,
    /// The trace that the requests belong to.
    trace: Option<TraceParent>,
}

struct Inner {
    networks: Arc<Networks>,
    lookup: Arc<dyn Lookup>,
    // Built when first used: reading the system's certificates takes longer than a request.
    https: OnceCell<Client>,
    http: OnceCell<Client>,
}

/// How the connection is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    /// To addresses of the internet, or of allowed networks.
    Https,
    /// To addresses of allowed networks.
    Http,
}

impl ReceiverClient {
    /// Creates a client. Receivers in the `allowed` networks may have addresses that are
    /// otherwise refused, and may be reached over plain http.
    pub fn new(allowed: Vec<IpNet>) -> Self {
        Self::with_lookup(allowed, SystemLookup)
    }

    /// Creates a client that finds the addresses of names by other means than the
    /// system's.
    pub fn with_lookup(allowed: Vec<IpNet>, lookup: impl Lookup) -> Self {
        let inner = Inner {
            networks: Arc::new(Networks::new(allowed)),
            lookup: Arc::new(lookup),
            https: OnceCell::new(),
            http: OnceCell::new(),
        };
        Self {
            inner: Arc::new(inner),
            trace: None,
        }
    }

    /// Returns a client whose requests belong to a trace.
    pub(crate) fn of_trace(&self, trace: Option<TraceParent>) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            trace,
        }
    }

    /// Returns a client that reaches any address, also over plain http.
    pub(crate) fn without_limits(&self) -> Self {
        let everything = [Ipv4Net::default().into(), Ipv6Net::default().into()];
        let inner = Inner {
            networks: Arc::new(Networks::new(everything.to_vec())),
            lookup: Arc::clone(&self.inner.lookup),
            https: OnceCell::new(),
            http: OnceCell::new(),
        };
        Self {
            inner: Arc::new(inner),
            trace: None,
        }
    }

    /// Sends a request and reads its answer. An answer of any status is `Ok`.
    ///
    /// # Errors
    /// [`SendError`] if the URL or the address is refused, or no answer came within
    /// [`REQUEST_TIMEOUT`].
    pub async fn send(&self, request: ReceiverRequest<'_>) -> Result<ReceiverResponse, SendError> {
        tokio::time::timeout(REQUEST_TIMEOUT, self.exchange(request, MAX_RESPONSE_BYTES))
            .await
            .unwrap_or(Err(SendError::Timeout))
    }

    /// Sends a request and reads at most `max_bytes` of its answer; the caller limits the time.
    ///
    /// # Errors
    /// [`SendError`] if the URL or the address is refused, or there is no answer.
    pub(crate) async fn exchange(
        &self,
        mut request: ReceiverRequest<'_>,
        max_bytes: usize,
    ) -> Result<ReceiverResponse, SendError> {
        let url = Url::parse(request.url).map_err(|_| SendError::InvalidUrl)?;
        let scheme = self.checked(&url)?;
        if let Some(trace) = self.trace.and_then(TraceParent::header) {
            request.headers.insert(TRACEPARENT, trace);
        }
        let mut response = self
            .client(scheme)
            .await?
            .request(request.method, url)
            .headers(request.headers)
            .body(request.body)
            .send()
            .await
            .map_err(|error| SendError::of(&error))?;
        let mut body = Vec::new();
        let mut is_cut = false;
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| SendError::of(&error))?
        {
            let room = max_bytes - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                // The rest is dropped with the connection.
                is_cut = true;
                break;
            }
        }
        Ok(ReceiverResponse {
            status: response.status(),
            headers: std::mem::take(response.headers_mut()),
            body,
            is_cut,
        })
    }

    /// Returns why the present addresses of a URL's host are refused; `None` if a request
    /// may connect to one of them.
    ///
    /// # Errors
    /// [`SendError::InvalidUrl`], or [`SendError::UnknownHost`] if the host has no address now.
    pub(crate) async fn refusal(&self, url: &str) -> Result<Option<String>, SendError> {
        let (scheme, host) = parts(&Url::parse(url).map_err(|_| SendError::InvalidUrl)?)?;
        let addresses = match host {
            Host::Domain(name) => {
                let lookup = self.inner.lookup.addresses(name);
                let found = tokio::time::timeout(CONNECT_TIMEOUT, lookup).await;
                found.ok().and_then(Result::ok).unwrap_or_default()
            }
            Host::Ipv4(address) => vec![address.into()],
            Host::Ipv6(address) => vec![address.into()],
        };
        let permit = |address: &IpAddr| self.inner.networks.permit(*address, scheme);
        match addresses.first() {
            None => Err(SendError::UnknownHost),
            Some(_) if addresses.iter().any(permit) => Ok(None),
            Some(first) => Ok(Some(networks::describe(*first))),
        }
    }

    /// Checks what can be checked before the name is resolved.
    fn checked(&self, url: &Url) -> Result<Scheme, SendError> {
        let (scheme, host) = parts(url)?;
        // Connectors do not resolve addresses, so the resolver does not see them.
        let address: Option<IpAddr> = match host {
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
            Host::Domain(name) => name.parse().ok(),
        };
        match address {
            Some(address) if !self.inner.networks.permit(address, scheme) => {
                Err(SendError::RefusedAddress)
            }
            _ => Ok(scheme),
        }
    }

    async fn client(&self, scheme: Scheme) -> Result<&Client, SendError> {
        let cell = match scheme {
            Scheme::Https => &self.inner.https,
            Scheme::Http => &self.inner.http,
        };
        cell.get_or_try_init(async || {
            let resolver = CheckedResolver {
                networks: Arc::clone(&self.inner.networks),
                lookup: Arc::clone(&self.inner.lookup),
                scheme,
            };
            let build = move || {
                Client::builder()
                    .user_agent(USER_AGENT)
                    .https_only(scheme == Scheme::Https)
                    .tls_backend_preconfigured(tls::config(scheme)?)
                    .dns_resolver(Arc::new(resolver))
                    .redirect(redirect::Policy::none())
                    .referer(false)
                    .no_proxy()
                    .no_gzip()
                    .no_brotli()
                    .no_deflate()
                    .no_zstd()
                    .http1_only()
                    .http1_max_headers(MAX_RESPONSE_HEADERS)
                    .connect_timeout(CONNECT_TIMEOUT)
                    .pool_idle_timeout(IDLE_TIMEOUT)
                    .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
                    .build()
                    .map_err(|error| SendError::of(&error))
            };
            let client = tokio::task::spawn_blocking(build).await;
            client.map_err(|_| SendError::Certificates)?
        })
        .await
    }
}

/// Returns what a URL says about the connection. The parser has read decimal, octal and
/// hexadecimal notations as addresses.
fn parts(url: &Url) -> Result<(Scheme, Host), SendError> {
    let scheme = match url.scheme() {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        _ => return Err(SendError::InvalidUrl),
    };
    match url.host() {
        Some(host) if url.username().is_empty() && url.password().is_none() => {
            Ok((scheme, host.to_owned()))
        }
        _ => Err(SendError::InvalidUrl),
    }
}

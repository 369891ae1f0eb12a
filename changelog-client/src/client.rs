//! The client and its builder.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use changelog_core::{Health, KeyInfo};
use http::header::DATE;
use http::{HeaderValue, StatusCode};
use reqwest::redirect;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::base_url::BaseUrl;
use crate::changes::Changes;
use crate::error::Error;
use crate::hosts::Hosts;
use crate::request::ApiRequest;
use crate::retry::RetryPolicy;
use crate::services::Services;
use crate::transport::{Settings, Transport};
use crate::{proxy, reqwest_error, tls};

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const DEFAULT_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_TOTAL_TIMEOUT: Duration = Duration::from_secs(30);

/// A client of one change log service, for the organization of its API key.
///
/// The endpoints are grouped by resource: [`Client::changes`], [`Client::hosts`]
/// and [`Client::services`]. Clones are cheap: they share the connections and
/// the settings.
///
/// ```no_run
/// # async fn example() -> Result<(), changelog_client::Error> {
/// use changelog_client::Client;
///
/// let client = Client::builder()
///     .url("https://changes.example.com")
///     .api_key(std::env::var("CHLOG_API_KEY").unwrap_or_default())
///     .build()?;
/// println!("{}", client.key().await?.organization.name);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    transport: Transport,
}

impl Client {
    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Returns a builder; only the URL is required.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Returns the endpoints for changes.
    pub fn changes(&self) -> Changes {
        Changes::new(self.transport.clone())
    }

    /// Returns the endpoints for hosts.
    pub fn hosts(&self) -> Hosts {
        Hosts::new(self.transport.clone())
    }

    /// Returns the endpoints for services.
    pub fn services(&self) -> Services {
        Services::new(self.transport.clone())
    }

    /// Gets the health of the service. Needs no API key and is not retried.
    ///
    /// If the service answers that its database is unreachable (status 503), the
    /// result is a [`Health`] for which [`Health::is_ok`] is false, not an error.
    pub async fn health(&self) -> Result<Health, Error> {
        Ok(self.probe().await?.health)
    }

    /// Returns the proxy that requests go through, without its user name and password;
    /// `None` for a direct connection.
    pub fn proxy(&self) -> Option<String> {
        proxy::of(&self.transport.settings().base_url)
    }

    /// Gets the health of the service with the response time and the time of the
    /// service's clock. Needs no API key and is not retried.
    pub async fn probe(&self) -> Result<Probe, Error> {
        let start = Instant::now();
        let request = ApiRequest::get(&["health"]).without_api_key();
        let is_expected =
            |status: &StatusCode| status.is_success() || *status == StatusCode::SERVICE_UNAVAILABLE;
        let (health, headers) = self.transport.send_once(&request, is_expected).await?;
        let latency = start.elapsed();
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        Ok(Probe {
            health,
            latency,
            date: date.and_then(|date| httpdate::parse_http_date(date).ok()),
        })
    }

    /// Gets the name, the organization, the plan and the expiry of the client's
    /// API key.
    pub async fn key(&self) -> Result<KeyInfo, Error> {
        self.transport
            .send_for_data(&ApiRequest::get(&["key"]))
            .await
    }

    /// Returns the URL of the service.
    pub fn url(&self) -> &Url {
        self.transport.settings().base_url.as_url()
    }
}

/// The result of [`Client::probe`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Probe {
    /// The health of the service.
    pub health: Health,
    /// The time from the start of the request to the complete response. That of
    /// the first request includes opening the connection.
    pub latency: Duration,
    /// The header `Date` of the response, with a resolution of one second.
    pub date: Option<SystemTime>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.transport.settings();
        f.debug_struct("Client")
            .field("url", &settings.base_url.as_url().as_str())
            .field("api_key", &settings.api_key)
            .field("attempt_timeout", &settings.attempt_timeout)
            .field("total_timeout", &settings.total_timeout)
            .field("retry", &settings.retry)
            .finish_non_exhaustive()
    }
}

/// The settings of a new [`Client`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct ClientBuilder {
    url: String,
    api_key: Option<SecretString>,
    user_agent: String,
    connect_timeout: Duration,
    attempt_timeout: Duration,
    total_timeout: Duration,
    retry: RetryPolicy,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            url: String::new(),
            api_key: None,
            user_agent: concat!("changelog-client/", env!("CARGO_PKG_VERSION")).to_owned(),
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            attempt_timeout: DEFAULT_ATTEMPT_TIMEOUT,
            total_timeout: DEFAULT_TOTAL_TIMEOUT,
            retry: RetryPolicy::default(),
        }
    }
}

impl ClientBuilder {
    /// Sets the URL of the service, such as `https://changes.example.com`, or
    /// `https://example.com/changes` behind a proxy. A trailing slash is ignored.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = url.into();
        self
    }

    /// Sets the API key. All requests except [`Client::health`] and
    /// [`Client::probe`] need one.
    pub fn api_key(mut self, key: impl Into<SecretString>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// Sets the header `User-Agent`; `changelog-client/VERSION` by default.
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = name.into();
        self
    }

    /// Sets the timeout for opening a connection; 3 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the timeout for one attempt, from opening the connection to the
    /// complete response; 10 s by default.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// Sets the timeout for a request with all its retries and the delays
    /// between them; 30 s by default.
    pub fn total_timeout(mut self, timeout: Duration) -> Self {
        self.total_timeout = timeout;
        self
    }

    /// Sets the retry policy.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Builds the client. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::Builder`] if the URL is not an `http` or `https` URL, the API key
    /// contains characters that a header cannot contain, or the system's
    /// certificates cannot be read.
    pub fn build(self) -> Result<Client, Error> {
        let base_url = BaseUrl::parse(&self.url)?;
        let api_key = self.api_key.as_ref().map(api_key_header).transpose()?;
        let http = reqwest::Client::builder()
            .user_agent(self.user_agent)
            .connect_timeout(self.connect_timeout)
            // A redirect would send the API key to another server.
            .redirect(redirect::Policy::none())
            .tls_backend_preconfigured(tls::config(&base_url)?)
            .build()
            .map_err(|error| Error::Builder(reqwest_error::with_causes(&error)))?;
        Ok(Client {
            transport: Transport::new(Settings {
                http,
                base_url,
                api_key,
                attempt_timeout: self.attempt_timeout,
                total_timeout: self.total_timeout,
                retry: self.retry,
            }),
        })
    }
}

/// Returns the API key as a header value that `Debug` does not show.
fn api_key_header(key: &SecretString) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(key.expose_secret())
        .map_err(|_| Error::Builder("the API key contains invalid characters".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_does_not_show_the_key() {
        let builder = Client::builder()
            .url("http://localhost")
            .api_key("chlog_secret");
        let shown = format!("{builder:?}");
        let shown = shown + &format!("{:?}", builder.build().unwrap());
        assert!(!shown.contains("chlog_secret"), "{shown}");
    }

    #[test]
    fn a_key_that_a_header_cannot_contain_is_an_error_without_the_key() {
        let error = Client::builder()
            .url("http://localhost")
            .api_key("secret\n")
            .build()
            .unwrap_err();
        assert!(matches!(error, Error::Builder(_)));
        assert!(!error.to_string().contains("secret"));
    }
}

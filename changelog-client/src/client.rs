//! The client: where the service is, who asks, and how long to wait.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::StatusCode;
use http::header::DATE;
use reqwest::redirect;
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use changelog_core::{Health, KeyInfo};

use crate::changes::Changes;
use crate::error::Error;
use crate::hosts::Hosts;
use crate::retry::RetryPolicy;
use crate::send::Call;
use crate::services::Services;

/// A connection to one change log service, acting for one organization.
///
/// Cheap to clone: clones share their connections and settings. Requests are
/// reached by noun: [`Client::changes`], [`Client::hosts`], [`Client::services`].
///
/// ```no_run
/// # async fn example() -> Result<(), changelog_client::Error> {
/// use changelog_client::{Client, RiskLevel};
///
/// let client = Client::builder()
///     .url("https://changes.example.com")
///     .api_key(std::env::var("CHLOG_API_KEY").unwrap_or_default())
///     .build()?;
/// let change = client
///     .changes()
///     .create("Deploy api 2.3")
///     .risk_level(RiskLevel::High)
///     .tag("api")
///     .send()
///     .await?;
/// println!("{}", change.id);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

/// What the clones of a client share.
pub(crate) struct Inner {
    pub(crate) http: reqwest::Client,
    /// Without a trailing slash, query or fragment.
    pub(crate) base: Url,
    pub(crate) api_key: Option<SecretString>,
    pub(crate) attempt_timeout: Duration,
    pub(crate) total_timeout: Duration,
    pub(crate) retry: RetryPolicy,
}

impl Client {
    /// Starts a client; only the address is required.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Returns the requests about changes.
    pub fn changes(&self) -> Changes {
        Changes::new(self.clone())
    }

    /// Returns the requests about hosts.
    pub fn hosts(&self) -> Hosts {
        Hosts::new(self.clone())
    }

    /// Returns the requests about services.
    pub fn services(&self) -> Services {
        Services::new(self.clone())
    }

    /// Asks how the service is; needs no key and is sent once, since it asks
    /// about now.
    ///
    /// A service that answers that its database does not (status 503) has
    /// answered: that is a [`Health`] whose [`Health::is_ok`] is false, not an
    /// error.
    pub async fn health(&self) -> Result<Health, Error> {
        Ok(self.probe().await?.health)
    }

    /// Asks the same, and tells how long the answer took and which time it is
    /// for whoever gave it.
    pub async fn probe(&self) -> Result<Probe, Error> {
        let begun = Instant::now();
        let call = Call::get(&["health"]).without_key();
        let is_answer = |status: &StatusCode| status.is_success() || status.as_u16() == 503;
        let (health, headers) = self.send_once(&call, is_answer).await?;
        let latency = begun.elapsed();
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        Ok(Probe {
            health,
            latency,
            date: date.and_then(|date| httpdate::parse_http_date(date).ok()),
        })
    }

    /// Asks what the service knows of the key that this client has: its name,
    /// for whom it acts, and until when.
    pub async fn key(&self) -> Result<KeyInfo, Error> {
        self.record(&Call::get(&["key"])).await
    }

    /// Returns the address that this client speaks to.
    pub fn url(&self) -> &Url {
        &self.inner.base
    }
}

/// What [`Client::probe`] found out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Probe {
    /// How the service is.
    pub health: Health,
    /// How long the answer took; of the first one, with the connection.
    pub latency: Duration,
    /// The answer's `Date`, to the second.
    pub date: Option<SystemTime>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("url", &self.inner.base.as_str())
            .field("api_key", &self.inner.api_key)
            .field("attempt_timeout", &self.inner.attempt_timeout)
            .field("total_timeout", &self.inner.total_timeout)
            .field("retry", &self.inner.retry)
            .finish_non_exhaustive()
    }
}

/// Settings of a [`Client`] that is to be built.
#[derive(Clone, Debug)]
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
            connect_timeout: Duration::from_secs(3),
            attempt_timeout: Duration::from_secs(10),
            total_timeout: Duration::from_secs(30),
            retry: RetryPolicy::default(),
        }
    }
}

impl ClientBuilder {
    /// Sets where the service is, such as `https://changes.example.com` or,
    /// behind a proxy, `https://example.com/changes`; with or without a
    /// trailing slash.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = url.into();
        self
    }

    /// Sets the API key; everything but [`Client::health`] needs one.
    pub fn api_key(mut self, key: impl Into<SecretString>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// Sets the name and version that the service's log shows.
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = name.into();
        self
    }

    /// Sets how long making a connection may take; 3 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long one attempt may take, from the first byte sent to the
    /// last received; 10 s by default.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// Sets how long a request may take with all its retries and the waits
    /// between them; 30 s by default.
    pub fn total_timeout(mut self, timeout: Duration) -> Self {
        self.total_timeout = timeout;
        self
    }

    /// Sets when requests are sent again.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Builds the client; nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Builder`] when the address is not an `http` or `https`
    /// one, the key cannot stand in a header, or the system's certificates
    /// cannot be read.
    pub fn build(self) -> Result<Client, Error> {
        let base = base_url(&self.url)?;
        if let Some(key) = &self.api_key {
            header_value(key)?;
        }
        let http = reqwest::Client::builder()
            .user_agent(self.user_agent)
            .connect_timeout(self.connect_timeout)
            // A redirect would carry the key to whoever it points at.
            .redirect(redirect::Policy::none())
            .tls_backend_preconfigured(tls_config(&base)?)
            .build()
            .map_err(|error| Error::Builder(crate::send::chain(&error)))?;
        Ok(Client {
            inner: Arc::new(Inner {
                http,
                base,
                api_key: self.api_key,
                attempt_timeout: self.attempt_timeout,
                total_timeout: self.total_timeout,
                retry: self.retry,
            }),
        })
    }
}

/// Reads the service's address; what is wrong with it is said without
/// repeating a password that stands in it.
fn base_url(text: &str) -> Result<Url, Error> {
    let wrong = |what: &str| Err(Error::Builder(format!("url: {what}")));
    if text.trim().is_empty() {
        return wrong("is required, for example https://changes.example.com");
    }
    let Ok(mut url) = Url::parse(text.trim()) else {
        return wrong("must begin with http:// or https://, such as https://changes.example.com");
    };
    if !matches!(url.scheme(), "http" | "https") {
        return wrong(&format!(
            "must begin with http:// or https://, got {}:",
            url.scheme()
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return wrong("must not carry a user name or password");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return wrong("must not carry a query or a fragment");
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// Makes the key a header value that no `Debug` shows.
pub(crate) fn header_value(key: &SecretString) -> Result<http::HeaderValue, Error> {
    let mut value = http::HeaderValue::from_str(key.expose_secret())
        .map_err(|_| Error::Builder("the API key has characters that no key has".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// TLS by rustls with its `ring` provider, given here and not installed for the
/// whole process: which one that has is its own affair.
fn tls_config(base: &Url) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Builder(error.to_string()))?;
    if base.scheme() == "http" {
        // No TLS will be spoken (redirects are not followed), and reading the
        // system's certificates takes longer than the request.
        return Ok(config
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth());
    }
    Ok(config
        .with_platform_verifier()
        .map_err(|error| {
            Error::Builder(format!("the system's certificates cannot be used: {error}"))
        })?
        .with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_their_trailing_slash_and_keep_their_prefix() {
        for (given, expected) in [
            ("http://localhost:8080", "http://localhost:8080/"),
            ("http://localhost:8080/", "http://localhost:8080/"),
            (
                " https://example.com/changes/ ",
                "https://example.com/changes",
            ),
            ("https://example.com/a/b", "https://example.com/a/b"),
        ] {
            assert_eq!(base_url(given).unwrap().as_str(), expected);
        }
    }

    #[test]
    fn addresses_that_are_none_are_refused_without_their_password() {
        for bad in [
            "",
            "localhost",
            "localhost:8080",
            "ftp://example.com",
            "http://",
            "https://me:hunter2@example.com",
            "https://example.com?x=1",
            "https://example.com#x",
        ] {
            let error = base_url(bad).unwrap_err().to_string();
            assert!(error.starts_with("url: "), "{bad}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn debug_does_not_show_the_key() {
        let builder = Client::builder()
            .url("http://localhost")
            .api_key("chlog_secret");
        let shown = format!("{builder:?}");
        let shown = shown + &format!("{:?}", builder.build().unwrap());
        assert!(!shown.contains("chlog_secret"), "{shown}");
        let value = header_value(&"chlog_secret".into()).unwrap();
        assert!(!format!("{value:?}").contains("chlog_secret"));
    }

    #[test]
    fn a_key_that_cannot_stand_in_a_header_is_refused_without_showing_it() {
        let error = Client::builder()
            .url("http://localhost")
            .api_key("secret\n")
            .build()
            .unwrap_err();
        assert!(matches!(error, Error::Builder(_)));
        assert!(!error.to_string().contains("secret"));
    }
}

//! The client and its builder.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};
use std::{env, fmt, fs};

use changelog_core::problem::BadValue;
use changelog_core::{Agent, Health, KeyInfo, Named, OrganizationId};
use http::header::DATE;
use http::{HeaderValue, StatusCode};
use reqwest::redirect;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::base_url::BaseUrl;
use crate::catalog::Catalog;
use crate::changes::Changes;
use crate::error::Error;
use crate::hosts::Hosts;
use crate::id_token::{IdToken, IdTokenSource, not_blank};
use crate::incidents::Incidents;
use crate::mode::{Async, Mode, Sender};
use crate::request::ApiRequest;
use crate::retry::RetryPolicy;
use crate::services::Services;
use crate::transport::{Settings, Transport};
use crate::{proxy, reqwest_error, tls};

const URL_VARIABLE: &str = "CHLOG_URL";
const KEY_VARIABLE: &str = "CHLOG_API_KEY";
const KEY_FILE_VARIABLE: &str = "CHLOG_API_KEY_FILE";
const ORGANIZATION_VARIABLE: &str = "CHLOG_ORGANIZATION";

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const DEFAULT_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_TOTAL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an unused connection is kept. The service closes it after 60 s, and a request that
/// is sent at that moment fails.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(45);

/// A client of one change log service, for the organization of its API key.
///
/// The endpoints are grouped by resource: [`Client::changes`], [`Client::hosts`]
/// and [`Client::services`]. Clones are cheap: they share the connections and
/// the settings. Requests of the default [`Mode`] are futures; those of
/// `blocking::Client` return responses.
///
/// ```no_run
/// # async fn example() -> Result<(), changelog_client::Error> {
/// use changelog_client::Client;
///
/// let client = Client::from_env()?;
/// println!("{}", client.key().await?.organization.name);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client<M = Async> {
    sender: Sender<M>,
}

impl Client {
    /// Returns a builder; only the URL is required.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Creates a client from environment variables, as [`ClientBuilder::from_env`] reads
    /// them.
    ///
    /// # Errors
    /// [`Error::Builder`], see [`ClientBuilder::from_env`] and [`ClientBuilder::build`].
    pub fn from_env() -> Result<Self, Error> {
        ClientBuilder::from_env()?.build()
    }

    /// Returns a client for programs that are not asynchronous.
    ///
    /// # Errors
    /// [`Error::Builder`] if the system has no resources for a runtime.
    #[cfg(feature = "blocking")]
    pub fn blocking(self) -> Result<crate::blocking::Client, Error> {
        Ok(Client {
            sender: Sender {
                transport: self.sender.transport,
                mode: crate::blocking::Blocking::new()?,
            },
        })
    }
}

impl<M: Mode> Client<M> {
    pub(crate) fn sender(&self) -> &Sender<M> {
        &self.sender
    }

    /// Returns the endpoints for changes.
    pub fn changes(&self) -> Changes<M> {
        Changes::new(self.sender.clone())
    }

    /// Returns the endpoints for hosts.
    pub fn hosts(&self) -> Hosts<M> {
        self.catalog()
    }

    /// Returns the endpoints for services.
    pub fn services(&self) -> Services<M> {
        self.catalog()
    }

    /// Returns the endpoints for incidents.
    pub fn incidents(&self) -> Incidents<M> {
        Incidents::new(self.sender.clone())
    }

    /// Returns the endpoints for services or hosts.
    pub fn catalog<T: Named>(&self) -> Catalog<T, M> {
        Catalog::new(self.sender.clone())
    }

    /// Gets the health of the service. Needs no API key and is not retried.
    ///
    /// If the service answers that its database is unreachable (status 503), the
    /// result is a [`Health`] for which [`Health::is_ok`] is false, not an error.
    pub fn health(&self) -> M::Response<Health> {
        self.sender
            .run(|transport| async move { Ok(probe(&transport).await?.health) })
    }

    /// Returns the proxy that requests go through, without its user name and password;
    /// `None` for a direct connection.
    pub fn proxy(&self) -> Option<String> {
        proxy::of(&self.sender.transport.settings().base_url)
    }

    /// Gets the health of the service with the response time and the time of the
    /// service's clock. Needs no API key and is not retried.
    pub fn probe(&self) -> M::Response<Probe> {
        self.sender
            .run(|transport| async move { probe(&transport).await })
    }

    /// Gets the name, the organization, the plan and the expiry of the client's
    /// API key.
    pub fn key(&self) -> M::Response<KeyInfo> {
        self.sender.data(Ok(ApiRequest::get(&["key"])))
    }

    /// Returns the URL of the service.
    pub fn url(&self) -> &Url {
        self.sender.transport.settings().base_url.as_url()
    }
}

async fn probe(transport: &Transport) -> Result<Probe, Error> {
    let start = Instant::now();
    let request = ApiRequest::get(&["health"]).without_api_key();
    let is_expected =
        |status: &StatusCode| status.is_success() || *status == StatusCode::SERVICE_UNAVAILABLE;
    let (health, headers) = transport.send_once(&request, is_expected).await?;
    let latency = start.elapsed();
    let date = headers.get(DATE).and_then(|date| date.to_str().ok());
    Ok(Probe {
        health,
        latency,
        date: date.and_then(|date| httpdate::parse_http_date(date).ok()),
    })
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

impl<M> fmt::Debug for Client<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.sender.transport.settings();
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
    id_token: Option<IdTokenSource>,
    organization: Option<OrganizationId>,
    http: Option<reqwest::Client>,
    agent: Option<Agent>,
    /// PEM.
    root_certificates: Vec<u8>,
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
            id_token: None,
            organization: None,
            http: None,
            agent: None,
            root_certificates: Vec::new(),
            user_agent: concat!("changelog-client/", env!("CARGO_PKG_VERSION")).to_owned(),
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            attempt_timeout: DEFAULT_ATTEMPT_TIMEOUT,
            total_timeout: DEFAULT_TOTAL_TIMEOUT,
            retry: RetryPolicy::default(),
        }
    }
}

impl ClientBuilder {
    /// Returns a builder with the settings of environment variables: the URL of
    /// `CHLOG_URL`; the id token of the job ([`IdTokenSource::from_env`]) and its organization,
    /// `CHLOG_ORGANIZATION`; and the API key of
    /// `CHLOG_API_KEY`, or else of the file that `CHLOG_API_KEY_FILE` names. White space
    /// around values is removed, and blank variables count as not set. The command `chlog`
    /// reads the same variables.
    ///
    /// # Errors
    /// [`Error::Builder`] if `CHLOG_URL` is not set, or the file cannot be read or is empty.
    pub fn from_env() -> Result<Self, Error> {
        Self::from_variables(|name| env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let variable = |name: &str| not_blank(&variable(name)?);
        let Some(url) = variable(URL_VARIABLE) else {
            return Err(Error::Builder(format!("{URL_VARIABLE} is not set")));
        };
        let mut builder = Self::default().url(url);
        builder.id_token = IdTokenSource::from_variables(variable);
        if let Some(id) = variable(ORGANIZATION_VARIABLE) {
            let id = id.parse().map_err(|bad: BadValue| {
                Error::Builder(format!("{ORGANIZATION_VARIABLE}: the id {bad}"))
            })?;
            builder = builder.organization(id);
        }
        if let Some(key) = variable(KEY_VARIABLE) {
            return Ok(builder.api_key(key));
        }
        let Some(path) = variable(KEY_FILE_VARIABLE) else {
            return Ok(builder);
        };
        let key = fs::read_to_string(&path).map_err(|error| {
            Error::Builder(format!("{KEY_FILE_VARIABLE}: cannot read {path}: {error}"))
        })?;
        let key = not_blank(&key)
            .ok_or_else(|| Error::Builder(format!("{KEY_FILE_VARIABLE}: {path} is empty")))?;
        Ok(builder.api_key(key))
    }

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

    /// Sends the id token of a pipeline's job, for the audience of the URL, instead of an API
    /// key. If there is a key too, it is sent when the service does not accept the token, or
    /// none can be had.
    pub fn id_token(mut self, source: IdTokenSource) -> Self {
        self.id_token = Some(source);
        self
    }

    /// Names the organization that id tokens are for, which a service with several organizations
    /// requires. A key is that of one organization anyway.
    pub fn organization(mut self, id: OrganizationId) -> Self {
        self.organization = Some(id);
        self
    }

    /// Names the automation that sends the requests: the activity log shows it as a claim. A
    /// new change names its own.
    pub fn agent(mut self, agent: Agent) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Trusts further certificate authorities, next to those of the system: one or
    /// several certificates as PEM.
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificates = pem.into();
        self
    }

    /// Sends requests by a client of the application, with its proxies, certificates and
    /// headers. [`ClientBuilder::user_agent`], [`ClientBuilder::connect_timeout`] and
    /// [`ClientBuilder::root_certificates`] then have no effect.
    ///
    /// Build it with [`redirect::Policy::none`]: reqwest would send the API key to the
    /// target of a redirect.
    pub fn http_client(mut self, http: reqwest::Client) -> Self {
        self.http = Some(http);
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
    /// contains characters that a header cannot contain, or certificates cannot be
    /// read.
    pub fn build(self) -> Result<Client, Error> {
        let base_url = BaseUrl::parse(&self.url)?;
        let api_key = self.api_key.as_ref().map(api_key_header).transpose()?;
        let http = match self.http {
            Some(http) => http,
            None => reqwest::Client::builder()
                .user_agent(self.user_agent)
                .connect_timeout(self.connect_timeout)
                .pool_idle_timeout(POOL_IDLE_TIMEOUT)
                // A redirect would send the API key to another server.
                .redirect(redirect::Policy::none())
                .tls_backend_preconfigured(tls::config(&base_url, &self.root_certificates)?)
                .build()
                .map_err(|error| Error::Builder(reqwest_error::with_causes(&error)))?,
        };
        let audience = base_url.as_url().as_str().trim_end_matches('/').to_owned();
        let id_token = self.id_token.map(|source| IdToken::new(source, audience));
        let transport = Transport::new(Settings {
            http,
            id_token,
            organization: self
                .organization
                .as_ref()
                .map(organization_header)
                .transpose()?,
            is_token_refused: AtomicBool::new(false),
            base_url,
            api_key,
            agent: self.agent.as_ref().map(agent_header).transpose()?,
            attempt_timeout: self.attempt_timeout,
            total_timeout: self.total_timeout,
            retry: self.retry,
        });
        Ok(Client {
            sender: Sender {
                transport,
                mode: Async,
            },
        })
    }
}

fn organization_header(id: &OrganizationId) -> Result<HeaderValue, Error> {
    HeaderValue::try_from(id.to_string()).map_err(|error| Error::Builder(error.to_string()))
}

/// Returns an agent as a header value.
pub(crate) fn agent_header(agent: &Agent) -> Result<HeaderValue, Error> {
    HeaderValue::from_bytes(agent.name.as_bytes())
        .map_err(|_| Error::Builder("the agent contains control characters".to_owned()))
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
    fn settings_come_from_the_variables_of_chlog() {
        let file = std::env::temp_dir().join(format!("changelog-client-{}", std::process::id()));
        fs::write(&file, "chlog_of_file\n").unwrap();
        let path = file.to_str().unwrap();
        let key_of = |variables: &[(&str, &str)]| {
            let builder = ClientBuilder::from_variables(|name| {
                let value = variables.iter().find(|(known, _)| *known == name);
                value.map(|(_, value)| (*value).to_owned())
            })?;
            let key = builder.api_key.as_ref();
            Ok::<_, Error>((
                builder.url.clone(),
                key.map(|key| key.expose_secret().to_owned()),
            ))
        };
        let url = (URL_VARIABLE, "http://localhost");
        let file_key = (KEY_FILE_VARIABLE, path);
        for (variables, expected) in [
            (&[url][..], None),
            (&[url, (KEY_VARIABLE, "chlog_x"), file_key], Some("chlog_x")),
            (&[url, file_key], Some("chlog_of_file")),
            (
                &[
                    (URL_VARIABLE, " http://localhost\n"),
                    (KEY_VARIABLE, "chlog_x\n"),
                ],
                Some("chlog_x"),
            ),
            (
                &[url, (KEY_VARIABLE, " \n"), file_key],
                Some("chlog_of_file"),
            ),
        ] {
            let (url, key) = key_of(variables).unwrap();
            assert_eq!((&*url, key.as_deref()), ("http://localhost", expected));
        }
        for variables in [&[][..], &[(URL_VARIABLE, " ")]] {
            let error = key_of(variables).unwrap_err();
            assert_eq!(error.to_string(), "CHLOG_URL is not set");
        }
        fs::write(&file, " \n").unwrap();
        let error = key_of(&[url, file_key]).unwrap_err().to_string();
        assert!(error.ends_with(" is empty"), "{error}");
        fs::remove_file(&file).unwrap();
        let error = key_of(&[url, file_key]).unwrap_err().to_string();
        assert!(
            error.starts_with("CHLOG_API_KEY_FILE: cannot read "),
            "{error}"
        );
    }

    #[test]
    fn root_certificates_must_be_pem() {
        for pem in [
            "no certificate",
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
        ] {
            let builder = Client::builder().url("https://localhost");
            let error = builder.root_certificates(pem).build().unwrap_err();
            assert!(error.to_string().contains("root certificates"), "{error}");
        }
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

//! Sends requests: attempts, timeouts and retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use changelog_core::{Data, headers};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use crate::base_url::BaseUrl;
use crate::error::{Error, TransportError, TransportErrorKind};
use crate::id_token::IdToken;
use crate::request::ApiRequest;
use crate::reqwest_error::convert;
use crate::response::{ApiResponse, has_media_type};
use crate::retry::RetryPolicy;

/// The largest response body that is read, in bytes.
const MAX_BODY: usize = 16 * 1024 * 1024;
/// How long a stream may send nothing before the connection counts as lost. The
/// service sends a heartbeat every 15 s.
const STREAM_IDLE_TIMEOUT: Duration = Duration::from_secs(45);
/// After how long a retry is announced to people who wait for the response.
const NOTICEABLE_DELAY: Duration = Duration::from_secs(2);
/// What a client of the Model Context Protocol must accept.
const MCP_MEDIA_TYPES: &str = "application/json, text/event-stream";
const EVENT_STREAM: &str = "text/event-stream";

/// The connection pool and the settings of a client. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Transport(Arc<Settings>);

/// What a [`Transport`] is made of.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) http: reqwest::Client,
    pub(crate) base_url: BaseUrl,
    /// Marked as sensitive, so that `Debug` does not show it.
    pub(crate) api_key: Option<HeaderValue>,
    /// The automation that sends the requests.
    pub(crate) agent: Option<HeaderValue>,
    /// The token of a pipeline's job, which is sent instead of the key.
    pub(crate) id_token: Option<IdToken>,
    /// The organization that the token is for.
    pub(crate) organization: Option<HeaderValue>,
    /// Whether the service has not accepted the token, so that the key is sent.
    pub(crate) is_token_refused: AtomicBool,
    /// Limits one attempt.
    pub(crate) attempt_timeout: Duration,
    /// Limits all attempts of a request and the delays between them.
    pub(crate) total_timeout: Duration,
    pub(crate) retry: RetryPolicy,
}

impl Transport {
    pub(crate) fn new(settings: Settings) -> Self {
        Self(Arc::new(settings))
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0
    }

    /// Sends a request with retries, and returns the member `data` of the
    /// response.
    pub(crate) async fn send_for_data<T: DeserializeOwned>(
        &self,
        request: &ApiRequest,
    ) -> Result<T, Error> {
        Ok(self.send::<Data<T>>(request).await?.data)
    }

    /// Sends a request with retries, and returns the response.
    pub(crate) async fn send<T: DeserializeOwned>(&self, request: &ApiRequest) -> Result<T, Error> {
        // A deadline too far away to be represented is none.
        let deadline = Instant::now().checked_add(self.0.total_timeout);
        let remaining = || {
            deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            })
        };
        let mut delays = self.0.retry.delays();
        let begun = Instant::now();
        let mut attempts = 0;
        let mut unconfirmed = false;
        loop {
            attempts += 1;
            let attempt = self.attempt(request, remaining(), StatusCode::is_success);
            let error = match attempt.await {
                Ok((body, _)) => return Ok(body),
                Err(error) => error,
            };
            unconfirmed |= error.is_unconfirmed();
            let delay = error.is_transient().then(|| delays.next()).flatten();
            let delay = delay.map(|delay| delay.max(error.retry_after().unwrap_or_default()));
            match delay {
                Some(delay) if delay < remaining() => {
                    tracing::debug!("attempt {attempts} failed; next attempt in {delay:.1?}");
                    if begun.elapsed() > NOTICEABLE_DELAY {
                        let max = self.0.retry.max_retries.saturating_add(1);
                        tracing::info!("{error}; trying again ({}/{max})", attempts + 1);
                    }
                    sleep(delay).await;
                }
                _ => return Err(error.after_attempts(attempts, unconfirmed)),
            }
        }
    }

    /// Sends a request without retries, and returns the response with its
    /// headers. A status for which `is_expected` holds is not an error if the
    /// body is of the type `T`.
    pub(crate) async fn send_once<T: DeserializeOwned>(
        &self,
        request: &ApiRequest,
        is_expected: impl Fn(&StatusCode) -> bool,
    ) -> Result<(T, HeaderMap), Error> {
        self.attempt(request, self.0.total_timeout, is_expected)
            .await
    }

    async fn attempt<T: DeserializeOwned>(
        &self,
        request: &ApiRequest,
        limit: Duration,
        is_expected: impl Fn(&StatusCode) -> bool,
    ) -> Result<(T, HeaderMap), Error> {
        let limit = limit.min(self.0.attempt_timeout);
        let exchange = async {
            let accept = "application/json, application/problem+json";
            let response = self.exchange(request, accept).await?;
            self.read(response).await
        };
        let begun = Instant::now();
        let response = timeout(limit, exchange)
            .await
            .unwrap_or_else(|_| Err(timeout_error(&self.0.base_url, limit)));
        self.trace(request, begun, &response);
        let response = response?;
        if !is_expected(&response.status) {
            return Err(response.into_error());
        }
        let is_empty = response.body.is_empty() && response.status.is_success();
        let body = match &*response.body {
            _ if is_empty && request.may_be_answered_empty => b"null",
            body => body,
        };
        match serde_json::from_slice(body) {
            Ok(body) => Ok((body, response.headers)),
            Err(_) if !response.status.is_success() => Err(response.into_error()),
            Err(error) => Err(response.unexpected(error.to_string())),
        }
    }

    /// Sends a request without retries whose response is a stream of events. The
    /// attempt timeout applies until the headers have arrived.
    pub(crate) async fn open_stream(&self, request: &ApiRequest) -> Result<ByteStream, Error> {
        let limit = self.0.attempt_timeout;
        let open = async {
            let accept = "text/event-stream, application/problem+json";
            let response = self.exchange(request, accept).await?;
            if !response.status().is_success() {
                return Err(self.read(response).await?.into_error());
            }
            if !has_media_type(response.headers(), EVENT_STREAM) {
                let response = self.read(response).await?;
                return Err(response.unexpected(format!("it is not of type {EVENT_STREAM}")));
            }
            Ok(response)
        };
        let begun = Instant::now();
        let response = timeout(limit, open)
            .await
            .unwrap_or_else(|_| Err(timeout_error(&self.0.base_url, limit)));
        self.trace(request, begun, &response);
        Ok(ByteStream {
            response: response?,
            transport: self.clone(),
        })
    }

    /// Emits an event for an attempt: the request without its headers and body, which may
    /// be secret, and its result.
    fn trace<R: HasStatus>(
        &self,
        request: &ApiRequest,
        begun: Instant,
        response: &Result<R, Error>,
    ) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let Ok(url) = self
            .0
            .base_url
            .endpoint(&request.path, request.query.as_deref())
        else {
            return;
        };
        let method = &request.method;
        let took = begun.elapsed();
        match response {
            Ok(response) => {
                let id = response.headers().get(headers::REQUEST_ID);
                let id = id.and_then(|id| id.to_str().ok()).unwrap_or("none");
                let status = response.status();
                tracing::debug!("{method} {url}: {status} in {took:.1?}, request id {id}");
            }
            Err(error) => tracing::debug!("{method} {url}: {error} after {took:.1?}"),
        }
    }

    fn convert(&self, error: reqwest::Error) -> Error {
        convert(error, &self.0.base_url)
    }

    /// Sends a request: with the token of the job, or with the key if there is no token or the
    /// service does not accept it.
    async fn exchange(
        &self,
        request: &ApiRequest,
        accept: &'static str,
    ) -> Result<reqwest::Response, Error> {
        let settings = &*self.0;
        let key = settings.api_key.as_ref();
        let send = async |name: HeaderName, value: Option<&HeaderValue>| {
            let mut prepared = self.prepare(request, accept)?;
            if name == AUTHORIZATION
                && let Some(id) = &settings.organization
            {
                prepared = prepared.header(headers::ORGANIZATION_ID, id);
            }
            if let Some(value) = value {
                prepared = prepared.header(name, value);
            }
            prepared.send().await.map_err(|error| self.convert(error))
        };
        let is_refused = || settings.is_token_refused.load(Ordering::Relaxed);
        if request.needs_api_key
            && let Some(id_token) = &settings.id_token
            && !(key.is_some() && is_refused())
        {
            match id_token.header().await {
                Ok(token) => {
                    let response = send(AUTHORIZATION, Some(&token)).await?;
                    if key.is_none() || response.status() != StatusCode::UNAUTHORIZED {
                        return Ok(response);
                    }
                    tracing::debug!("the id token was not accepted; the API key is sent");
                }
                Err(error) if key.is_none() => return Err(error),
                Err(error) => tracing::debug!("{error}; the API key is sent"),
            }
            settings.is_token_refused.store(true, Ordering::Relaxed);
        }
        let key = key.filter(|_| request.needs_api_key);
        send(HeaderName::from_static(headers::API_KEY), key).await
    }

    /// Adds the URL, the headers and the body.
    fn prepare(
        &self,
        request: &ApiRequest,
        accept: &'static str,
    ) -> Result<reqwest::RequestBuilder, Error> {
        let settings = &*self.0;
        let (url, accept) = if request.mcp.is_some() {
            (settings.base_url.mcp()?, MCP_MEDIA_TYPES)
        } else {
            let query = request.query.as_deref();
            (settings.base_url.endpoint(&request.path, query)?, accept)
        };
        let mut builder = settings
            .http
            .request(request.method.clone(), url)
            .header(ACCEPT, accept);
        if let Some(agent) = request.agent.as_ref().or(settings.agent.as_ref()) {
            builder = builder.header(headers::AGENT, agent);
        }
        if let Some(key) = &request.idempotency_key {
            builder = builder.header(headers::IDEMPOTENCY_KEY, key);
        }
        if let Some(id) = &request.last_event_id {
            builder = builder.header(headers::LAST_EVENT_ID, id);
        }
        if let Some(preference) = request.preference {
            builder = builder.header(headers::PREFER, preference);
        }
        if let Some(mcp) = &request.mcp {
            if let Some(version) = &mcp.version {
                builder = builder.header("mcp-protocol-version", version);
            }
            builder = builder.header("mcp-method", &mcp.method);
            if let Some(name) = &mcp.name {
                builder = builder.header("mcp-name", name);
            }
        }
        if let Some(body) = &request.body {
            builder = builder
                .header(CONTENT_TYPE, "application/json")
                .body(body.clone());
        }
        Ok(builder)
    }

    /// Reads a response to its end.
    async fn read(&self, mut response: reqwest::Response) -> Result<ApiResponse, Error> {
        let mut read = ApiResponse {
            status: response.status(),
            headers: std::mem::take(response.headers_mut()),
            body: Vec::new(),
        };
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| self.convert(error))?
        {
            if read.body.len() + chunk.len() > MAX_BODY {
                return Err(read.too_large(MAX_BODY));
            }
            read.body.extend_from_slice(&chunk);
        }
        Ok(read)
    }
}

/// A response whose result is traced.
trait HasStatus {
    fn status(&self) -> StatusCode;
    fn headers(&self) -> &HeaderMap;
}

impl HasStatus for ApiResponse {
    fn status(&self) -> StatusCode {
        self.status
    }

    fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

impl HasStatus for reqwest::Response {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

/// The body of a response that is read piece by piece.
pub(crate) struct ByteStream {
    response: reqwest::Response,
    transport: Transport,
}

impl ByteStream {
    /// Waits for the next bytes, at most 45 s; `None` after the last ones.
    pub(crate) async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        timeout(STREAM_IDLE_TIMEOUT, self.response.chunk())
            .await
            .map_err(|_| timeout_error(&self.transport.0.base_url, STREAM_IDLE_TIMEOUT))?
            .map_err(|error| self.transport.convert(error))
    }
}

fn timeout_error(base_url: &BaseUrl, limit: Duration) -> Error {
    let message = format!("{base_url}: no response within {limit:.1?}");
    TransportError::new(TransportErrorKind::Timeout, message).into()
}

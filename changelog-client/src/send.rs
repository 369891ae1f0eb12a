//! The way of a request: attempt, judge, wait, attempt again.

use std::error::Error as StdError;
use std::io;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::try_unfold;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};
use url::Url;

use changelog_core::{Data, Problem};

use crate::client::{Client, header_value};
use crate::error::{
    Error, ErrorResponse, TransportError, TransportErrorKind, UnexpectedResponse, excerpt,
};
use crate::retry::retry_after;

/// The largest answer that is read, in bytes.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// After how much silence a stream is taken for broken: the service says at
/// least every 15 s that it is still there.
const SILENCE: Duration = Duration::from_secs(45);
/// The media type of the service's error bodies.
const PROBLEM_TYPE: &[u8] = b"application/problem+json";
/// What `x-request-id` is cut to, in characters.
const MAX_REQUEST_ID: usize = 200;

/// Makes an idempotency key: a UUID version 7, which is never made twice. The
/// service keeps answers to such keys in the order of their time, which costs it
/// less than scattering those to random keys.
#[must_use]
pub fn new_idempotency_key() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// One request, as it is sent by every attempt.
pub(crate) struct Call {
    method: Method,
    /// The segments after `/api`.
    path: Vec<String>,
    query: Option<String>,
    body: Option<Vec<u8>>,
    idempotency_key: Option<String>,
    last_event_id: Option<String>,
    keyed: bool,
}

impl Call {
    fn new(method: Method, path: &[&str]) -> Self {
        Self {
            method,
            path: path.iter().map(|segment| (*segment).to_owned()).collect(),
            query: None,
            body: None,
            idempotency_key: None,
            last_event_id: None,
            keyed: true,
        }
    }

    pub(crate) fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path)
    }

    /// A create: with an idempotency key, the same for every attempt, so that
    /// it happens once however often it is sent.
    pub(crate) fn create(
        path: &[&str],
        body: &impl Serialize,
        idempotency_key: Option<String>,
    ) -> Result<Self, Error> {
        let key = idempotency_key.unwrap_or_else(new_idempotency_key);
        if !(1..=255).contains(&key.len())
            || !key.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
        {
            return Err(Error::Builder(format!(
                "the idempotency key must have 1 to 255 printable ASCII characters, got {}",
                key.len()
            )));
        }
        let mut call = Self::new(Method::POST, path).json(body)?;
        call.idempotency_key = Some(key);
        Ok(call)
    }

    pub(crate) fn update(path: &[&str], body: &impl Serialize) -> Result<Self, Error> {
        Self::new(Method::PATCH, path).json(body)
    }

    pub(crate) fn query(mut self, query: String) -> Self {
        self.query = Some(query);
        self
    }

    /// Continues a stream after an event.
    pub(crate) fn after(mut self, last_event_id: Option<String>) -> Self {
        self.last_event_id = last_event_id;
        self
    }

    pub(crate) fn without_key(mut self) -> Self {
        self.keyed = false;
        self
    }

    fn json(mut self, body: &impl Serialize) -> Result<Self, Error> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Error::Builder(format!("the body is not JSON: {error}")))?;
        self.body = Some(body);
        Ok(self)
    }

    /// Puts the path behind the service's own, whatever that is.
    fn url(&self, base: &Url) -> Result<Url, Error> {
        let mut url = base.clone();
        url.path_segments_mut()
            .map_err(|()| Error::Builder("url: cannot carry a path".to_owned()))?
            .pop_if_empty()
            .push("api")
            .extend(&self.path);
        url.set_query(self.query.as_deref());
        Ok(url)
    }
}

/// A complete answer.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Client {
    /// Sends a request, again where that may help, and returns what stands
    /// under `data`.
    pub(crate) async fn record<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        Ok(self.send::<Data<T>>(call).await?.data)
    }

    /// Sends a request, again where that may help.
    pub(crate) async fn send<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        let deadline = Instant::now() + self.inner.total_timeout;
        let mut delays = self.inner.retry.delays();
        let mut attempts = 0;
        let mut unconfirmed = false;
        loop {
            attempts += 1;
            let limit = deadline.saturating_duration_since(Instant::now());
            let error = match self.attempt(call, limit, StatusCode::is_success).await {
                Ok((answer, _)) => return Ok(answer),
                Err(error) => error,
            };
            unconfirmed |= error.is_unconfirmed();
            let wait = error.is_transient().then(|| delays.next()).flatten();
            let Some(wait) = wait.map(|wait| wait.max(error.retry_after().unwrap_or_default()))
            else {
                return Err(error.after_attempts(attempts, unconfirmed));
            };
            if Instant::now() + wait >= deadline {
                return Err(error.after_attempts(attempts, unconfirmed));
            }
            sleep(wait).await;
        }
    }

    /// Sends a request that is not worth repeating; the headers of the answer
    /// come along.
    pub(crate) async fn send_once<T: DeserializeOwned>(
        &self,
        call: &Call,
        is_answer: impl Fn(&StatusCode) -> bool,
    ) -> Result<(T, HeaderMap), Error> {
        self.attempt(call, self.inner.total_timeout, is_answer)
            .await
    }

    /// Sends a request once and judges the answer.
    async fn attempt<T: DeserializeOwned>(
        &self,
        call: &Call,
        limit: Duration,
        is_answer: impl Fn(&StatusCode) -> bool,
    ) -> Result<(T, HeaderMap), Error> {
        let limit = limit.min(self.inner.attempt_timeout);
        let answer = timeout(limit, self.exchange(call))
            .await
            .map_err(|_| self.timeout_error(limit))??;
        if !is_answer(&answer.status) {
            return Err(answer.into_error_response().into());
        }
        match serde_json::from_slice(&answer.body) {
            Ok(value) => Ok((value, answer.headers)),
            // What was allowed as an answer by its status alone, and is none.
            Err(_) if !answer.status.is_success() => Err(answer.into_error_response().into()),
            Err(error) => Err(answer.unexpected(error.to_string())),
        }
    }

    /// Sends a request and reads the whole answer.
    async fn exchange(&self, call: &Call) -> Result<Answer, Error> {
        let request = self.prepare(call, "application/json, application/problem+json")?;
        let response = request.send().await;
        self.read(response.map_err(|error| lost(error, &self.inner.base))?)
            .await
    }

    /// Sends a request once whose answer has no end, and returns that in pieces:
    /// each must come within 45 s, all of them may take for ever.
    pub(crate) async fn open(
        &self,
        call: &Call,
    ) -> Result<impl Stream<Item = Result<Bytes, Error>> + Send + use<>, Error> {
        let limit = self.inner.attempt_timeout;
        let open = async {
            let request = self.prepare(call, "text/event-stream, application/problem+json")?;
            let response = request.send().await;
            let response = response.map_err(|error| lost(error, &self.inner.base))?;
            if !response.status().is_success() {
                return Err(self.read(response).await?.into_error_response().into());
            }
            let media_type = response.headers().get(CONTENT_TYPE);
            if !media_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream")) {
                let answer = self.read(response).await?;
                return Err(answer.unexpected("it is no stream of events".to_owned()));
            }
            Ok(response)
        };
        let response = timeout(limit, open)
            .await
            .unwrap_or_else(|_| Err(self.timeout_error(limit)))?;
        let client = self.clone();
        Ok(try_unfold(
            (response, client),
            |(mut response, client)| async move {
                let chunk = timeout(SILENCE, response.chunk()).await;
                let chunk = chunk.map_err(|_| client.timeout_error(SILENCE))?;
                let chunk = chunk.map_err(|error| lost(error, &client.inner.base))?;
                Ok(chunk.map(|chunk| (chunk, (response, client))))
            },
        ))
    }

    fn timeout_error(&self, limit: Duration) -> Error {
        let address = self.inner.base.as_str().trim_end_matches('/');
        let message = format!("{address}: no response within {limit:.1?}");
        TransportError::new(TransportErrorKind::Timeout, message).into()
    }

    /// Makes a request with everything that goes with it.
    fn prepare(&self, call: &Call, accept: &'static str) -> Result<reqwest::RequestBuilder, Error> {
        let mut request = self
            .inner
            .http
            .request(call.method.clone(), call.url(&self.inner.base)?)
            .header(ACCEPT, accept);
        if let Some(key) = self.inner.api_key.as_ref().filter(|_| call.keyed) {
            request = request.header("x-api-key", header_value(key)?);
        }
        if let Some(key) = &call.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        if let Some(id) = &call.last_event_id {
            request = request.header("last-event-id", id);
        }
        if let Some(body) = &call.body {
            request = request
                .header(CONTENT_TYPE, "application/json")
                .body(body.clone());
        }
        Ok(request)
    }

    /// Reads a whole answer.
    async fn read(&self, mut response: reqwest::Response) -> Result<Answer, Error> {
        let lost = |error| lost(error, &self.inner.base);
        let mut answer = Answer {
            status: response.status(),
            headers: std::mem::take(response.headers_mut()),
            body: Vec::new(),
        };
        while let Some(chunk) = response.chunk().await.map_err(lost)? {
            if answer.body.len() + chunk.len() > MAX_ANSWER {
                let message = format!("it is larger than {MAX_ANSWER} bytes");
                return Err(answer.unexpected(message));
            }
            answer.body.extend_from_slice(&chunk);
        }
        Ok(answer)
    }
}

impl Answer {
    fn request_id(&self) -> Option<String> {
        let id = self.headers.get("x-request-id")?.to_str().ok()?;
        (!id.is_empty()).then(|| id.chars().take(MAX_REQUEST_ID).collect())
    }

    /// Returns the service's error body. Any other body, whatever it looks like,
    /// is from something else: a proxy, an ingress without a backend, a gateway.
    fn problem(&self) -> Option<Problem> {
        let media_type = self.headers.get(CONTENT_TYPE)?;
        if !media_type.as_bytes().starts_with(PROBLEM_TYPE) {
            return None;
        }
        serde_json::from_slice(&self.body).ok()
    }

    fn into_error_response(self) -> ErrorResponse {
        let problem = self.problem();
        let said = problem.as_ref().map(|problem| problem.request_id.clone());
        ErrorResponse {
            status: self.status.as_u16(),
            request_id: self
                .request_id()
                .or_else(|| said.filter(|id| !id.is_empty())),
            excerpt: Some(excerpt(&self.body)).filter(|text| problem.is_none() && !text.is_empty()),
            retry_after: retry_after(&self.headers, SystemTime::now()),
            attempts: 1,
            // A gateway speaks for itself, and may have passed the request on;
            // so may a service that failed without saying how.
            unconfirmed: matches!(self.status.as_u16(), 500 | 502 | 504)
                || (self.status.is_server_error() && problem.is_none()),
            problem,
        }
    }

    fn unexpected(&self, message: String) -> Error {
        UnexpectedResponse {
            status: self.status.as_u16(),
            request_id: self.request_id(),
            message,
            excerpt: excerpt(&self.body),
        }
        .into()
    }
}

/// Sorts what the network reported.
fn lost(error: reqwest::Error, base: &Url) -> Error {
    // The service's address says enough; the whole one has the query in it.
    let error = error.without_url();
    let mut message = chain(&error);
    if let Some(cause) = error.source() {
        // The outermost error says only that sending or reading failed, and in
        // front of a failed connection a second one says so again.
        let inner = cause.source().filter(|_| error.is_connect());
        message = chain(inner.unwrap_or(cause));
    }
    if error.is_builder() {
        return Error::Builder(message);
    }
    message = format!("{}: {message}", base.as_str().trim_end_matches('/'));
    let kind = if error.is_connect() {
        if refused_certificate(&error) {
            TransportErrorKind::UntrustedCertificate
        } else {
            TransportErrorKind::Connect
        }
    } else if error.is_timeout() {
        TransportErrorKind::Timeout
    } else {
        TransportErrorKind::Disconnected
    };
    TransportError::new(kind, message).into()
}

/// Writes an error with its causes, each once.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !message.ends_with(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        cause = inner.source();
    }
    message
}

/// Tells whether it was the service's certificate that TLS did not like.
fn refused_certificate(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(rustls::Error::InvalidCertificate(_)) = inner.downcast_ref() {
            return true;
        }
        // An I/O error made from another one names that one's cause as its
        // own, and not the error itself.
        cause = match inner.downcast_ref().and_then(io::Error::get_ref) {
            Some(inside) => Some(inside),
            None => inner.source(),
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stand_behind_any_prefix() {
        let call = Call::get(&["changes", "a b/c"]).query("page=1".to_owned());
        for (base, expected) in [
            ("http://h", "http://h/api/changes/a%20b%2Fc?page=1"),
            ("http://h/", "http://h/api/changes/a%20b%2Fc?page=1"),
            ("http://h/p/q", "http://h/p/q/api/changes/a%20b%2Fc?page=1"),
        ] {
            let base: Url = base.parse().unwrap();
            assert_eq!(call.url(&base).unwrap().as_str(), expected);
        }
    }

    #[test]
    fn idempotency_keys_are_checked_before_anything_is_sent() {
        for (key, good) in [
            ("k".to_owned(), true),
            ("k".repeat(255), true),
            (String::new(), false),
            ("k".repeat(256), false),
            ("ü".to_owned(), false),
            ("a\nb".to_owned(), false),
        ] {
            let call = Call::create(&["changes"], &"", Some(key.clone()));
            assert_eq!(call.is_ok(), good, "{key}");
        }
    }
}

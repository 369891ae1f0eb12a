//! The error type of every request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use changelog_core::{Problem, ProblemCode, Violation};

/// The longest excerpt of a response body that an error keeps, in characters.
const MAX_EXCERPT_CHARS: usize = 500;
/// The longest part of an excerpt that an error message shows, in characters.
const MAX_SHOWN_CHARS: usize = 80;

/// Why a request failed.
///
/// Match on [`Error::Api`] and its [`ErrorKind`] for what the service refused:
///
/// ```no_run
/// # async fn example(client: changelog_client::Client) -> Result<(), changelog_client::Error> {
/// use changelog_client::{Error, ErrorKind};
///
/// match client.hosts().create("web-1").send().await {
///     Ok(host) => println!("created {}", host.id),
///     Err(Error::Api { kind: ErrorKind::Conflict, .. }) => println!("web-1 exists already"),
///     Err(Error::Api { kind: ErrorKind::Invalid, response }) => {
///         for violation in response.violations() {
///             eprintln!("{violation}");
///         }
///     }
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A client or a request was given an invalid value, or the client cannot be
    /// built on this machine. Nothing was sent.
    #[error("{0}")]
    Builder(String),
    /// The service, or a proxy in front of it, answered with an error status.
    #[error("{kind}: {response}")]
    Api {
        /// The class of the error, for matching.
        kind: ErrorKind,
        /// The response itself.
        response: Box<ErrorResponse>,
    },
    /// No complete response arrived.
    #[error(transparent)]
    Transport(Box<TransportError>),
    /// The response has a success status, but this client cannot read it: it is
    /// not the expected JSON, and usually the URL is not that of the service; or
    /// it [exceeds the size limit](Error::is_too_large).
    #[error("unexpected response: {0}")]
    UnexpectedResponse(Box<UnexpectedResponse>),
}

/// The class of an [`Error::Api`].
///
/// The exact reason is the [`ProblemCode`] in [`ErrorResponse::problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// 401: the API key is missing, invalid, expired or revoked.
    Unauthorized,
    /// 403: the plan of the organization does not include the API.
    PlanRequired,
    /// 403: the key was made without the scope that the request needs, or may record only
    /// other changes.
    ScopeRequired,
    /// 403 for any other reason.
    Forbidden,
    /// 404: the record does not exist in this organization.
    NotFound,
    /// 409: the name is taken, or the first request with this idempotency key
    /// was still running after the last retry.
    Conflict,
    /// 400 or 422: the request is malformed or breaks validation rules; see
    /// [`ErrorResponse::violations`].
    Invalid,
    /// 429: too many requests, still after the last retry.
    RateLimited,
    /// 502, 503 or 504, still after the last retry.
    Unavailable,
    /// Any other status that is not a success.
    Other,
}

/// A response whose status is not a success.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ErrorResponse {
    /// The HTTP status.
    pub status: u16,
    /// The error body, if the service sent one.
    pub problem: Option<Problem>,
    /// The id of the request in the log of the service.
    pub request_id: Option<String>,
    /// The start of a body that is not a [`Problem`], such as the error page of
    /// a proxy; at most 500 characters.
    pub excerpt: Option<String>,
    /// Where a redirect points to. Redirects are not followed, because the API key would
    /// be sent there.
    pub location: Option<String>,
    /// How long the service asked the client to wait before the next request.
    pub retry_after: Option<Duration>,
    /// How many times the request was sent.
    pub attempts: u32,
    /// Whether the request may have taken effect although it failed; see
    /// [`Error::is_unconfirmed`].
    pub unconfirmed: bool,
}

/// A failure to get a complete response.
///
/// The message contains those of its causes. [`source`](std::error::Error::source) returns
/// the error of reqwest, whose own sources can be downcast, such as to [`std::io::Error`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransportError {
    /// What failed.
    pub kind: TransportErrorKind,
    /// The URL of the service and the causes, outermost first.
    pub message: String,
    /// How many times the request was sent.
    pub attempts: u32,
    /// Whether the request may have taken effect although it failed; see
    /// [`Error::is_unconfirmed`].
    pub unconfirmed: bool,
    /// The error of the HTTP client; none for a timeout of this client.
    pub(crate) source: Option<Arc<reqwest::Error>>,
}

/// What failed in a [`TransportError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportErrorKind {
    /// No connection could be opened.
    Connect,
    /// The certificate of the service is not trusted. Retries do not help.
    UntrustedCertificate,
    /// The server does not speak the protocol of the URL on this port: `https://` where
    /// it expects plain HTTP, or the reverse. Retries do not help.
    WrongProtocol,
    /// The response did not arrive within the timeout.
    Timeout,
    /// The connection was lost before the response was complete.
    Disconnected,
}

/// A response with a success status that this client cannot read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UnexpectedResponse {
    /// The HTTP status.
    pub status: u16,
    /// The id of the request in the log of the service.
    pub request_id: Option<String>,
    /// What is wrong with the response.
    pub message: String,
    /// Whether the body exceeds the size limit, so that a list has to be read in smaller pages.
    pub is_too_large: bool,
    /// The start of the body, at most 500 characters.
    pub excerpt: String,
}

impl Error {
    /// Returns the class of the error if the service answered with an error
    /// status.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Api { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    /// Returns the response if the service answered with an error status.
    pub fn response(&self) -> Option<&ErrorResponse> {
        match self {
            Self::Api { response, .. } => Some(response),
            _ => None,
        }
    }

    /// Returns the HTTP status, if there was a response.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Api { response, .. } => Some(response.status),
            Self::UnexpectedResponse(unexpected) => Some(unexpected.status),
            Self::Builder(_) | Self::Transport(_) => None,
        }
    }

    /// Returns the error body, if the service sent one.
    pub fn problem(&self) -> Option<&Problem> {
        self.response()?.problem.as_ref()
    }

    /// Returns the validation rules that the request breaks; empty if the
    /// service named none.
    pub fn violations(&self) -> &[Violation] {
        self.response()
            .map(ErrorResponse::violations)
            .unwrap_or_default()
    }

    /// Returns the id of the request in the log of the service.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::Api { response, .. } => response.request_id.as_deref(),
            Self::UnexpectedResponse(unexpected) => unexpected.request_id.as_deref(),
            Self::Builder(_) | Self::Transport(_) => None,
        }
    }

    /// Returns whether the request may have taken effect although it failed: at
    /// least one attempt was sent, and the service did not reject it. A create
    /// that is sent again with the same idempotency key takes effect only once.
    pub fn is_unconfirmed(&self) -> bool {
        match self {
            Self::Api { response, .. } => response.unconfirmed,
            Self::Transport(transport) => transport.unconfirmed,
            Self::UnexpectedResponse(_) => true,
            Self::Builder(_) => false,
        }
    }

    /// Returns whether the same request may succeed later: the service was not
    /// reachable or not available, the rate limit was exceeded, or the first
    /// request with the same idempotency key was still running. The client has
    /// retried such errors already, as its [`RetryPolicy`](crate::RetryPolicy)
    /// allows.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Transport(transport) => !matches!(
                transport.kind,
                TransportErrorKind::UntrustedCertificate | TransportErrorKind::WrongProtocol
            ),
            Self::Api { kind, response } => match kind {
                ErrorKind::RateLimited | ErrorKind::Unavailable => true,
                // A name that is taken stays taken; a running request ends.
                ErrorKind::Conflict => response
                    .problem
                    .as_ref()
                    .is_some_and(|problem| problem.code == ProblemCode::IdempotencyInProgress),
                _ => false,
            },
            Self::Builder(_) | Self::UnexpectedResponse(_) => false,
        }
    }

    /// Returns whether the response is larger than this client reads.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::UnexpectedResponse(response) if response.is_too_large)
    }

    /// Returns how long the service asked the client to wait before the next
    /// request.
    pub fn retry_after(&self) -> Option<Duration> {
        self.response()?.retry_after
    }

    /// Returns the error with the number of attempts, and with whether an
    /// earlier attempt may have taken effect.
    pub(crate) fn after_attempts(mut self, count: u32, earlier_unconfirmed: bool) -> Self {
        match &mut self {
            Self::Api { response, .. } => {
                response.attempts = count;
                response.unconfirmed |= earlier_unconfirmed;
            }
            Self::Transport(transport) => {
                transport.attempts = count;
                transport.unconfirmed |= earlier_unconfirmed;
            }
            Self::Builder(_) | Self::UnexpectedResponse(_) => {}
        }
        self
    }
}

impl From<ErrorResponse> for Error {
    fn from(response: ErrorResponse) -> Self {
        Self::Api {
            kind: ErrorKind::of(&response),
            response: Box::new(response),
        }
    }
}

impl From<TransportError> for Error {
    fn from(error: TransportError) -> Self {
        Self::Transport(Box::new(error))
    }
}

impl From<UnexpectedResponse> for Error {
    fn from(response: UnexpectedResponse) -> Self {
        Self::UnexpectedResponse(Box::new(response))
    }
}

impl ErrorKind {
    fn of(response: &ErrorResponse) -> Self {
        let code = response.problem.as_ref().map(|problem| &problem.code);
        match response.status {
            400 | 422 => Self::Invalid,
            401 => Self::Unauthorized,
            403 if code == Some(&ProblemCode::PlanRequired) => Self::PlanRequired,
            403 if matches!(
                code,
                Some(ProblemCode::ScopeRequired | ProblemCode::OutOfBounds)
            ) =>
            {
                Self::ScopeRequired
            }
            403 => Self::Forbidden,
            404 => Self::NotFound,
            409 => Self::Conflict,
            429 => Self::RateLimited,
            502..=504 => Self::Unavailable,
            _ => Self::Other,
        }
    }
}

impl ErrorResponse {
    /// Returns the validation rules that the request breaks; empty if the
    /// service named none.
    pub fn violations(&self) -> &[Violation] {
        self.problem
            .as_ref()
            .map(|problem| &*problem.errors)
            .unwrap_or_default()
    }
}

impl UnexpectedResponse {
    /// The page of a list that begins where the page before it did: a service that ignores
    /// this parameter would be read without an end.
    pub(crate) fn of_repeated_page(parameter: &str) -> Self {
        Self {
            status: 200,
            request_id: None,
            message: format!("the list does not continue after what is in `{parameter}`"),
            is_too_large: false,
            excerpt: String::new(),
        }
    }
}

impl TransportError {
    pub(crate) fn new(kind: TransportErrorKind, message: String) -> Self {
        Self {
            kind,
            message,
            attempts: 1,
            // Without a connection nothing was sent.
            unconfirmed: matches!(
                kind,
                TransportErrorKind::Timeout | TransportErrorKind::Disconnected
            ),
            source: None,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unauthorized => "the API key was not accepted",
            Self::PlanRequired => "the plan does not include the API",
            Self::ScopeRequired => "the key may not do this",
            Self::Forbidden => "not allowed",
            Self::NotFound => "not found",
            Self::Conflict => "conflict",
            Self::Invalid => "invalid",
            Self::RateLimited => "too many requests",
            Self::Unavailable => "the service is unavailable",
            Self::Other => "the request failed",
        })
    }
}

impl fmt::Display for ErrorResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = &self.location {
            write!(f, "the server redirects to {location}")?;
            return write_status(f, self.status, self.request_id.as_deref());
        }
        match (&self.problem, &self.excerpt) {
            (Some(problem), _) => f.write_str(&problem.detail)?,
            (None, Some(excerpt)) => write!(f, "the response starts with {:?}", shorten(excerpt))?,
            // What reads the address and the headers refuses them without a body.
            (None, None) if matches!(self.status, 414 | 431) => {
                f.write_str("the address or the headers of the request are too long")?;
            }
            (None, None) => f.write_str("the response is empty")?,
        }
        write_status(f, self.status, self.request_id.as_deref())
    }
}

impl fmt::Display for TransportErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "cannot connect",
            Self::UntrustedCertificate => "cannot connect securely",
            Self::WrongProtocol => "cannot communicate",
            Self::Timeout => "timed out",
            Self::Disconnected => "the connection was lost",
        })
    }
}

impl std::error::Error for TransportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.source.as_deref()?;
        Some(source)
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)?;
        if self.attempts > 1 {
            write!(f, " ({} attempts)", self.attempts)?;
        }
        Ok(())
    }
}

impl fmt::Display for UnexpectedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        write_status(f, self.status, self.request_id.as_deref())?;
        write!(f, "; it starts with {:?}", shorten(&self.excerpt))
    }
}

fn write_status(f: &mut fmt::Formatter<'_>, status: u16, request_id: Option<&str>) -> fmt::Result {
    write!(f, " (status {status}")?;
    if let Some(id) = request_id {
        write!(f, ", request {id}")?;
    }
    f.write_str(")")
}

/// Returns the part of an excerpt that a message shows.
fn shorten(excerpt: &str) -> String {
    excerpt.chars().take(MAX_SHOWN_CHARS).collect()
}

/// Returns the start of a body, for an error.
pub(crate) fn excerpt(body: &[u8]) -> String {
    // A character has at most four bytes.
    let start = &body[..body.len().min(MAX_EXCERPT_CHARS * 4)];
    let text = String::from_utf8_lossy(start);
    text.trim().chars().take(MAX_EXCERPT_CHARS).collect()
}

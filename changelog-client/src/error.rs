//! What can go wrong, in the words of whoever has to act on it.
//!
//! One variant for each thing that a caller would do differently: ask for a
//! key, change the plan, mend the input, wait, look at the network. What the
//! service said comes along whole, also when it was not JSON, because the
//! answer of a proxy in between is what explains a proxy in between.

use std::fmt;
use std::time::Duration;

use changelog_core::{Problem, ProblemCode, Violation};

/// The most characters kept of a body that could not be understood.
const MAX_EXCERPT: usize = 500;
/// The most characters of it that a message shows.
const MAX_SHOWN: usize = 80;

/// A request that did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client cannot be built, or the request cannot be made, as asked;
    /// nothing was sent.
    #[error("{0}")]
    Configuration(String),
    /// 401: there is no key, or it is not valid (any more).
    #[error("the API key was not accepted: {0}")]
    Unauthorized(Box<Refusal>),
    /// 403: the organization's plan does not include the API.
    #[error("the plan does not include the API: {0}")]
    PlanRequired(Box<Refusal>),
    /// 403 for any other reason.
    #[error("not allowed: {0}")]
    Forbidden(Box<Refusal>),
    /// 404: no such record, or not in this organization.
    #[error("not found: {0}")]
    NotFound(Box<Refusal>),
    /// 409: the name is taken, or the first request with this idempotency key
    /// was still running after the last retry.
    #[error("conflict: {0}")]
    Conflict(Box<Refusal>),
    /// 400 or 422: the request breaks rules.
    #[error("invalid: {refusal}")]
    Invalid {
        /// Each broken rule with its place; empty when the service named none.
        violations: Vec<Violation>,
        /// The answer.
        refusal: Box<Refusal>,
    },
    /// 429, still after the last retry.
    #[error("too many requests: {0}")]
    RateLimited(Box<Refusal>),
    /// 502, 503 or 504, still after the last retry.
    #[error("the service is unavailable: {0}")]
    Unavailable(Box<Refusal>),
    /// Any other status that is not a success.
    #[error("the service refused: {0}")]
    Refused(Box<Refusal>),
    /// No connection came about.
    #[error("cannot connect: {0}")]
    Connect(Box<Silence>),
    /// No answer came in time.
    #[error("no answer in time: {0}")]
    Timeout(Box<Silence>),
    /// The connection broke before the answer was complete.
    #[error("the connection broke: {0}")]
    Broken(Box<Silence>),
    /// The answer was a success and not what this client understands: not
    /// JSON, other fields, or larger than the limit.
    #[error("the answer was not understood: {0}")]
    Protocol(Box<Gibberish>),
}

/// An answer that is not a success.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The error body, when the service sent one.
    pub problem: Option<Problem>,
    /// The id under which the service's log knows the request.
    pub request_id: Option<String>,
    /// The beginning of a body that was no [`Problem`], such as a proxy's page;
    /// at most 500 characters.
    pub excerpt: Option<String>,
    /// How long the service asked to wait.
    pub retry_after: Option<Duration>,
    /// How many times the request was sent.
    pub attempts: u32,
    /// Whether one of the attempts may have taken effect all the same: it was
    /// sent, and no answer to it came from the service.
    pub unconfirmed: bool,
}

/// An attempt that got no answer.
#[derive(Debug)]
#[non_exhaustive]
pub struct Silence {
    /// What the network said, from the outside in.
    pub message: String,
    /// How many times the request was sent.
    pub attempts: u32,
    /// Whether one of the attempts may have taken effect all the same.
    pub unconfirmed: bool,
    /// Whether the service's certificate was refused, which waiting does not
    /// mend.
    pub untrusted: bool,
}

/// A success that was not understood.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Gibberish {
    /// The HTTP status.
    pub status: u16,
    /// The id under which the service's log knows the request.
    pub request_id: Option<String>,
    /// What was wrong with the answer.
    pub message: String,
    /// The beginning of the body, at most 500 characters.
    pub excerpt: String,
}

impl Error {
    /// Returns the HTTP status, if there was an answer.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Protocol(gibberish) => Some(gibberish.status),
            _ => self.refusal().map(|refusal| refusal.status),
        }
    }

    /// Returns the answer, if there was one and it was not a success.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Unauthorized(refusal)
            | Self::PlanRequired(refusal)
            | Self::Forbidden(refusal)
            | Self::NotFound(refusal)
            | Self::Conflict(refusal)
            | Self::Invalid { refusal, .. }
            | Self::RateLimited(refusal)
            | Self::Unavailable(refusal)
            | Self::Refused(refusal) => Some(refusal),
            Self::Configuration(_)
            | Self::Connect(_)
            | Self::Timeout(_)
            | Self::Broken(_)
            | Self::Protocol(_) => None,
        }
    }

    /// Returns the error body, if the service sent one.
    pub fn problem(&self) -> Option<&Problem> {
        self.refusal()?.problem.as_ref()
    }

    /// Returns the id under which the service's log knows the request.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::Protocol(gibberish) => gibberish.request_id.as_deref(),
            _ => self.refusal()?.request_id.as_deref(),
        }
    }

    /// Tells whether the request may have taken effect although it failed:
    /// it was sent, and the service did not say no. A create that is sent
    /// again with the same idempotency key still happens once.
    pub fn is_unconfirmed(&self) -> bool {
        match self {
            Self::Connect(silence) | Self::Timeout(silence) | Self::Broken(silence) => {
                silence.unconfirmed
            }
            Self::Protocol(_) => true,
            _ => self.refusal().is_some_and(|refusal| refusal.unconfirmed),
        }
    }

    /// Sorts an answer that is not a success by its status and code.
    pub(crate) fn from_refusal(refusal: Refusal) -> Self {
        let code = refusal.problem.as_ref().map(|problem| &problem.code);
        let refused = Box::new(refusal.clone());
        match refusal.status {
            400 | 422 => Self::Invalid {
                violations: refusal.problem.map(|p| p.errors).unwrap_or_default(),
                refusal: refused,
            },
            401 => Self::Unauthorized(refused),
            403 if code == Some(&ProblemCode::PlanRequired) => Self::PlanRequired(refused),
            403 => Self::Forbidden(refused),
            404 => Self::NotFound(refused),
            409 => Self::Conflict(refused),
            429 => Self::RateLimited(refused),
            502..=504 => Self::Unavailable(refused),
            _ => Self::Refused(refused),
        }
    }

    /// Writes down how often the request was sent, and whether one of the
    /// attempts before may have taken effect.
    pub(crate) fn after(mut self, attempts: u32, unconfirmed: bool) -> Self {
        match &mut self {
            Self::Unauthorized(refusal)
            | Self::PlanRequired(refusal)
            | Self::Forbidden(refusal)
            | Self::NotFound(refusal)
            | Self::Conflict(refusal)
            | Self::Invalid { refusal, .. }
            | Self::RateLimited(refusal)
            | Self::Unavailable(refusal)
            | Self::Refused(refusal) => {
                refusal.attempts = attempts;
                refusal.unconfirmed |= unconfirmed;
            }
            Self::Connect(silence) | Self::Timeout(silence) | Self::Broken(silence) => {
                silence.attempts = attempts;
                silence.unconfirmed |= unconfirmed;
            }
            Self::Configuration(_) | Self::Protocol(_) => {}
        }
        self
    }

    /// Tells whether the same request may succeed if it is sent again.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Broken(_) | Self::RateLimited(_) | Self::Unavailable(_) => {
                true
            }
            Self::Connect(silence) => !silence.untrusted,
            // A name that is taken stays taken; a first request that is still
            // running does not stay so.
            Self::Conflict(refusal) => refusal
                .problem
                .as_ref()
                .is_some_and(|problem| problem.code == ProblemCode::IdempotencyInProgress),
            _ => false,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.problem, &self.excerpt) {
            (Some(problem), _) => f.write_str(&problem.detail)?,
            (None, Some(excerpt)) => write!(f, "the answer began {:?}", shortened(excerpt))?,
            (None, None) => f.write_str("the answer was empty")?,
        }
        write!(f, " (status {}", self.status)?;
        if let Some(id) = &self.request_id {
            write!(f, ", request {id}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.attempts > 1 {
            write!(f, " ({} attempts)", self.attempts)?;
        }
        Ok(())
    }
}

impl fmt::Display for Gibberish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (status {}", self.message, self.status)?;
        if let Some(id) = &self.request_id {
            write!(f, ", request {id}")?;
        }
        write!(f, "); it began {:?}", shortened(&self.excerpt))
    }
}

impl Silence {
    pub(crate) fn new(message: String, unconfirmed: bool) -> Self {
        Self {
            message,
            attempts: 1,
            unconfirmed,
            untrusted: false,
        }
    }
}

/// Cuts an excerpt to what is bearable in a message.
fn shortened(excerpt: &str) -> String {
    excerpt.chars().take(MAX_SHOWN).collect()
}

/// Cuts a body to what is bearable in an error.
pub(crate) fn excerpt(body: &[u8]) -> String {
    // Four bytes a character at most, so nothing that is kept is lost here.
    let start = &body[..body.len().min(MAX_EXCERPT * 4)];
    let text = String::from_utf8_lossy(start);
    text.trim().chars().take(MAX_EXCERPT).collect()
}

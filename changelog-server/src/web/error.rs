//! The error of a handler and its response.

use changelog_core::{Invalid, Problem, ProblemCode, Violation};
use http::{HeaderName, HeaderValue, header};
use warp::reply::Response;

use super::reply;
use crate::passwords::Busy;
use crate::rate_limits::RateLimited;
use crate::response_memory;
use crate::store::StoreError;

/// The media type of problem details, RFC 9457.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// A failure that is reported to the caller.
#[derive(Debug)]
pub(crate) struct ApiError {
    code: ProblemCode,
    detail: String,
    violations: Box<[Violation]>,
    /// The number of further violations, which are not listed.
    more: u64,
    headers: Vec<(HeaderName, String)>,
    /// For the log only.
    cause: Option<String>,
}

impl ApiError {
    /// Creates an error; the detail says what went wrong and what to do.
    pub(crate) fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            violations: Box::default(),
            more: 0,
            headers: Vec::new(),
            cause: None,
        }
    }

    /// Adds a response header.
    pub(crate) fn with_header(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn retry_after(self, seconds: u64) -> Self {
        self.with_header(header::RETRY_AFTER, seconds.to_string())
    }

    /// Creates an error for a fault of the service; the cause is for the log only.
    pub(crate) fn internal(cause: &impl ToString) -> Self {
        let detail = "the service failed; its log has the cause under this request id";
        Self {
            cause: Some(cause.to_string()),
            ..Self::new(ProblemCode::Internal, detail)
        }
    }

    /// Creates an error for a database that does not respond or a service with too
    /// much work: nothing was recorded.
    pub(crate) fn unavailable(cause: &impl ToString) -> Self {
        Self::retryable(
            ProblemCode::Unavailable,
            "the service cannot do this at the moment; nothing was recorded; try again shortly",
            cause,
        )
    }

    /// Creates an error for a request whose outcome is unknown.
    pub(crate) fn uncertain(cause: &impl ToString) -> Self {
        Self::retryable(
            ProblemCode::OutcomeUnknown,
            "the service could not confirm this in time; it may have been recorded: try again \
             with the same Idempotency-Key, or check first",
            cause,
        )
    }

    pub(crate) fn retryable(code: ProblemCode, detail: &str, cause: &impl ToString) -> Self {
        Self {
            cause: Some(cause.to_string()),
            ..Self::new(code, detail)
        }
        .retry_after(1)
    }

    /// Creates an error for a path that has no route.
    pub(crate) fn unknown_path() -> Self {
        Self::new(ProblemCode::NotFound, "no such endpoint; see /api/docs")
    }

    /// Creates an error for invalid input: status 400 for a malformed query, 422 for
    /// a body that breaks rules.
    pub(crate) fn invalid(code: ProblemCode, invalid: Invalid) -> Self {
        let detail = invalid.to_string();
        Self {
            violations: invalid.violations.into(),
            more: invalid.more,
            ..Self::new(code, detail)
        }
    }

    /// Creates an error for a name that another resource of the organization has.
    pub(crate) fn taken(noun: &str, field: &str, name: &str) -> Self {
        let detail = format!("a {noun} with the {field} {name:?} already exists");
        Self::new(ProblemCode::Conflict, detail)
    }

    /// Returns the HTTP status.
    pub(crate) fn status(&self) -> u16 {
        self.code.status()
    }

    /// Returns the machine-readable code.
    pub(crate) fn code(&self) -> &ProblemCode {
        &self.code
    }

    /// Returns what went wrong, and what to do.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the cause, which is for the log only.
    pub(crate) fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// Returns the problem details of the response.
    pub(crate) fn problem(&self, request_id: &str) -> Problem {
        Problem {
            type_uri: format!("/problems/{}", self.code),
            title: self.code.title().to_owned(),
            status: self.code.status(),
            detail: self.detail.clone(),
            code: self.code.clone(),
            request_id: request_id.to_owned(),
            errors: self.violations.to_vec(),
            more_errors: self.more,
        }
    }

    /// Returns the response with problem details.
    pub(crate) fn into_response(self, request_id: &str) -> Response {
        self.into_response_with(request_id, |problem| {
            let mut response = reply::json(problem.status, problem);
            let content_type = HeaderValue::from_static(PROBLEM_JSON);
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, content_type);
            response
        })
    }

    /// Returns the response that `render` makes, and logs the cause. This is the one
    /// place where failures are logged.
    pub(crate) fn into_response_with(
        self,
        request_id: &str,
        render: impl FnOnce(&Problem) -> Response,
    ) -> Response {
        if let Some(cause) = &self.cause {
            tracing::error!(
                request_id,
                code = self.code.as_str(),
                cause,
                "a request failed"
            );
        }
        let mut response = render(&self.problem(request_id));
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::try_from(value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound => Self::new(
                ProblemCode::NotFound,
                "no record with this id in the organization",
            ),
            StoreError::Invalid(invalid) => {
                let mut violations = invalid.violations.iter();
                let code = if violations.all(|one| one.pointer.starts_with('?')) {
                    ProblemCode::MalformedQuery
                } else {
                    ProblemCode::ValidationFailed
                };
                Self::invalid(code, invalid)
            }
            // A caller that knows which name conflicts reports it instead.
            StoreError::Conflict => Self::new(ProblemCode::Conflict, "the name is taken"),
            StoreError::Forbidden(detail) => Self::new(ProblemCode::Forbidden, detail),
            StoreError::QuotaExceeded { noun, flag, limit } => {
                let variable = flag
                    .trim_start_matches('-')
                    .replace('-', "_")
                    .to_uppercase();
                let detail = format!(
                    "the organization has {limit} {noun}, which is the limit; the operator of the \
                     service can raise it with {flag} or CHANGELOG_{variable}"
                );
                Self::new(ProblemCode::QuotaExceeded, detail)
            }
            StoreError::KeyReused => Self::new(
                ProblemCode::IdempotencyKeyReused,
                "this idempotency key was already used with a different body; use a new key for a new request",
            ),
            StoreError::LastOwner => Self::new(
                ProblemCode::Conflict,
                "an organization keeps at least one owner; make another member an owner first",
            ),
            StoreError::Overloaded => Self::new(
                ProblemCode::TooManyRequests,
                "the organization has too many long-running requests; nothing was done: send \
                 fewer at once, or try again in 1 s",
            )
            .retry_after(1),
            StoreError::Unavailable(_) | StoreError::Locked | StoreError::NoWrites(_) => {
                Self::unavailable(&error)
            }
            StoreError::Blocked(_) => Self::retryable(
                ProblemCode::Unavailable,
                "writes are blocked by another process on the server; nothing was recorded; try \
                 again later, and inform the operator if this persists",
                &error,
            ),
            StoreError::Uncertain(_) => Self::uncertain(&error),
            StoreError::Database(_) => Self::internal(&error),
        }
    }
}

impl From<RateLimited> for ApiError {
    fn from(error: RateLimited) -> Self {
        let seconds = error.retry_after;
        let detail = format!("too many requests; try again in {seconds} s");
        Self::new(ProblemCode::TooManyRequests, detail).retry_after(seconds)
    }
}

impl From<Busy> for ApiError {
    fn from(busy: Busy) -> Self {
        Self::unavailable(&busy)
    }
}

impl From<response_memory::Refused> for ApiError {
    fn from(refused: response_memory::Refused) -> Self {
        let retry_after = response_memory::RETRY_AFTER_SECONDS;
        let error = match refused {
            response_memory::Refused::Share(share) => {
                let share = share / response_memory::MIB;
                let detail = format!(
                    "the unread responses of this organization have {share} MiB, which is its \
                     limit; read them, request smaller pages, or try again in {retry_after} s"
                );
                Self::new(ProblemCode::TooManyRequests, detail)
            }
            response_memory::Refused::Budget => {
                let detail = format!(
                    "the unread responses of all organizations have reached the limit of the \
                     service; request smaller pages, or try again in {retry_after} s"
                );
                Self::new(ProblemCode::Unavailable, detail)
            }
        };
        error.retry_after(retry_after)
    }
}

//! What went wrong: the error body (RFC 9457) that the service sends and the
//! client reads, and the list of violations inside it.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::MAX_VIOLATIONS;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// The kind of a problem; each has one HTTP status.
    ProblemCode, "a problem code", example "validation_failed" {
        /// 400: the body is not JSON.
        MalformedBody = "malformed_body",
        /// 400: a query parameter or the query string is malformed.
        MalformedQuery = "malformed_query",
        /// 400: an id in the path is not a UUID.
        MalformedId = "malformed_id",
        /// 400: a header is malformed.
        MalformedHeader = "malformed_header",
        /// 401: no valid key, or no valid session.
        Unauthorized = "unauthorized",
        /// 403: the organization's plan does not include the API.
        PlanRequired = "plan_required",
        /// 403: the user's role does not allow this.
        Forbidden = "forbidden",
        /// 403: the organization has reached its quota.
        QuotaExceeded = "quota_exceeded",
        /// 403: a browser sent this from another site.
        CrossSite = "cross_site",
        /// 404: not found in this organization.
        NotFound = "not_found",
        /// 405: the path exists, the method does not.
        MethodNotAllowed = "method_not_allowed",
        /// 408: the body did not arrive in time.
        RequestTimeout = "request_timeout",
        /// 409: the name is taken.
        Conflict = "conflict",
        /// 409: the first request with this idempotency key is still running.
        IdempotencyInProgress = "idempotency_in_progress",
        /// 413: the body is over the limit.
        PayloadTooLarge = "payload_too_large",
        /// 415: the body is not declared as the type that is expected.
        UnsupportedMediaType = "unsupported_media_type",
        /// 422: the body breaks rules; `errors` names each.
        ValidationFailed = "validation_failed",
        /// 422: the idempotency key was used with another body.
        IdempotencyKeyReused = "idempotency_key_reused",
        /// 429: too many requests.
        TooManyRequests = "too_many_requests",
        /// 500: an internal error.
        Internal = "internal",
        /// 501: the body has a transfer encoding that the service does not know.
        NotImplemented = "not_implemented",
        /// 503: the database does not answer, or too much work is waiting.
        Unavailable = "unavailable",
    }
}

/// What a problem code means, for programs and for readers.
struct Meaning {
    status: u16,
    title: &'static str,
    cause: &'static str,
    remedy: &'static str,
}

impl ProblemCode {
    /// Returns the HTTP status that goes with this code.
    pub fn status(&self) -> u16 {
        self.meaning().status
    }

    /// Returns the short summary that is the same for every problem of this kind.
    pub fn title(&self) -> &'static str {
        self.meaning().title
    }

    /// Returns what causes problems of this kind, in one or more sentences.
    pub fn cause(&self) -> &'static str {
        self.meaning().cause
    }

    /// Returns what the caller can do about it, in one or more sentences.
    pub fn remedy(&self) -> &'static str {
        self.meaning().remedy
    }

    /// Everything that is said about the codes; words in backticks are code.
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn meaning(&self) -> Meaning {
        let meaning = |status, title, cause, remedy| Meaning {
            status,
            title,
            cause,
            remedy,
        };
        match self {
            Self::MalformedBody => meaning(
                400,
                "The body is not valid JSON",
                "The body is not JSON in UTF-8: it is empty or cut off, it has something after \
                 its end, or an object has a member twice.",
                "`detail` says what is wrong and where. Let a JSON library write the body; in a \
                 shell, `jq -n` quotes what variables contain.",
            ),
            Self::MalformedQuery => meaning(
                400,
                "The query string is malformed",
                "A parameter is unknown, is given twice, or has a value that it does not take.",
                "`errors` names each parameter and what it takes. Percent-encode values, as \
                 `curl -G --data-urlencode` does: a `+` in a time is otherwise read as a space.",
            ),
            Self::MalformedId => meaning(
                400,
                "The id is malformed",
                "The id in the path is not a UUID with hyphens.",
                "Use the `id` of a record. Names and shortened ids are no ids here: look them up in \
                 the list first.",
            ),
            Self::MalformedHeader => meaning(
                400,
                "A header is malformed",
                "A header has a value that it does not take, such as an `Idempotency-Key` that is \
                 empty or too long, a `Last-Event-ID` that is no position of a stream or too old, \
                 or a second `Host`.",
                "`detail` names the header and what it takes. A stream that cannot be continued \
                 is started again without `Last-Event-ID`.",
            ),
            Self::Unauthorized => meaning(
                401,
                "Authentication is required",
                "The request has no valid API key: `x-api-key` is missing, mistyped, unknown, \
                 expired or revoked, which are not told apart. The activity log takes the \
                 session of a signed-in person instead, and no key.",
                "Send a key that is valid; `chlog doctor` checks yours. Members see the keys, with \
                 their states, in the settings of the dashboard; owners and admins make new ones.",
            ),
            Self::PlanRequired => meaning(
                403,
                "The plan does not include the API",
                "The key is valid, but its organization has a plan without the API.",
                "Ask the operator of the service for the plan `pro`. The dashboard works on every \
                 plan.",
            ),
            Self::Forbidden => meaning(
                403,
                "The role does not allow this",
                "The role of the signed-in person does not include this action.",
                "Ask an owner or an admin to do it, or to change your role.",
            ),
            Self::QuotaExceeded => meaning(
                403,
                "The organization has as many as it may have",
                "The organization has reached the number of hosts, services, members or API keys \
                 that the operator allows.",
                "Have the operator raise the limit, with the flag that `detail` names. Before \
                 pipelines create hosts or services, let them look for existing ones.",
            ),
            Self::CrossSite => meaning(
                403,
                "Requests from other sites are refused",
                "A browser sent a form of the dashboard from a page of another site, or from \
                 another address than the public URL of the service.",
                "Open the dashboard at its public URL and send the form there. Programs use the \
                 API with a key.",
            ),
            Self::NotFound => meaning(
                404,
                "Not found",
                "The organization of the key has no record with this id, or the path does not \
                 exist. Records of other organizations are not found either.",
                "Check the id, and that the key is of the right organization: `GET /api/key` names \
                 it. Paths have no version and no trailing slash.",
            ),
            Self::MethodNotAllowed => meaning(
                405,
                "The method is not allowed here",
                "The path exists, but not with this method.",
                "Use one of the methods in the header `Allow`. Records are updated by `PATCH`; \
                 changes are deleted in the dashboard only.",
            ),
            Self::RequestTimeout => meaning(
                408,
                "The body did not arrive in time",
                "The body of the request was not complete within the time that `detail` names.",
                "Send the request again, with the same `Idempotency-Key`. If it repeats, check the \
                 `Content-Length` and what is between you and the service.",
            ),
            Self::Conflict => meaning(
                409,
                "The name is taken",
                "Another host or service of the organization has this name, without regard to the \
                 case of ASCII letters.",
                "Use the existing record, which the list has, or another name.",
            ),
            Self::IdempotencyInProgress => meaning(
                409,
                "The first request with this key is still running",
                "A create with the same `Idempotency-Key` was sent before and is not finished.",
                "Send it again after the seconds in `Retry-After`: the answer is then that of the \
                 first request.",
            ),
            Self::PayloadTooLarge => meaning(
                413,
                "The body is too large",
                "The body of the request is larger than the limit that `detail` names.",
                "Send fewer changes at once, and link to long logs instead of including them.",
            ),
            Self::UnsupportedMediaType => meaning(
                415,
                "The content type is not supported",
                "The body is not declared as `application/json`, or it is compressed.",
                "Send `Content-Type: application/json` and no `Content-Encoding`; `curl -d` alone \
                 declares a form.",
            ),
            Self::ValidationFailed => meaning(
                422,
                "Validation failed",
                "The body is JSON, but breaks rules: a value outside of its limits, an unknown \
                 field, or an id or a name that the organization does not have. Nothing was \
                 recorded.",
                "`errors` has all violations at once: the place (`pointer`), the rule (`code`), the \
                 limit and what was given. Correct all of them, then send the request again.",
            ),
            Self::IdempotencyKeyReused => meaning(
                422,
                "The idempotency key was used for another request",
                "The `Idempotency-Key` was used before, with another body. Nothing was recorded.",
                "Use a new key for each new record, such as the id of the pipeline run with the \
                 name of the step. Repeat a request with exactly the same body.",
            ),
            Self::TooManyRequests => meaning(
                429,
                "Too many requests",
                "The key or the address has sent too many requests, or the organization has too \
                 many of them running, too many open streams, or too many large answers unread. \
                 Nothing was done.",
                "Wait for the seconds in `Retry-After`. The headers `RateLimit-Policy` and \
                 `RateLimit` say how many requests are left. Record many changes with one request \
                 to `/api/changes/bulk`.",
            ),
            Self::Internal | Self::Unknown(_) => meaning(
                500,
                "The service failed",
                "The service has a fault.",
                "Tell the operator the `request_id`: the log of the service has the cause under \
                 it. Repeat a create with the same `Idempotency-Key` only.",
            ),
            Self::NotImplemented => meaning(
                501,
                "The transfer encoding is not supported",
                "The request has a `Transfer-Encoding` other than `chunked`.",
                "Send the body as it is, with a `Content-Length` or in chunks.",
            ),
            Self::Unavailable => meaning(
                503,
                "The service is unavailable",
                "The database does not answer, or too much work is waiting. `detail` says whether \
                 nothing was recorded or the outcome is unknown.",
                "Send the request again after the seconds in `Retry-After`, with the same \
                 `Idempotency-Key`. `chlog` keeps a change meanwhile and sends it later. \
                 `GET /api/health` says whether the service works again.",
            ),
        }
    }
}

/// The error body of every answer that is not a success:
/// `application/problem+json`, RFC 9457.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// `/problems/` and the code.
    #[serde(rename = "type")]
    #[cfg_attr(
        feature = "openapi",
        schema(format = "uri-reference", example = "/problems/validation_failed")
    )]
    pub type_uri: String,
    /// A summary of this kind of problem.
    #[cfg_attr(feature = "openapi", schema(example = "Validation failed"))]
    pub title: String,
    /// The HTTP status, again.
    #[cfg_attr(
        feature = "openapi",
        schema(minimum = 400, maximum = 599, example = 422)
    )]
    pub status: u16,
    /// What went wrong this time, and what to do.
    #[cfg_attr(
        feature = "openapi",
        schema(example = "title: must have 3 to 300 characters, got 2")
    )]
    pub detail: String,
    /// The kind of problem, for programs.
    pub code: ProblemCode,
    /// The id under which the service's log knows this request; also sent as
    /// the header `x-request-id`.
    #[serde(default)]
    #[cfg_attr(
        feature = "openapi",
        schema(example = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90")
    )]
    pub request_id: String,
    /// The rules that were broken: all of them, or the first 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub errors: Vec<Violation>,
    /// How many more rules were broken than `errors` names; absent when `errors`
    /// names them all.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[cfg_attr(
        feature = "openapi",
        schema(required = false, minimum = 1, example = 17)
    )]
    pub more_errors: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

wire_enum! {
    /// Which kind of rule was broken.
    ViolationCode, "a violation code", example "too_long" {
        /// A required field is missing.
        Required = "required",
        /// The value has the wrong JSON type.
        WrongType = "wrong_type",
        /// Fewer characters than the minimum.
        TooShort = "too_short",
        /// More characters than the maximum.
        TooLong = "too_long",
        /// More elements than the maximum.
        TooMany = "too_many",
        /// A field or parameter that does not exist.
        UnknownField = "unknown_field",
        /// Not one of the allowed words.
        UnknownValue = "unknown_value",
        /// A parameter was given twice.
        Duplicate = "duplicate",
        /// A character that is not allowed in text.
        ControlCharacter = "control_character",
        /// The format is wrong.
        InvalidFormat = "invalid_format",
        /// Below the minimum or above the maximum.
        OutOfRange = "out_of_range",
        /// No such id in the organization.
        NotFound = "not_found",
        /// A field that can only be set on create.
        Immutable = "immutable",
        /// Too easy to guess.
        TooWeak = "too_weak",
    }
}

/// A string of the wrong format; the message continues the name of the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadValue {
    /// The kind of rule.
    pub code: ViolationCode,
    /// The rule, its limit, and what was given.
    pub message: String,
}

impl BadValue {
    /// Returns the error of a malformed string.
    pub(crate) fn format(message: String) -> Self {
        Self {
            code: ViolationCode::InvalidFormat,
            message,
        }
    }
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Violation {
    /// Where: a JSON Pointer (RFC 6901) into the body such as `/tags/3`, or
    /// `?` and the name of a query parameter.
    #[cfg_attr(feature = "openapi", schema(example = "/title"))]
    pub pointer: String,
    /// The kind of rule.
    pub code: ViolationCode,
    /// The rule, its limit, and what was given.
    #[cfg_attr(
        feature = "openapi",
        schema(example = "must have 3 to 300 characters, got 2")
    )]
    pub message: String,
}

impl Violation {
    /// Returns the name of the field or parameter for people.
    pub fn field(&self) -> &str {
        self.pointer.trim_start_matches(['/', '?'])
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() {
            write!(f, "the body {}", self.message)
        } else {
            write!(f, "{}: {}", self.field(), self.message)
        }
    }
}

/// The violations found so far: one for each pointer, the first one. The first
/// [`MAX_VIOLATIONS`] are kept, the others are counted.
#[derive(Clone, Debug, Default)]
pub struct Violations {
    kept: Vec<Violation>,
    /// Every pointer that has a violation, kept or counted, and whether the
    /// violation is a wrong type, which covers what lies within.
    pointers: HashMap<String, bool>,
    /// How many were counted only.
    more: u64,
}

impl Violations {
    /// Adds a violation, unless its pointer already has one (a title that is not
    /// a string is not also too short), or lies within a value of a wrong type.
    pub fn add(
        &mut self,
        pointer: impl Into<String>,
        code: ViolationCode,
        message: impl Into<String>,
    ) {
        self.add_with(pointer, code, || message.into());
    }

    /// Adds a violation whose message is made only if it is reported: input may
    /// break a rule many thousands of times.
    pub fn add_with<M: Into<String>>(
        &mut self,
        pointer: impl Into<String>,
        code: ViolationCode,
        message: impl FnOnce() -> M,
    ) {
        let pointer = pointer.into();
        if self.covers(&pointer) {
            return;
        }
        self.pointers
            .insert(pointer.clone(), code == ViolationCode::WrongType);
        if self.kept.len() < MAX_VIOLATIONS {
            self.kept.push(Violation {
                pointer,
                code,
                message: message().into(),
            });
        } else {
            self.more += 1;
        }
    }

    /// Returns whether a pointer has a violation, or one of its parents is of a
    /// wrong type. A pointer has as many parents as the input is deep.
    fn covers(&self, pointer: &str) -> bool {
        if self.pointers.contains_key(pointer) {
            return true;
        }
        // The name of a query parameter may have slashes and has no parents.
        pointer.starts_with('/')
            && pointer
                .match_indices('/')
                .any(|(end, _)| self.pointers.get(&pointer[..end]) == Some(&true))
    }

    /// Adds the violations of a part of the body, which is at a pointer.
    pub fn add_within(&mut self, pointer: &str, part: Self) {
        for violation in part.kept {
            let pointer = format!("{pointer}{}", violation.pointer);
            self.add(pointer, violation.code, violation.message);
        }
        self.more += part.more;
    }

    /// Returns the value if nothing was found, else what was.
    pub fn into_result<T>(self, value: T) -> Result<T, Invalid> {
        if self.kept.is_empty() {
            Ok(value)
        } else {
            Err(Invalid {
                violations: self.kept,
                more: self.more,
            })
        }
    }
}

/// Input that breaks rules, with the rules that it breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Invalid {
    /// At least one, at most [`MAX_VIOLATIONS`].
    pub violations: Vec<Violation>,
    /// How many more there are.
    pub more: u64,
}

impl Invalid {
    /// Makes the report of a single violation.
    pub fn one(
        pointer: impl Into<String>,
        code: ViolationCode,
        message: impl Into<String>,
    ) -> Self {
        Self {
            violations: vec![Violation {
                pointer: pointer.into(),
                code,
                message: message.into(),
            }],
            more: 0,
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.violations.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{violation}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_explained() {
        for code in ProblemCode::ALL {
            assert!((400..=503).contains(&code.status()), "{code}");
            assert!(!code.title().ends_with('.'), "{code}");
            for text in [code.cause(), code.remedy()] {
                assert!(
                    text.ends_with('.') && !text.contains("  "),
                    "{code}: {text}"
                );
                assert_eq!(text.matches('`').count() % 2, 0, "{code}: {text}");
            }
        }
        let unknown: ProblemCode = serde_json::from_str("\"from_the_future\"").unwrap();
        assert_eq!(unknown, ProblemCode::Unknown("from_the_future".into()));
        assert!("from_the_future".parse::<ProblemCode>().is_err());
    }

    #[test]
    fn a_place_is_reported_once() {
        let mut problems = Violations::default();
        problems.add("/title", ViolationCode::WrongType, "first");
        problems.add("/title", ViolationCode::TooShort, "second");
        problems.add("/tags", ViolationCode::TooMany, "third");
        let invalid = problems.into_result(()).unwrap_err();
        assert_eq!(invalid.to_string(), "title: first; tags: third");
        assert!(Violations::default().into_result(()).is_ok());
    }

    #[test]
    fn what_lies_within_a_wrong_type_is_not_reported() {
        let mut problems = Violations::default();
        problems.add("/links/1", ViolationCode::WrongType, "first");
        problems.add("/links/1/url", ViolationCode::Required, "covered");
        problems.add("/links/10/url", ViolationCode::Required, "second");
        problems.add("?a/b", ViolationCode::WrongType, "third");
        problems.add("?a/b/c", ViolationCode::UnknownField, "fourth");
        let invalid = problems.into_result(()).unwrap_err();
        let pointers: Vec<&str> = invalid.violations.iter().map(|v| &*v.pointer).collect();
        assert_eq!(pointers, ["/links/1", "/links/10/url", "?a/b", "?a/b/c"]);
    }

    #[test]
    fn a_hundred_violations_are_reported_and_the_others_counted() {
        let mut part = Violations::default();
        for index in 0..150 {
            part.add(format!("/{index}"), ViolationCode::WrongType, "bad");
            part.add(format!("/{index}/x"), ViolationCode::TooShort, "covered");
        }
        let mut whole = Violations::default();
        whole.add("/a", ViolationCode::Required, "bad");
        whole.add_within("/list", part);
        let invalid = whole.into_result(()).unwrap_err();
        assert_eq!((invalid.violations.len(), invalid.more), (100, 51));
        assert!(invalid.to_string().ends_with("; and 51 more"), "{invalid}");
    }

    #[test]
    fn a_problem_without_errors_can_be_read() {
        let body = r#"{"type": "/problems/not_found", "title": "Not found", "status": 404,
                       "detail": "no such host", "code": "not_found"}"#;
        let problem: Problem = serde_json::from_str(body).unwrap();
        assert_eq!(problem.code, ProblemCode::NotFound);
        assert!(problem.errors.is_empty() && problem.request_id.is_empty());
        assert_eq!(problem.more_errors, 0);
        assert!(!serde_json::to_string(&problem).unwrap().contains("errors"));
    }
}

//! What went wrong: the error body (RFC 9457) that the service sends and the
//! client reads, and the list of violations inside it.

mod code;

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::MAX_VIOLATIONS;
use crate::wire_enum::wire_enum;

pub use code::ProblemCode;

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

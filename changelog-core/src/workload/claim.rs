//! The claims that a token must have.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::limits::MAX_CLAIM_CHARS;
use crate::problem::{BadValue, ViolationCode};
use crate::rules;

/// Claims that have fields of their own, or differ for each token.
const NOT_MATCHED: [&str; 6] = ["iss", "aud", "exp", "nbf", "iat", "jti"];

/// A claim that a token must have, with a value that fits a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClaimPattern {
    /// The name of the claim.
    pub name: String,
    /// The value, in which `*` stands for any characters.
    pub pattern: String,
}

impl fmt::Display for ClaimPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.pattern)
    }
}

impl FromStr for ClaimPattern {
    type Err = BadValue;

    /// Reads `NAME=PATTERN`; spaces around either are left out.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |message: String| BadValue {
            code: ViolationCode::InvalidFormat,
            message,
        };
        let (name, pattern) = text.split_once('=').unwrap_or_default();
        let (name, pattern) = (name.trim(), pattern.trim());
        if name.is_empty() || pattern.is_empty() {
            return Err(invalid(format!(
                "must be a claim and its value, such as repository=acme/shop; got {}",
                rules::quoted(text)
            )));
        }
        if NOT_MATCHED.contains(&name) {
            return Err(invalid(format!(
                "must not be the claim {name}: the issuer, the audience and the times of a token \
                 are checked anyway"
            )));
        }
        let chars = text.chars().count();
        if chars > MAX_CLAIM_CHARS {
            return Err(invalid(format!(
                "must have at most {MAX_CLAIM_CHARS} characters, got {chars}"
            )));
        }
        if text.chars().any(char::is_control) {
            return Err(invalid("must not contain control characters".to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            pattern: pattern.to_owned(),
        })
    }
}

impl TryFrom<String> for ClaimPattern {
    type Error = BadValue;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ClaimPattern> for String {
    fn from(claim: ClaimPattern) -> Self {
        claim.to_string()
    }
}

impl ClaimPattern {
    /// Returns whether a token with these claims fits. A claim that is a list fits if one of its
    /// values does.
    pub fn matches(&self, claims: &Map<String, Value>) -> bool {
        match claims.get(&self.name) {
            Some(Value::Array(values)) => values.iter().any(|value| self.fits(value)),
            Some(value) => self.fits(value),
            None => false,
        }
    }

    fn fits(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => fits(&self.pattern, text),
            Value::Bool(_) | Value::Number(_) => fits(&self.pattern, &value.to_string()),
            _ => false,
        }
    }

    /// Returns the value if it has no `*`.
    pub(super) fn exact(&self) -> Option<&str> {
        (!self.pattern.contains('*')).then_some(self.pattern.as_str())
    }

    /// Returns the beginning of the value to its first slash, if that has no `*`.
    pub(super) fn owner(&self) -> Option<&str> {
        owner(&self.pattern).filter(|owner| !owner.contains('*'))
    }
}

/// Returns the beginning of a value to its first slash, with it.
pub(super) fn owner(value: &str) -> Option<&str> {
    let (owner, _) = value.split_once('/')?;
    (!owner.is_empty()).then(|| &value[..=owner.len()])
}

/// Returns whether a string matches a pattern, in which `*` matches any characters.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claims(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text, is_fit) in [
            ("acme/shop", "acme/shop", true),
            ("acme/shop", "acme/shop2", false),
            ("acme/shop", "evil/acme/shop", false),
            ("acme/*", "acme/shop", true),
            ("acme/*", "acme/", true),
            ("acme/*", "acme", false),
            ("acme/*", "acmee/shop", false),
            ("*", "", true),
            ("*/shop", "acme/shop", true),
            ("*/shop", "acme/shop/x", false),
            ("refs/*/v*", "refs/tags/v1", true),
            ("refs/*/v*", "refs/tags/1", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a**c", "abc", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern, text), is_fit, "{pattern} {text}");
        }
    }

    #[test]
    fn claims_of_all_types_are_compared_as_texts() {
        let token = claims(&json!({
            "protected": true, "number": 7, "list": ["a", "b"], "object": { "a": 1 }, "none": null,
        }));
        for (claim, is_fit) in [
            ("protected=true", true),
            ("protected=false", false),
            ("number=7", true),
            ("list=b", true),
            ("list=c", false),
            ("object=*", false),
            ("none=*", false),
            ("missing=*", false),
        ] {
            let claim: ClaimPattern = claim.parse().unwrap();
            assert_eq!(claim.matches(&token), is_fit, "{claim}");
        }
    }
}

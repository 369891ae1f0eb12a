//! Signed tokens (RFC 7515, RFC 7519): how they are read, and what they must claim.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use changelog_core::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::LEEWAY;
use super::error::{TokenError, shown};
use super::keys::Algorithm;

/// The longest token that is read, in bytes.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// It identifies a person or a job.
    Identity,
    /// It reports that a person was signed out.
    Logout,
}

/// What is expected of a token, in addition to its issuer.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'e> {
    /// The only audience of the token.
    pub audience: &'e str,
    /// What it is for.
    pub kind: TokenKind,
    /// For how long it may be valid, from when it was issued; `None` without a limit.
    pub max_validity: Option<Duration>,
}

/// The claims of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    all: Map<String, Value>,
    /// The id of the key that has signed the token.
    key_id: Option<String>,
    /// The type in its header.
    kind: Option<String>,
}

impl Claims {
    /// Returns a claim.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.all.get(name)
    }

    /// Returns a claim that is a string.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// Returns the only audience of the token; `None` if there are several.
    pub fn audience(&self) -> Option<&str> {
        self.audience_claim()?.as_str()
    }

    fn audience_claim(&self) -> Option<&Value> {
        match self.get("aud") {
            // An additional audience could use the token here.
            Some(Value::Array(all)) if all.len() == 1 => all.first(),
            other => other,
        }
    }

    /// Returns all claims.
    pub fn all(&self) -> &Map<String, Value> {
        &self.all
    }

    /// Returns when the token expires.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.time("exp")
    }

    pub(super) fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// Reads a time in seconds since 1970, which may have a fraction.
    fn time(&self, name: &str) -> Option<Timestamp> {
        let value = self.get(name)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a fraction is cut, and a time in another age saturates"
        )]
        let seconds = value.as_i64().or_else(|| Some(value.as_f64()? as i64))?;
        Some(Timestamp::from_millis(seconds.saturating_mul(1_000)))
    }

    /// Checks everything but the signature.
    pub(super) fn check(
        &self,
        issuer: &str,
        expected: &Expected<'_>,
        now: Timestamp,
    ) -> Result<(), TokenError> {
        self.check_kind(expected.kind)?;
        check_text("iss", issuer, self.get("iss"))?;
        check_text("aud", expected.audience, self.audience_claim())?;
        let expires = self.time("exp").ok_or(TokenError::Missing("exp"))?;
        if expires.plus(LEEWAY) <= now {
            return Err(TokenError::Expired(expires));
        }
        for name in ["nbf", "iat"] {
            let Some(time) = self.time(name) else {
                if self.get(name).is_some() {
                    return Err(TokenError::Missing(name));
                }
                continue;
            };
            if time.plus(-LEEWAY) > now {
                return Err(TokenError::TooEarly(time));
            }
        }
        if let Some(most) = expected.max_validity {
            let from = self.time("iat").ok_or(TokenError::Missing("iat"))?;
            let millis = expires.millis().saturating_sub(from.millis());
            if millis > i64::try_from(most.as_millis()).unwrap_or(i64::MAX) {
                return Err(TokenError::ValidTooLong {
                    seconds: millis / 1_000,
                    most: most.as_secs(),
                });
            }
        }
        Ok(())
    }

    fn check_kind(&self, expected: TokenKind) -> Result<(), TokenError> {
        let Some(kind) = self.kind.as_deref() else {
            return Ok(());
        };
        let is_ours = kind.eq_ignore_ascii_case("jwt")
            || (expected == TokenKind::Logout && kind.eq_ignore_ascii_case("logout+jwt"));
        if is_ours {
            return Ok(());
        }
        Err(TokenError::OtherType(shown(kind)))
    }
}

/// A token that has been read; nothing of it is checked yet.
pub(super) struct Parsed<'t> {
    pub(super) claims: Claims,
    pub(super) algorithm: Algorithm,
    /// What is signed.
    pub(super) message: &'t [u8],
    pub(super) signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

/// Returns whether a string has the form of a signed token: three parts, the first a JSON object.
pub fn looks_like_token(text: &str) -> bool {
    // `{"` in base64.
    text.starts_with("eyJ") && text.split('.').count() == 3
}

/// Refuses a token that is too long to be read.
pub(super) fn check_length(token: &str) -> Result<(), TokenError> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(TokenError::TooLong(token.len()));
    }
    Ok(())
}

/// Reads a token, whose length has been checked.
pub(super) fn parse(token: &str) -> Result<Parsed<'_>, TokenError> {
    let [header_text, claims_text, signature] = parts(token)?;
    let header: Header = decoded(header_text, "its header is not a JSON object with `alg`")?;
    if header.crit.is_some() {
        // An extension that has to be understood; none is.
        return Err(TokenError::Malformed("its header has `crit`"));
    }
    let claims = Claims {
        all: decoded(claims_text, "its claims are not a JSON object")?,
        key_id: header.kid,
        kind: header.typ,
    };
    let signature = URL_SAFE_NO_PAD
        .decode(signature)
        .map_err(|_| TokenError::Malformed("its signature is not base64url"))?;
    Ok(Parsed {
        claims,
        algorithm: Algorithm::named(&header.alg)?,
        message: &token.as_bytes()[..=header_text.len() + claims_text.len()],
        signature,
    })
}

fn parts(token: &str) -> Result<[&str; 3], TokenError> {
    let mut parts = token.split('.');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(header), Some(claims), Some(signature), None) => Ok([header, claims, signature]),
        _ => Err(TokenError::Malformed(
            "it does not have three parts with dots between them",
        )),
    }
}

fn decoded<T: serde::de::DeserializeOwned>(
    part: &str,
    otherwise: &'static str,
) -> Result<T, TokenError> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok();
    let value = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    value.ok_or(TokenError::Malformed(otherwise))
}

fn check_text(name: &'static str, expected: &str, given: Option<&Value>) -> Result<(), TokenError> {
    let given = given.ok_or(TokenError::Missing(name))?;
    if given.as_str() == Some(expected) {
        return Ok(());
    }
    let got = given
        .as_str()
        .map_or_else(|| given.to_string(), str::to_owned);
    Err(TokenError::Other {
        name,
        expected: expected.to_owned(),
        got: shown(&got),
    })
}

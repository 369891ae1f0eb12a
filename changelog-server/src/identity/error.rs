//! Why a token is refused, or cannot be checked.

use changelog_core::Timestamp;

use super::provider::PROVIDER_TIMEOUT;
use crate::format;
use crate::integrations::http::SendError;

/// The limit on what a message shows of a token or of what a provider says, in characters.
const MAX_SHOWN_CHARS: usize = 200;

/// Returns what a token or a provider says as messages show it: not too long, on one line, and
/// with what steers a terminal made visible. Anyone can send a token, and messages are logged.
pub(super) fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let start: String = chars.by_ref().take(MAX_SHOWN_CHARS).collect();
    let dots = if chars.next().is_some() { "…" } else { "" };
    format!("{}{dots}", format::line(&start))
}

/// Why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The keys of the provider are not known.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The token is not valid.
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// Why it is not known what a provider publishes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// It has not answered in time.
    #[error("the identity provider did not answer within {} s", PROVIDER_TIMEOUT.as_secs())]
    Timeout,
    /// No request could be sent.
    #[error("the identity provider cannot be reached: {0}")]
    Unreachable(String),
    /// It has answered with another status than 200.
    #[error("the identity provider answered {status} to the request for {what}{hint}")]
    Status {
        /// What was requested.
        what: String,
        /// The status.
        status: u16,
        /// What else is known of it.
        hint: &'static str,
    },
    /// Its answer is too large.
    #[error("{0} of the identity provider is larger than 256 KiB")]
    TooLarge(String),
    /// Its answer is not what it should be.
    #[error("{what} of the identity provider {why}")]
    Invalid {
        /// What was requested.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// It names another issuer.
    #[error(
        "the discovery document of the identity provider names the issuer {got}; expected \
         {expected}, exactly"
    )]
    OtherIssuer {
        /// The issuer that was set.
        expected: String,
        /// The issuer in the document.
        got: String,
    },
}

impl From<SendError> for ProviderError {
    fn from(error: SendError) -> Self {
        let why = match error {
            SendError::Timeout | SendError::ConnectTimeout => return Self::Timeout,
            SendError::InvalidUrl => {
                "the address must be an https URL without a user name and password"
            }
            SendError::RefusedAddress => {
                "the address is refused, because it belongs to a private or reserved network, or \
                 is not https; the operator of the server can allow it with --allow-receivers"
            }
            SendError::UnknownHost => "the host name was not found",
            SendError::NoConnection => "there is no connection",
            SendError::Tls(why) => {
                let why = shown(&why);
                return Self::Unreachable(format!("the encrypted connection failed: {why}"));
            }
            SendError::Certificates => {
                "the certificates that the server's system trusts cannot be read"
            }
            SendError::Broken => "the connection was closed early, or the answer was not HTTP",
        };
        Self::Unreachable(why.to_owned())
    }
}

/// Why a token is not valid. The messages show only what the token itself says, and what was
/// expected of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is too long to be read.
    #[error("the token has {0} bytes; at most 16,384 are read")]
    TooLong(usize),
    /// It cannot be read.
    #[error("the token is not a signed JWT: {0}")]
    Malformed(&'static str),
    /// It is signed in a way that is not accepted.
    #[error(
        "the token is signed with {0}; accepted are RS256, RS384, RS512, PS256, PS384, PS512, \
         ES256, ES384 and EdDSA (Ed25519)"
    )]
    Algorithm(String),
    /// It is of a kind that is not accepted here.
    #[error("the token has the type {0}, and is not accepted here")]
    OtherType(String),
    /// The provider has no such key.
    #[error("the identity provider has no key {0} with which the token may be signed")]
    UnknownKey(String),
    /// It was not signed with the key that it names.
    #[error("the signature of the token is wrong")]
    Signature,
    /// It lacks a claim, or the claim has another type.
    #[error("the claim {0} of the token is missing or has the wrong type")]
    Missing(&'static str),
    /// It claims something else than was expected.
    #[error("the claim {name} of the token is {got}; expected {expected}")]
    Other {
        /// The claim.
        name: &'static str,
        /// What was expected.
        expected: String,
        /// What the token says.
        got: String,
    },
    /// It is no longer valid.
    #[error("the token expired at {0}")]
    Expired(Timestamp),
    /// It is not valid yet.
    #[error("the token is not valid before {0}")]
    TooEarly(Timestamp),
    /// It is valid for longer than is accepted.
    #[error("the token is valid for {seconds} s; at most {most} s are accepted")]
    ValidTooLong {
        /// For how long it is valid.
        seconds: i64,
        /// For how long it may be.
        most: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_one_short_line_without_controls() {
        let forged = "JWT\u{1b}[2K\r\n2026-11-21 INFO forged\u{202e}";
        let line = shown(forged);
        assert_eq!(line, "JWT<U+001B>[2K  2026-11-21 INFO forged<U+202E>");
        let long = shown(&"é".repeat(MAX_SHOWN_CHARS + 1));
        assert_eq!(long, format!("{}…", "é".repeat(MAX_SHOWN_CHARS)));
    }
}

//! Why a request to a receiver had no answer.

use std::error::Error as StdError;
use std::io;

/// Why a request to a receiver had no answer. The messages are for people, and reveal
/// nothing of the networks around the server: a refused address has the same message
/// whether or not anything listens there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The URL can never be sent to.
    #[error("The address must be an https URL without a user name and password.")]
    InvalidUrl,
    /// The address is in a network that receivers must not be in, or would be reached
    /// without encryption.
    #[error(
        "The address is refused: it belongs to a private or reserved network, or is not https. \
         The operator of the server can allow it with --allow-receivers."
    )]
    RefusedAddress,
    /// The name has no address.
    #[error("The host name of the receiver was not found.")]
    UnknownHost,
    /// No connection was made.
    #[error("The receiver could not be connected to.")]
    NoConnection,
    /// No connection was made within its time limit.
    #[error("The receiver could not be connected to within 5 s.")]
    ConnectTimeout,
    /// The answer was not complete within the time limit.
    #[error("The receiver did not answer within 15 s.")]
    Timeout,
    /// TLS failed.
    #[error("The encrypted connection to the receiver failed: {0}.")]
    Tls(String),
    /// The certificates of the system cannot be read.
    #[error("The certificates that the server's system trusts cannot be read.")]
    Certificates,
    /// The connection ended early, or the answer was not HTTP.
    #[error("The receiver closed the connection early, or its answer was not HTTP.")]
    Broken,
}

impl SendError {
    /// Returns whether only another URL can help.
    pub(crate) fn is_permanent(&self) -> bool {
        matches!(self, Self::InvalidUrl)
    }

    pub(super) fn of(error: &reqwest::Error) -> Self {
        if let Some(refused) = find::<Self>(error) {
            refused.clone()
        } else if let Some(tls) = find::<rustls::Error>(error) {
            Self::Tls(tls.to_string())
        } else if error.is_connect() && error.is_timeout() {
            Self::ConnectTimeout
        } else if error.is_connect() {
            Self::NoConnection
        } else if error.is_builder() {
            Self::InvalidUrl
        } else {
            Self::Broken
        }
    }
}

/// Returns the error of a type among the causes.
fn find<T: StdError + 'static>(error: &reqwest::Error) -> Option<&T> {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(found) = inner.downcast_ref() {
            return Some(found);
        }
        // `source` of an I/O error skips the error that it wraps.
        cause = match inner.downcast_ref().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => inner.source(),
        };
    }
    None
}

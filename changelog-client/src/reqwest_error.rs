//! Converts errors of reqwest into those of this crate.

use std::error::Error as StdError;
use std::io;

use crate::base_url::BaseUrl;
use crate::error::{Error, TransportError, TransportErrorKind};

/// Converts an error of sending a request or reading its response.
pub(crate) fn convert(error: reqwest::Error, base_url: &BaseUrl) -> Error {
    // The base URL is enough; the full URL contains the query.
    let error = error.without_url();
    // The outermost error says only that sending or reading failed; of a failed
    // connection, the next one says so again.
    let cause = match error.source() {
        Some(cause) if error.is_connect() => cause.source().unwrap_or(cause),
        Some(cause) => cause,
        None => &error,
    };
    let message = with_causes(cause);
    if error.is_builder() {
        return Error::Builder(message);
    }
    let kind = if error.is_connect() && is_untrusted_certificate(&error) {
        TransportErrorKind::UntrustedCertificate
    } else if error.is_connect() {
        TransportErrorKind::Connect
    } else if error.is_timeout() {
        TransportErrorKind::Timeout
    } else {
        TransportErrorKind::Disconnected
    };
    TransportError::new(kind, format!("{base_url}: {message}")).into()
}

/// Returns the message of an error followed by those of its causes, without
/// repetitions.
pub(crate) fn with_causes(error: &dyn StdError) -> String {
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

fn is_untrusted_certificate(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(rustls::Error::InvalidCertificate(_)) = inner.downcast_ref() {
            return true;
        }
        // `source` of an I/O error skips the error that it wraps.
        cause = match inner.downcast_ref().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => inner.source(),
        };
    }
    false
}

//! Converts errors of reqwest into those of this crate.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use rustls::CertificateError;

use crate::base_url::BaseUrl;
use crate::error::{Error, TransportError, TransportErrorKind};
use crate::proxy;

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
    let tls = error.is_connect().then(|| tls_error(&error)).flatten();
    let kind = match tls {
        Some(rustls::Error::InvalidCertificate(_)) => TransportErrorKind::UntrustedCertificate,
        Some(rustls::Error::InvalidMessage(_)) => TransportErrorKind::WrongProtocol,
        _ if error.is_connect() => TransportErrorKind::Connect,
        _ if error.is_timeout() => TransportErrorKind::Timeout,
        _ if base_url.is_plain_http() && is_not_http(&message) => TransportErrorKind::WrongProtocol,
        _ => TransportErrorKind::Disconnected,
    };
    let message = match (tls, kind) {
        (Some(rustls::Error::InvalidCertificate(invalid)), _) => certificate_message(invalid),
        (_, TransportErrorKind::WrongProtocol) if !base_url.is_plain_http() => {
            "the server does not use TLS on this port; is the URL http://…?".to_owned()
        }
        (_, TransportErrorKind::WrongProtocol) => format!(
            "the server does not respond with HTTP on this port; is the URL https://…? ({message})"
        ),
        _ => message,
    };
    let through = match proxy::of(base_url) {
        Some(proxy) if kind != TransportErrorKind::UntrustedCertificate => {
            format!(" through the proxy {proxy}")
        }
        _ => String::new(),
    };
    let mut failure = TransportError::new(kind, format!("{base_url}{through}: {message}"));
    failure.source = Some(Arc::new(error));
    failure.into()
}

/// Returns what is wrong with a certificate.
fn certificate_message(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "its certificate is from an issuer that this machine does not trust".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("its certificate is for another host: {error}")
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is that of a CA; the server needs a certificate that the CA has issued"
                .to_owned()
        }
        _ => format!("its certificate is not valid: {error}"),
    }
}

/// Returns whether a message says that a response could not be parsed as HTTP.
fn is_not_http(message: &str) -> bool {
    message.contains("invalid HTTP version") || message.contains("httparse")
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

/// Returns the error of TLS among the causes.
fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref() {
            return Some(error);
        }
        // `source` of an I/O error skips the error that it wraps.
        cause = match inner.downcast_ref().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => inner.source(),
        };
    }
    None
}

//! Requests with JSON.

use bytes::Bytes;
use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;

use crate::integrations::http::ReceiverRequest;

/// Returns a POST request with a JSON body.
pub(super) fn post<'r>(url: &'r str, body: &Value) -> ReceiverRequest<'r> {
    with_body(Method::POST, url, body)
}

/// Returns a request with a JSON body.
pub(super) fn with_body<'r>(method: Method, url: &'r str, body: &Value) -> ReceiverRequest<'r> {
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    ReceiverRequest {
        method,
        url,
        headers: HeaderMap::from_iter([(CONTENT_TYPE, json)]),
        body: Bytes::from(body.to_string()),
    }
}

/// Returns a request without a body.
pub(super) fn without_body(method: Method, url: &str) -> ReceiverRequest<'_> {
    ReceiverRequest {
        method,
        url,
        headers: HeaderMap::new(),
        body: Bytes::new(),
    }
}

/// Adds a bearer token. A token that cannot be a header is left out.
pub(super) fn authorized<'r>(mut request: ReceiverRequest<'r>, token: &str) -> ReceiverRequest<'r> {
    if let Ok(mut value) = HeaderValue::try_from(format!("Bearer {token}")) {
        value.set_sensitive(true);
        request.headers.insert(AUTHORIZATION, value);
    }
    request
}

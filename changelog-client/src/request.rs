//! A request to the API.

use bytes::Bytes;
use changelog_core::limits::MAX_IDEMPOTENCY_KEY_CHARS;
use http::{HeaderValue, Method};
use serde::Serialize;

use crate::error::Error;

/// Returns a new idempotency key: a UUID version 7, which is unique.
///
/// The service stores such keys in the order of their creation, which costs less
/// than storing random keys.
#[must_use]
pub fn new_idempotency_key() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// A request; every attempt sends the same one.
pub(crate) struct ApiRequest {
    pub(crate) method: Method,
    /// The segments after `/api`, not escaped.
    pub(crate) path: Vec<String>,
    pub(crate) query: Option<String>,
    /// JSON.
    pub(crate) body: Option<Bytes>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) last_event_id: Option<String>,
    pub(crate) preference: Option<&'static str>,
    pub(crate) needs_api_key: bool,
    /// Whether a success may have no body, which is then read as `null`.
    pub(crate) may_be_answered_empty: bool,
    /// The automation that acts, if it is not the one of the client.
    pub(crate) agent: Option<HeaderValue>,
    /// For a message of the Model Context Protocol, which goes to another path.
    pub(crate) mcp: Option<McpHeaders>,
}

/// What the headers of a message of the Model Context Protocol repeat of it.
pub(crate) struct McpHeaders {
    /// The revision of the protocol.
    pub(crate) version: Option<String>,
    pub(crate) method: String,
    /// The name of the tool.
    pub(crate) name: Option<String>,
}

impl ApiRequest {
    fn new(method: Method, path: &[&str]) -> Self {
        Self {
            method,
            path: path.iter().map(|segment| (*segment).to_owned()).collect(),
            query: None,
            body: None,
            idempotency_key: None,
            last_event_id: None,
            preference: None,
            needs_api_key: true,
            may_be_answered_empty: false,
            agent: None,
            mcp: None,
        }
    }

    /// A request of any method, for a path of any length.
    pub(crate) fn raw(method: Method, path: Vec<String>) -> Self {
        Self {
            path,
            ..Self::new(method, &[])
        }
    }

    pub(crate) fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path)
    }

    /// A create. It has an idempotency key, so that it takes effect once however
    /// many attempts are sent.
    pub(crate) fn create(
        path: &[&str],
        body: &impl Serialize,
        idempotency_key: Option<String>,
    ) -> Result<Self, Error> {
        let key = idempotency_key.unwrap_or_else(new_idempotency_key);
        let is_printable = key.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
        if !is_printable || key.is_empty() || key.len() > MAX_IDEMPOTENCY_KEY_CHARS {
            return Err(Error::Builder(format!(
                "the idempotency key must have 1 to {MAX_IDEMPOTENCY_KEY_CHARS} printable ASCII \
                 characters, got {} bytes",
                key.len()
            )));
        }
        let mut request = Self::new(Method::POST, path).json(body)?;
        request.idempotency_key = Some(key);
        Ok(request)
    }

    pub(crate) fn update(path: &[&str], body: &impl Serialize) -> Result<Self, Error> {
        Self::new(Method::PATCH, path).json(body)
    }

    pub(crate) fn put(path: &[&str], body: &impl Serialize) -> Result<Self, Error> {
        Self::new(Method::PUT, path).json(body)
    }

    pub(crate) fn query(mut self, query: String) -> Self {
        self.query = Some(query);
        self
    }

    pub(crate) fn last_event_id(mut self, id: Option<String>) -> Self {
        self.last_event_id = id;
        self
    }

    pub(crate) fn prefer(mut self, preference: &'static str) -> Self {
        self.preference = Some(preference);
        self
    }

    pub(crate) fn without_api_key(mut self) -> Self {
        self.needs_api_key = false;
        self
    }

    pub(crate) fn json(mut self, body: &impl Serialize) -> Result<Self, Error> {
        let body = serde_json::to_vec(body).map_err(|error| {
            Error::Builder(format!("the request cannot be written as JSON: {error}"))
        })?;
        self.body = Some(body.into());
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idempotency_keys_are_checked_before_anything_is_sent() {
        for (key, is_valid) in [
            ("k".to_owned(), true),
            ("k".repeat(255), true),
            (String::new(), false),
            ("k".repeat(256), false),
            ("ü".to_owned(), false),
            ("a\nb".to_owned(), false),
        ] {
            let request = ApiRequest::create(&["changes"], &"", Some(key.clone()));
            assert_eq!(request.is_ok(), is_valid, "{key}");
        }
    }
}

//! The request that a handler receives.

use std::net::IpAddr;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use changelog_core::problem::BadValue;
use changelog_core::{ProblemCode, headers};
use cookie::Cookie;
use futures_util::Stream;
use http::{HeaderMap, Method, header};

use super::ApiError;
use crate::rate_limits::RateLimitState;
use crate::store::Tenant;

/// What the accept loop knows about a request and attaches to it.
#[derive(Clone, Debug)]
pub(crate) struct RequestContext {
    /// The client's address, behind trusted proxies.
    pub(crate) address: IpAddr,
    /// Whether a trusted proxy has sent it.
    pub(crate) is_from_proxy: bool,
    /// The id of the request in the log.
    pub(crate) id: Arc<str>,
    /// What the handler finds out.
    pub(crate) state: Arc<RequestState>,
}

/// What a handler finds out about its request and the accept loop needs for the
/// response.
#[derive(Debug, Default)]
pub(crate) struct RequestState {
    /// What the caller's rate limit has left, for the response headers.
    pub(crate) rate_limit: OnceLock<RateLimitState>,
    /// The endpoint of its path, such as `/api/changes/:id`.
    pub(crate) route: OnceLock<&'static str>,
    /// The caller's organization; the response counts in its share of memory.
    pub(crate) tenant: OnceLock<Tenant>,
}

/// What a failure reports about its request.
#[derive(Clone, Debug)]
pub(crate) struct RequestInfo {
    /// The id of the request in the log.
    pub(crate) id: Arc<str>,
    pub(crate) method: Method,
    /// The path, with the query string if there is one.
    pub(crate) target: String,
    /// The page of this service that sent the request, in the same form; empty if that is
    /// unknown.
    pub(crate) sent_from: String,
}

pub(crate) type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, warp::Error>> + Send + Sync>>;

/// One request.
pub(crate) struct Request {
    pub(crate) context: RequestContext,
    pub(crate) method: Method,
    pub(crate) path: String,
    /// The query string without its `?`; empty without one.
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    /// The parameter in the path; empty on a route without one.
    pub(crate) parameter: String,
    /// The body; `None` once it has been read.
    pub(crate) body: Mutex<Option<BodyStream>>,
    /// The body if it was read before it was needed.
    pub(crate) received: OnceLock<Bytes>,
}

impl Request {
    /// Returns what a failure reports about the request.
    pub(crate) fn info(&self) -> RequestInfo {
        let separator = if self.query.is_empty() { "" } else { "?" };
        RequestInfo {
            id: Arc::clone(&self.context.id),
            method: self.method.clone(),
            target: format!("{}{separator}{}", self.path, self.query),
            sent_from: self.sent_from().unwrap_or_default(),
        }
    }

    fn sent_from(&self) -> Option<String> {
        let (_, referer) = self.header(header::REFERER.as_str())?.split_once("://")?;
        let path = referer.strip_prefix(self.header(header::HOST.as_str())?)?;
        path.starts_with('/').then(|| path.to_owned())
    }

    /// Reads the id in the path.
    pub(crate) fn id<T: FromStr<Err = BadValue>>(&self) -> Result<T, ApiError> {
        let decoded = percent_encoding::percent_decode_str(&self.parameter).decode_utf8_lossy();
        decoded.parse().map_err(|bad: BadValue| {
            ApiError::new(ProblemCode::MalformedId, format!("the id {bad}"))
        })
    }

    /// Returns a header; `None` if it was sent more than once or has invisible
    /// characters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    }

    /// Whether the client has stated a preference, given as `name=value` (RFC 7240).
    pub(crate) fn prefers(&self, preference: &str) -> bool {
        states_preference(&self.headers, preference)
    }

    /// Returns the value of the first cookie with a name.
    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        first_cookie(&self.headers, name)
    }
}

/// Returns whether the first preference of this name has this value, which may be quoted.
/// Parameters of preferences are ignored.
fn states_preference(map: &HeaderMap, preference: &str) -> bool {
    let parts = |stated: &str| {
        let stated = stated.split(';').next().unwrap_or_default();
        let (name, value) = stated.split_once('=').unwrap_or((stated, ""));
        let value = value.trim();
        let unquoted = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        let value = unquoted.unwrap_or(value);
        (name.trim().to_ascii_lowercase(), value.to_ascii_lowercase())
    };
    let wanted = parts(preference);
    let values = map.get_all(headers::PREFER).iter();
    let mut stated = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(parts);
    stated.find(|(name, _)| *name == wanted.0) == Some(wanted)
}

fn first_cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(Cookie::split_parse)
        .filter_map(Result::ok)
        .find(|cookie| cookie.name() == name)?
        .value_raw()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_preference_may_be_quoted_and_have_parameters() {
        for (values, expected) in [
            (&["return=representation"][..], true),
            (&["wait=5, Return=Representation"], true),
            (&["return=\"representation\""], true),
            (&["return = representation ; foo=bar; a"], true),
            (&["respond-async", "return=representation"], true),
            (&["return=minimal"], false),
            (&["return=minimal, return=representation"], false),
            (&["return"], false),
            (&["return=\"representation"], false),
            (&["foo=bar; return=representation"], false),
            (&[], false),
        ] {
            let mut map = HeaderMap::new();
            for value in values {
                map.append(headers::PREFER, HeaderValue::from_static(value));
            }
            let found = states_preference(&map, headers::RETURN_REPRESENTATION);
            assert_eq!(found, expected, "{values:?}");
        }
    }

    #[test]
    fn the_first_cookie_of_a_name_counts() {
        let mut headers = HeaderMap::new();
        for value in ["a=1; bad; b = 2 ;c=x=y", "b=3; __Host-d=4"] {
            headers.append(header::COOKIE, HeaderValue::from_static(value));
        }
        for (name, expected) in [
            ("a", Some("1")),
            ("b", Some("2")),
            ("c", Some("x=y")),
            ("__Host-d", Some("4")),
            ("bad", None),
            ("d", None),
        ] {
            assert_eq!(first_cookie(&headers, name), expected, "{name}");
        }
    }
}

//! One request, as a handler sees it.

use std::net::IpAddr;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use changelog_core::ProblemCode;
use changelog_core::problem::BadValue;
use futures_util::Stream;
use http::{HeaderMap, Method};

use super::ApiError;
use crate::limits::RateLimitState;
use crate::store::Tenant;

/// What the accept loop knows of a request and puts beside it.
#[derive(Clone, Debug)]
pub(crate) struct RequestContext {
    /// Who sent it, behind the proxies that are trusted.
    pub(crate) address: IpAddr,
    /// Under which id the log knows it.
    pub(crate) id: Arc<str>,
    /// What the handler finds out.
    pub(crate) state: Arc<RequestState>,
}

/// What a failure reports about its request.
#[derive(Clone, Debug)]
pub(crate) struct RequestInfo {
    /// The id of the request in the log.
    pub(crate) id: Arc<str>,
    pub(crate) method: Method,
    /// The path, with the query string if there is one.
    pub(crate) target: String,
}

/// What is found out about a request while it is handled, for those around the
/// handler.
#[derive(Debug, Default)]
pub(crate) struct RequestState {
    /// What the caller's rate limit has left, for the answer's headers.
    pub(crate) rate_limit: OnceLock<RateLimitState>,
    /// The organization that it acts in, whose share of memory its answer takes.
    pub(crate) tenant: OnceLock<Tenant>,
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
    /// The last segment of the path, where the route has a parameter there.
    pub(crate) parameter: String,
    /// Taken by whoever reads the body.
    pub(crate) body: Option<BodyStream>,
}

impl Request {
    /// Returns what a failure reports about the request.
    pub(crate) fn info(&self) -> RequestInfo {
        let question = if self.query.is_empty() { "" } else { "?" };
        RequestInfo {
            id: Arc::clone(&self.context.id),
            method: self.method.clone(),
            target: format!("{}{question}{}", self.path, self.query),
        }
    }

    /// Reads the id in the path.
    pub(crate) fn id<T: FromStr<Err = BadValue>>(&self) -> Result<T, ApiError> {
        let decoded = percent_encoding::percent_decode_str(&self.parameter).decode_utf8_lossy();
        decoded.parse().map_err(|bad: BadValue| {
            ApiError::new(ProblemCode::MalformedId, format!("the id {bad}"))
        })
    }

    /// Returns a header that may stand once and holds visible text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    }

    /// Returns a cookie.
    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        self.headers
            .get_all(http::header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .find_map(|(found, value)| (found == name).then_some(value))
    }
}

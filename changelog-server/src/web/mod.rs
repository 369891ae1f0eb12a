//! What the API and the dashboard share between the socket and the store: the
//! choice of a handler, the request as it sees it, sessions, and how it answers
//! or fails.

pub(crate) mod blocking_pool;
pub(crate) mod body;
pub(crate) mod client_limit;
pub(crate) mod error;
mod query;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod route;
pub(crate) mod session;

pub(crate) use error::ApiError;
pub(crate) use request::Request;

/// What a handler returns.
pub(crate) type ApiResult = Result<warp::reply::Response, ApiError>;

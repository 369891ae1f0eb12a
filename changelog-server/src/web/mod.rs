//! HTTP building blocks below the API and the dashboard: routing, the request
//! that handlers receive, browser sessions, replies and errors.

pub(crate) mod body;
pub(crate) mod compression;
pub(crate) mod cross_site;
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

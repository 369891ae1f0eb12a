//! The HTTP API. This page lists every endpoint; a request comes in through
//! [`route`], and each handler reads top to bottom: caller, body, store, reply.

mod activity;
mod body;
mod caller;
mod changes;
pub(crate) mod error;
mod health;
mod hosts;
mod idempotency;
pub(crate) mod key_use;
mod openapi;
pub(crate) mod query;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod route;
mod services;

use warp::path;

use crate::app::App;
use route::{Routes, at, at_id};

pub(crate) use error::ApiError;
pub use openapi::document;
pub(crate) use request::Request;

/// What a handler returns.
pub(crate) type ApiResult = Result<warp::reply::Response, ApiError>;

/// Every endpoint of the API.
pub(crate) fn routes(app: &App) -> Routes {
    vec![
        at(path!("api" / "health")).get(health::get).filter(app),
        at(path!("api" / "openapi.json"))
            .get(openapi::get)
            .filter(app),
        at(path!("api" / "changes"))
            .get(changes::list)
            .post(changes::create)
            .filter(app),
        at_id(path!("api" / "changes" / String))
            .get(changes::get)
            .patch(changes::update)
            .filter(app),
        at(path!("api" / "hosts"))
            .get(hosts::list)
            .post(hosts::create)
            .filter(app),
        at_id(path!("api" / "hosts" / String))
            .get(hosts::get)
            .patch(hosts::update)
            .filter(app),
        at(path!("api" / "services"))
            .get(services::list)
            .post(services::create)
            .filter(app),
        at_id(path!("api" / "services" / String))
            .get(services::get)
            .patch(services::update)
            .filter(app),
        at(path!("api" / "activity"))
            .get(activity::list)
            .filter(app),
        at(path!("api" / "activity" / "actors"))
            .get(activity::actors)
            .filter(app),
    ]
}

/// The metadata of an update in the activity log.
fn changed(
    changes: serde_json::Map<String, serde_json::Value>,
) -> serde_json::Map<String, serde_json::Value> {
    [("changes".to_owned(), changes.into())]
        .into_iter()
        .collect()
}

//! The HTTP API. This page lists every endpoint; a request comes in through
//! [`crate::web`], and each handler reads top to bottom: body, store, reply.
//!
//! What a key needs is written around its handler: [`read`], [`record`] and [`admin`] are
//! scopes, [`any_key`] is no scope, and the tools of [`mcp`] have theirs next to them. A handler that takes a caller cannot be listed without
//! one of them.

mod activity;
mod annotations;
mod around;
mod caller;
mod catalog;
mod changes;
mod health;
mod history;
mod hosts;
mod idempotency;
mod incidents;
mod ingest;
mod key;
mod list_filter;
mod mcp;
mod openapi;
mod pipeline_token;
mod services;
mod slack_command;
mod stream;

use self::caller::{admin, any_bearer, any_key, read, record};
use crate::app::App;
use crate::web::route::{Routes, at, at_id, at_ids, path};

pub use openapi::document;

/// Every endpoint of the API.
pub(crate) fn routes(app: &App) -> Routes {
    vec![
        at(path!("api" / "health")).get(health::get).filter(app),
        at(path!("livez")).get(health::livez).filter(app),
        at(path!("readyz")).get(health::readyz).filter(app),
        at(path!("api" / "openapi.json"))
            .get(openapi::get)
            .filter(app),
        at(path!("api" / "changes"))
            .get(read(changes::list))
            .post(record(changes::create))
            .filter(app),
        at(path!("api" / "changes" / "bulk"))
            .post(record(changes::create_many))
            .filter(app),
        at(path!("api" / "changes" / "stream"))
            .get(read(stream::watch))
            .filter(app),
        at(path!("api" / "changes" / "upcoming"))
            .get(read(changes::upcoming))
            .filter(app),
        at(path!("api" / "changes" / "annotations"))
            .get(read(annotations::get))
            .filter(app),
        at(path!("api" / "changes" / "around"))
            .get(read(around::get))
            .filter(app),
        at_id(path!("api" / "changes" / String))
            .get(read(changes::get))
            .patch(record(changes::update))
            .filter(app),
        at_id(path!("api" / "changes" / String / "history"))
            .get(read(history::get))
            .filter(app),
        at(path!("api" / "hosts"))
            .get(read(hosts::list))
            .post(admin(hosts::create))
            .filter(app),
        at_id(path!("api" / "hosts" / String))
            .get(read(hosts::get))
            .patch(admin(hosts::update))
            .filter(app),
        at(path!("api" / "services"))
            .get(read(services::list))
            .post(admin(services::create))
            .filter(app),
        at_id(path!("api" / "services" / String))
            .get(read(services::get))
            .patch(admin(services::update))
            .filter(app),
        at(path!("api" / "incidents"))
            .get(read(incidents::list))
            .post(record(incidents::create))
            .filter(app),
        at_id(path!("api" / "incidents" / String))
            .get(read(incidents::get))
            .patch(record(incidents::update))
            .filter(app),
        at_id(path!("api" / "incidents" / String / "cause"))
            .put(record(incidents::mark_cause))
            .filter(app),
        at(path!("mcp")).post(any_bearer(mcp::post)).filter(app),
        at(path!("api" / "key")).get(any_key(key::get)).filter(app),
        at_ids(path!("api" / "ingest" / String / String))
            .post(ingest::receive)
            .options(ingest::allow)
            .filter(app),
        at(path!("api" / "activity"))
            .get(activity::list)
            .filter(app),
        at(path!("api" / "activity" / "actors"))
            .get(activity::actors)
            .filter(app),
    ]
}

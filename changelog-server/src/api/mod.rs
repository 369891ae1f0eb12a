//! The HTTP API. This page lists every endpoint; a request comes in through
//! [`crate::web`], and each handler reads top to bottom: caller, body, store, reply.

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
mod ingest;
mod key;
mod list_filter;
mod openapi;
mod services;
mod stream;

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
            .get(changes::list)
            .post(changes::create)
            .filter(app),
        at(path!("api" / "changes" / "bulk"))
            .post(changes::create_many)
            .filter(app),
        at(path!("api" / "changes" / "stream"))
            .get(stream::watch)
            .filter(app),
        at(path!("api" / "changes" / "upcoming"))
            .get(changes::upcoming)
            .filter(app),
        at(path!("api" / "changes" / "annotations"))
            .get(annotations::get)
            .filter(app),
        at(path!("api" / "changes" / "around"))
            .get(around::get)
            .filter(app),
        at_id(path!("api" / "changes" / String))
            .get(changes::get)
            .patch(changes::update)
            .filter(app),
        at_id(path!("api" / "changes" / String / "history"))
            .get(history::get)
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
        at(path!("api" / "key")).get(key::get).filter(app),
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

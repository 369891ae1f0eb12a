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
use crate::web::route::{Endpoint, at};

pub use openapi::document;

/// Every endpoint of the API.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    vec![
        at("/api/health").get(health::get),
        at("/livez").get(health::livez),
        at("/readyz").get(health::readyz),
        at("/api/openapi.json").get(openapi::get),
        at("/api/changes")
            .get(read(changes::list))
            .post(record(changes::create)),
        at("/api/changes/bulk").post(record(changes::create_many)),
        at("/api/changes/stream").get(read(stream::watch)),
        at("/api/changes/upcoming").get(read(changes::upcoming)),
        at("/api/changes/annotations").get(read(annotations::get)),
        at("/api/changes/around").get(read(around::get)),
        at("/api/changes/:id")
            .get(read(changes::get))
            .patch(record(changes::update)),
        at("/api/changes/:id/history").get(read(history::get)),
        at("/api/hosts")
            .get(read(hosts::list))
            .post(admin(hosts::create)),
        at("/api/hosts/:id")
            .get(read(hosts::get))
            .patch(admin(hosts::update)),
        at("/api/services")
            .get(read(services::list))
            .post(admin(services::create)),
        at("/api/services/:id")
            .get(read(services::get))
            .patch(admin(services::update)),
        at("/api/incidents")
            .get(read(incidents::list))
            .post(record(incidents::create)),
        at("/api/incidents/:id")
            .get(read(incidents::get))
            .patch(record(incidents::update)),
        at("/api/incidents/:id/cause").put(record(incidents::mark_cause)),
        at("/mcp").post(any_bearer(mcp::post)),
        at("/api/key").get(any_key(key::get)),
        at("/api/ingest/:kind/:token")
            .post(ingest::receive)
            .options(ingest::allow),
        at("/api/activity").get(activity::list),
        at("/api/activity/actors").get(activity::actors),
    ]
}

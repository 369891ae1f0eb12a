//! The dashboard. [`routes`] lists every page. A handler reads from top to bottom:
//! viewer, form, store, page. Everything works without scripts; `assets/js/` adds
//! conveniences.

mod account;
mod activity;
mod around;
mod auth;
mod catalog;
mod changes;
mod events;
mod feed;
mod hosts;
mod incidents;
mod invitations;
mod names;
mod notifications;
mod overview;
mod parts;
mod reference;
mod services;
mod settings;
mod setup;
mod sso;
mod subscriptions;
mod upcoming;
mod views;

use std::sync::Arc;

use changelog_core::{Host, Service};

use crate::web::route::{Endpoint, at};
use parts::assets;
use settings::{
    api_keys, export, integrations, members, organization, sign_in, sources, workloads,
};

pub(crate) use parts::page::failure;

/// The endpoint of every page. The reference of the API is made from its OpenAPI document.
#[expect(clippy::too_many_lines, reason = "a list")]
pub(crate) fn endpoints(document: fn() -> &'static str) -> Vec<Endpoint> {
    let reference = reference::Pages::new(document);
    let docs = Arc::clone(&reference);
    let pages: Vec<Endpoint> = vec![
        at("/").get(overview::get),
        at("/around").get(around::get),
        at("/upcoming").get(upcoming::get),
        at("/changes")
            .get(changes::list::get)
            .post(changes::edit::create),
        at("/changes.csv").get(changes::download::as_csv),
        at("/changes.ndjson").get(changes::download::as_ndjson),
        at("/changes/new").get(changes::edit::new_form),
        at("/changes/:id")
            .get(changes::detail::get)
            .post(changes::edit::update),
        at("/changes/:id/edit").get(changes::edit::edit_form),
        at("/changes/:id/delete").post(changes::delete::delete),
        at("/incidents")
            .get(incidents::list)
            .post(incidents::create),
        at("/incidents/new").get(incidents::new_form),
        at("/incidents/:id")
            .get(incidents::get)
            .post(incidents::update),
        at("/incidents/:id/edit").get(incidents::edit_form),
        at("/incidents/:id/cause").post(incidents::mark_cause),
        at("/services")
            .get(catalog::list::get::<Service>)
            .post(catalog::edit::create::<Service>),
        at("/services/new").get(catalog::edit::new_form::<Service>),
        at("/services/:id")
            .get(catalog::item::get::<Service>)
            .post(catalog::edit::update::<Service>),
        at("/services/:id/edit").get(catalog::edit::edit_form::<Service>),
        at("/services/:id/subscription").post(subscriptions::set),
        at("/services/:id/subscription/stop").post(subscriptions::stop),
        at("/hosts")
            .get(catalog::list::get::<Host>)
            .post(catalog::edit::create::<Host>),
        at("/hosts/new").get(catalog::edit::new_form::<Host>),
        at("/hosts/:id")
            .get(catalog::item::get::<Host>)
            .post(catalog::edit::update::<Host>),
        at("/hosts/:id/edit").get(catalog::edit::edit_form::<Host>),
        at("/names/:kind").get(names::get),
        at("/views").get(views::list).post(views::create),
        at("/views/:id").post(views::rename),
        at("/views/:id/delete").post(views::delete),
        at("/activity").get(activity::list::get),
        at("/activity.csv").get(activity::download::as_csv),
        at("/activity.ndjson").get(activity::download::as_ndjson),
        at("/events").get(events::get),
        at("/settings").get(settings::redirect_to_first_tab),
        at("/settings/api-keys")
            .get(api_keys::list)
            .post(api_keys::create),
        at("/settings/api-keys/:id/revoke").post(api_keys::revoke),
        at("/settings/workloads")
            .get(workloads::list)
            .post(workloads::create),
        at("/settings/workloads/:id").post(workloads::update),
        at("/settings/workloads/:id/edit").get(workloads::edit_form),
        at("/settings/workloads/:id/delete").post(workloads::delete),
        at("/settings/members").get(members::list),
        at("/settings/members/invite").post(members::invite),
        at("/settings/members/invitations/:id/withdraw").post(members::withdraw),
        at("/settings/members/:id/role").post(members::set_role),
        at("/settings/members/:id/remove").post(members::remove),
        at("/settings/members/:id/end-sessions").post(members::end_sessions),
        at("/settings/members/:id/erase").post(members::erase),
        at("/settings/sign-in")
            .get(sign_in::get)
            .post(sign_in::save),
        at("/settings/sign-in/remove").post(sign_in::remove),
        at("/settings/sign-in/seen").post(sign_in::mark_seen),
        at("/settings/organization")
            .get(organization::get)
            .post(organization::rename),
        at("/settings/organization/retention").post(organization::set_retention),
        at("/settings/organization/export").post(export::export),
        at("/settings/integrations")
            .get(integrations::list)
            .post(integrations::create),
        at("/settings/integrations/new").get(integrations::new_form),
        at("/settings/integrations/:id")
            .get(integrations::get)
            .post(integrations::update),
        at("/settings/integrations/:id/test").post(integrations::test),
        at("/settings/integrations/:id/rotate").post(integrations::rotate),
        at("/settings/integrations/:id/enable").post(integrations::enable),
        at("/settings/integrations/:id/disable").post(integrations::disable),
        at("/settings/integrations/:id/delete").post(integrations::delete),
        at("/settings/integrations/:id/replay").post(integrations::replay),
        at("/settings/integrations/:id/replay-dead").post(integrations::replay_dead),
        at("/settings/sources")
            .get(sources::list)
            .post(sources::create),
        at("/settings/sources/new").get(sources::new_form),
        at("/settings/sources/:id")
            .get(sources::get)
            .post(sources::update),
        at("/settings/sources/:id/preview").post(sources::preview),
        at("/settings/sources/:id/renew").post(sources::renew),
        at("/settings/sources/:id/enable").post(sources::enable),
        at("/settings/sources/:id/disable").post(sources::disable),
        at("/settings/sources/:id/dismiss").post(sources::dismiss),
        at("/settings/sources/:id/delete").post(sources::delete),
        at("/settings/sources/:id/replay").post(sources::replay),
        at("/settings/sources/:id/replay-set-aside").post(sources::replay_set_aside),
        at("/settings/sources/:id/events/:event").get(sources::request),
        at("/.well-known/changelog-webhook-keys/:id").get(integrations::public_key),
        at("/account").get(account::get).post(account::rename),
        at("/account/password").post(account::change_password),
        at("/account/end-other-sessions").post(account::end_other_sessions),
        at("/account/feed").post(account::create_feed),
        at("/account/feed/revoke").post(feed::revoke),
        at("/notifications").get(notifications::list),
        at("/notifications/read").post(notifications::mark_all),
        at("/notifications/:id/read").post(notifications::mark_one),
        at("/unsubscribe/:token")
            .get(subscriptions::unsubscribe_form)
            .post(subscriptions::unsubscribe),
        at("/feeds/changes.atom").get(feed::get),
        at("/organization").post(auth::switch_organization),
        at("/sign-in").get(auth::sign_in_form).post(auth::sign_in),
        at("/sign-out").post(auth::sign_out),
        at("/sso/callback").get(sso::callback),
        at("/sso/callback/:id").get(sso::callback),
        at("/sso/confirm").post(sso::confirm),
        at("/sso/backchannel-logout/:id").post(sso::backchannel_logout),
        at("/sso/:id").get(sso::start),
        at("/setup").get(setup::setup_form).post(setup::set_up),
        at("/invitations/:token")
            .get(invitations::invitation)
            .post(invitations::accept),
        at("/assets/:name").get(assets::get),
        at("/api/docs").get(move |app, request| Arc::clone(&docs).docs(app, request)),
        at("/problems/:code").get(move |app, request| Arc::clone(&reference).problem(app, request)),
    ];
    let pages = pages.into_iter();
    pages.map(|page| page.failing_with(failure)).collect()
}

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

use crate::app::App;
use crate::web::route::{Endpoint, Routes, at, at_id, at_ids, path};
use parts::assets;
use settings::{
    api_keys, export, integrations, members, organization, sign_in, sources, workloads,
};

pub(crate) use parts::page::failure;

/// Every page. The reference of the API is made from its OpenAPI document.
#[expect(clippy::too_many_lines, reason = "a list")]
pub(crate) fn routes(app: &App, document: fn() -> &'static str) -> Routes {
    let reference = reference::Pages::new(document);
    let docs = Arc::clone(&reference);
    let pages: Vec<Endpoint> = vec![
        at(path!()).get(overview::get),
        at(path!("around")).get(around::get),
        at(path!("upcoming")).get(upcoming::get),
        at(path!("changes"))
            .get(changes::list::get)
            .post(changes::edit::create),
        at(path!("changes.csv")).get(changes::download::as_csv),
        at(path!("changes.ndjson")).get(changes::download::as_ndjson),
        at(path!("changes" / "new")).get(changes::edit::new_form),
        at_id(path!("changes" / String))
            .get(changes::detail::get)
            .post(changes::edit::update),
        at_id(path!("changes" / String / "edit")).get(changes::edit::edit_form),
        at_id(path!("changes" / String / "delete")).post(changes::delete::delete),
        at(path!("incidents"))
            .get(incidents::list)
            .post(incidents::create),
        at(path!("incidents" / "new")).get(incidents::new_form),
        at_id(path!("incidents" / String))
            .get(incidents::get)
            .post(incidents::update),
        at_id(path!("incidents" / String / "edit")).get(incidents::edit_form),
        at_id(path!("incidents" / String / "cause")).post(incidents::mark_cause),
        at(path!("services"))
            .get(catalog::list::get::<Service>)
            .post(catalog::edit::create::<Service>),
        at(path!("services" / "new")).get(catalog::edit::new_form::<Service>),
        at_id(path!("services" / String))
            .get(catalog::item::get::<Service>)
            .post(catalog::edit::update::<Service>),
        at_id(path!("services" / String / "edit")).get(catalog::edit::edit_form::<Service>),
        at_id(path!("services" / String / "subscription")).post(subscriptions::set),
        at_id(path!("services" / String / "subscription" / "stop")).post(subscriptions::stop),
        at(path!("hosts"))
            .get(catalog::list::get::<Host>)
            .post(catalog::edit::create::<Host>),
        at(path!("hosts" / "new")).get(catalog::edit::new_form::<Host>),
        at_id(path!("hosts" / String))
            .get(catalog::item::get::<Host>)
            .post(catalog::edit::update::<Host>),
        at_id(path!("hosts" / String / "edit")).get(catalog::edit::edit_form::<Host>),
        at_id(path!("names" / String)).get(names::get),
        at(path!("views")).get(views::list).post(views::create),
        at_id(path!("views" / String)).post(views::rename),
        at_id(path!("views" / String / "delete")).post(views::delete),
        at(path!("activity")).get(activity::list::get),
        at(path!("activity.csv")).get(activity::download::as_csv),
        at(path!("activity.ndjson")).get(activity::download::as_ndjson),
        at(path!("events")).get(events::get),
        at(path!("settings")).get(settings::redirect_to_first_tab),
        at(path!("settings" / "api-keys"))
            .get(api_keys::list)
            .post(api_keys::create),
        at_id(path!("settings" / "api-keys" / String / "revoke")).post(api_keys::revoke),
        at(path!("settings" / "workloads"))
            .get(workloads::list)
            .post(workloads::create),
        at_id(path!("settings" / "workloads" / String)).post(workloads::update),
        at_id(path!("settings" / "workloads" / String / "edit")).get(workloads::edit_form),
        at_id(path!("settings" / "workloads" / String / "delete")).post(workloads::delete),
        at(path!("settings" / "members")).get(members::list),
        at(path!("settings" / "members" / "invite")).post(members::invite),
        at_id(path!(
            "settings" / "members" / "invitations" / String / "withdraw"
        ))
        .post(members::withdraw),
        at_id(path!("settings" / "members" / String / "role")).post(members::set_role),
        at_id(path!("settings" / "members" / String / "remove")).post(members::remove),
        at_id(path!("settings" / "members" / String / "end-sessions")).post(members::end_sessions),
        at_id(path!("settings" / "members" / String / "erase")).post(members::erase),
        at(path!("settings" / "sign-in"))
            .get(sign_in::get)
            .post(sign_in::save),
        at(path!("settings" / "sign-in" / "remove")).post(sign_in::remove),
        at(path!("settings" / "sign-in" / "seen")).post(sign_in::mark_seen),
        at(path!("settings" / "organization"))
            .get(organization::get)
            .post(organization::rename),
        at(path!("settings" / "organization" / "retention")).post(organization::set_retention),
        at(path!("settings" / "organization" / "export")).post(export::export),
        at(path!("settings" / "integrations"))
            .get(integrations::list)
            .post(integrations::create),
        at(path!("settings" / "integrations" / "new")).get(integrations::new_form),
        at_id(path!("settings" / "integrations" / String))
            .get(integrations::get)
            .post(integrations::update),
        at_id(path!("settings" / "integrations" / String / "test")).post(integrations::test),
        at_id(path!("settings" / "integrations" / String / "rotate")).post(integrations::rotate),
        at_id(path!("settings" / "integrations" / String / "enable")).post(integrations::enable),
        at_id(path!("settings" / "integrations" / String / "disable")).post(integrations::disable),
        at_id(path!("settings" / "integrations" / String / "delete")).post(integrations::delete),
        at_id(path!("settings" / "integrations" / String / "replay")).post(integrations::replay),
        at_id(path!("settings" / "integrations" / String / "replay-dead"))
            .post(integrations::replay_dead),
        at(path!("settings" / "sources"))
            .get(sources::list)
            .post(sources::create),
        at(path!("settings" / "sources" / "new")).get(sources::new_form),
        at_id(path!("settings" / "sources" / String))
            .get(sources::get)
            .post(sources::update),
        at_id(path!("settings" / "sources" / String / "preview")).post(sources::preview),
        at_id(path!("settings" / "sources" / String / "renew")).post(sources::renew),
        at_id(path!("settings" / "sources" / String / "enable")).post(sources::enable),
        at_id(path!("settings" / "sources" / String / "disable")).post(sources::disable),
        at_id(path!("settings" / "sources" / String / "dismiss")).post(sources::dismiss),
        at_id(path!("settings" / "sources" / String / "delete")).post(sources::delete),
        at_id(path!("settings" / "sources" / String / "replay")).post(sources::replay),
        at_id(path!("settings" / "sources" / String / "replay-set-aside"))
            .post(sources::replay_set_aside),
        at_ids(path!("settings" / "sources" / String / "events" / String)).get(sources::request),
        at_id(path!(".well-known" / "changelog-webhook-keys" / String))
            .get(integrations::public_key),
        at(path!("account")).get(account::get).post(account::rename),
        at(path!("account" / "password")).post(account::change_password),
        at(path!("account" / "end-other-sessions")).post(account::end_other_sessions),
        at(path!("account" / "feed")).post(account::create_feed),
        at(path!("account" / "feed" / "revoke")).post(feed::revoke),
        at(path!("notifications")).get(notifications::list),
        at(path!("notifications" / "read")).post(notifications::mark_all),
        at_id(path!("notifications" / String / "read")).post(notifications::mark_one),
        at_id(path!("unsubscribe" / String))
            .get(subscriptions::unsubscribe_form)
            .post(subscriptions::unsubscribe),
        at(path!("feeds" / "changes.atom")).get(feed::get),
        at(path!("organization")).post(auth::switch_organization),
        at(path!("sign-in"))
            .get(auth::sign_in_form)
            .post(auth::sign_in),
        at(path!("sign-out")).post(auth::sign_out),
        at(path!("sso" / "callback")).get(sso::callback),
        at_id(path!("sso" / "callback" / String)).get(sso::callback),
        at(path!("sso" / "confirm")).post(sso::confirm),
        at_id(path!("sso" / "backchannel-logout" / String)).post(sso::backchannel_logout),
        at_id(path!("sso" / String)).get(sso::start),
        at(path!("setup"))
            .get(setup::setup_form)
            .post(setup::set_up),
        at_id(path!("invitations" / String))
            .get(invitations::invitation)
            .post(invitations::accept),
        at_id(path!("assets" / String)).get(assets::get),
        at(path!("api" / "docs")).get(move |app, request| Arc::clone(&docs).docs(app, request)),
        at_id(path!("problems" / String))
            .get(move |app, request| Arc::clone(&reference).problem(app, request)),
    ];
    let filter = |page: Endpoint| page.failing_with(failure).filter(app);
    pages.into_iter().map(filter).collect()
}

//! The check of what the key may record, for a change without flags.

use changelog_client::Client;
use changelog_core::{Host, KeyInfo, Permissions, Service};

use super::report::Report;
use crate::environment::app::App;
use crate::environment::context::Context;
use crate::input::names::{self, Missing};

/// Checks that a key which may record only some changes may record one that has the service,
/// the host and the environment of the settings and of this run.
pub(super) async fn check(app: &App, client: &Client, key: KeyInfo, report: &mut Report) {
    let services = key.services;
    let permissions = Permissions {
        scopes: key.scopes,
        environments: key.environments,
        service_ids: services.iter().map(|service| service.id).collect(),
    };
    if !permissions.has_bounds() {
        return;
    }
    let defaults = &app.config.defaults;
    let mut service = None;
    if let Some(name) = names::non_empty(defaults.service.as_deref()) {
        match names::resolve::<Service>(client, name, Missing::Refuse).await {
            Ok(id) => service = id,
            // It does not exist, which another check says.
            Err(_) => return,
        }
    }
    let mut environment = Context::gather().environment;
    if environment.is_none()
        && let Some(name) = names::non_empty(defaults.host.as_deref())
    {
        let Ok(Some(id)) = names::resolve::<Host>(client, name, Missing::Refuse).await else {
            return;
        };
        let host = client.hosts().get(id).await.ok();
        environment = host.and_then(|host| host.environment);
    }
    if let Err(why) = permissions.check_bounds(environment.as_ref(), service.as_slice()) {
        // People know services by their names.
        let why = services.iter().fold(why, |why, service| {
            why.replace(&service.id.to_string(), &service.name)
        });
        report.warn(
            "bounds",
            format!("the key {why}, unless flags set it"),
            "record with --service and --environment, or set `service` in the settings",
        );
    }
}

//! Making and changing connections from input, for the dashboard and for commands.

use changelog_core::{
    ConnectionId, ConnectionKind, ConnectionPatch, EventFilter, NewConnection, ReceiverInput,
    Timestamp,
};
use chrono::TimeDelta;
use url::Url;

use super::http::ReceiverClient;
use super::senders::webhook;
use super::target::{SigningSecret, Target};
use super::{open_target, seal_target};
use crate::secrets::{Secrets, SecretsError};
use crate::store::{Connection, Tenant};

/// How long the former signing secret is valid after a rotation.
const ROTATION: TimeDelta = TimeDelta::days(1);

/// A connection that is about to be stored, with its secret for the only time.
pub(crate) struct Prepared {
    pub(crate) connection: Connection,
    /// The secret that a webhook's receiver checks signatures with.
    pub(crate) signing_secret: Option<String>,
}

/// Checks that requests may connect to the address in the input; each request checks again.
/// Returns a warning if the address cannot be checked now.
pub(crate) async fn check_address(
    http: &ReceiverClient,
    input: &ReceiverInput,
) -> Result<Option<String>, Refusal> {
    let url = input.url.as_deref().filter(|url| !url.is_empty());
    let Some(url) = url else {
        return Ok(None);
    };
    match http.refusal(url).await {
        Ok(None) => Ok(None),
        Ok(Some(reason)) => Err(Refusal(reason)),
        Err(error) => Ok(Some(error.to_string())),
    }
}

/// Why the address of a receiver is refused, for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{0}, where receivers must not be; the operator can allow networks by --allow-receivers")]
pub(crate) struct Refusal(String);

/// Makes a connection from input.
pub(crate) fn prepare(
    secrets: &Secrets,
    tenant: Tenant,
    id: ConnectionId,
    mut new: NewConnection,
    created_by: &str,
    now: Timestamp,
) -> Result<Prepared, SecretsError> {
    let mut target = Target::default();
    update(&mut target, new.receiver);
    choose_kinds(&new.kind, &target, &mut new.filter);
    let signing_secret = (new.kind == ConnectionKind::Webhook).then(|| {
        target.ed25519_seed = Some(webhook::new_ed25519_seed());
        add_signing_secret(&mut target, now)
    });
    let connection = Connection {
        id,
        name: new.name,
        address: address(&new.kind, &target),
        target: seal_target(secrets, tenant, id, &target)?,
        kind: new.kind,
        filter: new.filter,
        created_at: now,
        created_by: created_by.to_owned(),
        disabled: None,
        failing_since: None,
        hold_until: None,
    };
    Ok(Prepared {
        connection,
        signing_secret,
    })
}

/// Returns a connection as it is after a change.
pub(crate) fn patched(
    secrets: &Secrets,
    tenant: Tenant,
    connection: &Connection,
    patch: ConnectionPatch,
) -> Result<Connection, SecretsError> {
    let mut target = open_target(secrets, tenant, connection)?;
    let before = target.clone();
    update(&mut target, patch.receiver);
    let mut after = Connection {
        name: patch.name,
        filter: patch.filter,
        ..connection.clone()
    };
    choose_kinds(&connection.kind, &target, &mut after.filter);
    if target != before {
        after.address = address(&connection.kind, &target);
        after.target = seal_target(secrets, tenant, connection.id, &target)?;
    }
    Ok(after)
}

/// Returns a webhook with a new signing secret, and the secret. The former one is valid
/// for a day.
pub(crate) fn rotated(
    secrets: &Secrets,
    tenant: Tenant,
    connection: &Connection,
    now: Timestamp,
) -> Result<Prepared, SecretsError> {
    let mut target = open_target(secrets, tenant, connection)?;
    let secret = add_signing_secret(&mut target, now);
    let target = seal_target(secrets, tenant, connection.id, &target)?;
    Ok(Prepared {
        connection: Connection {
            target,
            ..connection.clone()
        },
        signing_secret: Some(secret),
    })
}

/// Sets the kinds of events that follow from what the connection can send.
fn choose_kinds(kind: &ConnectionKind, target: &Target, filter: &mut EventFilter) {
    if *kind == ConnectionKind::PagerDuty {
        filter.set_kinds_of_pagerduty(target.api_token.is_some());
    }
}

/// Makes a new secret the first one.
fn add_signing_secret(target: &mut Target, now: Timestamp) -> String {
    let secret = webhook::new_signing_secret();
    let until = now.plus(ROTATION);
    let former = target.signing_secrets.drain(..);
    let valid = former.filter(|one| one.valid_until.is_none_or(|end| end > now));
    let mut all = vec![SigningSecret {
        secret: secret.clone(),
        valid_until: None,
    }];
    all.extend(valid.map(|one| SigningSecret {
        valid_until: Some(one.valid_until.map_or(until, |end| end.min(until))),
        ..one
    }));
    target.signing_secrets = all;
    secret
}

/// Replaces what is given.
fn update(target: &mut Target, input: ReceiverInput) {
    if let Some(url) = input.url {
        target.url = url;
    }
    let replace = |old: &mut Option<String>, new: Option<String>| {
        if new.is_some() {
            *old = new.filter(|text| !text.is_empty());
        }
    };
    replace(&mut target.token, input.token);
    replace(&mut target.channel, input.channel);
    replace(&mut target.dashboard_uid, input.dashboard_uid);
    replace(&mut target.grafana_namespace, input.grafana_namespace);
    replace(&mut target.api_token, input.api_token);
    replace(&mut target.from, input.from);
    if let Some(id) = input.panel_id {
        target.panel_id = id.parse().ok();
    }
}

/// Returns what may be shown of a target: the paths of webhooks are secrets.
fn address(kind: &ConnectionKind, target: &Target) -> String {
    if let (ConnectionKind::Slack, Some(_), Some(channel)) = (kind, &target.token, &target.channel)
    {
        return format!("channel {channel}");
    }
    match Url::parse(&target.url) {
        Ok(url) if *kind == ConnectionKind::Grafana => url.to_string(),
        Ok(url) if url.path() == "/" && url.query().is_none() => url.to_string(),
        Ok(url) => format!("{}/…", url.origin().ascii_serialization()),
        Err(_) => "its usual address".to_owned(),
    }
}

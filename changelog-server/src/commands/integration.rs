//! `changelog-server integration`

use changelog_core::{
    ConnectionId, ConnectionKind, EventFilter, Input, Invalid, NewConnection, ReceiverInput,
};
use serde::Serialize;
use serde_json::json;

use super::key::service_ids;
use super::table::table;
use super::{Failure, key_file, note, now, open, organization, print, print_json, secret};
use crate::config::{AllowedReceivers, Common, CreateIntegration, Integration, SecretsFile};
use crate::integrations::http::ReceiverClient;
use crate::integrations::trial::Trial;
use crate::integrations::{open_target, setup};
use crate::secrets::Secrets;
use crate::store::{
    Actor, Connection, Delivery, DeliveryId, DeliveryState, MAX_CONNECTIONS, Store, StoreError,
    Tenant, new_id,
};

/// A new connection, as JSON.
#[derive(Serialize)]
struct Created<'c> {
    id: ConnectionId,
    name: &'c str,
    kind: &'c ConnectionKind,
    secret: Option<String>,
}

pub(super) async fn run(common: &Common, command: Integration) -> Result<(), Failure> {
    let store = &open(common).await?;
    match command {
        Integration::Create(args) => create(common, store, *args).await,
        Integration::List { org } => list(common, store, &org).await,
        Integration::Test {
            id,
            secrets,
            receivers,
        } => test(common, store, id, &secrets, receivers).await,
        Integration::Deliveries { id, dead } => deliveries(common, store, id, dead).await,
        Integration::Replay { delivery } => replay(common, store, delivery).await,
        Integration::Enable { id } => {
            let (tenant, connection) = find(store, id).await?;
            let mut tx = store.begin_for(tenant).await?;
            tx.enable_connection(tenant, &Actor::operator(), &connection, now())
                .await?;
            tx.commit().await?;
            done(common, &format!("{:?} is enabled", connection.name))
        }
        Integration::Delete { id } => {
            let (tenant, connection) = find(store, id).await?;
            let mut tx = store.begin_for(tenant).await?;
            tx.delete_connection(tenant, &Actor::operator(), &connection, now())
                .await?;
            tx.commit().await?;
            done(common, &format!("{:?} is deleted", connection.name))
        }
    }
}

async fn create(common: &Common, store: &Store, args: CreateIntegration) -> Result<(), Failure> {
    let (tenant, organization) = organization(common, store, &args.org).await?;
    let mut filter = EventFilter::default_of(&args.kind);
    if args.min_risk.is_some() {
        filter.min_risk = args.min_risk;
    }
    filter.service_ids = service_ids(store, tenant, &organization, args.services).await?;
    let token = args.token_file.as_deref().map(secret::read).transpose()?;
    let api_token = args.api_token_file.as_deref().map(secret::read);
    let new = NewConnection {
        kind: args.kind,
        name: args.name,
        receiver: ReceiverInput {
            url: args.url,
            token,
            channel: args.channel,
            api_token: api_token.transpose()?,
            from: args.from,
            ..ReceiverInput::default()
        },
        filter,
    };
    let http = ReceiverClient::new(args.receivers.networks);
    let warning = setup::check_address(&http, &new.receiver).await;
    let warning = warning.map_err(|refusal| {
        let message = format!(
            "--url: {refusal}: give it to this command and to `serve`, or set \
             CHANGELOG_ALLOW_RECEIVERS for both"
        );
        Failure::Usage(message)
    })?;
    if let Some(warning) = warning {
        note(&format!("warning: --url: {warning}"));
    }
    let secrets = key_file(common, store, tenant, &args.secrets).await?;
    insert(common, store, tenant, &secrets, new).await
}

async fn list(common: &Common, store: &Store, org: &str) -> Result<(), Failure> {
    let (tenant, _) = organization(common, store, org).await?;
    let connections = store.connections(tenant).await?;
    if common.json {
        let all: Vec<_> = connections.iter().map(Connection::to_json).collect();
        return print_json(&all);
    }
    let header = ["ID", "NAME", "KIND", "SENDS TO", "STATE"];
    let rows = connections.iter().map(|one| {
        let state = match (&one.disabled, one.failing_since) {
            (Some(disabled), _) => format!("disabled: {}", disabled.reason),
            (None, Some(since)) => format!("failing since {since}"),
            (None, None) => "enabled".to_owned(),
        };
        vec![
            one.id.to_string(),
            one.name.clone(),
            one.kind.to_string(),
            one.address.clone(),
            state,
        ]
    });
    print(&table(&header, rows))
}

async fn test(
    common: &Common,
    store: &Store,
    id: ConnectionId,
    secrets: &SecretsFile,
    receivers: AllowedReceivers,
) -> Result<(), Failure> {
    let (tenant, connection) = find(store, id).await?;
    let secrets = Secrets::open_existing(&secrets.path(&common.database_url))?;
    let target = open_target(&secrets, tenant, &connection)?;
    let organization = store.organization(tenant).await?;
    let trial = Trial {
        tenant,
        organization: &organization.name,
        connection: &connection,
        target: &target,
        dashboard: "http://localhost",
    };
    let http = ReceiverClient::new(receivers.networks);
    let attempt = trial.send(&http, now()).await;
    let reason = attempt.verdict.reason();
    let duration = attempt.duration.as_millis();
    if common.json {
        print_json(&json!({
            "delivered": reason.is_none(),
            "status": attempt.status,
            "duration_ms": u64::try_from(duration).unwrap_or(u64::MAX),
            "answer": attempt.answer,
            "reason": reason,
        }))?;
    } else {
        if let Some(status) = attempt.status {
            print(&format!("answer {status} after {duration} ms"))?;
        }
        if !attempt.answer.is_empty() {
            print(&attempt.answer)?;
        }
    }
    match reason {
        Some(reason) => Err(Failure::NotDelivered(reason.to_owned())),
        None => Ok(()),
    }
}

async fn deliveries(
    common: &Common,
    store: &Store,
    id: ConnectionId,
    dead: bool,
) -> Result<(), Failure> {
    let (tenant, connection) = find(store, id).await?;
    let deliveries = store.deliveries(tenant, id, None, dead).await?;
    if common.json {
        let all: Vec<_> = deliveries
            .iter()
            .map(|one| delivery_json(connection.id, one))
            .collect();
        return print_json(&all);
    }
    let header = [
        "DELIVERY", "STATE", "ATTEMPTS", "STATUS", "EVENT", "CHANGE", "REASON",
    ];
    let rows = deliveries.iter().map(|one| {
        let event = one.event.as_ref();
        vec![
            delivery_id(id, one).to_string(),
            state(one).to_owned(),
            one.attempts.to_string(),
            one.status
                .map_or(String::new(), |status| status.to_string()),
            event.map_or(String::new(), |event| event.kind().to_string()),
            event.map_or(String::new(), |event| event.title().to_owned()),
            one.reason.clone().unwrap_or_default(),
        ]
    });
    print(&table(&header, rows))
}

async fn replay(common: &Common, store: &Store, delivery: DeliveryId) -> Result<(), Failure> {
    let (tenant, _) = find(store, delivery.connection).await?;
    let mut tx = store.begin_for(tenant).await?;
    tx.replay(tenant, delivery.connection, delivery.sequence, now().into())
        .await
        .map_err(|error| match error {
            StoreError::NotFound => Failure::Usage(format!(
                "there is no delivery {delivery}, or it is being sent"
            )),
            error => error.into(),
        })?;
    tx.commit().await?;
    done(common, "the delivery is queued again")
}

async fn insert(
    common: &Common,
    store: &Store,
    tenant: Tenant,
    secrets: &Secrets,
    new: NewConnection,
) -> Result<(), Failure> {
    let new = new.checked(now().into()).map_err(with_flags)?;
    let id = ConnectionId(new_id(now()));
    let prepared = setup::prepare(secrets, tenant, id, new, "Operator", now().into())?;
    let connection = prepared.connection;
    let inserted = store
        .insert_connection(tenant, &Actor::operator(), &connection, now())
        .await
        .map_err(|error| match error {
            StoreError::Conflict => Failure::Usage(format!(
                "the organization has a connection named {:?} already",
                connection.name
            )),
            error => error.into(),
        })?;
    if !inserted {
        return Err(Failure::Usage(format!(
            "the organization has {MAX_CONNECTIONS} connections, the most that it may have"
        )));
    }
    if common.json {
        return print_json(&Created {
            id,
            name: &connection.name,
            kind: &connection.kind,
            secret: prepared.signing_secret,
        });
    }
    print(&id.to_string())?;
    if let Some(secret) = prepared.signing_secret {
        print(&secret)?;
        note("the second line is the secret of the signatures; it is shown only this once");
    }
    note(&format!("try it: changelog-server integration test {id}"));
    Ok(())
}

/// Names the flags by which fields are given, where they are called otherwise.
fn with_flags(mut invalid: Invalid) -> Invalid {
    for violation in &mut invalid.violations {
        let flag = match violation.pointer.as_str() {
            "/token" => "/--token-file",
            "/api_token" => "/--api-token-file",
            "/url" => "/--url",
            "/channel" => "/--channel",
            "/from" => "/--from",
            _ => continue,
        };
        flag.clone_into(&mut violation.pointer);
    }
    invalid
}

async fn find(store: &Store, id: ConnectionId) -> Result<(Tenant, Connection), Failure> {
    let found = async {
        let tenant = store.organization_of_connection(id).await?;
        Ok((tenant, store.connection(tenant, id).await?))
    };
    found.await.map_err(|error| match error {
        StoreError::NotFound => Failure::Usage(format!(
            "there is no connection with the id {id}; `changelog-server integration list --org \
             ORG` lists the connections"
        )),
        error => error.into(),
    })
}

/// Reports what was done.
fn done(common: &Common, text: &str) -> Result<(), Failure> {
    if common.json {
        return print_json(&json!({ "done": true }));
    }
    print(text)
}

fn delivery_id(connection: ConnectionId, delivery: &Delivery) -> DeliveryId {
    DeliveryId {
        connection,
        sequence: delivery.sequence,
    }
}

fn state(delivery: &Delivery) -> &'static str {
    match delivery.state {
        DeliveryState::Pending if delivery.is_claimed => "being sent",
        state => state.as_str(),
    }
}

fn delivery_json(connection: ConnectionId, delivery: &Delivery) -> serde_json::Value {
    let event = delivery.event.as_ref();
    let is_pending = delivery.state == DeliveryState::Pending;
    json!({
        "id": delivery_id(connection, delivery).to_string(),
        "state": state(delivery),
        "attempts": delivery.attempts,
        "next_attempt_at": is_pending.then_some(delivery.next_at),
        "attempted_at": delivery.attempted_at,
        "duration_ms": delivery.duration_ms,
        "status": delivery.status,
        "answer": delivery.answer,
        "reason": delivery.reason,
        "event": event.map(changelog_core::Event::kind),
        "change_id": event.and_then(|event| Some(event.of_change()?.change.id)),
        "title": event.map(changelog_core::Event::title),
        "queued_at": delivery.created_at,
    })
}

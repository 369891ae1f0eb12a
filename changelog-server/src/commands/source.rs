//! `changelog-server source`

use changelog_core::input::from_object;
use changelog_core::{NewSource, SourceEventId, SourceId};
use serde_json::json;

use super::table::table;
use super::{Failure, key_file, note, now, open, organization, print, print_json, secret};
use crate::config::{Common, CreateSource, SourceCommand};
use crate::ingest::setup;
use crate::store::{Actor, MAX_SOURCES, Source, SourceEvent, Store, StoreError, new_id};

pub(super) async fn run(common: &Common, command: SourceCommand) -> Result<(), Failure> {
    let store = &open(common).await?;
    match command {
        SourceCommand::Create(args) => create(common, store, args).await,
        SourceCommand::List { org } => list(common, store, &org).await,
        SourceCommand::Events { id, limit } => {
            let source = find(store, id).await?;
            events(common, &store.source_events(&source, None, limit).await?)
        }
        SourceCommand::Replay { event } => replay(common, store, event).await,
        SourceCommand::Renew { id } => {
            let source = find(store, id).await?;
            let token = setup::new_token(source.tenant);
            let mut tx = store.begin_for(source.tenant).await?;
            tx.renew_source(&Actor::operator(), &source, &token, now())
                .await?;
            tx.commit().await?;
            made(common, &source, &token)
        }
        SourceCommand::Delete { id } => {
            let source = find(store, id).await?;
            let mut tx = store.begin_for(source.tenant).await?;
            tx.delete_source(&Actor::operator(), &source, now()).await?;
            tx.commit().await?;
            done(common, &format!("{:?} is deleted", source.name))
        }
    }
}

async fn create(common: &Common, store: &Store, args: CreateSource) -> Result<(), Failure> {
    let (tenant, _) = organization(common, store, &args.org).await?;
    let secret = args.secret_file.as_deref().map(secret::read).transpose()?;
    let input = json!({
        "kind": args.kind,
        "name": args.name,
        "secret": secret,
        "service": args.service,
        "environment": args.environment,
        "create_missing": args.create_missing,
    });
    let new: NewSource = from_object(input.as_object().cloned().unwrap_or_default(), now().into())?;
    if changelog_sources::lacks_secret(&new.kind, new.secret.is_some()) {
        return Err(Failure::Usage(format!(
            "a source of the kind {} needs --secret-file, because the sender signs its requests: \
             enter the same secret at the sender",
            new.kind
        )));
    }
    let secrets = key_file(common, store, tenant, &args.secrets).await?;
    let id = SourceId(new_id(now()));
    let source = setup::prepare(&secrets, tenant, id, new, "Operator", now().into())?;
    let token = setup::new_token(tenant);
    let mut tx = store.begin_for(tenant).await?;
    let inserted = tx
        .insert_source(&Actor::operator(), &source, &token, now())
        .await
        .map_err(|error| match error {
            StoreError::Conflict => Failure::Usage(format!(
                "the organization has a source named {:?} already",
                source.name
            )),
            error => error.into(),
        })?;
    if !inserted {
        return Err(Failure::Usage(format!(
            "the organization has {MAX_SOURCES} sources, the most that it may have"
        )));
    }
    tx.commit().await?;
    made(common, &source, &token)
}

/// Prints a source with its address, for the only time.
fn made(common: &Common, source: &Source, token: &str) -> Result<(), Failure> {
    let path = setup::path(&source.kind, token);
    if common.json {
        return print_json(&json!({
            "id": source.id,
            "name": source.name,
            "kind": source.kind,
            "path": path,
        }));
    }
    print(&source.id.to_string())?;
    print(&path)?;
    note("the second line is the path that the sender posts to; it is shown only this once");
    Ok(())
}

async fn list(common: &Common, store: &Store, org: &str) -> Result<(), Failure> {
    let (tenant, _) = organization(common, store, org).await?;
    let sources = store.sources(tenant).await?;
    if common.json {
        let all: Vec<_> = sources.iter().map(Source::to_json).collect();
        return print_json(&all);
    }
    let header = ["ID", "NAME", "KIND", "LAST EVENT", "STATE"];
    let rows = sources.iter().map(|one| {
        let last = one.last_event_at.map(|at| at.to_string());
        let state = if one.disabled_at.is_some() {
            "off"
        } else {
            "on"
        };
        vec![
            one.id.to_string(),
            one.name.clone(),
            one.kind.to_string(),
            last.unwrap_or_else(|| "never".to_owned()),
            state.to_owned(),
        ]
    });
    print(&table(&header, rows))
}

fn events(common: &Common, events: &[SourceEvent]) -> Result<(), Failure> {
    if common.json {
        let all: Vec<_> = events
            .iter()
            .map(|event| {
                json!({
                    "id": event.id,
                    "received_at": event.received_at,
                    "outcome": event.outcome,
                    "reason": event.reason,
                    "change_ids": event.change_ids,
                    "incident_id": event.incident_id,
                })
            })
            .collect();
        return print_json(&all);
    }
    let header = ["EVENT", "RECEIVED", "OUTCOME", "CHANGES", "REASON"];
    let rows = events.iter().map(|event| {
        let mut changes: Vec<String> = event.change_ids.iter().map(ToString::to_string).collect();
        changes.extend(event.incident_id.map(|id| format!("incident {id}")));
        vec![
            event.id.to_string(),
            event.received_at.to_string(),
            event.outcome.clone(),
            changes.join(" "),
            event.reason.clone().unwrap_or_default(),
        ]
    });
    print(&table(&header, rows))
}

async fn replay(common: &Common, store: &Store, event: SourceEventId) -> Result<(), Failure> {
    let replayed = async {
        let tenant = store.organization_of_event(event).await?;
        store.replay_source_event(tenant, event).await
    };
    replayed.await.map_err(|error| match error {
        StoreError::NotFound => Failure::Usage(format!(
            "there is no event {event}; `changelog-server source events ID` lists those of a source"
        )),
        error => error.into(),
    })?;
    done(common, "the event is read again within ten seconds")
}

async fn find(store: &Store, id: SourceId) -> Result<Source, Failure> {
    store.source(id).await.map_err(|error| match error {
        StoreError::NotFound => Failure::Usage(format!(
            "there is no source with the id {id}; `changelog-server source list --org ORG` lists \
             the sources"
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

//! Records what a request tells of: creates the change of an operation that is new, and
//! updates that of a known one by what has become different.

use changelog_core::input::from_object;
use changelog_core::{
    Action, ChangeId, ChangePatch, Host, IncidentId, NewChange, NewService, Service, ServiceId,
    SourceId,
};
use changelog_sources::{
    Call, CallProgress, Observation, ObservedChange, Operation, Reading, State,
};
use serde_json::{Map, Value, json};

use super::alerts::{self, AppliedAlert};
use crate::app::App;
use crate::store::{
    Actor, Draft, Entry, Finding, Source, StoreError, StoredOperation, Tenant, Tx, hash_of,
};

/// The source that a request came to, and who acts for it.
pub(super) struct Origin {
    pub(super) source: Source,
    pub(super) actor: Actor,
}

impl Origin {
    /// Finds the source, if it was not deleted.
    pub(super) async fn find(
        app: &App,
        tenant: Tenant,
        source: SourceId,
    ) -> Result<Option<Self>, StoreError> {
        let source = match app.store.source_of(tenant, source).await {
            Err(StoreError::NotFound) => return Ok(None),
            source => source?,
        };
        let actor = source.actor(app.store.has_receivers(tenant).await?);
        Ok(Some(Self { source, actor }))
    }
}

/// The limit on the reason that is stored, in characters.
const MAX_REASON_CHARS: usize = 500;

/// A request that says nothing about a change.
pub(super) fn ignored(reason: &str) -> Finding {
    finding("ignored", Some(reason), Vec::new())
}

/// A request that cannot be read now.
pub(super) fn set_aside(reason: &str) -> Finding {
    finding("set_aside", Some(reason), Vec::new())
}

/// A request that tells of nothing new.
pub(super) fn duplicate(
    reason: &str,
    change_ids: Vec<ChangeId>,
    incident_id: Option<IncidentId>,
) -> Finding {
    Finding {
        incident_id,
        ..finding("duplicate", Some(reason), change_ids)
    }
}

fn finding(outcome: &'static str, reason: Option<&str>, change_ids: Vec<ChangeId>) -> Finding {
    Finding {
        outcome,
        reason: reason.map(|reason| reason.chars().take(MAX_REASON_CHARS).collect()),
        change_ids,
        incident_id: None,
    }
}

/// What became of one observation.
enum Applied {
    Created(ChangeId),
    Updated(ChangeId),
    /// Nothing new.
    Known(Option<ChangeId>),
    Alert(AppliedAlert),
}

/// Records a reading of a source's request, and returns what became of the request.
pub(super) async fn apply(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    reading: Reading,
) -> Result<Finding, StoreError> {
    let (mut created, mut updated, mut known) = (false, false, false);
    let mut change_ids = Vec::new();
    let mut incident_id = None;
    let mut ignored_reasons = reading.ignored;
    for observation in reading.observations {
        let applied = match observation {
            Observation::State(state) => apply_state(app, tx, origin, *state).await?,
            Observation::Call(call) => apply_call(app, tx, origin, *call).await?,
            Observation::Alert(alert) => {
                Applied::Alert(alerts::apply(app, tx, origin, &alert).await?)
            }
        };
        let id = match applied {
            Applied::Created(id) => {
                created = true;
                Some(id)
            }
            Applied::Updated(id) => {
                updated = true;
                Some(id)
            }
            Applied::Known(id) => {
                known = true;
                id
            }
            Applied::Alert(alert) => {
                match &alert {
                    AppliedAlert::Opened(_) => created = true,
                    AppliedAlert::Updated(_) => updated = true,
                    AppliedAlert::Known(_) => known = true,
                    AppliedAlert::Ignored(reason) => ignored_reasons.push((*reason).to_owned()),
                }
                incident_id = incident_id.or(alert.incident());
                None
            }
        };
        change_ids.extend(id.filter(|id| !change_ids.contains(id)));
    }
    let reasons = ignored_reasons.join("; ");
    let reason = Some(reasons.as_str()).filter(|reasons| !reasons.is_empty());
    let mut finding = match (created, updated, known) {
        (true, ..) => finding("changed", reason, change_ids),
        (false, true, _) => finding("updated", reason, change_ids),
        (false, false, true) => duplicate("it tells nothing that was not known", change_ids, None),
        (false, false, false) => ignored(reason.unwrap_or("it tells of nothing")),
    };
    finding.incident_id = incident_id;
    Ok(finding)
}

async fn apply_state(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    state: State,
) -> Result<Applied, StoreError> {
    let key = hash_of(&state.key);
    match tx.operation(&origin.source, &key).await? {
        None => {
            let operation = Operation::from(state);
            create(app, tx, origin, key, None, operation)
                .await
                .map(Applied::Created)
        }
        Some(mut stored) => {
            let before = stored.operation.clone();
            stored.operation.add_state(state);
            update(app, tx, origin, stored, &before).await
        }
    }
}

async fn apply_call(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    call: Call,
) -> Result<Applied, StoreError> {
    let id = hash_of(&call.id);
    let session = hash_of(&call.session());
    let counted = tx.change_of_call(&origin.source, &id).await?;
    if call.progress == CallProgress::Failed {
        // A failure that was never accepted changed nothing.
        let known = match counted {
            Some(_) => tx.session_at(&origin.source, &session, call.at).await?,
            None => None,
        };
        return match known {
            Some(mut stored) => {
                let before = stored.operation.clone();
                stored.operation.fail_call();
                update(app, tx, origin, stored, &before).await
            }
            None => Ok(Applied::Known(counted)),
        };
    }
    if let Some(change) = counted {
        return Ok(Applied::Known(Some(change)));
    }
    let at = call.at;
    let known = tx.session_at(&origin.source, &session, at).await?;
    let applied = if let Some(mut stored) = known {
        let before = stored.operation.clone();
        stored.operation.add_call(call);
        update(app, tx, origin, stored, &before).await?
    } else {
        let key = hash_of(&format!("{}\n{}", call.session(), at.millis()));
        let operation = Operation::from(call);
        let created = create(app, tx, origin, key, Some(session), operation).await?;
        Applied::Created(created)
    };
    if let Applied::Created(change) | Applied::Updated(change) | Applied::Known(Some(change)) =
        &applied
    {
        tx.add_call(&origin.source, &id, *change, app.now().into())
            .await?;
    }
    Ok(applied)
}

/// Creates the change of an operation, and stores the operation.
async fn create(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    key: Vec<u8>,
    session: Option<Vec<u8>>,
    operation: Operation,
) -> Result<ChangeId, StoreError> {
    let now = app.now();
    let observed = operation.change(&origin.source.kind, &origin.source.settings, now.into());
    let mut new: NewChange = from_object(observed.fields.clone(), now.into())?;
    new.service_ids = services(app, tx, origin, &observed.services).await?;
    if let Some(hostname) = &observed.hostname {
        let host = tx
            .item_named::<Host>(origin.source.tenant, hostname)
            .await?;
        new.host_id = host.map(|host| host.id);
    }
    let draft = Draft::new(origin.source.tenant, &origin.actor, new, now)?;
    let created = tx.create_change(draft).await?;
    let stored = StoredOperation {
        key,
        session,
        change: created.id,
        operation,
    };
    tx.put_operation(&origin.source, &stored, now.into())
        .await?;
    Ok(created.id)
}

/// Updates the change of an operation by what the sender says differently now. What people
/// have changed meanwhile, and the sender says as before, stays.
async fn update(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    stored: StoredOperation,
    before: &Operation,
) -> Result<Applied, StoreError> {
    if stored.operation == *before {
        return Ok(Applied::Known(Some(stored.change)));
    }
    let now = app.now();
    let shown = |operation: &Operation| {
        operation.change(&origin.source.kind, &origin.source.settings, now.into())
    };
    let (was, is) = (shown(before), shown(&stored.operation));
    tx.put_operation(&origin.source, &stored, now.into())
        .await?;
    let mut patch = differences(&was, &is);
    if was.services != is.services {
        let services = services(app, tx, origin, &is.services).await?;
        patch.insert("service_ids".to_owned(), json!(services));
    }
    if patch.is_empty() {
        return Ok(Applied::Known(Some(stored.change)));
    }
    let patch: ChangePatch = from_object(patch, now.into())?;
    let updated = tx
        .update_change(
            origin.source.tenant,
            &origin.actor,
            stored.change,
            &patch,
            &app.clock,
        )
        .await;
    match updated {
        Ok(_) => Ok(Applied::Updated(stored.change)),
        // The change was deleted.
        Err(StoreError::NotFound) => Ok(Applied::Known(None)),
        Err(error) => Err(error),
    }
}

/// Returns the fields of a patch: what is shown differently, and null for what is not shown
/// any more.
fn differences(was: &ObservedChange, is: &ObservedChange) -> Map<String, Value> {
    /// What a change keeps from its creation.
    const KEPT: [&str; 1] = ["occurred_at"];
    let mut patch = Map::new();
    for (name, value) in &is.fields {
        if was.fields.get(name) != Some(value) {
            patch.insert(name.clone(), value.clone());
        }
    }
    for name in was.fields.keys() {
        if !is.fields.contains_key(name) {
            patch.insert(name.clone(), Value::Null);
        }
    }
    patch.retain(|name, _| !KEPT.contains(&name.as_str()));
    patch
}

/// Returns the services of names that exist; the others are created if the source says so.
pub(super) async fn services(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    names: &[String],
) -> Result<Vec<ServiceId>, StoreError> {
    let (tenant, now) = (origin.source.tenant, app.now());
    let mut ids = Vec::new();
    for name in names {
        let id = match tx.item_named::<Service>(tenant, name).await? {
            Some(service) => Some(service.id),
            None if origin.source.settings.create_missing => {
                // A name that core's rules refuse is no service.
                match from_object::<NewService>(named(name), now.into()) {
                    Ok(new) => {
                        let service = tx.insert_item::<Service>(tenant, &new, now).await?;
                        let entry = Entry::of_item(Action::Created, &service, Map::new());
                        tx.record(tenant, &origin.actor, entry, now).await?;
                        Some(service.id)
                    }
                    Err(_) => None,
                }
            }
            None => None,
        };
        ids.extend(id.filter(|id| !ids.contains(id)));
    }
    Ok(ids)
}

fn named(name: &str) -> Map<String, Value> {
    [("name".to_owned(), name.into())].into_iter().collect()
}

/// Ends a session of calls whose pause is over.
pub(super) async fn close(
    app: &App,
    tx: &mut Tx,
    origin: Option<Origin>,
    tenant: Tenant,
    key: &[u8],
) -> Result<(), StoreError> {
    let Some(origin) = origin else {
        return tx.forget_operation(tenant, key).await;
    };
    let Some(mut stored) = tx.operation(&origin.source, key).await? else {
        return Ok(());
    };
    // It may have gone on since it was found.
    let is_over = stored
        .operation
        .closes_at()
        .is_some_and(|at| at < app.now().into());
    if is_over {
        let before = stored.operation.clone();
        stored.operation.close();
        update(app, tx, &origin, stored, &before).await?;
    }
    Ok(())
}

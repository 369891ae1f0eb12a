//! The changes that operations are shown as: creates that of a new one, and updates that of a
//! known one by what has become different.

use changelog_core::input::from_object;
use changelog_core::{
    Action, ChangeId, Host, NewChange, NewService, Service, ServiceId, Timestamp,
};
use changelog_sources::Operation;
use chrono::TimeDelta;
use serde_json::{Map, Value};

use super::apply::{Applied, Origin};
use super::edits::patch_of;
use crate::app::App;
use crate::store::{Draft, Entry, StoreError, StoredOperation, Tx};

/// When the run that may explain an ended session is looked for again the first time.
pub(super) const FIRST_LOOK: TimeDelta = TimeDelta::seconds(10);

/// Creates the change of an operation, and stores the operation.
pub(super) async fn create(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    key: Vec<u8>,
    session: Option<Vec<u8>>,
    operation: Operation,
) -> Result<ChangeId, StoreError> {
    let now = app.now();
    let observed = origin.shown(&operation, now.into());
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
    put(app, tx, origin, &stored).await?;
    Ok(created.id)
}

/// Stores an operation.
pub(super) async fn put(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    stored: &StoredOperation,
) -> Result<(), StoreError> {
    let now: Timestamp = app.now().into();
    let looked_for = || {
        stored
            .operation
            .may_be_of_run()
            .then(|| now.plus(FIRST_LOOK))
    };
    let due_at = stored.operation.closes_at().or_else(looked_for);
    tx.put_operation(&origin.source, stored, due_at, now).await
}

/// Updates the change of an operation by what the sender says differently now. What people
/// have changed meanwhile stays.
pub(super) async fn update(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    stored: StoredOperation,
    before: &Operation,
) -> Result<Applied, StoreError> {
    if stored.operation == *before {
        return Ok(Applied::Known(Some(stored.change)));
    }
    put(app, tx, origin, &stored).await?;
    let now = app.now().into();
    let (was, is) = (
        origin.shown(before, now),
        origin.shown(&stored.operation, now),
    );
    if was == is {
        return Ok(Applied::Known(Some(stored.change)));
    }
    let service_ids = if was.services == is.services {
        None
    } else {
        Some(services(app, tx, origin, &is.services).await?)
    };
    let updated = tx
        .update_change_by(
            origin.source.tenant,
            &origin.actor,
            stored.change,
            |current| patch_of(current, &was, &is, service_ids, now),
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

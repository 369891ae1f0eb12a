//! The changes that operations are shown as: creates that of a new one, and updates that of a
//! known one by what has become different.

use changelog_core::input::from_object;
use changelog_core::{
    Action, ChangeId, Host, HostId, NewChange, Service, ServiceId, SourceKind, Timestamp,
};
use changelog_sources::Operation;
use chrono::TimeDelta;
use serde_json::Map;

use super::apply::{Applied, Origin};
use super::edits::{has_services_of, patch_of};
use crate::app::App;
use crate::store::{Draft, Entry, StoreError, StoredItem, StoredOperation, Tx};

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
    new.host_id = host(app, tx, origin, observed.hostname.as_deref()).await?;
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
    let host_id = if was.hostname == is.hostname {
        None
    } else {
        host(app, tx, origin, is.hostname.as_deref()).await?
    };
    let updated = tx
        .update_change_by(
            origin.source.tenant,
            &origin.actor,
            stored.change,
            |current| {
                let mut patch = patch_of(current, &was, &is, now)?;
                patch.service_ids = service_ids.filter(|_| has_services_of(current, &was));
                patch.host_id = host_id.filter(|_| current.host_ref.is_none()).map(Some);
                Ok(patch)
            },
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
    let is_created = origin.source.settings.create_missing;
    let mut ids = Vec::new();
    for name in names {
        let id = item::<Service>(app, tx, origin, name, is_created).await?;
        ids.extend(id.filter(|id| !ids.contains(id)));
    }
    Ok(ids)
}

/// Returns the host of a name. It is created if the source says so, but only if templates name
/// it: what clouds name are instances, which come and go by the hundred.
async fn host(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    name: Option<&str>,
) -> Result<Option<HostId>, StoreError> {
    let Some(name) = name else { return Ok(None) };
    let source = &origin.source;
    let is_created = source.settings.create_missing && source.kind == SourceKind::Generic;
    item::<Host>(app, tx, origin, name, is_created).await
}

/// Returns the service or host of a name; creates it if it is missing and that is wanted. A
/// name that core's rules refuse is none.
async fn item<T: StoredItem>(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    name: &str,
    is_created: bool,
) -> Result<Option<T::Id>, StoreError> {
    let (tenant, now) = (origin.source.tenant, app.now());
    if let Some(item) = tx.item_named::<T>(tenant, name).await? {
        return Ok(Some(item.id()));
    }
    let named = [(T::NAME_FIELD.to_owned(), name.into())];
    let new = from_object::<T::New>(named.into_iter().collect(), now.into());
    let Some(new) = new.ok().filter(|_| is_created) else {
        return Ok(None);
    };
    let item = tx.insert_item::<T>(tenant, &new, now).await?;
    let entry = Entry::of_item(Action::Created, &item, Map::new());
    tx.record(tenant, &origin.actor, entry, now).await?;
    Ok(Some(item.id()))
}

//! `/api/hosts` and `/api/services`: what both have in common.

use changelog_core::{Action, Data};
use serde::Serialize;
use serde_json::Map;

use super::caller::Caller;
use super::idempotency::{self, Begun};
use super::list_filter::ListFilter;
use crate::app::App;
use crate::store::activity::{self, Entry};
use crate::store::{Outcome, StoreError, StoredItem};
use crate::web::{ApiError, ApiResult, Request, body, reply};

/// Answers with the items of the organization, ordered by name.
pub(super) async fn list<T: StoredItem>(app: App, caller: Caller, request: Request) -> ApiResult {
    let data: Vec<T> = match ListFilter::from_request(&request)? {
        None => app.store.items(caller.tenant).await?,
        Some(ListFilter { after, limit }) => {
            app.store.items_after(caller.tenant, &after, limit).await?
        }
    };
    Ok(reply::json(200, &Data { data }))
}

/// Answers with an item.
pub(super) async fn get<T: StoredItem>(app: App, caller: Caller, request: Request) -> ApiResult {
    request.no_parameters()?;
    let data: T = app.store.item(caller.tenant, request.id()?).await?;
    Ok(reply::json(200, &Data { data }))
}

/// Creates an item.
pub(super) async fn create<T: StoredItem>(app: App, caller: Caller, request: Request) -> ApiResult {
    request.no_parameters()?;
    let bytes = request.json_body().await?;
    let now = app.now();
    let new: T::New = body::parse(&bytes, now.into()).await?;
    let (outcome, is_replay) = match idempotency::begin(&app, &caller, &request, &bytes).await? {
        Begun::Replayed(outcome) => (outcome, true),
        Begun::New(mut create) => {
            let tx = &mut create.tx;
            let outcome = match tx.insert_item::<T>(caller.tenant, &new, now).await {
                Err(StoreError::Conflict) => Outcome::NameTaken {
                    request_id: request.context.id.to_string(),
                },
                item => {
                    let item = item?;
                    let entry = Entry::of_item(Action::Created, &item, Map::new());
                    tx.record(caller.tenant, &caller.actor, entry, now).await?;
                    item.outcome()
                }
            };
            create.finish(&outcome).await?;
            (outcome, false)
        }
    };
    let name_taken = || taken::<T>(&new);
    Ok(idempotency::answer(outcome, is_replay, name_taken))
}

/// Updates an item.
pub(super) async fn update<T: StoredItem>(app: App, caller: Caller, request: Request) -> ApiResult {
    request.no_parameters()?;
    let id: T::Id = request.id()?;
    let bytes = request.json_body().await?;
    let now = app.now();
    let patch: T::Patch = body::parse(&bytes, now.into()).await?;
    let mut tx = app.store.begin_for(caller.tenant).await?;
    let (item, changes) = match tx.update_item::<T>(caller.tenant, id, &patch).await {
        Err(StoreError::Conflict) => return Err(taken::<T>(&patch)),
        updated => updated?,
    };
    if !changes.is_empty() {
        let entry = Entry::of_item(Action::Updated, &item, activity::changed(changes));
        tx.record(caller.tenant, &caller.actor, entry, now).await?;
    }
    tx.commit().await?;
    Ok(reply::json(200, &Data { data: item }))
}

/// Returns the error that the name in some input is taken.
fn taken<T: StoredItem>(input: &impl Serialize) -> ApiError {
    let fields = activity::fields(input);
    let name = fields.get(T::NAME_FIELD).and_then(|name| name.as_str());
    ApiError::taken(T::NOUN, T::NAME_FIELD, name.unwrap_or_default())
}

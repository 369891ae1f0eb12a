//! `/api/changes`

use changelog_core::{
    Change, ChangeCreated, ChangeFilter, ChangeId, ChangePatch, Data, NewChange, NewChanges, Page,
    Scope, UpcomingFilter, headers,
};
use chrono::{DateTime, TimeDelta, Utc};
use warp::reply::Response;

use super::caller::Caller;
use super::idempotency;
use super::openapi::parameters::{ChangesPage, Selection, UpcomingPage};
use crate::app::App;
use crate::blocking_pool;
use crate::store::{
    ChangeJson, ChangeList, ChangesJson, Created, Creation, Draft, KeyedRequest, StoreError,
};
use crate::web::{ApiError, ApiResult, Request, body, reply};

/// The distance between the times in the ids of two changes of one request, in
/// nanoseconds: the resolution of the UUIDs version 7.
const ID_STEP_NANOS: u32 = 250;

/// Lists a page of the changes that match all given parameters, newest first.
#[utoipa::path(get, path = "/api/changes", tag = "changes", operation_id = "list_changes",
    params(ChangesPage, Selection),
    responses((status = 200, description = "A page of changes", body = Page<Change>)))]
pub(super) async fn list(app: App, caller: Caller, request: Request) -> ApiResult {
    let filter = request.filter(ChangeFilter::from_query)?;
    let mut list = app.store.changes(caller.tenant, &filter).await?;
    if filter.with_updated_by {
        let json = list.json;
        let mut changes = blocking_pool::run_sized(json.0.len(), move || json.parse()).await?;
        app.store.add_updaters(caller.tenant, &mut changes).await?;
        list.json = blocking_pool::run(move || ChangesJson::of(&changes)).await;
    }
    Ok(page(&filter, list))
}

/// Lists the planned changes that have a scheduled time, the earliest first: overdue ones,
/// then those to come.
#[utoipa::path(get, path = "/api/changes/upcoming", tag = "changes", operation_id = "upcoming_changes",
    params(UpcomingPage),
    responses((status = 200, description = "The planned changes", body = Data<Vec<Change>>)))]
pub(super) async fn upcoming(app: App, caller: Caller, request: Request) -> ApiResult {
    let filter = request.filter(UpcomingFilter::from_query)?;
    let changes = app
        .store
        .upcoming_changes(caller.tenant, filter.limit)
        .await?;
    Ok(reply::raw_json("{\"data\":[", changes.0, "]}".to_owned()))
}

/// Returns a page of changes, which are JSON already.
fn page(filter: &ChangeFilter, list: ChangeList) -> Response {
    let ChangeList { json, count } = list;
    let envelope = Page::<()>::new(Vec::new(), count, filter.page, filter.per_page);
    let Page {
        page,
        per_page,
        total_pages,
        ..
    } = envelope;
    let after = format!(
        "],\"count\":{count},\"page\":{page},\"per_page\":{per_page},\"total_pages\":{total_pages}}}"
    );
    reply::raw_json("{\"data\":[", json.0, after)
}

/// Returns a change.
#[utoipa::path(get, path = "/api/changes/{id}", tag = "changes", operation_id = "get_change",
    params(("id" = ChangeId, Path, description = "The change's id")),
    responses((status = 200, description = "The change", body = Data<Change>)))]
pub(super) async fn get(app: App, caller: Caller, request: Request) -> ApiResult {
    request.no_parameters()?;
    let ChangeJson(json) = app.store.change(caller.tenant, request.id()?).await?;
    Ok(reply::raw_json("{\"data\":", json, "}".to_owned()))
}

/// Creates a change.
#[utoipa::path(post, path = "/api/changes", tag = "changes", operation_id = "create_change",
    params(
        ("Prefer" = Option<String>, Header,
            description = "With `return=representation` the response has the change with all its fields, as \
                           `GET /api/changes/{id}` has it", example = "return=representation"),
    ),
    request_body = NewChange,
    responses((status = 201, description = "The created change", body = Data<ChangeCreated>,
        headers(("preference-applied" = String,
            description = "`return=representation` when the response has the change with all its fields")))))]
pub(super) async fn create(app: App, caller: Caller, request: Request) -> ApiResult {
    request.no_parameters()?;
    let bytes = request.json_body().await?;
    let now = app.now();
    let new: NewChange = body::parse(&bytes, now.into()).await?;
    let keyed = idempotency::keyed_request(&caller, &request, &bytes)?;
    let created = create_one(&app, &caller, new, keyed, now).await?;
    let data = created.changes.into_iter().next();
    let location = data.as_ref().map(|one| format!("/api/changes/{}", one.id));
    // The change has been created, so that a failure to read it must not be the answer.
    if let Some(one) = &data
        && request.prefers(headers::RETURN_REPRESENTATION)
        && let Ok(ChangeJson(json)) = app.store.change(caller.tenant, one.id).await
    {
        let is_replay = created.is_replay;
        return Ok(idempotency::created_in_full(location, &json, is_replay));
    }
    Ok(idempotency::created(location, data, created.is_replay))
}

/// Creates a change, or finds the one that an earlier request created.
pub(super) async fn create_one(
    app: &App,
    caller: &Caller,
    mut new: NewChange,
    keyed: Option<KeyedRequest>,
    now: DateTime<Utc>,
) -> Result<Created, ApiError> {
    let named = complete(app, caller, std::slice::from_mut(&mut new), |_| {
        String::new()
    });
    let named = named.await;
    if named.is_ok() {
        caller.check_new(std::slice::from_ref(&new))?;
    }
    let draft = Draft::new(caller.tenant, &caller.actor, new, now)?;
    create_or_replay(app, caller, Creation::one(draft, keyed), "", named).await
}

/// Creates several changes, or none if one of them is invalid.
#[utoipa::path(post, path = "/api/changes/bulk", tag = "changes", operation_id = "create_changes",
    request_body = NewChanges,
    responses((status = 201, description = "The created changes, in the order of the request",
        body = Data<Vec<ChangeCreated>>)))]
pub(super) async fn create_many(app: App, caller: Caller, request: Request) -> ApiResult {
    request.no_parameters()?;
    let bytes = request.json_body().await?;
    let now = app.now();
    let mut new: NewChanges = body::parse(&bytes, now.into()).await?;
    let keyed = idempotency::keyed_request(&caller, &request, &bytes)?;
    let named = complete(&app, &caller, &mut new.changes, |index| {
        format!("/changes/{index}")
    });
    let named = named.await;
    if named.is_ok() {
        caller.check_new(&new.changes)?;
    }
    let (tenant, mut actor) = (caller.tenant, caller.actor.clone());
    actor.has_receivers &= new.notify != Some(false);
    // The times in the ids increase, so that sorting by id keeps the order of the list.
    let drafts = move || {
        new.changes
            .into_iter()
            .zip((0..).map(|index: u32| index * ID_STEP_NANOS))
            .map(|(new, nanos)| {
                let now = now + TimeDelta::nanoseconds(nanos.into());
                Draft::in_list(tenant, &actor, new, now, Some(nanos))
            })
            .collect::<Result<Vec<_>, StoreError>>()
    };
    let drafts = blocking_pool::run_sized(bytes.len(), drafts).await?;
    let creation = Creation::list(tenant, drafts, keyed);
    let created = create_or_replay(&app, &caller, creation, "/changes", named).await?;
    Ok(idempotency::created(
        None,
        created.changes,
        created.is_replay,
    ))
}

/// Creates changes, or finds those that an earlier request created; `pointer` is where the
/// body has them. If what the changes name does not exist (any more), only finds them.
async fn create_or_replay(
    app: &App,
    caller: &Caller,
    creation: Creation,
    pointer: &str,
    named: Result<(), StoreError>,
) -> Result<Created, ApiError> {
    let created = match named {
        Ok(()) => idempotency::create_changes(app, creation, pointer).await?,
        Err(refusal) => idempotency::replayed(app, &creation, refusal).await?,
    };
    app.note_recording(caller);
    Ok(created)
}

/// Adds to new changes what the database knows: the ids of what they name, and the
/// environments of their hosts.
async fn complete(
    app: &App,
    caller: &Caller,
    changes: &mut [NewChange],
    pointer: impl Fn(usize) -> String,
) -> Result<(), StoreError> {
    let tenant = caller.tenant;
    app.store.resolve_names(tenant, changes, pointer).await?;
    app.store.complete_environments(tenant, changes).await
}

/// Updates a change and records the differences in the activity log.
#[utoipa::path(patch, path = "/api/changes/{id}", tag = "changes", operation_id = "update_change",
    params(("id" = ChangeId, Path, description = "The change's id")),
    request_body = ChangePatch,
    responses((status = 200, description = "The updated change", body = Data<Change>)))]
pub(super) async fn update(app: App, caller: Caller, request: Request) -> ApiResult {
    request.no_parameters()?;
    let id: ChangeId = request.id()?;
    let bytes = request.json_body().await?;
    let patch: ChangePatch = body::parse(&bytes, app.now().into()).await?;
    let change = update_one(&app, &caller, id, &patch).await?;
    Ok(reply::json(200, &Data { data: change }))
}

/// Updates a change. An update without a field only reads, and needs the scope for it.
pub(super) async fn update_one(
    app: &App,
    caller: &Caller,
    id: ChangeId,
    patch: &ChangePatch,
) -> Result<Change, ApiError> {
    if *patch == ChangePatch::default() {
        caller.require(&Scope::Read)?;
    }
    let mut tx = app.store.begin_for(caller.tenant).await?;
    if caller.permissions.has_bounds() {
        caller.check_change(&tx.change_before_update(caller.tenant, id).await?)?;
    }
    let change = tx
        .update_change(caller.tenant, &caller.actor, id, patch, &app.clock)
        .await?;
    // Nothing is written if the key may not record what the change has become.
    caller.check_change(&change)?;
    tx.commit().await?;
    app.note_recording(caller);
    Ok(change)
}

//! `/api/changes`

use changelog_core::{
    Action, Change, ChangeCreated, ChangeFilter, ChangeId, ChangePatch, Data, HostId, NewChange,
    NewChanges, Page, RiskLevel, ServiceId, Status, Timestamp,
};
use chrono::TimeDelta;
use warp::reply::Response;

use super::idempotency;
use crate::app::App;
use crate::blocking_pool;
use crate::store::activity::{self, Entry};
use crate::store::{ChangeJson, ChangeList, Creation, Draft};
use crate::web::{ApiResult, Request, body, reply};

/// How many nanoseconds the ids of two changes of one request are apart: the least
/// that a UUID version 7 shows.
const NANOS_APART: u32 = 250;

/// Lists a page of the changes that match every parameter given, newest first.
#[utoipa::path(get, path = "/api/changes", tag = "changes", operation_id = "list_changes",
    params(
        ("page" = Option<u64>, Query, minimum = 1, description = "The page, from 1", example = 1),
        ("per_page" = Option<u64>, Query, minimum = 1,
            description = "How many a page; 25 when absent, and 100 when more is asked for", example = 25),
        ("q" = Option<String>, Query,
            description = "Words; each must be the beginning of some word of the title, without regard \
                           to case and diacritics", example = "deploy api"),
        ("service_id" = Option<ServiceId>, Query, description = "Only of this service"),
        ("host_id" = Option<HostId>, Query, description = "Only on this host"),
        ("risk_level" = Option<RiskLevel>, Query, description = "Only of this risk"),
        ("status" = Option<Status>, Query, description = "Only of this status"),
        ("tag" = Option<Vec<String>>, Query, explode = true, max_items = 20,
            description = "Only with this tag; repeat it for several, all of which must be there"),
        ("since" = Option<Timestamp>, Query, description = "Only what happened then or later"),
        ("until" = Option<Timestamp>, Query, description = "Only what happened before then"),
        ("before" = Option<ChangeId>, Query,
            description = "Continue after this change; count stays that of the whole list"),
    ),
    responses((status = 200, description = "A page of changes", body = Page<Change>)))]
pub(super) async fn list(app: App, request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    let filter = request.filter(ChangeFilter::from_query)?;
    let list = app.store.changes(caller.tenant, &filter).await?;
    Ok(page(&filter, list))
}

/// Writes the envelope of a page around changes that are JSON already.
fn page(filter: &ChangeFilter, list: ChangeList) -> Response {
    let ChangeList { json, count } = list;
    let envelope = Page::<()>::new(Vec::new(), count, filter.page, filter.per_page);
    let Page {
        page,
        per_page,
        total_pages,
        ..
    } = envelope;
    let behind = format!(
        "],\"count\":{count},\"page\":{page},\"per_page\":{per_page},\"total_pages\":{total_pages}}}"
    );
    reply::raw_json("{\"data\":[", json, behind)
}

/// Finds a change.
#[utoipa::path(get, path = "/api/changes/{id}", tag = "changes", operation_id = "get_change",
    params(("id" = ChangeId, Path, description = "The change's id")),
    responses((status = 200, description = "The change in full", body = Data<Change>)))]
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    request.no_parameters()?;
    let ChangeJson(json) = app.store.change(caller.tenant, request.id()?).await?;
    Ok(reply::raw_json("{\"data\":", json, "}".to_owned()))
}

/// Records a change.
#[utoipa::path(post, path = "/api/changes", tag = "changes", operation_id = "create_change",
    request_body = NewChange,
    responses((status = 201, description = "The change, recorded", body = Data<ChangeCreated>)))]
pub(super) async fn create(app: App, mut request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    request.no_parameters()?;
    let bytes = request.json_body().await?;
    let now = app.now();
    let new: NewChange = body::parse(&bytes, now.into()).await?;
    let keyed = idempotency::keyed_request(&caller, &request, &bytes)?;
    let draft = Draft::new(caller.tenant, &caller.actor, new, now)?;
    let created = idempotency::create_changes(&app, Creation::one(draft, keyed), "").await?;
    let data = created.changes.into_iter().next();
    let location = data.as_ref().map(|one| format!("/api/changes/{}", one.id));
    Ok(idempotency::created(location, data, created.is_replay))
}

/// Records several changes: all of them, or none when one of them breaks a rule.
#[utoipa::path(post, path = "/api/changes/bulk", tag = "changes", operation_id = "create_changes",
    request_body = NewChanges,
    responses((status = 201, description = "The changes, recorded, in the order given",
        body = Data<Vec<ChangeCreated>>)))]
pub(super) async fn create_many(app: App, mut request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    request.no_parameters()?;
    let bytes = request.json_body().await?;
    let now = app.now();
    let new: NewChanges = body::parse(&bytes, now.into()).await?;
    let keyed = idempotency::keyed_request(&caller, &request, &bytes)?;
    let (tenant, actor) = (caller.tenant, caller.actor.clone());
    // Ids keep the order of the list: each is as far from the next as they can show.
    let drafts = move || {
        new.changes
            .into_iter()
            .zip((0..).map(|index: u32| index * NANOS_APART))
            .map(|(new, nanos)| {
                let now = now + TimeDelta::nanoseconds(nanos.into());
                Draft::in_list(tenant, &actor, new, now, Some(nanos))
            })
            .collect::<Result<Vec<_>, _>>()
    };
    let drafts = blocking_pool::run_sized(bytes.len(), drafts).await?;
    let creation = Creation::list(tenant, drafts, keyed);
    let created = idempotency::create_changes(&app, creation, "/changes").await?;
    Ok(idempotency::created(
        None,
        created.changes,
        created.is_replay,
    ))
}

/// Changes a change; each move of its status is recorded.
#[utoipa::path(patch, path = "/api/changes/{id}", tag = "changes", operation_id = "update_change",
    params(("id" = ChangeId, Path, description = "The change's id")),
    request_body = ChangePatch,
    responses((status = 200, description = "The change as it is now", body = Data<Change>)))]
pub(super) async fn update(app: App, mut request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    request.no_parameters()?;
    let id: ChangeId = request.id()?;
    let bytes = request.json_body().await?;
    let patch: ChangePatch = body::parse(&bytes, app.now().into()).await?;
    let mut tx = app.store.begin_for(caller.tenant).await?;
    let (change, changes) = tx
        .update_change(caller.tenant, id, &patch, &app.clock)
        .await?;
    if !changes.is_empty() {
        let entry = Entry::of_change(Action::Updated, &change, activity::changed(changes));
        tx.record(caller.tenant, &caller.actor, entry, app.now())
            .await?;
    }
    tx.commit().await?;
    Ok(reply::json(200, &Data { data: change }))
}

//! `/api/changes`

use changelog_core::{
    Action, Change, ChangeCreated, ChangeFilter, ChangeId, ChangePatch, Data, HostId, NewChange,
    Page, ResourceType, RiskLevel, ServiceId, Status, Timestamp,
};
use serde_json::{Map, Value, json};

use super::idempotency::{self, Begun};
use crate::app::App;
use crate::store::activity::Entry;
use crate::web::{ApiResult, Request, body, reply};

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
    let page = app.store.changes(caller.tenant, &filter).await?;
    Ok(reply::json(200, &page))
}

/// Finds a change.
#[utoipa::path(get, path = "/api/changes/{id}", tag = "changes", operation_id = "get_change",
    params(("id" = ChangeId, Path, description = "The change's id")),
    responses((status = 200, description = "The change in full", body = Data<Change>)))]
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    request.no_parameters()?;
    let data = app.store.change(caller.tenant, request.id()?).await?;
    Ok(reply::json(200, &Data { data }))
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
    let new: NewChange = body::parse(&bytes, now.into())?;
    let mut create = match idempotency::begin(&app, &caller, &request, &bytes).await? {
        Begun::Fresh(create) => create,
        Begun::Replayed(response) => return Ok(response),
    };
    let change = create.tx.insert_change(caller.tenant, &new, now).await?;
    let metadata = json!({ "risk_level": change.risk_level, "status": change.status });
    let metadata = metadata.as_object().cloned().unwrap_or_default();
    let entry = entry(Action::Created, &change, metadata);
    create
        .tx
        .record(caller.tenant, &caller.actor, entry, now)
        .await?;
    let data = ChangeCreated {
        id: change.id,
        title: change.title,
        risk_level: change.risk_level,
        status: change.status,
        organization_id: change.organization_id,
        created_at: change.created_at,
    };
    create
        .created(format!("/api/changes/{}", data.id), &Data { data })
        .await
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
    let patch: ChangePatch = body::parse(&bytes, app.now().into())?;
    let mut tx = app.store.begin().await?;
    let (change, changes) = tx
        .update_change(caller.tenant, id, &patch, &app.clock)
        .await?;
    if !changes.is_empty() {
        let entry = entry(Action::Updated, &change, super::changed(changes));
        tx.record(caller.tenant, &caller.actor, entry, app.now())
            .await?;
    }
    tx.commit().await?;
    Ok(reply::json(200, &Data { data: change }))
}

fn entry(action: Action, change: &Change, metadata: Map<String, Value>) -> Entry<'_> {
    Entry {
        action,
        resource_type: ResourceType::Change,
        resource_id: change.id.0,
        label: &change.title,
        metadata,
    }
}

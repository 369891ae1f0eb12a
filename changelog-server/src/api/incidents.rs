//! `/api/incidents`

use changelog_core::{
    CauseInput, Data, Incident, IncidentFilter, IncidentId, IncidentPatch, NewIncident,
};

use super::caller::Caller;
use super::idempotency::{self, Begun};
use super::openapi::parameters::IncidentsPage;
use crate::app::App;
use crate::store::Outcome;
use crate::web::{ApiError, ApiResult, Request, body, reply};

/// Lists incidents with their first three suspects: open ones first, then by their start, the
/// latest first.
#[utoipa::path(get, path = "/api/incidents", tag = "incidents", operation_id = "list_incidents",
    params(IncidentsPage),
    responses((status = 200, description = "The incidents", body = Data<Vec<Incident>>)))]
pub(super) async fn list(app: App, caller: Caller, request: Request) -> ApiResult {
    let filter = request.filter(IncidentFilter::from_query)?;
    let data = app.store.incidents(caller.tenant, &filter).await?;
    Ok(reply::json(200, &Data { data }))
}

/// Returns an incident with its suspects.
#[utoipa::path(get, path = "/api/incidents/{id}", tag = "incidents", operation_id = "get_incident",
    params(("id" = IncidentId, Path, description = "The incident's id")),
    responses((status = 200, description = "The incident", body = Data<Incident>)))]
pub(super) async fn get(app: App, caller: Caller, request: Request) -> ApiResult {
    request.no_parameters()?;
    let data = app.store.incident(caller.tenant, request.id()?).await?;
    Ok(reply::json(200, &Data { data }))
}

/// Opens an incident. Its suspects are ranked right after.
#[utoipa::path(post, path = "/api/incidents", tag = "incidents", operation_id = "create_incident",
    request_body = NewIncident,
    responses((status = 201, description = "The opened incident", body = Data<Incident>)))]
pub(super) async fn create(app: App, caller: Caller, request: Request) -> ApiResult {
    request.no_parameters()?;
    let bytes = request.json_body().await?;
    let now = app.now();
    let new: NewIncident = body::parse(&bytes, now.into()).await?;
    let (outcome, is_replay) = match idempotency::begin(&app, &caller, &request, &bytes).await? {
        Begun::Replayed(outcome) => (outcome, true),
        Begun::New(mut create) => {
            let tx = &mut create.tx;
            let incident = tx
                .prepare_incident(caller.tenant, &caller.actor, new, now)
                .await?;
            caller.check_incident(&incident)?;
            tx.insert_incident(caller.tenant, &caller.actor, &incident, now)
                .await?;
            let outcome = Outcome::Incident(Box::new(incident));
            create.finish(&outcome).await?;
            (outcome, false)
        }
    };
    let no_name = || ApiError::internal(&"an incident has no unique name");
    Ok(idempotency::answer(outcome, is_replay, no_name))
}

/// Updates an incident, also to resolve it, and records the differences in the activity log.
#[utoipa::path(patch, path = "/api/incidents/{id}", tag = "incidents", operation_id = "update_incident",
    params(("id" = IncidentId, Path, description = "The incident's id")),
    request_body = IncidentPatch,
    responses((status = 200, description = "The updated incident", body = Data<Incident>)))]
pub(super) async fn update(app: App, caller: Caller, request: Request) -> ApiResult {
    request.no_parameters()?;
    let id: IncidentId = request.id()?;
    let bytes = request.json_body().await?;
    let patch: IncidentPatch = body::parse(&bytes, app.now().into()).await?;
    let mut tx = app.store.begin_for(caller.tenant).await?;
    if caller.permissions.has_bounds() {
        caller.check_incident(&tx.incident(caller.tenant, id).await?)?;
    }
    let data = tx
        .update_incident(caller.tenant, &caller.actor, id, patch, &app.clock)
        .await?;
    // Nothing is written if the key may not record what the incident has become.
    caller.check_incident(&data)?;
    tx.commit().await?;
    Ok(reply::json(200, &Data { data }))
}

/// Marks a change as the cause of an incident, or that none is; or takes the mark away.
#[utoipa::path(put, path = "/api/incidents/{id}/cause", tag = "incidents", operation_id = "mark_cause",
    params(("id" = IncidentId, Path, description = "The incident's id")),
    request_body = CauseInput,
    responses((status = 200, description = "The incident", body = Data<Incident>)))]
pub(super) async fn mark_cause(app: App, caller: Caller, request: Request) -> ApiResult {
    request.no_parameters()?;
    let id: IncidentId = request.id()?;
    let bytes = request.json_body().await?;
    let input: CauseInput = body::parse(&bytes, app.now().into()).await?;
    let mut tx = app.store.begin_for(caller.tenant).await?;
    let data = tx
        .mark_cause(caller.tenant, &caller.actor, id, input, &app.clock)
        .await?;
    caller.check_incident(&data)?;
    tx.commit().await?;
    Ok(reply::json(200, &Data { data }))
}

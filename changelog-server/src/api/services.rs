//! `/api/services`

use changelog_core::{Action, Data, NewService, Service, ServiceId, ServicePatch};
use serde_json::Map;

use super::idempotency::{self, Begun};
use super::list_filter::ListFilter;
use super::openapi::parameters::NamesPage;
use crate::app::App;
use crate::store::activity::{self, Entry};
use crate::store::{Outcome, StoreError};
use crate::web::{ApiError, ApiResult, Request, body, reply};

/// Lists the services of the organization, ordered by name.
#[utoipa::path(get, path = "/api/services", tag = "services", operation_id = "list_services",
    params(NamesPage),
    responses((status = 200, description = "All services, ordered by name", body = Data<Vec<Service>>)))]
pub(super) async fn list(app: App, request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    let data = match ListFilter::from_request(&request)? {
        None => app.store.services(caller.tenant).await?,
        Some(ListFilter { after, limit }) => {
            app.store
                .services_after(caller.tenant, &after, limit)
                .await?
        }
    };
    Ok(reply::json(200, &Data { data }))
}

/// Returns a service.
#[utoipa::path(get, path = "/api/services/{id}", tag = "services", operation_id = "get_service",
    params(("id" = ServiceId, Path, description = "The service's id")),
    responses((status = 200, description = "The service", body = Data<Service>)))]
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    request.no_parameters()?;
    let data = app.store.service(caller.tenant, request.id()?).await?;
    Ok(reply::json(200, &Data { data }))
}

/// Creates a service.
#[utoipa::path(post, path = "/api/services", tag = "services", operation_id = "create_service",
    request_body = NewService,
    responses((status = 201, description = "The created service", body = Data<Service>)))]
pub(super) async fn create(app: App, mut request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    request.no_parameters()?;
    let bytes = request.json_body().await?;
    let now = app.now();
    let new: NewService = body::parse(&bytes, now.into()).await?;
    let (outcome, is_replay) = match idempotency::begin(&app, &caller, &request, &bytes).await? {
        Begun::Replayed(outcome) => (outcome, true),
        Begun::New(mut create) => {
            let tx = &mut create.tx;
            let outcome = match tx.insert_service(caller.tenant, &new, now).await {
                Err(StoreError::Conflict) => Outcome::NameTaken {
                    request_id: request.context.id.to_string(),
                },
                service => {
                    let service = service?;
                    let entry = Entry::of_service(Action::Created, &service, Map::new());
                    tx.record(caller.tenant, &caller.actor, entry, now).await?;
                    Outcome::Service(service)
                }
            };
            create.finish(&outcome).await?;
            (outcome, false)
        }
    };
    let name_taken = || taken(&new.name);
    Ok(idempotency::answer(outcome, is_replay, name_taken))
}

/// Updates a service.
#[utoipa::path(patch, path = "/api/services/{id}", tag = "services", operation_id = "update_service",
    params(("id" = ServiceId, Path, description = "The service's id")),
    request_body = ServicePatch,
    responses((status = 200, description = "The updated service", body = Data<Service>)))]
pub(super) async fn update(app: App, mut request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    request.no_parameters()?;
    let id: ServiceId = request.id()?;
    let bytes = request.json_body().await?;
    let now = app.now();
    let patch: ServicePatch = body::parse(&bytes, now.into()).await?;
    let mut tx = app.store.begin_for(caller.tenant).await?;
    let (service, changes) = match tx.update_service(caller.tenant, id, &patch).await {
        Err(StoreError::Conflict) => {
            return Err(taken(patch.name.as_deref().unwrap_or_default()));
        }
        updated => updated?,
    };
    if !changes.is_empty() {
        let entry = Entry::of_service(Action::Updated, &service, activity::changed(changes));
        tx.record(caller.tenant, &caller.actor, entry, now).await?;
    }
    tx.commit().await?;
    Ok(reply::json(200, &Data { data: service }))
}

fn taken(name: &str) -> ApiError {
    ApiError::taken("service", "name", name)
}

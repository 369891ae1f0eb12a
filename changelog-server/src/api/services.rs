//! `/api/services`

use changelog_core::{Data, NewService, Service, ServiceId, ServicePatch};

use super::caller::Caller;
use super::catalog;
use super::openapi::parameters::NamesPage;
use crate::app::App;
use crate::web::{ApiResult, Request};

/// Lists the services of the organization, ordered by name.
#[utoipa::path(get, path = "/api/services", tag = "services", operation_id = "list_services",
    params(NamesPage),
    responses((status = 200, description = "All services, ordered by name", body = Data<Vec<Service>>)))]
pub(super) async fn list(app: App, caller: Caller, request: Request) -> ApiResult {
    catalog::list::<Service>(app, caller, request).await
}

/// Returns a service.
#[utoipa::path(get, path = "/api/services/{id}", tag = "services", operation_id = "get_service",
    params(("id" = ServiceId, Path, description = "The service's id")),
    responses((status = 200, description = "The service", body = Data<Service>)))]
pub(super) async fn get(app: App, caller: Caller, request: Request) -> ApiResult {
    catalog::get::<Service>(app, caller, request).await
}

/// Creates a service.
#[utoipa::path(post, path = "/api/services", tag = "services", operation_id = "create_service",
    request_body = NewService,
    responses((status = 201, description = "The created service", body = Data<Service>)))]
pub(super) async fn create(app: App, caller: Caller, request: Request) -> ApiResult {
    catalog::create::<Service>(app, caller, request).await
}

/// Updates a service.
#[utoipa::path(patch, path = "/api/services/{id}", tag = "services", operation_id = "update_service",
    params(("id" = ServiceId, Path, description = "The service's id")),
    request_body = ServicePatch,
    responses((status = 200, description = "The updated service", body = Data<Service>)))]
pub(super) async fn update(app: App, caller: Caller, request: Request) -> ApiResult {
    catalog::update::<Service>(app, caller, request).await
}

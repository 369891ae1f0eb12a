//! `/api/hosts`

use changelog_core::{Data, Host, HostId, HostPatch, NewHost};

use super::caller::Caller;
use super::catalog;
use super::openapi::parameters::NamesPage;
use crate::app::App;
use crate::web::{ApiResult, Request};

/// Lists the hosts of the organization, ordered by hostname.
#[utoipa::path(get, path = "/api/hosts", tag = "hosts", operation_id = "list_hosts",
    params(NamesPage),
    responses((status = 200, description = "All hosts, ordered by hostname", body = Data<Vec<Host>>)))]
pub(super) async fn list(app: App, caller: Caller, request: Request) -> ApiResult {
    catalog::list::<Host>(app, caller, request).await
}

/// Returns a host.
#[utoipa::path(get, path = "/api/hosts/{id}", tag = "hosts", operation_id = "get_host",
    params(("id" = HostId, Path, description = "The host's id")),
    responses((status = 200, description = "The host", body = Data<Host>)))]
pub(super) async fn get(app: App, caller: Caller, request: Request) -> ApiResult {
    catalog::get::<Host>(app, caller, request).await
}

/// Creates a host.
#[utoipa::path(post, path = "/api/hosts", tag = "hosts", operation_id = "create_host",
    request_body = NewHost,
    responses((status = 201, description = "The created host", body = Data<Host>)))]
pub(super) async fn create(app: App, caller: Caller, request: Request) -> ApiResult {
    catalog::create::<Host>(app, caller, request).await
}

/// Updates a host.
#[utoipa::path(patch, path = "/api/hosts/{id}", tag = "hosts", operation_id = "update_host",
    params(("id" = HostId, Path, description = "The host's id")),
    request_body = HostPatch,
    responses((status = 200, description = "The updated host", body = Data<Host>)))]
pub(super) async fn update(app: App, caller: Caller, request: Request) -> ApiResult {
    catalog::update::<Host>(app, caller, request).await
}

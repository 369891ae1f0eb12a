//! `/api/hosts`

use changelog_core::{Action, Data, Host, HostId, HostPatch, NewHost};
use serde_json::Map;

use super::idempotency::{self, Begun};
use super::list_filter::ListFilter;
use super::openapi::parameters::NamesPage;
use crate::app::App;
use crate::store::activity::{self, Entry};
use crate::store::{Outcome, StoreError};
use crate::web::{ApiError, ApiResult, Request, body, reply};

/// Lists the hosts of the organization, ordered by hostname.
#[utoipa::path(get, path = "/api/hosts", tag = "hosts", operation_id = "list_hosts",
    params(NamesPage),
    responses((status = 200, description = "All hosts, ordered by hostname", body = Data<Vec<Host>>)))]
pub(super) async fn list(app: App, request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    let data = match ListFilter::from_request(&request)? {
        None => app.store.hosts(caller.tenant).await?,
        Some(ListFilter { after, limit }) => {
            app.store.hosts_after(caller.tenant, &after, limit).await?
        }
    };
    Ok(reply::json(200, &Data { data }))
}

/// Returns a host.
#[utoipa::path(get, path = "/api/hosts/{id}", tag = "hosts", operation_id = "get_host",
    params(("id" = HostId, Path, description = "The host's id")),
    responses((status = 200, description = "The host", body = Data<Host>)))]
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    request.no_parameters()?;
    let data = app.store.host(caller.tenant, request.id()?).await?;
    Ok(reply::json(200, &Data { data }))
}

/// Creates a host.
#[utoipa::path(post, path = "/api/hosts", tag = "hosts", operation_id = "create_host",
    request_body = NewHost,
    responses((status = 201, description = "The created host", body = Data<Host>)))]
pub(super) async fn create(app: App, mut request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    request.no_parameters()?;
    let bytes = request.json_body().await?;
    let now = app.now();
    let new: NewHost = body::parse(&bytes, now.into()).await?;
    let (outcome, is_replay) = match idempotency::begin(&app, &caller, &request, &bytes).await? {
        Begun::Replayed(outcome) => (outcome, true),
        Begun::New(mut create) => {
            let tx = &mut create.tx;
            let outcome = match tx.insert_host(caller.tenant, &new, now).await {
                Err(StoreError::Conflict) => Outcome::NameTaken {
                    request_id: request.context.id.to_string(),
                },
                host => {
                    let host = host?;
                    let entry = Entry::of_host(Action::Created, &host, Map::new());
                    tx.record(caller.tenant, &caller.actor, entry, now).await?;
                    Outcome::Host(host)
                }
            };
            create.finish(&outcome).await?;
            (outcome, false)
        }
    };
    let name_taken = || taken(&new.hostname);
    Ok(idempotency::answer(outcome, is_replay, name_taken))
}

/// Updates a host.
#[utoipa::path(patch, path = "/api/hosts/{id}", tag = "hosts", operation_id = "update_host",
    params(("id" = HostId, Path, description = "The host's id")),
    request_body = HostPatch,
    responses((status = 200, description = "The updated host", body = Data<Host>)))]
pub(super) async fn update(app: App, mut request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    request.no_parameters()?;
    let id: HostId = request.id()?;
    let bytes = request.json_body().await?;
    let now = app.now();
    let patch: HostPatch = body::parse(&bytes, now.into()).await?;
    let mut tx = app.store.begin_for(caller.tenant).await?;
    let (host, changes) = match tx.update_host(caller.tenant, id, &patch).await {
        Err(StoreError::Conflict) => {
            return Err(taken(patch.hostname.as_deref().unwrap_or_default()));
        }
        updated => updated?,
    };
    if !changes.is_empty() {
        let entry = Entry::of_host(Action::Updated, &host, activity::changed(changes));
        tx.record(caller.tenant, &caller.actor, entry, now).await?;
    }
    tx.commit().await?;
    Ok(reply::json(200, &Data { data: host }))
}

fn taken(hostname: &str) -> ApiError {
    ApiError::taken("host", "hostname", hostname)
}

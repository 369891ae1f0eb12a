//! `/api/activity`, which needs a session: API keys cannot read it.

use changelog_core::activity::{ActivityFilter, ActivityList, ActorList};

use super::openapi::parameters::Entries;
use crate::app::App;
use crate::web::{ApiResult, Request, reply, session};

/// Lists entries of the activity log, newest first.
#[utoipa::path(get, path = "/api/activity", tag = "activity", operation_id = "list_activity",
    params(Entries),
    security(("session" = [])),
    responses((status = 200, description = "The entries", body = ActivityList)))]
pub(super) async fn list(app: App, request: Request) -> ApiResult {
    let session = session::require(&app, &request).await?;
    let filter = request.filter(ActivityFilter::from_query)?;
    let entries = app.store.activity(session.tenant, &filter).await?;
    let items = entries.into_iter().map(|recorded| recorded.entry).collect();
    Ok(reply::json(200, &ActivityList { items }))
}

/// Lists the distinct actors that have entries in the activity log.
#[utoipa::path(get, path = "/api/activity/actors", tag = "activity", operation_id = "list_actors",
    security(("session" = [])),
    responses((status = 200, description = "The actors, by name", body = ActorList)))]
pub(super) async fn actors(app: App, request: Request) -> ApiResult {
    let session = session::require(&app, &request).await?;
    request.no_parameters()?;
    let actors = app.store.actors(session.tenant).await?;
    Ok(reply::json(200, &ActorList { actors }))
}

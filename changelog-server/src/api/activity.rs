//! `/api/activity`: for people in a browser, not for keys.

use changelog_core::ResourceType;
use changelog_core::activity::{ActivityFilter, ActivityList, ActorList};

use crate::app::App;
use crate::web::{ApiResult, Request, reply, session};

/// Lists entries of the activity log, newest first.
#[utoipa::path(get, path = "/api/activity", tag = "activity", operation_id = "list_activity",
    params(
        ("limit" = Option<u64>, Query, minimum = 1,
            description = "At most this many; 50 when absent, and 100 when more is asked for", example = 50),
        ("offset" = Option<u64>, Query, minimum = 0, description = "Leave out this many of the newest",
            example = 0),
        ("resource" = Option<ResourceType>, Query, description = "Only of this kind of thing"),
        ("actor_id" = Option<String>, Query,
            description = "Only by this person, or `__api_key__` for what API keys did",
            example = "__api_key__"),
    ),
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

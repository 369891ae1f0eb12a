//! `/api/key`

use changelog_core::{Data, KeyInfo};

use super::caller::Caller;
use crate::app::App;
use crate::web::{ApiResult, Request, reply};

/// Returns the name, organization and expiry of the API key, or of the token, of the request.
#[utoipa::path(get, path = "/api/key", tag = "key", operation_id = "get_key",
    responses((status = 200, description = "The key of this request, without its value",
        body = Data<KeyInfo>)))]
pub(super) async fn get(app: App, caller: Caller, request: Request) -> ApiResult {
    request.no_parameters()?;
    let data = match &caller.actor.pipeline {
        Some(pipeline) => {
            let expires_at = caller.token_expires_at;
            let info = app.store.pipeline_info(caller.tenant, pipeline, expires_at);
            info.await?
        }
        None => app.store.key_info(caller.tenant, caller.key).await?,
    };
    Ok(reply::json(200, &Data { data }))
}

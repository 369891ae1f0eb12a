//! `/api/key`

use changelog_core::{Data, KeyInfo};

use super::caller::Caller;
use crate::app::App;
use crate::web::{ApiResult, Request, reply};

/// Returns the name, organization and expiry of the API key of the request.
#[utoipa::path(get, path = "/api/key", tag = "key", operation_id = "get_key",
    responses((status = 200, description = "The key of this request, without its value",
        body = Data<KeyInfo>)))]
pub(super) async fn get(app: App, caller: Caller, request: Request) -> ApiResult {
    request.no_parameters()?;
    let data = app.store.key_info(caller.tenant, caller.key).await?;
    Ok(reply::json(200, &Data { data }))
}

//! `/api/key`

use changelog_core::{Data, KeyInfo};

use crate::app::App;
use crate::web::{ApiResult, Request, reply};

/// Tells a key what it is: its name, whom it acts for, and until when.
#[utoipa::path(get, path = "/api/key", tag = "key", operation_id = "get_key",
    responses((status = 200, description = "The key that this request carries, but for its value",
        body = Data<KeyInfo>)))]
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    request.no_parameters()?;
    let data = app.store.calling_key(caller.tenant, caller.key).await?;
    Ok(reply::json(200, &Data { data }))
}

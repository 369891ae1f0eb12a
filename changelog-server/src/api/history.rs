//! `/api/changes/{id}/history`: what was done to a change, when and by whom.

use changelog_core::ChangeHistory;
use changelog_core::{ChangeId, Data};

use super::caller::Caller;
use crate::app::App;
use crate::web::{ApiResult, Request, reply};

/// Lists what was done to a change, newest first: its creation and the last 200 entries
/// after it.
#[utoipa::path(get, path = "/api/changes/{id}/history", tag = "changes", operation_id = "change_history",
    params(("id" = ChangeId, Path, description = "The change's id")),
    responses((status = 200, description = "The history", body = Data<ChangeHistory>)))]
pub(super) async fn get(app: App, caller: Caller, request: Request) -> ApiResult {
    request.no_parameters()?;
    let change = app.store.change(caller.tenant, request.id()?).await?;
    let data = app
        .store
        .change_history(caller.tenant, &change.parse()?)
        .await?;
    Ok(reply::json(200, &Data { data }))
}

//! `/settings`: API keys, workload identities, members, integrations, sources and the organization.

pub(super) mod api_keys;
pub(super) mod export;
pub(super) mod integrations;
pub(super) mod members;
pub(super) mod organization;
pub(super) mod sign_in;
pub(super) mod sources;
pub(super) mod workloads;

use crate::app::App;
use crate::dashboard::parts::page;
use crate::web::{ApiResult, Request};

/// `GET /settings`
pub(super) async fn redirect_to_first_tab(_app: App, _request: Request) -> ApiResult {
    Ok(page::see_other("/settings/api-keys"))
}

//! `/settings`: API keys, members, the organization and integrations.

pub(super) mod api_keys;
pub(super) mod members;
pub(super) mod organization;

use askama::Template;

use crate::app::App;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, page};
use crate::web::{ApiResult, Request};

#[derive(Template)]
#[template(path = "settings/integrations.html")]
struct IntegrationsPage<'a> {
    viewer: &'a Viewer,
}

/// `GET /settings/integrations`
pub(super) async fn integrations(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Settings).await?;
    page::render(200, &IntegrationsPage { viewer: &viewer })
}

/// `GET /settings`
pub(super) async fn redirect_to_first_tab(_app: App, _request: Request) -> ApiResult {
    Ok(page::see_other("/settings/api-keys"))
}

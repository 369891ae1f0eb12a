//! `/settings`: keys, people, the organization.

pub(super) mod api_keys;
pub(super) mod members;
pub(super) mod organization;

use askama::Template;

use super::visit::{Section, Visit};
use super::{assets, page};
use crate::app::App;
use crate::web::{ApiResult, Request};

#[derive(Template)]
#[template(path = "settings/integrations.html")]
struct Integrations<'a> {
    visit: &'a Visit,
}

/// `GET /settings/integrations`
pub(super) async fn integrations(app: App, request: Request) -> ApiResult {
    let visit = Visit::read(&app, &request, Section::Settings).await?;
    page::render(200, &Integrations { visit: &visit })
}

/// `GET /settings`
pub(super) async fn first(_app: App, _request: Request) -> ApiResult {
    Ok(page::see_other("/settings/api-keys"))
}

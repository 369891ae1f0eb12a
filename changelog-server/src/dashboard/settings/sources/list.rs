//! `GET /settings/sources`

use askama::Template;

use super::kinds::{self, GROUPS, Group};
use super::state::State;
use crate::app::App;
use crate::coverage::coverage;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::store::Source;
use crate::web::{ApiResult, Request};

#[derive(Template)]
#[template(path = "settings/sources.html")]
struct ListPage<'a> {
    viewer: &'a Viewer,
    sources: Vec<(Source, State)>,
    groups: &'static [Group],
    message: &'static str,
}

/// `GET /settings/sources`
pub(in crate::dashboard) async fn list(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Settings).await?;
    let now = app.now().into();
    let sources = app.store.sources(viewer.tenant()).await?;
    let coverage = coverage(&app, viewer.tenant(), now).await?;
    let with_state = |source: Source| {
        let state = State::of(&source, &coverage, now);
        (source, state)
    };
    let page = ListPage {
        sources: sources.into_iter().map(with_state).collect(),
        viewer: &viewer,
        groups: &GROUPS,
        message: match request.query_form().value("done") {
            "deleted" => "The source was deleted. Its changes stay.",
            _ => "",
        },
    };
    page::render_live(&request, &page)
}

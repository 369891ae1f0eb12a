//! `/activity`: the activity log.

use askama::Template;
use changelog_core::ResourceType;
use changelog_core::activity::{API_KEY_ACTOR, ActivityFilter};
use changelog_core::query::Pairs;

use crate::app::App;
use crate::dashboard::parts::activity_rows::ActivityRow;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::pager::Pager;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::web::{ApiResult, Request};

#[derive(Template)]
#[template(path = "activity.html")]
struct ActivityPage<'a> {
    viewer: &'a Viewer,
    form: Form,
    resources: &'static [&'static str],
    actors: Vec<(String, String)>,
    is_filtered: bool,
    entries: Vec<ActivityRow>,
    pager: Pager,
}

/// Returns the query string without the empty fields, which browsers also send.
fn query_without_empty(form: &Form) -> String {
    let mut pairs = Pairs::default();
    for (name, value) in form.pairs().filter(|(_, value)| !value.is_empty()) {
        pairs.push(name, value);
    }
    pairs.finish()
}

/// `GET /activity`
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Activity).await?;
    let form = request.query_form();
    let query = query_without_empty(&form);
    if query != request.query {
        let separator = if query.is_empty() { "" } else { "?" };
        return Ok(page::see_other(&format!("/activity{separator}{query}")));
    }
    let filter = request.filter(ActivityFilter::from_query)?;
    let entries = app.store.activity(viewer.tenant(), &filter).await?;
    let has_more = entries.len() as u64 == filter.limit;
    let people = app.store.actors(viewer.tenant()).await?;
    let people = people.into_iter().filter_map(|actor| {
        let id = actor.actor_id?.to_string();
        Some((id, actor.actor_name))
    });
    let keys = (API_KEY_ACTOR.to_owned(), "any API key".to_owned());
    let page = ActivityPage {
        viewer: &viewer,
        resources: ResourceType::WORDS,
        actors: std::iter::once(keys).chain(people).collect(),
        is_filtered: filter.resource.is_some() || filter.actor.is_some(),
        entries: entries.into_iter().map(ActivityRow::from).collect(),
        pager: Pager::of_offset("/activity", &query, filter.limit, filter.offset, has_more),
        form,
    };
    page::render_live(&request, &page)
}

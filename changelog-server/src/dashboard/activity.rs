//! `/activity`: who did what.

use askama::Template;
use changelog_core::ResourceType;
use changelog_core::activity::{API_KEY_ACTOR, ActivityFilter};
use changelog_core::query::Pairs;

use super::entries::Entry;
use super::form::Form;
use super::pager::Pager;
use super::visit::{Section, Visit};
use super::{assets, page, show};
use crate::app::App;
use crate::web::{ApiResult, Request};

#[derive(Template)]
#[template(path = "activity.html")]
struct Activity<'a> {
    visit: &'a Visit,
    form: Form,
    resources: &'static [&'static str],
    actors: Vec<(String, String)>,
    is_filtered: bool,
    entries: Vec<Entry>,
    pager: Pager,
}

/// A form sends its empty fields as well; an address is shorter without.
fn without_empty(form: &Form) -> String {
    let mut pairs = Pairs::default();
    for (name, value) in form.pairs().filter(|(_, value)| !value.is_empty()) {
        pairs.push(name, value);
    }
    pairs.finish()
}

/// `GET /activity`
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let visit = Visit::read(&app, &request, Section::Activity).await?;
    let form = request.query_form();
    let query = without_empty(&form);
    if query != request.query {
        let question = if query.is_empty() { "" } else { "?" };
        return Ok(page::see_other(&format!("/activity{question}{query}")));
    }
    let filter = request.filter(ActivityFilter::from_query)?;
    let entries = app.store.activity(visit.tenant(), &filter).await?;
    let has_more = entries.len() as u64 == filter.limit;
    let people = app.store.actors(visit.tenant()).await?;
    let people = people.into_iter().filter_map(|actor| {
        let id = actor.actor_id?.to_string();
        Some((id, actor.actor_name))
    });
    let keys = (API_KEY_ACTOR.to_owned(), "any API key".to_owned());
    let page = Activity {
        visit: &visit,
        resources: ResourceType::WORDS,
        actors: std::iter::once(keys).chain(people).collect(),
        is_filtered: filter.resource.is_some() || filter.actor.is_some(),
        entries: entries.into_iter().map(Entry::from).collect(),
        pager: Pager::of_offset("/activity", &query, filter.limit, filter.offset, has_more),
        form,
    };
    page::render_live(&request, &page)
}

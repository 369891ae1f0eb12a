//! `GET /activity`

use askama::Template;
use changelog_core::activity::API_KEY_ACTOR;
use changelog_core::{Action, ResourceType};
use chrono::NaiveDate;

use super::filter;
use crate::app::App;
use crate::dashboard::parts::activity_rows::{ActivityRow, key_actor};
use crate::dashboard::parts::filter_errors::refuse_filters;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::pager::Pager;
use crate::dashboard::parts::query_string::{address, with, without};
use crate::dashboard::parts::time_ranges::{self, Choice, RANGE};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page, zone};
use crate::store::{ActivityPage as StoredPage, ActivitySearch, StoredEntry};
use crate::web::{ApiError, ApiResult, Request};

/// The number of entries of a page.
const PER_PAGE: u64 = 50;

/// The fields of the form, with their labels.
const LABELS: [(&str, &str); 5] = [
    ("resource", "Type"),
    ("action", "Action"),
    ("actor_id", "By"),
    ("since", "From"),
    ("until", "Until"),
];

#[derive(Template)]
#[template(path = "activity.html")]
struct ActivityPage<'a> {
    viewer: &'a Viewer,
    form: Form,
    kinds: &'static [&'static str],
    actions: &'static [&'static str],
    /// Values and names.
    people: Vec<(String, String)>,
    keys: Vec<(String, String)>,
    any_key: &'static str,
    time_ranges: Vec<Choice>,
    /// Fields, values, and the addresses of the log without these filters.
    filters: Vec<(&'static str, String, String)>,
    is_filtered: bool,
    days: Vec<(NaiveDate, Vec<ActivityRow>)>,
    is_cut_short: bool,
    query: String,
    pager: Pager,
}

impl ActivityPage<'_> {
    fn download(&self, extension: &str) -> String {
        address(&format!("/activity.{extension}"), &self.query)
    }
}

/// `GET /activity`
pub(in crate::dashboard) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Activity).await?;
    let mut form = request.query_form();
    let query = filter::canonical_query(&form);
    if query != request.query {
        return Ok(page::see_other(&address("/activity", &query)));
    }
    let (search, found) = match filter::read(&query, viewer.now) {
        Ok(search) => {
            let found = app
                .store
                .search_activity(viewer.tenant(), &search, PER_PAGE);
            let found = found.await?;
            (search, found)
        }
        Err(invalid) => {
            form = refuse_filters(form, &invalid, &LABELS);
            let nothing = StoredPage {
                entries: Vec::new(),
                next: None,
                is_cut_short: false,
            };
            (ActivitySearch::default(), nothing)
        }
    };
    let first_page = without(&query, &["before"]);
    for (name, at) in [("since", search.since), ("until", search.until)] {
        if at.is_some() && form.has(name) {
            form.show_time(name, at, viewer.zone);
        }
    }
    let (people, keys) = actors(&app, &viewer, &form).await?;
    let filters = filters(&first_page, &form, &viewer, people.iter().chain(&keys));
    let page = ActivityPage {
        viewer: &viewer,
        kinds: ResourceType::WORDS,
        actions: Action::WORDS,
        people,
        keys,
        any_key: API_KEY_ACTOR,
        filters,
        time_ranges: time_ranges::choices(
            "/activity",
            &first_page,
            form.value(RANGE),
            search.since.is_some() || search.until.is_some(),
        ),
        is_filtered: !first_page.is_empty(),
        days: by_day(&viewer, found.entries),
        is_cut_short: found.is_cut_short,
        pager: Pager {
            previous: search.before.map(|_| address("/activity", &first_page)),
            next: found
                .next
                .map(|next| address("/activity", &with(&first_page, "before", next))),
            position: String::new(),
        },
        query: first_page,
        form,
    };
    if page.form.is_refused() {
        return page::render(400, &page);
    }
    page::render_live(&request, &page)
}

/// Returns the filters of a query string, except for a range: its link says so.
fn filters<'n>(
    query: &str,
    form: &Form,
    viewer: &Viewer,
    mut names: impl Iterator<Item = &'n (String, String)>,
) -> Vec<(&'static str, String, String)> {
    let mut filters = Vec::new();
    for (name, field) in LABELS.into_iter().filter(|(name, _)| form.has(name)) {
        let value = form.value(name);
        let shown = match name {
            "actor_id" if value == API_KEY_ACTOR => "any API key".to_owned(),
            "actor_id" => {
                let found = names.find(|(id, _)| id == value);
                found.map_or_else(|| value.to_owned(), |(_, name)| name.clone())
            }
            "since" | "until" => match viewer.zone.parse_field(value).parse() {
                Ok(at) => viewer.zone.minute(&at),
                Err(_) => value.to_owned(),
            },
            _ => format::label(value),
        };
        filters.push((field, shown, address("/activity", &without(query, &[name]))));
    }
    filters
}

/// Returns the values and names of the people and the API keys that entries are selected by.
async fn actors(
    app: &App,
    viewer: &Viewer,
    form: &Form,
) -> Result<(Vec<(String, String)>, Vec<(String, String)>), ApiError> {
    let actors = app.store.actors(viewer.tenant()).await?;
    let people = actors.into_iter().filter_map(|actor| {
        let id = actor.actor_id?.to_string();
        Some((id, actor.actor_name))
    });
    let keys = app.store.api_keys(viewer.tenant()).await?;
    let chosen = form.value("actor_id");
    let keys = keys.into_iter().filter_map(|key| {
        let value = key_actor(key.id);
        let state = match key.revoked_at {
            Some(_) => " (revoked)",
            None => "",
        };
        // Keys that never did anything, and were revoked, would only make the list long.
        let is_shown = key.revoked_at.is_none() || key.last_used_at.is_some() || value == chosen;
        is_shown.then(|| (value, format!("{}{state}", key.name)))
    });
    let mut keys: Vec<(String, String)> = keys.collect();
    keys.sort_by(|one, other| one.1.cmp(&other.1));
    Ok((people.collect(), keys))
}

/// Groups entries by the day of the reader.
fn by_day(viewer: &Viewer, entries: Vec<StoredEntry>) -> Vec<(NaiveDate, Vec<ActivityRow>)> {
    let mut days: Vec<(NaiveDate, Vec<ActivityRow>)> = Vec::new();
    for entry in entries {
        let day = viewer.zone.date(entry.entry.created_at);
        let row = ActivityRow::new(entry, viewer.zone);
        match days.last_mut() {
            Some((last, rows)) if *last == day => rows.push(row),
            _ => days.push((day, vec![row])),
        }
    }
    days
}

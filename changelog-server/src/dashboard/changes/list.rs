//! `GET /changes`

use std::cmp::Reverse;
use std::collections::BTreeMap;

use askama::Template;
use changelog_core::limits::DEFAULT_PER_PAGE;
use changelog_core::{
    Change, ChangeFilter, Environment, Host, MadeBy, RiskLevel, Service, Status, list,
};
use chrono::NaiveDate;

use super::chips::{self, Chip};
use super::filters::{self, Selection};
use crate::app::App;
use crate::blocking_pool;
use crate::dashboard::around;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::pager::Pager;
use crate::dashboard::parts::query_string::{address, with, without};
use crate::dashboard::parts::time_ranges::{self, Choice};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page, zone};
use crate::store::{SavedView, existing};
use crate::web::{ApiError, ApiResult, Request};

/// The numbers of changes on a page that one can choose.
const PAGE_SIZES: [u64; 3] = [25, 50, 100];

#[derive(Template)]
#[template(path = "changes/list.html")]
struct List<'a> {
    viewer: &'a Viewer,
    form: &'a Form,
    /// The start of the title; empty without a filter.
    title: String,
    chips: Vec<Chip>,
    time_ranges: Vec<Choice>,
    page_sizes: Vec<Choice>,
    environments: &'static [&'static str],
    risks: &'static [&'static str],
    statuses: &'static [&'static str],
    makers: &'static [&'static str],
    views: Vec<SavedView>,
    /// The parameters that a new search keeps.
    kept: Vec<(String, String)>,
    count: u64,
    changes: &'a [Change],
    /// The headings of days, with their changes.
    days: Vec<(String, Vec<&'a Change>)>,
    /// The query string without the number of the page.
    query: String,
    pager: Pager,
}

impl List<'_> {
    /// Returns whether the list is this view.
    fn is_shown(&self, view: &SavedView) -> bool {
        view.query == self.query
    }

    /// Returns whether the list has a filter that is not a view.
    fn is_unsaved(&self) -> bool {
        !self.query.is_empty() && !self.views.iter().any(|view| self.is_shown(view))
    }

    fn download(&self, extension: &str) -> String {
        address(&format!("/changes.{extension}"), &self.query)
    }

    /// Returns what a closed menu of the filter form shows.
    fn chosen(&self, names: &[&str]) -> String {
        let chosen = names.iter().flat_map(|name| {
            let words = self.form.pairs().filter(move |(found, _)| found == name);
            let words = words.filter(|(_, word)| !word.is_empty());
            words.map(move |(_, word)| match *name {
                "source" | "agent" => format::visible(word),
                "not_status" => format!("not {}", format::label(&word.replace(',', ", "))),
                "by" => word
                    .split(',')
                    .map(format::maker)
                    .collect::<Vec<_>>()
                    .join(", "),
                "min_risk" => format!("at least {word}"),
                _ => format::label(&word.replace(',', ", ")),
            })
        });
        let chosen: Vec<String> = chosen.collect();
        if chosen.is_empty() {
            "Any".to_owned()
        } else {
            format::excerpt(&chosen.join(", "))
        }
    }
}

/// `GET /changes`
pub(in crate::dashboard) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Changes).await?;
    let tenant = viewer.tenant();
    let typed = request.query_form();
    let text = typed.value("text");
    if let Some(address) = around::address_of_search(&app, &viewer, text).await? {
        return Ok(page::see_other(&address));
    }
    let (query, mut form) = filters::canonical_query(&app, &viewer, typed).await?;
    if !form.is_refused() && query != request.query {
        return Ok(page::see_other(&address("/changes", &query)));
    }
    // Values that are understood and match nothing, shown with the other filters.
    let mut vain = Vec::new();
    if has_no_words(form.value("text")) {
        let message = "Search for at least one letter or digit".to_owned();
        vain.push(("text", message));
    }
    let mut selection = Selection {
        filter: ChangeFilter::default(),
        range: None,
    };
    match Selection::read(&query, viewer.now) {
        Ok(read) => selection = read,
        Err(invalid) => form = filters::refuse(form, &invalid),
    }
    let filter = &selection.filter;
    let (mut count, mut changes) = (0, Vec::new());
    if !form.is_refused() && vain.is_empty() {
        let list = app.store.changes(tenant, filter).await?;
        count = list.count;
        changes = blocking_pool::run_sized(list.json.0.len(), move || list.json.parse()).await?;
        if count == 0 {
            vain.extend(filters::unknown_names(&app.store, tenant, filter).await?);
        }
    }
    // What is planned is listed where it was logged, and did not happen on that day.
    let mut days: BTreeMap<(Reverse<NaiveDate>, bool), Vec<&Change>> = BTreeMap::new();
    for change in &changes {
        let day = viewer.zone.date(change.effective_at());
        let has_happened = change.status != Status::Planned;
        days.entry((Reverse(day), has_happened))
            .or_default()
            .push(change);
    }
    if !form.is_refused() {
        form = filter_values(&app, &viewer, &query, &selection, &changes).await?;
    }
    for (name, message) in vain {
        form = form.refuse_field(name, message);
    }
    let form = &form;
    let first_page = without(&query, &["page", "before"]);
    let chips = chips::chips(&query, form, viewer.zone);
    let kept = form_urlencoded::parse(without(&first_page, &["text"]).as_bytes())
        .into_owned()
        .collect();
    let page = List {
        viewer: &viewer,
        form,
        title: chips::title(&chips),
        chips,
        time_ranges: time_ranges::choices(
            "/changes",
            &first_page,
            selection.range.map_or("", |range| range.name),
            filter.since.is_some() || filter.until.is_some(),
        ),
        page_sizes: page_sizes(&first_page, filter.per_page),
        environments: Environment::WORDS,
        risks: RiskLevel::WORDS,
        statuses: Status::WORDS,
        makers: MadeBy::WORDS,
        views: app
            .store
            .saved_views(tenant, viewer.session.person.id)
            .await?,
        kept,
        count,
        changes: &changes,
        days: days
            .into_iter()
            .map(|((day, has_happened), changes)| {
                let heading = zone::day(&day.0);
                let heading = if has_happened {
                    heading
                } else {
                    format!("Planned (logged {heading})")
                };
                (heading, changes)
            })
            .collect(),
        pager: Pager::of_pages("/changes", &query, filter.page, filter.per_page, count),
        query: first_page,
    };
    if page.form.is_refused() {
        return page::render(400, &page);
    }
    page::render_live(&request, &page)
}

/// Returns whether a search has nothing that titles and names are searched for.
fn has_no_words(text: &str) -> bool {
    !text.trim().is_empty() && changelog_core::text::query_words(text).is_empty()
}

fn page_sizes(query: &str, chosen: u64) -> Vec<Choice> {
    let sizes = PAGE_SIZES.iter().map(|size| Choice {
        label: size.to_string(),
        address: match *size {
            DEFAULT_PER_PAGE => address("/changes", &without(query, &["per_page"])),
            size => address("/changes", &with(query, "per_page", size)),
        },
        is_current: *size == chosen,
    });
    sizes.collect()
}

/// Returns the form with the values of the filter, and names for its ids. The listed
/// changes may have the name of an author that the filter has the id of.
pub(super) async fn filter_values(
    app: &App,
    viewer: &Viewer,
    query: &str,
    selection: &Selection,
    changes: &[Change],
) -> Result<Form, ApiError> {
    let (tenant, zone, filter) = (viewer.tenant(), viewer.zone, &selection.filter);
    let mut values = Form::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        values.set(&name, value.into_owned());
    }
    if let Some(id) = filter.service_id {
        let service = existing(app.store.item::<Service>(tenant, id).await)?;
        values.set(
            "service",
            service.map(|found| found.name).unwrap_or_default(),
        );
    }
    if let Some(id) = filter.host_id {
        let host = existing(app.store.item::<Host>(tenant, id).await)?;
        values.set("host", host.map(|found| found.hostname).unwrap_or_default());
    }
    if let Some(author) = &filter.created_by {
        let mut authors = changes
            .iter()
            .filter_map(|change| change.created_by.as_ref());
        if let Some(named) = authors.find(|found| found.id.to_string().eq_ignore_ascii_case(author))
        {
            values.set("created_by", named.name.clone());
        } else if let Some(name) = filters::author_name(&app.store, tenant, author).await? {
            values.set("created_by", name);
        }
    }
    if let Some(source) = &filter.source
        && let Some(name) = filters::source_name(&app.store, tenant, source, changes).await?
    {
        values.set("source", name);
    }
    values.set("tags", list::format(&filter.tags));
    // The start of a range is not a fixed time.
    if selection.range.is_none() {
        values.show_time("since", filter.since, zone);
        values.show_time("until", filter.until, zone);
    }
    Ok(values)
}

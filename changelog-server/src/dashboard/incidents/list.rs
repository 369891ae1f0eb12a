//! `GET /incidents`

use askama::Template;
use changelog_core::{Incident, IncidentFilter, IncidentStatus, Service};

use crate::app::App;
use crate::dashboard::parts::filter_errors::refuse_filters;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::named;
use crate::dashboard::parts::pager::Pager;
use crate::dashboard::parts::query_string::{address, with, without};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::zone;
use crate::dashboard::parts::{assets, format, page};
use crate::store::MAX_COUNTED_INCIDENTS;
use crate::web::{ApiError, ApiResult, Request};

/// The number of incidents on a page.
const PER_PAGE: u64 = 25;
const PATH: &str = "/incidents";

/// The fields of the form, with their labels.
const LABELS: [(&str, &str); 2] = [("status", "Status"), ("service", "Service")];

#[derive(Template)]
#[template(path = "incidents/list.html")]
struct ListPage<'a> {
    viewer: &'a Viewer,
    form: Form,
    statuses: &'static [&'static str],
    /// The open ones on this page, and the others.
    open: Vec<Incident>,
    resolved: Vec<Incident>,
    /// The number of all open ones that the filter selects, in words; empty if it selects
    /// others only.
    open_count: String,
    is_filtered: bool,
    pager: Pager,
}

/// `GET /incidents`
pub(in crate::dashboard) async fn list(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Incidents).await?;
    let tenant = viewer.tenant();
    let mut form = request.query_form();
    let service = read_service(&app, &viewer, &mut form).await?;
    let mut query = without(&request.query, &[zone::FIELD]);
    for (name, _) in LABELS {
        if form.value(name).trim().is_empty() {
            query = without(&query, &[name]);
        }
    }
    if query != request.query && !form.is_refused() {
        return Ok(page::see_other(&address(PATH, &query)));
    }
    let filter = match IncidentFilter::from_query(&without(&query, &["service"])) {
        Ok(filter) => IncidentFilter {
            service_id: service.as_ref().map(|service| service.id),
            limit: PER_PAGE + 1,
            ..filter
        },
        Err(invalid) => {
            form = refuse_filters(form, &invalid, &LABELS);
            IncidentFilter::default()
        }
    };
    let mut incidents = Vec::new();
    let mut open_count = String::new();
    if !form.is_refused() {
        incidents = app.store.incidents(tenant, &filter).await?;
        if filter.status != Some(IncidentStatus::Resolved) {
            let count = app
                .store
                .count_open_incidents(tenant, filter.service_id)
                .await?;
            open_count = counted(count);
        }
    }
    let has_more = incidents.len() as u64 > PER_PAGE;
    incidents.truncate(usize::try_from(PER_PAGE).unwrap_or(usize::MAX));
    let first_page = without(&query, &["before"]);
    let next = incidents.last().filter(|_| has_more);
    let next = next.map(|last| address(PATH, &with(&first_page, "before", last.id)));
    let (open, resolved) = incidents.into_iter().partition(Incident::is_open);
    let page = ListPage {
        viewer: &viewer,
        statuses: IncidentStatus::WORDS,
        open,
        resolved,
        open_count,
        is_filtered: !first_page.is_empty(),
        pager: Pager {
            previous: filter.before.map(|_| address(PATH, &first_page)),
            next,
            position: String::new(),
        },
        form,
    };
    if page.form.is_refused() {
        return page::render(400, &page);
    }
    page::render_live(&request, &page)
}

/// Reads the service of the filter, by its name or id, and shows its name in the field.
async fn read_service(
    app: &App,
    viewer: &Viewer,
    form: &mut Form,
) -> Result<Option<Service>, ApiError> {
    let given = form.value("service").trim().to_owned();
    let service = named::find::<Service>(&app.store, viewer.tenant(), &given).await?;
    match &service {
        Some(service) => form.set("service", service.name.clone()),
        None if given.is_empty() => {}
        None => {
            let message = format!("No service is named \"{}\"", format::excerpt(&given));
            *form = std::mem::take(form).refuse_field("service", format::visible(&message));
        }
    }
    Ok(service)
}

/// Returns a number of open incidents, which are counted up to a limit.
pub(in crate::dashboard) fn counted(count: u64) -> String {
    let counted = format::counted(count, "open incident", "open incidents");
    match count {
        0 => "No open incidents".to_owned(),
        1..MAX_COUNTED_INCIDENTS => counted,
        _ => format!("At least {counted}"),
    }
}

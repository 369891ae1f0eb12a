//! `GET /changes`

use std::cmp::Reverse;
use std::collections::BTreeMap;

use askama::Template;
use changelog_core::query::Pairs;
use changelog_core::text::composed;
use changelog_core::{Change, ChangeFilter, Environment, RiskLevel, Status, Timestamp, list};

use chrono::NaiveDate;

use crate::app::App;
use crate::blocking_pool;
use crate::dashboard::around;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::pager::Pager;
use crate::dashboard::parts::query_string::{address, with, without};
use crate::dashboard::parts::time_ranges::TIME_RANGES;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page, zone};
use crate::store::{StoreError, Tenant};
use crate::web::{ApiError, ApiResult, Request};

/// The parameters that take several words: a form repeats the name, the API separates
/// the words by commas.
const SEVERAL: [&str; 3] = ["environment", "risk_level", "status"];

#[derive(Template)]
#[template(path = "changes/list.html")]
struct List<'a> {
    viewer: &'a Viewer,
    form: &'a Form,
    /// Labels and addresses.
    time_ranges: Vec<(&'static str, String)>,
    environments: &'static [&'static str],
    risks: &'static [&'static str],
    statuses: &'static [&'static str],
    is_filtered: bool,
    count: u64,
    changes: &'a [Change],
    days: Vec<(NaiveDate, Vec<&'a Change>)>,
    query: &'a str,
    pager: Pager,
}

impl List<'_> {
    fn download(&self, extension: &str) -> String {
        let query = without(self.query, &["page"]);
        address(&format!("/changes.{extension}"), &query)
    }
}

/// `GET /changes`
pub(in crate::dashboard) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Changes).await?;
    let tenant = viewer.tenant();
    let text = request.query_form();
    if let Some(address) =
        around::address_of_search(text.value("text"), &viewer.zone, app.now().into())
    {
        return Ok(page::see_other(&address));
    }
    let (query, mut form) = canonical_query(&app, tenant, request.query_form()).await?;
    if !form.is_refused() && query != request.query {
        return Ok(page::see_other(&address("/changes", &query)));
    }
    let filter = match ChangeFilter::from_query(&query) {
        Ok(filter) => filter,
        Err(invalid) => {
            form = form.refuse(&invalid);
            ChangeFilter::default()
        }
    };
    let (count, changes) = if form.is_refused() {
        (0, Vec::new())
    } else {
        let list = app.store.changes(tenant, &filter).await?;
        let count = list.count;
        let changes =
            blocking_pool::run_sized(list.json.0.len(), move || list.json.parse()).await?;
        (count, changes)
    };
    let mut days: BTreeMap<Reverse<NaiveDate>, Vec<&Change>> = BTreeMap::new();
    for change in &changes {
        let day = viewer.zone.date(change.effective_at());
        days.entry(Reverse(day)).or_default().push(change);
    }
    let now = Timestamp::from(app.now());
    let first_page = without(&query, &["page"]);
    let page = List {
        viewer: &viewer,
        form: &with_filter_values(&app, &viewer, form, &filter, &changes).await?,
        time_ranges: TIME_RANGES
            .iter()
            .map(|range| {
                let query = with(&first_page, "since", range.start(now));
                (range.label, address("/changes", &query))
            })
            .collect(),
        environments: Environment::WORDS,
        risks: RiskLevel::WORDS,
        statuses: Status::WORDS,
        is_filtered: !first_page.is_empty(),
        count,
        changes: &changes,
        days: days
            .into_iter()
            .map(|(day, changes)| (day.0, changes))
            .collect(),
        query: &query,
        pager: Pager::of_pages("/changes", &query, filter.page, filter.per_page, count),
    };
    if page.form.is_refused() {
        return page::render(400, &page);
    }
    page::render_live(&request, &page)
}

/// Converts the filter form to the query string of the API: without empty fields,
/// with ids for names and RFC 3339 for times. Values that cannot be converted
/// become errors of the form.
async fn canonical_query(
    app: &App,
    tenant: Tenant,
    form: Form,
) -> Result<(String, Form), ApiError> {
    let mut pairs: Vec<(&str, String)> = Vec::new();
    let mut errors: Vec<(&str, &str)> = Vec::new();
    let zone = form.zone();
    for (name, value) in form.pairs() {
        let value = value.trim();
        match name {
            _ if value.is_empty() => {}
            "page" if value == "1" => {}
            _ if SEVERAL.contains(&name) => {
                match pairs.iter_mut().find(|(found, _)| *found == name) {
                    Some((_, words)) => {
                        words.push(',');
                        words.push_str(value);
                    }
                    None => pairs.push((name, value.to_owned())),
                }
            }
            "since" | "until" => pairs.push((name, zone.parse_field(value))),
            zone::FIELD => {}
            "tags" => {
                let tags = list::parse(value).into_iter();
                pairs.extend(tags.map(|tag| ("tag", tag)));
            }
            // PostgreSQL does not accept it in a string.
            "service" | "host" if value.contains('\0') => {
                errors.push((name, "must not contain NUL"));
            }
            // This bounds the lookups of one request.
            "service" | "host" if is_repeated(&form, name) => {
                errors.push((name, "must be given once"));
            }
            "service" => match app.store.service_named(tenant, &composed(value)).await? {
                Some(service) => pairs.push(("service_id", service.id.to_string())),
                None => errors.push((name, "no service has this name")),
            },
            "host" => match app.store.host_named(tenant, &composed(value)).await? {
                Some(host) => pairs.push(("host_id", host.id.to_string())),
                None => errors.push((name, "no host has this name")),
            },
            // The form sends the name as well, which may have been edited.
            "service_id" | "host_id" if !form.value(&name[..name.len() - 3]).trim().is_empty() => {}
            _ => pairs.push((name, value.to_owned())),
        }
    }
    let mut query = Pairs::default();
    for (name, value) in pairs {
        query.push(name, value);
    }
    let mut refused = form.clone();
    for (name, message) in errors {
        refused = refused.refuse_field(name, message);
    }
    Ok((query.finish(), refused))
}

fn is_repeated(form: &Form, name: &str) -> bool {
    form.pairs().filter(|(found, _)| *found == name).count() > 1
}

/// Fills the form with the values of the filter, unless it was refused. The listed
/// changes have the name of an author that the filter has the id of.
async fn with_filter_values(
    app: &App,
    viewer: &Viewer,
    form: Form,
    filter: &ChangeFilter,
    changes: &[Change],
) -> Result<Form, ApiError> {
    if form.is_refused() {
        return Ok(form);
    }
    let (tenant, zone) = (viewer.tenant(), &viewer.zone);
    let service = match filter.service_id {
        Some(id) => if_found(app.store.service(tenant, id).await)?.map(|service| service.name),
        None => None,
    };
    let host = match filter.host_id {
        Some(id) => if_found(app.store.host(tenant, id).await)?.map(|host| host.hostname),
        None => None,
    };
    let time = |at: &Option<Timestamp>| at.as_ref().map(|at| zone.field(at)).unwrap_or_default();
    let author = filter.created_by.as_ref().map(|author| {
        let mut authors = changes
            .iter()
            .filter_map(|change| change.created_by.as_ref());
        let named = authors.find(|found| found.id.to_string().eq_ignore_ascii_case(author));
        named.map_or_else(|| author.clone(), |found| found.name.clone())
    });
    Ok(Form::with_values([
        ("q", filter.q.clone().unwrap_or_default()),
        ("text", filter.text.clone().unwrap_or_default()),
        ("created_by", author.unwrap_or_default()),
        ("service", service.unwrap_or_default()),
        ("host", host.unwrap_or_default()),
        ("environment", words(&filter.environments)),
        ("risk_level", words(&filter.risk_levels)),
        ("status", words(&filter.statuses)),
        ("tags", list::format(&filter.tags)),
        ("since", time(&filter.since)),
        ("until", time(&filter.until)),
    ]))
}

fn words(chosen: &[impl ToString]) -> String {
    let words: Vec<String> = chosen.iter().map(ToString::to_string).collect();
    words.join(",")
}

fn if_found<T>(found: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(StoreError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

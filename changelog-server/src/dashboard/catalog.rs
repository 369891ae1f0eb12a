//! What services and hosts have in common: a list with counts, and a page each
//! with its changes and its year.

use askama::Template;
use changelog_core::{Change, ChangeFilter, ChangeId, Environment, Platform, Timestamp};

use crate::app::App;
use crate::dashboard::parts::charts;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::pager::Pager;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::store::{Scope, StoreError};
use crate::web::{ApiError, ApiResult, Request};

/// How many a page.
pub(super) const PER_PAGE: u64 = 50;
/// How many changes are shown of one.
const CHANGES: u64 = 15;

/// What tells services from hosts.
pub(super) struct Kind {
    pub(super) section: Section,
    path: &'static str,
    noun: &'static str,
    plural: &'static str,
    /// What the column of names is called, and the one beside it.
    column: &'static str,
    about: &'static str,
    /// A command that makes one.
    example: &'static str,
}

pub(super) const SERVICES: Kind = Kind {
    section: Section::Services,
    path: "/services",
    noun: "service",
    plural: "Services",
    column: "Name",
    about: "Description",
    example: "chlog service create payments",
};

pub(super) const HOSTS: Kind = Kind {
    section: Section::Hosts,
    path: "/hosts",
    noun: "host",
    plural: "Hosts",
    column: "Hostname",
    about: "Where and what for",
    example: "chlog host create web-1",
};

/// A row of the list.
pub(super) struct Row {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) about: String,
    pub(super) changes: u64,
    pub(super) last: Option<(ChangeId, Timestamp)>,
}

#[derive(Template)]
#[template(path = "catalog/list.html")]
struct List<'a> {
    viewer: &'a Viewer,
    kind: &'a Kind,
    rows: Vec<Row>,
    pager: Pager,
    form: Form,
    environments: &'static [&'static str],
    platforms: &'static [&'static str],
}

/// Reads which page of the list is asked for.
pub(super) fn offset(request: &Request) -> u64 {
    let form = request.query_form();
    form.value("offset").parse().unwrap_or(0)
}

/// Shows the list; one row more than a page says that there are more.
pub(super) fn list(
    viewer: &Viewer,
    kind: &Kind,
    mut rows: Vec<Row>,
    offset: u64,
    form: Form,
) -> ApiResult {
    let most = usize::try_from(PER_PAGE).unwrap_or(usize::MAX);
    let has_more = rows.len() > most;
    rows.truncate(most);
    let status = if form.is_refused() { 422 } else { 200 };
    let page = List {
        viewer,
        kind,
        rows,
        pager: Pager::of_offset(kind.path, "", PER_PAGE, offset, has_more),
        form,
        environments: Environment::WORDS,
        platforms: Platform::WORDS,
    };
    page::render(status, &page)
}

/// One service or host, as its page shows it.
pub(super) struct Thing {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) about: Option<String>,
    pub(super) created_at: Timestamp,
    /// Its changes: the filter, its query string, and what counts them.
    pub(super) filter: ChangeFilter,
    pub(super) query: String,
    /// The command that logs one.
    pub(super) log: String,
}

#[derive(Template)]
#[template(path = "catalog/one.html")]
struct One<'a> {
    viewer: &'a Viewer,
    kind: &'a Kind,
    id: String,
    name: String,
    facts: Vec<(&'static str, String)>,
    about: Option<String>,
    created_at: Timestamp,
    count: u64,
    changes: Vec<Change>,
    query: String,
    log: String,
    calendar: String,
    form: Form,
    environments: &'static [&'static str],
    platforms: &'static [&'static str],
}

/// Shows one.
pub(super) async fn one(
    app: &App,
    request: &Request,
    viewer: &Viewer,
    kind: &Kind,
    thing: Thing,
    scope: Scope<'_>,
    form: Form,
) -> ApiResult {
    let tenant = viewer.tenant();
    let filter = ChangeFilter {
        per_page: CHANGES,
        ..thing.filter
    };
    let list = app.store.changes(tenant, &filter).await?;
    let today = app.now().timestamp().div_euclid(86_400);
    let days = app
        .store
        .daily_counts(tenant, scope, charts::year(today))
        .await?;
    let is_refused = form.is_refused();
    let page = One {
        viewer,
        kind,
        calendar: charts::calendar(&days, today, &thing.query),
        id: thing.id,
        name: thing.name,
        facts: thing.facts,
        about: thing.about,
        created_at: thing.created_at,
        count: list.count,
        changes: list.parse()?,
        query: thing.query,
        log: thing.log,
        form,
        environments: Environment::WORDS,
        platforms: Platform::WORDS,
    };
    if is_refused {
        page::render(422, &page)
    } else {
        page::render_live(request, &page)
    }
}

/// Notes in a form why something was not saved: a rule, or a name that is taken.
pub(super) fn refuse(form: Form, error: StoreError, field: &str) -> Result<Form, ApiError> {
    match error {
        StoreError::Invalid(invalid) => Ok(form.refuse(&invalid)),
        StoreError::Conflict => {
            let name = form.value(field).trim().to_owned();
            Ok(form.refuse_field(field, format!("{name:?} exists already")))
        }
        error => Err(error.into()),
    }
}

/// A text, or a dash where there is none.
pub(super) fn or_none(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "none".to_owned(), |text| text.to_string())
}

//! `/changes`: the list, one change, and what makes, changes and deletes one.

pub(super) mod download;

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use changelog_core::query::Pairs;
use changelog_core::text::composed;
use changelog_core::{
    Action, Change, ChangeFilter, ChangeId, ChangePatch, Invalid, NewChange, ResourceType,
    RiskLevel, Status, Timestamp,
};
use chrono::TimeDelta;

use crate::app::App;
use crate::dashboard::parts::activity_rows::ActivityRow;
use crate::dashboard::parts::form::{self, Form, Kind};
use crate::dashboard::parts::pager::Pager;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::store::activity;
use crate::store::{ChangeList, Creation, Draft, StoreError, Tenant};
use crate::web::{ApiError, ApiResult, Request, blocking_pool};

/// The fields of the form, and what they are in the API.
const FIELDS: [(&str, Kind); 11] = [
    ("title", Kind::Required),
    ("description", Kind::Optional),
    ("service_id", Kind::Optional),
    ("host_id", Kind::Optional),
    ("risk_level", Kind::Optional),
    ("status", Kind::Optional),
    ("impact", Kind::Optional),
    ("tags", Kind::List),
    ("links", Kind::Links),
    ("scheduled_for", Kind::Moment),
    ("occurred_at", Kind::Moment),
];

/// How far around a change others are shown.
const AROUND: TimeDelta = TimeDelta::hours(1);
/// How many of them.
const MOST_AROUND: u64 = 15;

/// A link to a span of time.
struct Preset {
    label: &'static str,
    address: String,
}

#[derive(Template)]
#[template(path = "changes/list.html")]
struct List<'a> {
    viewer: &'a Viewer,
    form: &'a Form,
    presets: Vec<Preset>,
    risks: &'static [&'static str],
    statuses: &'static [&'static str],
    is_filtered: bool,
    count: u64,
    changes: &'a [Change],
    days: Vec<(i64, Vec<&'a Change>)>,
    query: &'a str,
    pager: Pager,
}

impl List<'_> {
    fn download(&self, format: &str) -> String {
        let query = without(self.query, "page");
        if query.is_empty() {
            format!("/changes.{format}")
        } else {
            format!("/changes.{format}?{query}")
        }
    }
}

/// `GET /changes`
pub(super) async fn list(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Changes).await?;
    let form = request.query_form();
    let tenant = viewer.tenant();
    let (query, mut form) = canonical(&app, tenant, form).await?;
    if !form.is_refused() && query != request.query {
        let question = if query.is_empty() { "" } else { "?" };
        return Ok(page::see_other(&format!("/changes{question}{query}")));
    }
    let filter = match ChangeFilter::from_query(&query) {
        Ok(filter) => filter,
        Err(invalid) => {
            form = form.refuse(&invalid);
            ChangeFilter::default()
        }
    };
    let list = if form.is_refused() {
        ChangeList {
            json: String::new(),
            count: 0,
        }
    } else {
        app.store.changes(tenant, &filter).await?
    };
    let count = list.count;
    let changes = blocking_pool::run_sized(list.json.len(), move || list.parse()).await?;
    let mut days: BTreeMap<_, Vec<&Change>> = BTreeMap::new();
    for change in &changes {
        let day = change.occurred_at.millis().div_euclid(86_400_000);
        days.entry(std::cmp::Reverse(day)).or_default().push(change);
    }
    let now = Timestamp::from(app.now());
    let without_time = without(&without(&query, "since"), "page");
    let page = List {
        viewer: &viewer,
        form: &shown(&app, tenant, form, &filter).await?,
        presets: crate::dashboard::overview::PRESETS
            .iter()
            .map(|preset| {
                let since = format::query("since", preset.start(now));
                let and = if without_time.is_empty() { "" } else { "&" };
                Preset {
                    label: preset.label,
                    address: format!("/changes?{without_time}{and}{since}"),
                }
            })
            .collect(),
        risks: RiskLevel::WORDS,
        statuses: Status::WORDS,
        is_filtered: !without(&query, "page").is_empty(),
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

/// Makes the address of a list of what the filters say: what is empty is left
/// out, names become ids, moments in UTC become RFC 3339. What cannot be read
/// is noted in the form.
async fn canonical(app: &App, tenant: Tenant, form: Form) -> Result<(String, Form), ApiError> {
    let mut pairs: Vec<(&str, String)> = Vec::new();
    let mut refused: Vec<(&str, &str)> = Vec::new();
    for (name, value) in form.pairs() {
        let value = value.trim();
        match name {
            _ if value.is_empty() => {}
            // No name has it, and PostgreSQL does not take it as a text.
            "service" if value.contains('\0') => refused.push(("service", "must not contain NUL")),
            "host" if value.contains('\0') => refused.push(("host", "must not contain NUL")),
            "page" if value == "1" => {}
            "since" | "until" => pairs.push((name, form::moment(value))),
            "tags" => {
                let tags = form::list(value).into_iter();
                pairs.extend(tags.map(|tag| ("tag", tag)));
            }
            // One look into the database for each, however often it is given.
            "service" if is_repeated(&form, "service") => {
                refused.push(("service", "must be given once"));
            }
            "host" if is_repeated(&form, "host") => {
                refused.push(("host", "must be given once"));
            }
            "service" => match app.store.service_named(tenant, &composed(value)).await? {
                Some(service) => pairs.push(("service_id", service.id.to_string())),
                None => refused.push(("service", "there is no service of this name")),
            },
            "host" => match app.store.host_named(tenant, &composed(value)).await? {
                Some(host) => pairs.push(("host_id", host.id.to_string())),
                None => refused.push(("host", "there is no host of this name")),
            },
            // The form says it by name; the name wins when it was typed anew.
            "service_id" | "host_id" if !form.value(&name[..name.len() - 3]).trim().is_empty() => {}
            _ => pairs.push((name, value.to_owned())),
        }
    }
    let mut query = Pairs::default();
    for (name, value) in pairs {
        query.push(name, value);
    }
    let query = query.finish();
    let refuse = |form: Form, (field, message): (&str, &str)| form.refuse_field(field, message);
    Ok((query, refused.into_iter().fold(form, refuse)))
}

fn is_repeated(form: &Form, name: &str) -> bool {
    form.pairs().filter(|(found, _)| *found == name).count() > 1
}

/// Fills the form for the filters with what they are.
async fn shown(
    app: &App,
    tenant: Tenant,
    form: Form,
    filter: &ChangeFilter,
) -> Result<Form, ApiError> {
    if form.is_refused() {
        return Ok(form);
    }
    let service = match filter.service_id {
        Some(id) => name_of(app.store.service(tenant, id).await)?.map(|service| service.name),
        None => None,
    };
    let host = match filter.host_id {
        Some(id) => name_of(app.store.host(tenant, id).await)?.map(|host| host.hostname),
        None => None,
    };
    let moment = |at: &Option<Timestamp>| at.as_ref().map(format::field).unwrap_or_default();
    let word = |word: Option<&str>| word.unwrap_or_default().to_owned();
    Ok(Form::showing([
        ("q", filter.q.clone().unwrap_or_default()),
        ("service", service.unwrap_or_default()),
        ("host", host.unwrap_or_default()),
        (
            "risk_level",
            word(filter.risk_level.as_ref().map(RiskLevel::as_str)),
        ),
        ("status", word(filter.status.as_ref().map(Status::as_str))),
        ("tags", form::listed(&filter.tags)),
        ("since", moment(&filter.since)),
        ("until", moment(&filter.until)),
    ]))
}

/// Takes what is not there for nothing.
fn name_of<T>(found: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(StoreError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Leaves a parameter out of a query string.
fn without(query: &str, name: &str) -> String {
    let mut kept = Pairs::default();
    for (found, value) in form_urlencoded::parse(query.as_bytes()) {
        if found != name {
            kept.push(&found, value);
        }
    }
    kept.finish()
}

#[derive(Template)]
#[template(path = "changes/one.html")]
struct One<'a> {
    viewer: &'a Viewer,
    change: &'a Change,
    description: Option<Arc<str>>,
    impact: Option<Arc<str>>,
    /// Statuses that a button moves it to.
    moves: Vec<(&'static str, &'static str)>,
    around: Vec<Change>,
    around_count: u64,
    around_query: String,
    history: Vec<ActivityRow>,
    chlog: String,
    curl: String,
}

/// `GET /changes/ID`
pub(super) async fn one(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Changes).await?;
    let tenant = viewer.tenant();
    let change = find(&app, tenant, request.id()?).await?;
    let around = ChangeFilter {
        since: Some(change.occurred_at.plus(-AROUND)),
        // Exclusive.
        until: Some(
            change
                .occurred_at
                .plus(AROUND)
                .plus(TimeDelta::milliseconds(1)),
        ),
        per_page: MOST_AROUND + 1,
        ..ChangeFilter::default()
    };
    let list = app.store.changes(tenant, &around).await?;
    let around_count = list.count;
    let mut others = blocking_pool::run_sized(list.json.len(), move || list.parse()).await?;
    others.retain(|other| other.id != change.id);
    let history = app
        .store
        .history(tenant, ResourceType::Change, change.id.0, change.created_at)
        .await?;
    let url = app.url();
    let page = One {
        viewer: &viewer,
        description: rendered(&app, change.description.as_deref()).await,
        impact: rendered(&app, change.impact.as_deref()).await,
        moves: moves(&change.status),
        around: others,
        around_count,
        around_query: without(&without(&around.to_query(), "page"), "per_page"),
        history: history.into_iter().map(ActivityRow::from).collect(),
        chlog: format!("chlog show {}", change.id),
        curl: format!(
            "curl -H \"x-api-key: $CHLOG_API_KEY\" {url}/api/changes/{}",
            change.id
        ),
        change: &change,
    };
    page::render_live(&request, &page)
}

async fn rendered(app: &App, text: Option<&str>) -> Option<Arc<str>> {
    match text {
        Some(text) => Some(app.markdown.render(text).await),
        None => None,
    }
}

/// Returns the statuses that usually follow one.
fn moves(status: &Status) -> Vec<(&'static str, &'static str)> {
    match status {
        Status::Planned => vec![("in_progress", "Start"), ("completed", "Mark completed")],
        Status::InProgress => vec![
            ("completed", "Mark completed"),
            ("rolled_back", "Roll back"),
        ],
        Status::Completed => vec![("rolled_back", "Roll back")],
        _ => Vec::new(),
    }
}

async fn find(app: &App, tenant: Tenant, id: ChangeId) -> Result<Change, ApiError> {
    Ok(app.store.change(tenant, id).await?.parse()?)
}

#[derive(Template)]
#[template(path = "changes/form.html")]
struct Edit<'a> {
    viewer: &'a Viewer,
    form: Form,
    heading: String,
    action: String,
    back: String,
    button: &'static str,
    is_new: bool,
    risks: &'static [&'static str],
    statuses: &'static [&'static str],
    services: Vec<(String, String)>,
    hosts: Vec<(String, String)>,
}

/// Shows the form, for a new change or for one that there is.
async fn edit_page(app: &App, viewer: &Viewer, form: Form, change: Option<&Change>) -> ApiResult {
    let status = if form.is_refused() { 422 } else { 200 };
    let services = app.store.service_names(viewer.tenant()).await?;
    let hosts = app.store.host_names(viewer.tenant()).await?;
    let (heading, action, button) = match change {
        None => (
            "Log a change".to_owned(),
            "/changes".to_owned(),
            "Log change",
        ),
        Some(change) => (
            format!("Edit {}", change.title),
            format!("/changes/{}", change.id),
            "Save",
        ),
    };
    let page = Edit {
        viewer,
        form,
        heading,
        back: action.clone(),
        action,
        button,
        is_new: change.is_none(),
        risks: RiskLevel::WORDS,
        statuses: Status::WORDS,
        services: services
            .into_iter()
            .map(|(id, name)| (id.to_string(), name))
            .collect(),
        hosts: hosts
            .into_iter()
            .map(|(id, name)| (id.to_string(), name))
            .collect(),
    };
    page::render(status, &page)
}

/// `GET /changes/new`
pub(super) async fn new(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Changes).await?;
    // What the address says is filled in already.
    edit_page(&app, &viewer, request.query_form(), None).await
}

/// `POST /changes`
pub(super) async fn create(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Changes).await?;
    let form = request.form().await?;
    let now = app.now();
    let new: NewChange = match form.create(&FIELDS, now.into()).await {
        Ok(new) => new,
        Err(invalid) => return edit_page(&app, &viewer, form.refuse(&invalid), None).await,
    };
    let draft = Draft::new(viewer.tenant(), &viewer.actor(), new, now)?;
    match app.store.create_changes(Creation::one(draft, None)).await {
        Ok(created) => {
            let id = created.changes.first().map(|change| change.id.to_string());
            let id = id.unwrap_or_default();
            Ok(page::see_other(&format!("/changes/{id}")))
        }
        Err(StoreError::Invalid(invalid)) => {
            edit_page(&app, &viewer, form.refuse(&invalid), None).await
        }
        Err(error) => Err(error.into()),
    }
}

/// `GET /changes/ID/edit`
pub(super) async fn edit(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Changes).await?;
    let change = find(&app, viewer.tenant(), request.id()?).await?;
    let id = |id: Option<String>| id.unwrap_or_default();
    let links = change.links.iter();
    let links: Vec<String> = links
        .map(|link| format!("{}={}", link.label, link.url))
        .collect();
    let form = Form::showing([
        ("title", change.title.clone()),
        (
            "description",
            change.description.clone().unwrap_or_default(),
        ),
        ("impact", change.impact.clone().unwrap_or_default()),
        ("risk_level", change.risk_level.to_string()),
        ("status", change.status.to_string()),
        (
            "service_id",
            id(change
                .service
                .as_ref()
                .map(|service| service.id.to_string())),
        ),
        (
            "host_id",
            id(change.host_ref.as_ref().map(|host| host.id.to_string())),
        ),
        ("tags", form::listed(&change.tags)),
        ("links", links.join("\n")),
        (
            "scheduled_for",
            id(change.scheduled_for.as_ref().map(format::field)),
        ),
    ]);
    edit_page(&app, &viewer, form, Some(&change)).await
}

/// `POST /changes/ID`
pub(super) async fn update(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Changes).await?;
    let id: ChangeId = request.id()?;
    let form = request.form().await?;
    let outcome = match form.patch(&FIELDS, app.now().into()).await {
        Ok(patch) => save(&app, &viewer, id, &patch).await,
        Err(invalid) => Err(StoreError::Invalid(invalid)),
    };
    match outcome {
        Ok(()) => Ok(page::see_other(&format!("/changes/{id}"))),
        Err(StoreError::Invalid(invalid)) => refused(&app, &viewer, id, form, &invalid).await,
        Err(error) => Err(error.into()),
    }
}

async fn refused(
    app: &App,
    viewer: &Viewer,
    id: ChangeId,
    form: Form,
    invalid: &Invalid,
) -> ApiResult {
    let change = find(app, viewer.tenant(), id).await?;
    edit_page(app, viewer, form.refuse(invalid), Some(&change)).await
}

async fn save(
    app: &App,
    viewer: &Viewer,
    id: ChangeId,
    patch: &ChangePatch,
) -> Result<(), StoreError> {
    let (tenant, actor) = (viewer.tenant(), viewer.actor());
    let mut tx = app.store.begin_for(tenant).await?;
    let (change, changes) = tx.update_change(tenant, id, patch, &app.clock).await?;
    if !changes.is_empty() {
        let entry =
            activity::Entry::of_change(Action::Updated, &change, activity::changed(changes));
        tx.record(tenant, &actor, entry, app.now()).await?;
    }
    tx.commit().await
}

/// `POST /changes/ID/delete`
pub(super) async fn delete(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Changes).await?;
    let (tenant, actor) = (viewer.tenant(), viewer.actor());
    let mut tx = app.store.begin_for(tenant).await?;
    let change = tx.delete_change(tenant, request.id()?).await?;
    let entry = activity::Entry::of_change(Action::Deleted, &change, serde_json::Map::new());
    tx.record(tenant, &actor, entry, app.now()).await?;
    tx.commit().await?;
    Ok(page::see_other("/changes"))
}

//! Logging and editing a change.

use std::sync::LazyLock;

use askama::Template;
use changelog_core::change::fields::{self, FieldKind as ChangeField};
use changelog_core::limits::{MAX_SERVICES, MAX_TAGS, MAX_TITLE_CHARS, MIN_TITLE_CHARS};
use changelog_core::{
    Change, ChangeId, ChangePatch, Environment, Host, NewChange, Outcome, RiskLevel, Service,
    Status, list,
};

use super::find;
use crate::app::App;
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::named;
use crate::dashboard::parts::shown_values::SHOWN;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::zone::{FIELD as TIME_ZONE, Zone};
use crate::dashboard::parts::{assets, format, page};
use crate::store::{Creation, Draft, StoreError};
use crate::web::{ApiResult, Request};

/// The field with the first service, and the one with the others.
const FIRST_SERVICE: &str = "service_id";
const FURTHER_SERVICES: &str = "service_ids";
const HOST: &str = "host_id";
const SCHEDULE: &str = "scheduled_for";

/// What most people fill in, in rows; the other fields are folded below them.
const MAIN_ROWS: [&[&str]; 5] = [
    &["title"],
    &[FIRST_SERVICE, HOST, "environment", "risk_level"],
    &["status", SCHEDULE],
    &["description"],
    &["tags"],
];
/// The fields of another change that a new one begins with.
const COPIED: [&str; 10] = [
    "title",
    FIRST_SERVICE,
    FURTHER_SERVICES,
    HOST,
    "environment",
    "risk_level",
    "description",
    "impact",
    "tags",
    "links",
];

/// The fields of the form for a new change.
static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let fields = fields::FIELDS.iter().filter_map(form_field);
    let as_new = |field: Field| match (field.name, field.kind) {
        ("status", FieldKind::Choice { words, .. }) => Field {
            kind: FieldKind::Choice {
                words,
                none: Some("Completed, or planned"),
            },
            ..field
        },
        _ => field,
    };
    fields.map(as_new).collect()
});

/// The fields of the form for an existing change.
static EDIT_FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let reason = Field::new("reason", FieldKind::Optional, "Reason for the rollback")
        .hint("For the history; needs the status rolled back.");
    let fields = fields::FIELDS.iter().filter_map(form_field);
    let mut fields: Vec<Field> = fields.filter(|field| field.name != "occurred_at").collect();
    let after_outcome = fields.iter().position(|field| field.name == "outcome");
    fields.insert(after_outcome.map_or(0, |at| at + 1), reason);
    fields
});

/// Returns the field of the form; `None` for what only clients of the API set.
fn form_field(field: &fields::Field) -> Option<Field> {
    let new = |kind, label| Field::new(field.name, kind, label);
    let choice = |words| FieldKind::Choice { words, none: None };
    let optional_choice = |words, none| FieldKind::Choice {
        words,
        none: Some(none),
    };
    let field = match field.kind {
        ChangeField::Title => new(FieldKind::Required, "Title").hint(
            format!(
                "What was changed, in one line of {MIN_TITLE_CHARS} to {MAX_TITLE_CHARS} characters."
            )
            .leak(),
        ),
        ChangeField::LongText(text) => {
            new(FieldKind::LongText, text.label).hint(format!("{}.", text.help).leak())
        }
        ChangeField::RiskLevel => new(choice(RiskLevel::WORDS), "Risk"),
        ChangeField::Status => new(choice(Status::WORDS), "Status"),
        ChangeField::Outcome(outcome) => {
            new(optional_choice(Outcome::WORDS, "not recorded"), outcome.label)
        }
        ChangeField::Service => new(FieldKind::Optional, "Service").completed_from("services"),
        ChangeField::Services => new(FieldKind::List, "Further services")
            .hint("Names or ids of services, separated by commas.")
            .completed_from("services"),
        ChangeField::Environment(environment) => {
            let of_host = optional_choice(Environment::WORDS, "Same as host");
            new(of_host, environment.label)
        }
        ChangeField::Host => new(FieldKind::Optional, "Host").completed_from("hosts"),
        ChangeField::Tags => new(FieldKind::List, "Tags")
            .hint(format!("Separated by commas, at most {MAX_TAGS}.").leak())
            .completed_from("tags"),
        ChangeField::Links => new(FieldKind::Links, "Links")
            .hint("One label=URL per line: pipeline=https://ci.example.com/runs/42"),
        ChangeField::Time(time) if field.name != "committed_at" => {
            new(FieldKind::Time, time.label)
                .hint(format!("{}.", time.help).leak())
        }
        ChangeField::ShortText(text) if field.name == "on_behalf_of" => {
            new(FieldKind::Optional, text.field.label)
                .hint(format!("{}.", text.field.help).leak())
        }
        ChangeField::OccurredAt => new(FieldKind::Time, "Time of change")
            .hint("Leave empty for now. It cannot be changed later."),
        _ => return None,
    };
    Some(field)
}

#[derive(Template)]
#[template(path = "changes/form.html")]
struct Edit<'a> {
    viewer: &'a Viewer,
    form: Form,
    /// The rows of fields that are always shown.
    rows: Vec<Vec<&'static Field>>,
    /// The fields that are folded.
    more: Vec<&'static Field>,
    /// Whether one of those has a value or an error.
    is_more_open: bool,
    heading: String,
    action: String,
    button: &'static str,
    is_new: bool,
}

/// Shows the form for a new change or for an existing one.
fn form_page(viewer: &Viewer, form: Form, change: Option<&Change>) -> ApiResult {
    let status = if form.is_refused() { 422 } else { 200 };
    let fields: &'static [Field] = match change {
        None => &FIELDS,
        Some(_) => &EDIT_FIELDS,
    };
    let named = |name: &&str| fields.iter().find(|field| field.name == *name);
    let is_main = |field: &&Field| MAIN_ROWS.iter().any(|row| row.contains(&field.name));
    let (_, more): (Vec<_>, Vec<_>) = fields.iter().partition(is_main);
    let is_used =
        |field: &&Field| !form.value(field.name).is_empty() || form.has_errors(field.name);
    let page = Edit {
        viewer,
        rows: MAIN_ROWS
            .iter()
            .map(|row| row.iter().filter_map(named).collect())
            .collect(),
        is_more_open: more.iter().any(is_used),
        more,
        form,
        heading: match change {
            None => "Log a change".to_owned(),
            Some(change) => format!("Edit {}", format::visible(&change.title)),
        },
        action: match change {
            None => "/changes".to_owned(),
            Some(change) => format!("/changes/{}", change.id),
        },
        button: match change {
            None => "Log change",
            Some(_) => "Save",
        },
        is_new: change.is_none(),
    };
    page::render(status, &page)
}

/// `GET /changes/new`
pub(in crate::dashboard) async fn new_form(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Changes).await?;
    // Query parameters fill in the form.
    let mut form = request.query_form();
    if let Ok(id) = form.value("from").parse::<ChangeId>() {
        let other = find(&app, viewer.tenant(), id).await?;
        let mut copy = present_form(&other, viewer.zone);
        copy.retain(&COPIED);
        form = form.with_missing(copy);
    }
    with_names(&app, &viewer, &mut form).await?;
    form_page(&viewer, form.focused_on("title"), None)
}

/// `POST /changes`
pub(in crate::dashboard) async fn create(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Changes).await?;
    let form = request.form().await?;
    match insert(&app, &viewer, &form).await {
        Ok(id) => Ok(page::see_other(&format!("/changes/{id}"))),
        Err(StoreError::Invalid(invalid)) => form_page(&viewer, form.refuse(&invalid), None),
        Err(error) => Err(error.into()),
    }
}

/// Creates a change and returns its id.
async fn insert(app: &App, viewer: &Viewer, form: &Form) -> Result<String, StoreError> {
    let (tenant, now) = (viewer.tenant(), app.now());
    let mut form = with_ids(app, viewer, form, form.clone()).await?;
    if form.value("status").is_empty() {
        let is_planned = !form.value(SCHEDULE).trim().is_empty();
        let status = if is_planned {
            Status::Planned
        } else {
            Status::Completed
        };
        form.set("status", status.to_string());
    }
    let mut new: NewChange = form.create(&FIELDS, now.into()).await?;
    let completed = std::slice::from_mut(&mut new);
    app.store.complete_environments(tenant, completed).await?;
    let draft = Draft::new(tenant, &viewer.actor(), new, now)?;
    let created = app.store.create_changes(Creation::one(draft, None)).await?;
    let id = created.changes.first().map(|change| change.id.to_string());
    Ok(id.unwrap_or_default())
}

/// Replaces the ids of a service and a host that a link fills in by their names.
async fn with_names(app: &App, viewer: &Viewer, form: &mut Form) -> Result<(), StoreError> {
    let (store, tenant) = (&app.store, viewer.tenant());
    if let Some(service) = named::find::<Service>(store, tenant, form.value(FIRST_SERVICE)).await? {
        form.set(FIRST_SERVICE, service.name);
    }
    if let Some(host) = named::find::<Host>(store, tenant, form.value(HOST)).await? {
        form.set(HOST, host.hostname);
    }
    Ok(())
}

/// Replaces the names of the host and of services in `sent` by their ids. If `sent` has one
/// of the two fields about services, all those of `form` are in one of them.
async fn with_ids(
    app: &App,
    viewer: &Viewer,
    form: &Form,
    mut sent: Form,
) -> Result<Form, StoreError> {
    let (store, tenant) = (&app.store, viewer.tenant());
    named::resolve::<Host>(store, tenant, &mut sent, HOST).await?;
    if !sent.has(FIRST_SERVICE) && !sent.has(FURTHER_SERVICES) {
        return Ok(sent);
    }
    for field in [FIRST_SERVICE, FURTHER_SERVICES] {
        if form.has(field) {
            sent.set(field, form.value(field).to_owned());
        }
    }
    named::resolve::<Service>(store, tenant, &mut sent, FIRST_SERVICE).await?;
    named::resolve_services(store, tenant, &mut sent, FURTHER_SERVICES, MAX_SERVICES).await?;
    if sent.has(FURTHER_SERVICES) {
        let mut ids = list::parse(sent.value(FIRST_SERVICE));
        ids.extend(list::parse(sent.value(FURTHER_SERVICES)));
        sent.remove(FIRST_SERVICE);
        sent.set(FURTHER_SERVICES, list::format(&ids));
    }
    Ok(sent)
}

/// `GET /changes/ID/edit`
pub(in crate::dashboard) async fn edit_form(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Changes).await?;
    let change = find(&app, viewer.tenant(), request.id()?).await?;
    let form = present_form(&change, viewer.zone);
    form_page(&viewer, form, Some(&change))
}

/// Returns the form with the present values of a change.
pub(super) fn present_form(change: &Change, zone: Zone) -> Form {
    let values = fields::FIELDS
        .iter()
        .map(|field| (field.name, value_of(change, field.kind, zone)));
    let zone = (TIME_ZONE, zone.name().to_owned());
    Form::with_values(values.chain([zone])).remembering(&EDIT_FIELDS)
}

/// Returns the present value of a field as the form shows it.
fn value_of(change: &Change, field: ChangeField, zone: Zone) -> String {
    match field {
        ChangeField::Title => change.title.clone(),
        ChangeField::LongText(text) => (text.of)(change).clone().unwrap_or_default(),
        ChangeField::RiskLevel => change.risk_level.to_string(),
        ChangeField::Status => change.status.to_string(),
        ChangeField::Service => {
            let service = change.service.as_ref();
            service.map(|one| one.name.clone()).unwrap_or_default()
        }
        ChangeField::Services => {
            let further = change.all_services().iter().skip(1);
            let names: Vec<_> = further.map(|service| service.name.clone()).collect();
            list::format(&names)
        }
        ChangeField::Outcome(outcome) => word((outcome.of)(change).as_ref()),
        ChangeField::Environment(environment) => word((environment.of)(change).as_ref()),
        ChangeField::ShortText(text) => (text.field.of)(change).clone().unwrap_or_default(),
        ChangeField::Host => {
            let host = change.host_ref.as_ref();
            host.map(|one| one.hostname.clone()).unwrap_or_default()
        }
        ChangeField::Tags => list::format(&change.tags),
        ChangeField::Links => {
            let lines: Vec<_> = change
                .links
                .iter()
                .map(|link| format!("{}={}", link.label, link.url))
                .collect();
            lines.join("\n")
        }
        ChangeField::Time(time) => {
            let at = (time.of)(change).as_ref();
            at.map(|at| zone.field(at)).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn word(value: Option<&impl ToString>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

/// `POST /changes/ID`
pub(in crate::dashboard) async fn update(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Changes).await?;
    let id: ChangeId = request.id()?;
    let form = request.form().await?;
    let change = find(&app, viewer.tenant(), id).await?;
    let present = present_form(&change, form.zone_or(viewer.zone));
    let form = match form.over(&present, &EDIT_FIELDS) {
        Ok(form) => form,
        Err(refused) => return form_page(&viewer, refused, Some(&change)),
    };
    match save(&app, &viewer, id, &form).await {
        Ok(()) => Ok(page::see_other(&format!("/changes/{id}"))),
        Err(StoreError::Invalid(invalid)) => {
            // A button sends some of the fields only.
            let form = form.with_missing(present).refuse(&invalid);
            form_page(&viewer, form, Some(&change))
        }
        Err(error) => Err(error.into()),
    }
}

async fn save(app: &App, viewer: &Viewer, id: ChangeId, form: &Form) -> Result<(), StoreError> {
    let changed = form.without_unchanged(&EDIT_FIELDS);
    let sent = with_ids(app, viewer, form, changed).await?;
    let patch: ChangePatch = sent.patch(&EDIT_FIELDS, app.now().into()).await?;
    let tenant = viewer.tenant();
    let mut tx = app.store.begin_for(tenant).await?;
    let actor = viewer.actor();
    tx.update_change(tenant, &actor, id, &patch, &app.clock)
        .await?;
    tx.commit().await
}

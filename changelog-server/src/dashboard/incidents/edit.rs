//! Opening, editing and resolving an incident.

use askama::Template;
use changelog_core::{
    Environment, Incident, IncidentId, IncidentPatch, IncidentStatus, NewIncident, Service,
    Severity,
};

use crate::app::App;
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::named;
use crate::dashboard::parts::shown_values::SHOWN;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::zone::{FIELD as TIME_ZONE, Zone};
use crate::dashboard::parts::{assets, format, page};
use crate::store::StoreError;
use crate::web::{ApiResult, Request};

const SERVICE: &str = "service_id";

const TITLE: Field =
    Field::new("title", FieldKind::Required, "Title").hint("What broke, in one line.");
const SEVERITY: Field = choice("severity", "Severity", Severity::WORDS, None);
const OF_SERVICE: Field =
    Field::new(SERVICE, FieldKind::Optional, "Service").completed_from("services");
const ENVIRONMENT: Field = choice(
    "environment",
    "Environment",
    Environment::WORDS,
    Some("not recorded"),
);
const URL: Field = Field::new("url", FieldKind::Optional, "Link")
    .hint("The alert, or the channel in which the incident is handled.");

/// The fields of the form for a new incident.
static FIELDS: [Field; 6] = [
    TITLE,
    SEVERITY,
    OF_SERVICE,
    ENVIRONMENT,
    Field::new("started_at", FieldKind::Time, "Started").hint("Leave empty for now."),
    URL,
];

/// The fields of the form for an existing incident.
static EDIT_FIELDS: [Field; 8] = [
    TITLE,
    SEVERITY,
    choice("status", "Status", IncidentStatus::WORDS, None),
    OF_SERVICE,
    ENVIRONMENT,
    Field::new("started_at", FieldKind::Time, "Started"),
    Field::new("resolved_at", FieldKind::Time, "Resolved").hint("Needs the status resolved."),
    URL,
];

const fn choice(
    name: &'static str,
    label: &'static str,
    words: &'static [&'static str],
    none: Option<&'static str>,
) -> Field {
    Field::new(name, FieldKind::Choice { words, none }, label)
}

#[derive(Template)]
#[template(path = "incidents/form.html")]
struct Edit<'a> {
    viewer: &'a Viewer,
    form: Form,
    fields: &'static [Field],
    heading: String,
    action: String,
    button: &'static str,
    is_new: bool,
}

/// Shows the form for a new incident or for an existing one.
fn form_page(viewer: &Viewer, form: Form, incident: Option<&Incident>) -> ApiResult {
    let status = if form.is_refused() { 422 } else { 200 };
    let page = match incident {
        None => Edit {
            viewer,
            form,
            fields: &FIELDS,
            heading: "Open an incident".to_owned(),
            action: "/incidents".to_owned(),
            button: "Open incident",
            is_new: true,
        },
        Some(incident) => Edit {
            viewer,
            form,
            fields: &EDIT_FIELDS,
            heading: format!("Edit {}", format::visible(&incident.title)),
            action: format!("/incidents/{}", incident.id),
            button: "Save",
            is_new: false,
        },
    };
    page::render(status, &page)
}

/// `GET /incidents/new`
pub(in crate::dashboard) async fn new_form(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Incidents).await?;
    // Query parameters fill in the form.
    let mut form = request.query_form();
    let given = form.value(SERVICE);
    if let Some(service) = named::find::<Service>(&app.store, viewer.tenant(), given).await? {
        form.set(SERVICE, service.name);
    }
    let default = Form::with_values([("severity", Severity::Warning.to_string())]);
    let form = form.with_missing(default).focused_on("title");
    form_page(&viewer, form, None)
}

/// `POST /incidents`
pub(in crate::dashboard) async fn create(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Incidents).await?;
    let form = request.form().await?;
    match insert(&app, &viewer, &form).await {
        Ok(id) => Ok(page::see_other(&format!("/incidents/{id}"))),
        Err(StoreError::Invalid(invalid)) => form_page(&viewer, form.refuse(&invalid), None),
        Err(error) => Err(error.into()),
    }
}

/// Opens an incident and returns its id.
async fn insert(app: &App, viewer: &Viewer, form: &Form) -> Result<IncidentId, StoreError> {
    let (tenant, actor, now) = (viewer.tenant(), viewer.actor(), app.now());
    let mut sent = form.clone();
    named::resolve::<Service>(&app.store, tenant, &mut sent, SERVICE).await?;
    let new: NewIncident = sent.create(&FIELDS, now.into()).await?;
    let mut tx = app.store.begin_for(tenant).await?;
    let incident = tx.prepare_incident(tenant, &actor, new, now).await?;
    tx.insert_incident(tenant, &actor, &incident, now).await?;
    tx.commit().await?;
    Ok(incident.id)
}

/// `GET /incidents/ID/edit`
pub(in crate::dashboard) async fn edit_form(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Incidents).await?;
    let incident = app.store.incident(viewer.tenant(), request.id()?).await?;
    let form = present_form(&incident, viewer.zone);
    form_page(&viewer, form, Some(&incident))
}

/// Returns the form with the present values of an incident.
pub(super) fn present_form(incident: &Incident, zone: Zone) -> Form {
    let service = incident.service.as_ref();
    let environment = incident.environment.as_ref();
    let resolved_at = incident.resolved_at.as_ref();
    Form::with_values([
        ("title", incident.title.clone()),
        ("severity", incident.severity.to_string()),
        ("status", incident.status.to_string()),
        (
            SERVICE,
            service.map_or_else(String::new, |one| one.name.clone()),
        ),
        (
            "environment",
            environment.map_or_else(String::new, ToString::to_string),
        ),
        ("started_at", zone.field(&incident.started_at)),
        (
            "resolved_at",
            resolved_at.map_or_else(String::new, |at| zone.field(at)),
        ),
        ("url", incident.url.clone().unwrap_or_default()),
        (TIME_ZONE, zone.name().to_owned()),
    ])
    .remembering(&EDIT_FIELDS)
}

/// `POST /incidents/ID`
pub(in crate::dashboard) async fn update(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Incidents).await?;
    let id: IncidentId = request.id()?;
    let form = request.form().await?;
    let incident = app.store.incident(viewer.tenant(), id).await?;
    let present = present_form(&incident, form.zone_or(viewer.zone));
    let form = match form.over(&present, &EDIT_FIELDS) {
        Ok(form) => form,
        Err(refused) => return form_page(&viewer, refused, Some(&incident)),
    };
    match save(&app, &viewer, id, &form).await {
        Ok(()) => Ok(page::see_other(&format!("/incidents/{id}"))),
        Err(StoreError::Invalid(invalid)) => {
            // A button sends some of the fields only.
            let form = form.with_missing(present).refuse(&invalid);
            form_page(&viewer, form, Some(&incident))
        }
        Err(error) => Err(error.into()),
    }
}

async fn save(app: &App, viewer: &Viewer, id: IncidentId, form: &Form) -> Result<(), StoreError> {
    let tenant = viewer.tenant();
    let mut sent = form.without_unchanged(&EDIT_FIELDS);
    named::resolve::<Service>(&app.store, tenant, &mut sent, SERVICE).await?;
    let patch: IncidentPatch = sent.patch(&EDIT_FIELDS, app.now().into()).await?;
    let mut tx = app.store.begin_for(tenant).await?;
    tx.update_incident(tenant, &viewer.actor(), id, patch, &app.clock)
        .await?;
    tx.commit().await
}

//! Logging and editing a change.

use std::sync::LazyLock;

use askama::Template;
use changelog_core::change::fields::{self, FieldKind as ChangeField};
use changelog_core::limits::{MAX_TAGS, MAX_TITLE_CHARS, MIN_TITLE_CHARS};
use changelog_core::{Change, ChangeId, ChangePatch, NewChange, RiskLevel, Status, list};

use super::find;
use crate::app::App;
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::store::{Creation, Draft, StoreError};
use crate::web::{ApiResult, Request};

/// The fields of the form; [`occurred_at`](ChangeField::OccurredAt) for a new
/// change only.
static FIELDS: LazyLock<Vec<Field>> =
    LazyLock::new(|| fields::FIELDS.iter().filter_map(form_field).collect());

/// Returns the field of the form; `None` for what only clients of the API set.
fn form_field(field: &fields::Field) -> Option<Field> {
    let new = |kind, label| Field::new(field.name, kind, label);
    let choice = |words| FieldKind::Choice { words, none: None };
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
        ChangeField::Service => new(FieldKind::Optional, "Service"),
        ChangeField::Host => new(FieldKind::Optional, "Host"),
        ChangeField::Tags => new(FieldKind::List, "Tags")
            .hint(format!("Separated by commas, at most {MAX_TAGS}.").leak()),
        ChangeField::Links => new(FieldKind::Links, "Links")
            .hint("One label=URL per line: pipeline=https://ci.example.com/runs/42"),
        ChangeField::Time(_) if field.name == "scheduled_for" => {
            new(FieldKind::Time, "Scheduled for (UTC)")
        }
        ChangeField::OccurredAt => new(FieldKind::Time, "Happened at (UTC)")
            .hint("Leave empty if it happened now. This cannot be changed later."),
        _ => return None,
    };
    Some(field)
}

#[derive(Template)]
#[template(path = "changes/form.html")]
struct Edit<'a> {
    viewer: &'a Viewer,
    form: Form,
    fields: &'static [Field],
    heading: String,
    action: String,
    button: &'static str,
    is_new: bool,
    services: Vec<(String, String)>,
    hosts: Vec<(String, String)>,
}

/// Shows the form for a new change or for an existing one.
async fn form_page(app: &App, viewer: &Viewer, form: Form, change: Option<&Change>) -> ApiResult {
    let status = if form.is_refused() { 422 } else { 200 };
    let services = app.store.service_names(viewer.tenant()).await?;
    let hosts = app.store.host_names(viewer.tenant()).await?;
    let page = Edit {
        viewer,
        form,
        fields: &FIELDS,
        heading: match change {
            None => "Log a change".to_owned(),
            Some(change) => format!("Edit {}", change.title),
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
pub(in crate::dashboard) async fn new_form(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Changes).await?;
    // Query parameters fill in the form.
    form_page(&app, &viewer, request.query_form(), None).await
}

/// `POST /changes`
pub(in crate::dashboard) async fn create(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Changes).await?;
    let form = request.form().await?;
    let now = app.now();
    let mut new: NewChange = match form.create(&FIELDS, now.into()).await {
        Ok(new) => new,
        Err(invalid) => return form_page(&app, &viewer, form.refuse(&invalid), None).await,
    };
    let completed = std::slice::from_mut(&mut new);
    app.store
        .complete_environments(viewer.tenant(), completed)
        .await?;
    let draft = Draft::new(viewer.tenant(), &viewer.actor(), new, now)?;
    match app.store.create_changes(Creation::one(draft, None)).await {
        Ok(created) => {
            let id = created.changes.first().map(|change| change.id.to_string());
            let id = id.unwrap_or_default();
            Ok(page::see_other(&format!("/changes/{id}")))
        }
        Err(StoreError::Invalid(invalid)) => {
            form_page(&app, &viewer, form.refuse(&invalid), None).await
        }
        Err(error) => Err(error.into()),
    }
}

/// `GET /changes/ID/edit`
pub(in crate::dashboard) async fn edit_form(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Changes).await?;
    let change = find(&app, viewer.tenant(), request.id()?).await?;
    let values = fields::FIELDS
        .iter()
        .map(|field| (field.name, value_of(&change, field.kind)));
    let form = Form::with_values(values);
    form_page(&app, &viewer, form, Some(&change)).await
}

/// Returns the present value of a field as the form shows it.
fn value_of(change: &Change, field: ChangeField) -> String {
    match field {
        ChangeField::Title => change.title.clone(),
        ChangeField::LongText(text) => (text.of)(change).clone().unwrap_or_default(),
        ChangeField::RiskLevel => change.risk_level.to_string(),
        ChangeField::Status => change.status.to_string(),
        ChangeField::Service => {
            let id = change
                .service
                .as_ref()
                .map(|service| service.id.to_string());
            id.unwrap_or_default()
        }
        ChangeField::Host => {
            let id = change.host_ref.as_ref().map(|host| host.id.to_string());
            id.unwrap_or_default()
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
            at.map(format::field).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// `POST /changes/ID`
pub(in crate::dashboard) async fn update(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Changes).await?;
    let id: ChangeId = request.id()?;
    let form = request.form().await?;
    match save(&app, &viewer, id, &form).await {
        Ok(()) => Ok(page::see_other(&format!("/changes/{id}"))),
        Err(StoreError::Invalid(invalid)) => {
            let change = find(&app, viewer.tenant(), id).await?;
            form_page(&app, &viewer, form.refuse(&invalid), Some(&change)).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn save(app: &App, viewer: &Viewer, id: ChangeId, form: &Form) -> Result<(), StoreError> {
    let patch: ChangePatch = form.patch(&FIELDS, app.now().into()).await?;
    let tenant = viewer.tenant();
    let mut tx = app.store.begin_for(tenant).await?;
    let actor = viewer.actor();
    tx.update_change(tenant, &actor, id, &patch, &app.clock)
        .await?;
    tx.commit().await
}

//! `/settings/workloads`: pipelines that may act without a key.

use askama::Template;
use changelog_core::limits::MAX_KEY_SERVICES;
use changelog_core::{Environment, NewWorkload, Plan, Scope, Service, ServiceId, Workload, list};
use uuid::Uuid;

use super::api_keys::{check_scopes, may};
use crate::app::App;
use crate::dashboard::parts::activity_rows::key_actor;
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, named, one_time, page, shown_values};
use crate::store::{MAX_WORKLOADS, StoreError, Tenant};
use crate::web::{ApiResult, Request};

const PATH: &str = "/settings/workloads";

const ISSUER: &str = "issuer";
const AUDIENCE: &str = "audience";
const SCOPES: &str = "scopes";
const ENVIRONMENTS: &str = "environments";
const SERVICES: &str = "service_ids";

const FIELDS: &[Field] = &[
    Field::new("name", FieldKind::Required, "Name").hint("What it's for, e.g. shop in production."),
    Field::new(ISSUER, FieldKind::Required, "Issuer").hint(
        "GitHub Actions: https://token.actions.githubusercontent.com. GitLab: its address, e.g. \
         https://gitlab.com. Others: exactly as their tokens name it.",
    ),
    Field::new(AUDIENCE, FieldKind::Required, "Audience")
        .hint("The only one that is accepted. chlog asks for the address of this service."),
    Field::new("claims", FieldKind::Lines, "Claims").hint(
        "One per line; a token must have all of them. * stands for any characters, e.g. \
         repository=acme/shop, environment=production, ref_protected=true.",
    ),
    Field::new(SCOPES, FieldKind::Boxes, ""),
    Field::new(ENVIRONMENTS, FieldKind::Boxes, ""),
    Field::new(SERVICES, FieldKind::List, ""),
];

/// The fields that the template does not write itself.
const PLAIN_FIELDS: &[Field] = FIELDS.split_at(4).0;

/// The issuer of GitHub Actions.
const GITHUB: &str = "https://token.actions.githubusercontent.com";

struct Listed {
    workload: Workload,
    may: Vec<String>,
}

impl Listed {
    /// Returns the value by which the activity log selects what its pipelines did.
    fn actor(&self) -> String {
        key_actor(self.workload.id)
    }
}

#[derive(Template)]
#[template(path = "settings/workloads.html")]
struct WorkloadsPage<'a> {
    viewer: &'a Viewer,
    plan: Plan,
    workloads: Vec<Listed>,
    /// The name of the one that was made by this request.
    created: Option<String>,
    url: &'a str,
    /// The form of a new one.
    address: &'static str,
    verb: &'static str,
    new_id: Option<Uuid>,
    fields: &'static [Field],
    form: Form,
}

#[derive(Template)]
#[template(path = "settings/workloads/item.html")]
struct WorkloadPage<'a> {
    viewer: &'a Viewer,
    workload: &'a Workload,
    address: String,
    verb: &'static str,
    new_id: Option<Uuid>,
    fields: &'static [Field],
    form: Form,
}

/// What a request has done.
enum Outcome {
    Shown,
    Created(String),
    Refused(Form),
}

/// `GET /settings/workloads`
pub(crate) async fn list(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Settings).await?;
    show(&app, &viewer, Outcome::Shown).await
}

fn empty_form(url: &str) -> Form {
    Form::with_values([
        (ISSUER, GITHUB.to_owned()),
        (AUDIENCE, url.to_owned()),
        (SCOPES, Scope::WORDS.join(",")),
    ])
}

async fn show(app: &App, viewer: &Viewer, outcome: Outcome) -> ApiResult {
    let url = app.url();
    let (status, created, form) = match outcome {
        Outcome::Shown => (200, None, empty_form(&url)),
        Outcome::Created(name) => (200, Some(name), empty_form(&url)),
        Outcome::Refused(form) => (422, None, form),
    };
    let workloads = app.store.workloads(viewer.tenant()).await?;
    let has_services = |one: &Workload| !one.permissions.service_ids.is_empty();
    let services: Vec<(ServiceId, String)> = if workloads.iter().any(has_services) {
        app.store.item_names::<Service>(viewer.tenant()).await?
    } else {
        Vec::new()
    };
    let listed = |workload: Workload| Listed {
        may: may(&workload.permissions, &services),
        workload,
    };
    let page = WorkloadsPage {
        viewer,
        plan: app.store.organization(viewer.tenant()).await?.plan,
        workloads: workloads.into_iter().map(listed).collect(),
        created,
        url: &url,
        address: PATH,
        verb: "Create workload identity",
        new_id: Some(one_time::id_in(&Form::default(), app.now())),
        fields: PLAIN_FIELDS,
        form,
    };
    page::render(status, &page)
}

/// Reads a form that is sent for a new one and for one that is edited.
async fn read(app: &App, tenant: Tenant, form: &Form) -> Result<NewWorkload, StoreError> {
    let mut form = form.clone();
    check_scopes(&mut form, FIELDS)?;
    named::resolve_services(&app.store, tenant, &mut form, SERVICES, MAX_KEY_SERVICES).await?;
    Ok(form.create(FIELDS, app.now().into()).await?)
}

/// `POST /settings/workloads`
pub(crate) async fn create(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let form = request.form().await?;
    let (tenant, now) = (viewer.tenant(), app.now());
    let new = match read(&app, tenant, &form).await {
        Ok(new) => new,
        Err(StoreError::Invalid(invalid)) => {
            let outcome = Outcome::Refused(form.refuse(&invalid));
            return show(&app, &viewer, outcome).await;
        }
        Err(error) => return Err(error.into()),
    };
    let mut tx = app.store.begin().await?;
    let id = one_time::id_in(&form, now).into();
    // Only the operator may have issuers reached in any way.
    let inserted = tx
        .insert_workload(tenant, &viewer.actor(), id, new, false, now)
        .await;
    let outcome = match inserted {
        Ok(Some(workload)) => {
            tx.commit().await?;
            Outcome::Created(workload.name)
        }
        Ok(None) => {
            drop(tx);
            let most = format!("An organization may have {MAX_WORKLOADS} workload identities.");
            Outcome::Refused(form.refuse_field("", most))
        }
        Err(StoreError::Conflict) => {
            // On SQLite the open transaction would keep others from writing.
            drop(tx);
            Outcome::Refused(form.refuse_field("name", "is taken"))
        }
        Err(error) => return Err(error.into()),
    };
    show(&app, &viewer, outcome).await
}

/// `GET /settings/workloads/ID/edit`
pub(crate) async fn edit_form(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let tenant = viewer.tenant();
    let workload = app.store.workload_of(tenant, request.id()?).await?;
    let form = form_of(&app, tenant, &workload).await?;
    edit_page(200, &viewer, &workload, form)
}

fn edit_page(status: u16, viewer: &Viewer, workload: &Workload, form: Form) -> ApiResult {
    let page = WorkloadPage {
        viewer,
        workload,
        address: format!("{PATH}/{}", workload.id),
        verb: "Save",
        new_id: None,
        fields: PLAIN_FIELDS,
        form,
    };
    page::render(status, &page)
}

/// Returns the form with the present values.
async fn form_of(app: &App, tenant: Tenant, workload: &Workload) -> Result<Form, StoreError> {
    fn lines(words: &[impl ToString]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }
    let permissions = &workload.permissions;
    let services = app.store.services_of(tenant, &permissions.service_ids);
    let names: Vec<String> = services.await?.into_iter().map(|one| one.name).collect();
    let form = Form::with_values([
        ("name", workload.name.clone()),
        (ISSUER, workload.issuer.clone()),
        (AUDIENCE, workload.audience.clone()),
        ("claims", lines(&workload.claims).join("\n")),
        (SCOPES, lines(&permissions.scopes).join(",")),
        (ENVIRONMENTS, lines(&permissions.environments).join(",")),
        (SERVICES, list::format(&names)),
    ]);
    Ok(form.remembering(FIELDS))
}

/// `POST /settings/workloads/ID`
pub(crate) async fn update(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let tenant = viewer.tenant();
    let workload = app.store.workload_of(tenant, request.id()?).await?;
    let mut form = request.form().await?;
    form.join(FIELDS);
    let present = form_of(&app, tenant, &workload).await?;
    let form = match form.over(&present, FIELDS) {
        Ok(form) => form,
        Err(refused) => return edit_page(422, &viewer, &workload, refused),
    };
    let new = match read(&app, tenant, &form).await {
        Ok(new) => new,
        Err(StoreError::Invalid(invalid)) => {
            return edit_page(422, &viewer, &workload, form.refuse(&invalid));
        }
        Err(error) => return Err(error.into()),
    };
    let mut tx = app.store.begin().await?;
    let updated = tx
        .update_workload(tenant, &viewer.actor(), &workload, new, app.now())
        .await;
    match updated {
        Ok(()) => tx.commit().await?,
        Err(StoreError::Conflict) => {
            drop(tx);
            return edit_page(
                422,
                &viewer,
                &workload,
                form.refuse_field("name", "is taken"),
            );
        }
        Err(error) => return Err(error.into()),
    }
    Ok(page::see_other(PATH))
}

/// `POST /settings/workloads/ID/delete`
pub(crate) async fn delete(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let tenant = viewer.tenant();
    let workload = app.store.workload_of(tenant, request.id()?).await?;
    let mut tx = app.store.begin().await?;
    tx.delete_workload(tenant, &viewer.actor(), &workload, app.now())
        .await?;
    tx.commit().await?;
    Ok(page::see_other(PATH))
}

//! `/services`: the list, one service, and what makes and changes one.

use changelog_core::{Action, ChangeFilter, NewService, Service, ServiceId, ServicePatch};
use serde_json::Map;

use super::catalog::{self, Row, SERVICES, Thing};
use crate::app::App;
use crate::dashboard::parts::form::{Form, Kind};
use crate::dashboard::parts::format;
use crate::dashboard::parts::page;
use crate::dashboard::parts::viewer::Viewer;
use crate::store::activity::{self, Entry};
use crate::store::{Scope, StoreError, Summary};
use crate::web::{ApiResult, Request};

/// The fields of the form, and what they are in the API.
const FIELDS: [(&str, Kind); 3] = [
    ("name", Kind::Required),
    ("color", Kind::Optional),
    ("description", Kind::Optional),
];

impl From<Summary<Service>> for Row {
    fn from(summary: Summary<Service>) -> Self {
        let Summary {
            record,
            changes,
            last,
        } = summary;
        Self {
            id: record.id.to_string(),
            name: record.name,
            about: record
                .description
                .as_deref()
                .map(format::excerpt)
                .unwrap_or_default(),
            changes,
            last,
        }
    }
}

/// `GET /services`
pub(super) async fn list(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, SERVICES.section).await?;
    list_page(&app, &request, &viewer, Form::default()).await
}

async fn list_page(app: &App, request: &Request, viewer: &Viewer, form: Form) -> ApiResult {
    let offset = catalog::offset(request);
    let page = app
        .store
        .service_page(viewer.tenant(), catalog::PER_PAGE + 1, offset)
        .await?;
    let rows = page.into_iter().map(Row::from).collect();
    catalog::list(viewer, &SERVICES, rows, offset, form)
}

/// `POST /services`
pub(super) async fn create(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, SERVICES.section).await?;
    let form = request.form().await?;
    match insert(&app, &viewer, &form).await {
        Ok(id) => Ok(page::see_other(&format!("/services/{id}"))),
        Err(error) => {
            let form = catalog::refuse(form, error, "name")?;
            list_page(&app, &request, &viewer, form).await
        }
    }
}

async fn insert(app: &App, viewer: &Viewer, form: &Form) -> Result<ServiceId, StoreError> {
    let now = app.now();
    let new: NewService = form.create(&FIELDS, now.into()).await?;
    let mut tx = app.store.begin_for(viewer.tenant()).await?;
    let service = tx.insert_service(viewer.tenant(), &new, now).await?;
    let entry = Entry::of_service(Action::Created, &service, Map::new());
    tx.record(viewer.tenant(), &viewer.actor(), entry, now)
        .await?;
    tx.commit().await?;
    Ok(service.id)
}

/// `GET /services/ID`
pub(super) async fn one(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, SERVICES.section).await?;
    let service = app.store.service(viewer.tenant(), request.id()?).await?;
    let form = shown(&service);
    one_page(&app, &request, &viewer, service, form).await
}

/// Fills the form with what a service is.
fn shown(service: &Service) -> Form {
    Form::showing([
        ("name", service.name.clone()),
        ("color", service.color.clone()),
        (
            "description",
            service.description.clone().unwrap_or_default(),
        ),
    ])
}

async fn one_page(
    app: &App,
    request: &Request,
    viewer: &Viewer,
    service: Service,
    form: Form,
) -> ApiResult {
    let id = service.id;
    let thing = Thing {
        id: id.to_string(),
        query: format::query("service_id", id),
        filter: ChangeFilter {
            service_id: Some(id),
            ..ChangeFilter::default()
        },
        created_at: service.created_at,
        facts: vec![("Color", service.color)],
        about: service.description,
        log: format!("chlog log --service {id} \"what was done\""),
        name: service.name,
    };
    let scope = Scope::Service(id);
    catalog::one(app, request, viewer, &SERVICES, thing, scope, form).await
}

/// `POST /services/ID`
pub(super) async fn update(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, SERVICES.section).await?;
    let id: ServiceId = request.id()?;
    let form = request.form().await?;
    match save(&app, &viewer, id, &form).await {
        Ok(()) => Ok(page::see_other(&format!("/services/{id}"))),
        Err(error) => {
            let form = catalog::refuse(form, error, "name")?;
            let service = app.store.service(viewer.tenant(), id).await?;
            one_page(&app, &request, &viewer, service, form).await
        }
    }
}

async fn save(app: &App, viewer: &Viewer, id: ServiceId, form: &Form) -> Result<(), StoreError> {
    let patch: ServicePatch = form.patch(&FIELDS, app.now().into()).await?;
    let mut tx = app.store.begin_for(viewer.tenant()).await?;
    let (service, changes) = tx.update_service(viewer.tenant(), id, &patch).await?;
    if !changes.is_empty() {
        let entry = Entry::of_service(Action::Updated, &service, activity::changed(changes));
        tx.record(viewer.tenant(), &viewer.actor(), entry, app.now())
            .await?;
    }
    tx.commit().await
}

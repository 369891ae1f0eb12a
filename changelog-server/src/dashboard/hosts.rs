//! `/hosts`: the list, one host, and what makes and changes one.

use changelog_core::{Action, ChangeFilter, Host, HostId, HostPatch, NewHost};
use serde_json::Map;

use super::catalog::{self, HOSTS, Row, Thing, or_none};
use crate::app::App;
use crate::dashboard::parts::form::{self, Form, Kind};
use crate::dashboard::parts::format;
use crate::dashboard::parts::page;
use crate::dashboard::parts::viewer::Viewer;
use crate::store::activity::{self, Entry};
use crate::store::{Scope, StoreError, Summary};
use crate::web::{ApiResult, Request};

/// The fields of the form, and what they are in the API.
const FIELDS: [(&str, Kind); 8] = [
    ("hostname", Kind::Required),
    ("fqdn", Kind::Optional),
    ("ip_address", Kind::Optional),
    ("os", Kind::Optional),
    ("platform", Kind::Optional),
    ("environment", Kind::Optional),
    ("roles", Kind::List),
    ("description", Kind::Optional),
];

impl From<Summary<Host>> for Row {
    fn from(summary: Summary<Host>) -> Self {
        let Summary {
            record,
            changes,
            last,
        } = summary;
        Self {
            id: record.id.to_string(),
            name: record.hostname,
            about: match record.environment {
                Some(environment) => format!("{}, {environment}", record.platform),
                None => record.platform.to_string(),
            },
            changes,
            last,
        }
    }
}

/// `GET /hosts`
pub(super) async fn list(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, HOSTS.section).await?;
    list_page(&app, &request, &viewer, Form::default()).await
}

async fn list_page(app: &App, request: &Request, viewer: &Viewer, form: Form) -> ApiResult {
    let offset = catalog::offset(request);
    let page = app
        .store
        .host_page(viewer.tenant(), catalog::PER_PAGE + 1, offset)
        .await?;
    let rows = page.into_iter().map(Row::from).collect();
    catalog::list(viewer, &HOSTS, rows, offset, form)
}

/// `POST /hosts`
pub(super) async fn create(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, HOSTS.section).await?;
    let form = request.form().await?;
    match insert(&app, &viewer, &form).await {
        Ok(id) => Ok(page::see_other(&format!("/hosts/{id}"))),
        Err(error) => {
            let form = catalog::refuse(form, error, "hostname")?;
            list_page(&app, &request, &viewer, form).await
        }
    }
}

async fn insert(app: &App, viewer: &Viewer, form: &Form) -> Result<HostId, StoreError> {
    let now = app.now();
    let new: NewHost = form.create(&FIELDS, now.into()).await?;
    let mut tx = app.store.begin_for(viewer.tenant()).await?;
    let host = tx.insert_host(viewer.tenant(), &new, now).await?;
    let entry = Entry::of_host(Action::Created, &host, Map::new());
    tx.record(viewer.tenant(), &viewer.actor(), entry, now)
        .await?;
    tx.commit().await?;
    Ok(host.id)
}

/// `GET /hosts/ID`
pub(super) async fn one(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, HOSTS.section).await?;
    let host = app.store.host(viewer.tenant(), request.id()?).await?;
    let form = shown(&host);
    one_page(&app, &request, &viewer, host, form).await
}

/// Fills the form with what a host is.
fn shown(host: &Host) -> Form {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let environment = host.environment.as_ref().map(ToString::to_string);
    Form::showing([
        ("hostname", host.hostname.clone()),
        ("fqdn", text(&host.fqdn)),
        ("ip_address", text(&host.ip_address)),
        ("os", text(&host.os)),
        ("platform", host.platform.to_string()),
        ("environment", text(&environment)),
        ("roles", form::listed(&host.roles)),
        ("description", text(&host.description)),
    ])
}

async fn one_page(
    app: &App,
    request: &Request,
    viewer: &Viewer,
    host: Host,
    form: Form,
) -> ApiResult {
    let id = host.id;
    let thing = Thing {
        id: id.to_string(),
        query: format::query("host_id", id),
        filter: ChangeFilter {
            host_id: Some(id),
            ..ChangeFilter::default()
        },
        created_at: host.created_at,
        facts: vec![
            ("Environment", or_none(host.environment)),
            ("Platform", host.platform.to_string()),
            ("Full name", or_none(host.fqdn)),
            ("IP address", or_none(host.ip_address)),
            ("System", or_none(host.os)),
            (
                "Roles",
                or_none(Some(host.roles.join(", ")).filter(|roles| !roles.is_empty())),
            ),
        ],
        about: host.description,
        log: format!("chlog log --host {id} \"what was done\""),
        name: host.hostname,
    };
    let scope = Scope::Host(id);
    catalog::one(app, request, viewer, &HOSTS, thing, scope, form).await
}

/// `POST /hosts/ID`
pub(super) async fn update(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, HOSTS.section).await?;
    let id: HostId = request.id()?;
    let form = request.form().await?;
    match save(&app, &viewer, id, &form).await {
        Ok(()) => Ok(page::see_other(&format!("/hosts/{id}"))),
        Err(error) => {
            let form = catalog::refuse(form, error, "hostname")?;
            let host = app.store.host(viewer.tenant(), id).await?;
            one_page(&app, &request, &viewer, host, form).await
        }
    }
}

async fn save(app: &App, viewer: &Viewer, id: HostId, form: &Form) -> Result<(), StoreError> {
    let patch: HostPatch = form.patch(&FIELDS, app.now().into()).await?;
    let mut tx = app.store.begin_for(viewer.tenant()).await?;
    let (host, changes) = tx.update_host(viewer.tenant(), id, &patch).await?;
    if !changes.is_empty() {
        let entry = Entry::of_host(Action::Updated, &host, activity::changed(changes));
        tx.record(viewer.tenant(), &viewer.actor(), entry, app.now())
            .await?;
    }
    tx.commit().await
}

//! `/hosts`: the list, one host, and what makes and changes one.

use changelog_core::{Action, ChangeFilter, Host, HostId, HostPatch, NewHost};
use serde_json::Map;

use super::form::{self, Form, Kind};
use super::page;
use super::show;
use super::things::{self, HOSTS, Row, Thing, or_none};
use super::visit::Visit;
use crate::app::App;
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
    let visit = Visit::read(&app, &request, HOSTS.section).await?;
    list_page(&app, &request, &visit, Form::default()).await
}

async fn list_page(app: &App, request: &Request, visit: &Visit, form: Form) -> ApiResult {
    let offset = things::offset(request);
    let page = app
        .store
        .host_page(visit.tenant(), things::PER_PAGE + 1, offset)
        .await?;
    let rows = page.into_iter().map(Row::from).collect();
    things::list(visit, &HOSTS, rows, offset, form)
}

/// `POST /hosts`
pub(super) async fn create(app: App, mut request: Request) -> ApiResult {
    let visit = Visit::write(&app, &request, HOSTS.section).await?;
    let form = request.form().await?;
    match insert(&app, &visit, &form).await {
        Ok(id) => Ok(page::see_other(&format!("/hosts/{id}"))),
        Err(error) => {
            let form = things::refuse(form, error, "hostname")?;
            list_page(&app, &request, &visit, form).await
        }
    }
}

async fn insert(app: &App, visit: &Visit, form: &Form) -> Result<HostId, StoreError> {
    let now = app.now();
    let new: NewHost = form.create(&FIELDS, now.into()).await?;
    let mut tx = app.store.begin_for(visit.tenant()).await?;
    let host = tx.insert_host(visit.tenant(), &new, now).await?;
    let entry = Entry::of_host(Action::Created, &host, Map::new());
    tx.record(visit.tenant(), &visit.actor(), entry, now)
        .await?;
    tx.commit().await?;
    Ok(host.id)
}

/// `GET /hosts/ID`
pub(super) async fn one(app: App, request: Request) -> ApiResult {
    let visit = Visit::read(&app, &request, HOSTS.section).await?;
    let host = app.store.host(visit.tenant(), request.id()?).await?;
    let form = shown(&host);
    one_page(&app, &request, &visit, host, form).await
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
    visit: &Visit,
    host: Host,
    form: Form,
) -> ApiResult {
    let id = host.id;
    let thing = Thing {
        id: id.to_string(),
        query: show::query("host_id", id),
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
    things::one(app, request, visit, &HOSTS, thing, scope, form).await
}

/// `POST /hosts/ID`
pub(super) async fn update(app: App, mut request: Request) -> ApiResult {
    let visit = Visit::write(&app, &request, HOSTS.section).await?;
    let id: HostId = request.id()?;
    let form = request.form().await?;
    match save(&app, &visit, id, &form).await {
        Ok(()) => Ok(page::see_other(&format!("/hosts/{id}"))),
        Err(error) => {
            let form = things::refuse(form, error, "hostname")?;
            let host = app.store.host(visit.tenant(), id).await?;
            one_page(&app, &request, &visit, host, form).await
        }
    }
}

async fn save(app: &App, visit: &Visit, id: HostId, form: &Form) -> Result<(), StoreError> {
    let patch: HostPatch = form.patch(&FIELDS, app.now().into()).await?;
    let mut tx = app.store.begin_for(visit.tenant()).await?;
    let (host, changes) = tx.update_host(visit.tenant(), id, &patch).await?;
    if !changes.is_empty() {
        let entry = Entry::of_host(Action::Updated, &host, activity::changed(changes));
        tx.record(visit.tenant(), &visit.actor(), entry, app.now())
            .await?;
    }
    tx.commit().await
}

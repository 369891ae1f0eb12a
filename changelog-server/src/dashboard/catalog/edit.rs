//! Creating and editing services and hosts.

use askama::Template;
use changelog_core::Action;
use serde_json::Map;

use super::{CatalogPage, ItemView, Texts, path};
use crate::app::App;
use crate::dashboard::parts::form::{Field, Form};
use crate::dashboard::parts::shown_values::SHOWN;
use crate::dashboard::parts::viewer::Viewer;
use crate::dashboard::parts::{assets, format, page};
use crate::store::StoreError;
use crate::store::activity::{self, Entry};
use crate::web::{ApiError, ApiResult, Request};

#[derive(Template)]
#[template(path = "catalog/form.html")]
struct FormPage<'a> {
    viewer: &'a Viewer,
    texts: Texts,
    fields: &'static [Field],
    form: Form,
    /// The item that is edited.
    item: Option<ItemView>,
}

/// `GET /services/new`, `GET /hosts/new`
pub(in crate::dashboard) async fn new_form<P: CatalogPage>(
    app: App,
    request: Request,
) -> ApiResult {
    let viewer = Viewer::write(&app, &request, P::TEXTS.section).await?;
    let first = P::FIELDS[0].name;
    form_page::<P>(&viewer, P::defaults().focused_on(first), None)
}

/// `GET /services/ID/edit`, `GET /hosts/ID/edit`
pub(in crate::dashboard) async fn edit_form<P: CatalogPage>(
    app: App,
    request: Request,
) -> ApiResult {
    let viewer = Viewer::write(&app, &request, P::TEXTS.section).await?;
    let mut item = view::<P>(&app, &viewer, request.id()?).await?;
    let form = std::mem::take(&mut item.form);
    form_page::<P>(&viewer, form, Some(item))
}

fn form_page<P: CatalogPage>(viewer: &Viewer, form: Form, item: Option<ItemView>) -> ApiResult {
    let status = if form.is_refused() { 422 } else { 200 };
    let page = FormPage {
        viewer,
        texts: P::TEXTS,
        fields: P::FIELDS,
        form,
        item,
    };
    page::render(status, &page)
}

/// Returns an item with the values of its form.
async fn view<P: CatalogPage>(
    app: &App,
    viewer: &Viewer,
    id: P::Id,
) -> Result<ItemView, StoreError> {
    let tenant = viewer.tenant();
    let mut item = app.store.item::<P>(tenant, id).await?.view();
    P::complete(&app.store, tenant, id, &mut item).await?;
    item.form = item.form.remembering(P::FIELDS);
    Ok(item)
}

/// `POST /services`, `POST /hosts`
pub(in crate::dashboard) async fn create<P: CatalogPage>(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, P::TEXTS.section).await?;
    let form = request.form().await?;
    match insert::<P>(&app, &viewer, &form).await {
        Ok(id) => Ok(page::see_other(&path::<P>(&id))),
        Err(error) => form_page::<P>(&viewer, refuse::<P>(form, error)?, None),
    }
}

/// Creates an item and returns its id.
async fn insert<P: CatalogPage>(
    app: &App,
    viewer: &Viewer,
    form: &Form,
) -> Result<String, StoreError> {
    let (tenant, now) = (viewer.tenant(), app.now());
    let form = P::with_ids(&app.store, tenant, form.clone()).await?;
    let new: P::New = form.create(P::FIELDS, now.into()).await?;
    let mut tx = app.store.begin_for(tenant).await?;
    let item = tx.insert_item::<P>(tenant, &new, now).await?;
    let entry = Entry::of_item(Action::Created, &item, Map::new());
    tx.record(tenant, &viewer.actor(), entry, now).await?;
    tx.commit().await?;
    Ok(item.id().to_string())
}

/// `POST /services/ID`, `POST /hosts/ID`
pub(in crate::dashboard) async fn update<P: CatalogPage>(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, P::TEXTS.section).await?;
    let id: P::Id = request.id()?;
    let form = request.form().await?;
    let item = view::<P>(&app, &viewer, id).await?;
    let form = match form.over(&item.form, P::FIELDS) {
        Ok(form) => form,
        Err(refused) => return form_page::<P>(&viewer, refused, Some(item)),
    };
    match save::<P>(&app, &viewer, id, &form).await {
        Ok(()) => Ok(page::see_other(&path::<P>(id))),
        Err(error) => {
            let form = refuse::<P>(form, error)?;
            form_page::<P>(&viewer, form, Some(item))
        }
    }
}

async fn save<P: CatalogPage>(
    app: &App,
    viewer: &Viewer,
    id: P::Id,
    form: &Form,
) -> Result<(), StoreError> {
    let (tenant, now) = (viewer.tenant(), app.now());
    let form = form.without_unchanged(P::FIELDS);
    let form = P::with_ids(&app.store, tenant, form).await?;
    let patch: P::Patch = form.patch(P::FIELDS, now.into()).await?;
    let mut tx = app.store.begin_for(tenant).await?;
    let (item, changes) = tx.update_item::<P>(tenant, id, &patch).await?;
    if !changes.is_empty() {
        let entry = Entry::of_item(Action::Updated, &item, activity::changed(changes));
        tx.record(tenant, &viewer.actor(), entry, now).await?;
    }
    tx.commit().await
}

/// Adds to the form why it was not saved: a broken rule or a name in use.
fn refuse<P: CatalogPage>(form: Form, error: StoreError) -> Result<Form, ApiError> {
    match error {
        StoreError::Invalid(invalid) => Ok(form.refuse(&invalid)),
        StoreError::Conflict => {
            let name_field = P::FIELDS[0].name;
            let name = format::visible(form.value(name_field).trim());
            let message = format!("A {} named \"{name}\" already exists", P::TEXTS.noun);
            Ok(form.refuse_field(name_field, message))
        }
        error => Err(error.into()),
    }
}

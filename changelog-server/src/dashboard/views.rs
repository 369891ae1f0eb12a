//! `/views`: saved filters of the list of changes.

use askama::Template;
use changelog_core::text::composed;
use uuid::Uuid;

use super::changes::filters::Selection;
use super::parts::form::Form;
use super::parts::query_string::{address, without};
use super::parts::viewer::{Section, Viewer};
use super::parts::{assets, format, page};
use crate::app::App;
use crate::store::{MAX_VIEWS, SavedView, StoreError, ViewOwner};
use crate::web::{ApiError, ApiResult, Request};

/// The longest name of a view, in characters.
const MAX_NAME_CHARS: usize = 60;
/// The field with the id of the view whose new name is refused.
const RENAMED: &str = "renamed";
/// The longest query string of a view, in bytes.
const MAX_QUERY_BYTES: usize = 2_000;

#[derive(Template)]
#[template(path = "views.html")]
struct ViewsPage<'a> {
    viewer: &'a Viewer,
    views: Vec<SavedView>,
    form: Form,
}

impl ViewsPage<'_> {
    /// Returns the name to edit: the one that was refused, or the present one.
    fn name_of<'v>(&'v self, view: &'v SavedView) -> &'v str {
        if self.is_refused(view) {
            self.form.value("name")
        } else {
            &view.name
        }
    }

    /// Returns whether the new name of a view is refused.
    fn is_refused(&self, view: &SavedView) -> bool {
        self.form.is_refused() && self.form.value(RENAMED) == view.id.to_string()
    }

    fn may_change(&self, view: &SavedView) -> bool {
        !view.is_shared || self.viewer.may_manage()
    }
}

/// `GET /views`
pub(super) async fn list(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Changes).await?;
    views_page(&app, &viewer, Form::default()).await
}

async fn views_page(app: &App, viewer: &Viewer, form: Form) -> ApiResult {
    let status = if form.is_refused() { 422 } else { 200 };
    let views = app
        .store
        .saved_views(viewer.tenant(), viewer.session.person.id)
        .await?;
    let page = ViewsPage {
        viewer,
        views,
        form,
    };
    page::render(status, &page)
}

/// `POST /views`
pub(super) async fn create(app: App, request: Request) -> ApiResult {
    let (viewer, form) = submitted(&app, &request).await?;
    let query = without(form.value("query"), &["page", "before"]);
    let name = match name(&form) {
        Ok(name) => name,
        Err(message) => return refuse(&app, &viewer, form, message).await,
    };
    if query.is_empty() {
        return refuse(&app, &viewer, form, "This list has no filter to save").await;
    }
    if query.len() > MAX_QUERY_BYTES {
        let limit = format::number(MAX_QUERY_BYTES as u64);
        let message = format!(
            "This filter is too long to save: its address has {} characters, at most {limit} are \
             possible",
            format::number(query.len() as u64)
        );
        return refuse(&app, &viewer, form, message).await;
    }
    if Selection::read(&query, viewer.now).is_err() {
        return refuse(&app, &viewer, form, "This filter is not valid").await;
    }
    let owner = owner(&viewer, &form);
    let mut tx = app.store.begin_for(viewer.tenant()).await?;
    let saved = tx
        .insert_view(viewer.tenant(), owner, &name, &query, app.now())
        .await;
    match saved {
        Ok(true) => {
            tx.commit().await?;
            Ok(page::see_other(&address("/changes", &query)))
        }
        Ok(false) => {
            let message = format!("At most {MAX_VIEWS} views can be saved; delete one first");
            refuse(&app, &viewer, form, message).await
        }
        Err(StoreError::Conflict) => {
            let message = format!("A view named \"{}\" already exists", format::visible(&name));
            refuse(&app, &viewer, form, message).await
        }
        Err(error) => Err(error.into()),
    }
}

/// `POST /views/ID`
pub(super) async fn rename(app: App, request: Request) -> ApiResult {
    let (viewer, mut form) = submitted(&app, &request).await?;
    let id = id(&request)?;
    form.set(RENAMED, id.to_string());
    let name = match name(&form) {
        Ok(name) => name,
        Err(message) => return refuse(&app, &viewer, form, message).await,
    };
    let mut tx = app.store.begin_for(viewer.tenant()).await?;
    let owner = owner(&viewer, &form);
    match tx.rename_view(viewer.tenant(), owner, id, &name).await {
        Ok(()) => {
            tx.commit().await?;
            Ok(page::see_other("/views"))
        }
        Err(StoreError::Conflict) => {
            let message = format!("A view named \"{}\" already exists", format::visible(&name));
            refuse(&app, &viewer, form, message).await
        }
        Err(error) => Err(error.into()),
    }
}

/// `POST /views/ID/delete`
pub(super) async fn delete(app: App, request: Request) -> ApiResult {
    let (viewer, form) = submitted(&app, &request).await?;
    let id = id(&request)?;
    let mut tx = app.store.begin_for(viewer.tenant()).await?;
    let owner = owner(&viewer, &form);
    tx.delete_view(viewer.tenant(), owner, id).await?;
    tx.commit().await?;
    Ok(page::see_other("/views"))
}

/// Reads a form about a view. Everybody may have views; owners and admins change those
/// that the organization shares.
async fn submitted(app: &App, request: &Request) -> Result<(Viewer, Form), ApiError> {
    let form = request.form().await?;
    let viewer = if form.has("shared") {
        Viewer::manage(app, request, Section::Changes).await?
    } else {
        Viewer::write_own(app, request, Section::Changes).await?
    };
    Ok((viewer, form))
}

fn owner(viewer: &Viewer, form: &Form) -> ViewOwner {
    if form.has("shared") {
        ViewOwner::Organization
    } else {
        ViewOwner::Person(viewer.session.person.id)
    }
}

fn id(request: &Request) -> Result<Uuid, ApiError> {
    Ok(request.id::<changelog_core::ChangeId>()?.0)
}

fn name(form: &Form) -> Result<String, &'static str> {
    let name = composed(form.value("name").trim());
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS {
        return Err("Enter a name (1–60 characters)");
    }
    if name.contains(char::is_control) {
        return Err("A name cannot contain control characters");
    }
    Ok(name)
}

/// Shows the views with an error.
async fn refuse(app: &App, viewer: &Viewer, form: Form, message: impl Into<String>) -> ApiResult {
    views_page(app, viewer, form.refuse_field("name", message)).await
}

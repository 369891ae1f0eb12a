//! Making a source.

use askama::Template;
use changelog_core::SourceId;
use uuid::Uuid;

use super::form::{self, Fields, SHOWN};
use super::item::{self, Shown};
use super::kinds::{GROUPS, Group, OfferedKind, kind_of};
use crate::app::App;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, one_time, page};
use crate::ingest::setup;
use crate::store::{MAX_SOURCES, StoreError};
use crate::web::{ApiError, ApiResult, Request};

#[derive(Template)]
#[template(path = "settings/sources/new.html")]
struct NewPage<'a> {
    viewer: &'a Viewer,
    groups: &'static [Group],
    /// The kind that was chosen.
    kind: Option<&'static OfferedKind>,
    form: Form,
    fields: &'static Fields,
    /// The id in the form.
    new_id: Uuid,
}

/// `GET /settings/sources/new`: the kinds, or with `kind` its form.
pub(in crate::dashboard) async fn new_form(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let kind = kind_of(request.query_form().value("kind"));
    let form = kind.map(form::empty).unwrap_or_default();
    form_page(&app, &viewer, 200, kind, form)
}

fn form_page(
    app: &App,
    viewer: &Viewer,
    status: u16,
    kind: Option<&'static OfferedKind>,
    form: Form,
) -> ApiResult {
    let page = NewPage {
        viewer,
        groups: &GROUPS,
        kind,
        new_id: one_time::id_in(&form, app.now()),
        form,
        fields: &SHOWN,
    };
    page::render(status, &page)
}

/// `POST /settings/sources`
pub(in crate::dashboard) async fn create(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let form = request.form().await?;
    let Some(kind) = kind_of(form.value("kind")) else {
        let form = form.refuse_field("", "Choose what sends.");
        return form_page(&app, &viewer, 422, None, form);
    };
    let (tenant, now) = (viewer.tenant(), app.now());
    let (new, new_secret) = match form::read_new(kind, &form, now.into()).await {
        Ok(read) => read,
        Err(invalid) => {
            let form = form::without_secret(form.refuse(&invalid));
            return form_page(&app, &viewer, 422, Some(kind), form);
        }
    };
    let id = SourceId(one_time::id_for(tenant.id(), &form, now));
    let (secrets, by) = (app.integrations.secrets(), &viewer.session.person.name);
    let source = setup::prepare(secrets, tenant, id, new, by, now.into());
    let source = source.map_err(|error| ApiError::internal(&error))?;
    let token = setup::new_token(tenant);
    let mut tx = app.store.begin_for(tenant).await?;
    let inserted = tx
        .insert_source(&viewer.actor(), &source, &token, now)
        .await;
    let (field, problem) = match inserted {
        Ok(true) => {
            tx.commit().await?;
            let shown = Shown {
                new_address: Some(item::full_address(&app, &source, &token)),
                new_secret,
                ..Shown::default()
            };
            return item::show(&app, &request, &viewer, source, shown).await;
        }
        Ok(false) => {
            let most = format!("An organization may have {MAX_SOURCES} sources.");
            ("", most)
        }
        Err(StoreError::Conflict) => {
            // On SQLite the open transaction would keep others from writing.
            drop(tx);
            if let Ok(source) = app.store.source_of(tenant, id).await {
                let problem = "This form was already sent: the source exists, and no other one \
                               was made. If you did not copy its address, renew it.";
                return item::show(&app, &request, &viewer, source, Shown::refused(problem)).await;
            }
            ("name", item::taken(&form))
        }
        Err(error) => return Err(error.into()),
    };
    let form = form::without_secret(form.refuse_field(field, problem));
    form_page(&app, &viewer, 422, Some(kind), form)
}

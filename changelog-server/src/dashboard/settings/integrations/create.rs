//! Connecting a receiver.

use askama::Template;
use changelog_core::{ConnectionId, Environment, RiskLevel, Status};
use uuid::Uuid;

use super::item::{self, Shown};
use super::kinds::{KINDS, OfferedKind};
use super::{PATH, form};
use crate::app::App;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, one_time, page};
use crate::integrations::setup::{self, Prepared};
use crate::store::{MAX_CONNECTIONS, StoreError};
use crate::web::{ApiError, ApiResult, Request};

#[derive(Template)]
#[template(path = "settings/integrations/new.html")]
struct NewPage<'a> {
    viewer: &'a Viewer,
    kinds: &'static [OfferedKind],
    /// The kind that was chosen.
    kind: Option<&'static OfferedKind>,
    form: Form,
    /// The id in the form.
    new_id: Uuid,
}

/// `GET /settings/integrations/new`: the kinds, or with `kind` its form.
pub(in crate::dashboard) async fn new_form(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let kind = chosen(&request.query_form());
    let form = kind.map(form::empty).unwrap_or_default();
    form_page(&app, &viewer, 200, kind, form)
}

fn chosen(form: &Form) -> Option<&'static OfferedKind> {
    let word = form.value("kind");
    KINDS.iter().find(|kind| kind.kind.as_str() == word)
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
        kinds: &KINDS,
        kind,
        new_id: one_time::id_in(&form, app.now()),
        form,
    };
    page::render(status, &page)
}

/// `POST /settings/integrations`
pub(in crate::dashboard) async fn create(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let form = request.form().await?;
    let Some(kind) = chosen(&form) else {
        let form = form.refuse_field("", "Choose what to connect.");
        return form_page(&app, &viewer, 422, None, form);
    };
    let (tenant, now) = (viewer.tenant(), app.now());
    let new = match form::read_new(&app, tenant, kind, &form).await {
        Ok(new) => new,
        Err(StoreError::Invalid(invalid)) => {
            let form = form::refused(form, kind, &invalid);
            return form_page(&app, &viewer, 422, Some(kind), form);
        }
        Err(error) => return Err(error.into()),
    };
    let id = ConnectionId(one_time::id_for(tenant.id(), &form, now));
    let (secrets, by) = (app.integrations.secrets(), &viewer.session.person.name);
    let prepared = setup::prepare(secrets, tenant, id, new, by, now.into());
    let Prepared {
        connection,
        signing_secret,
    } = prepared.map_err(|error| ApiError::internal(&error))?;
    let inserted = app
        .store
        .insert_connection(tenant, &viewer.actor(), &connection, now)
        .await;
    let problem = match inserted {
        Ok(true) => {
            let Some(secret) = signing_secret else {
                return Ok(page::see_other(&format!("{PATH}/{id}?done=connected")));
            };
            let shown = Shown {
                new_secret: Some(secret),
                ..Shown::default()
            };
            return item::show(&app, &request, &viewer, connection, shown).await;
        }
        Ok(false) => {
            let most = format!("An organization may have {MAX_CONNECTIONS} connections.");
            ("", most)
        }
        Err(StoreError::Conflict) => {
            if let Ok(connection) = app.store.connection(tenant, id).await {
                let shown = Shown {
                    status: 409,
                    problem: Some(
                        "This form was already sent: the connection exists, and no other one was \
                         made."
                            .to_owned(),
                    ),
                    ..Shown::default()
                };
                return item::show(&app, &request, &viewer, connection, shown).await;
            }
            ("name", item::taken(&form))
        }
        Err(error) => return Err(error.into()),
    };
    let form = form.refuse_field(problem.0, problem.1);
    let form = form::without_secrets(form, kind);
    form_page(&app, &viewer, 422, Some(kind), form)
}

//! `/settings/organization`

use askama::Template;
use changelog_core::{NewOrganization, Organization};

use crate::app::App;
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::dashboard::settings::integrations::troubles;
use crate::store::TroubledConnection;
use crate::web::{ApiResult, Request};

const FIELDS: &[Field] = &[Field::new("name", FieldKind::Required, "Name")];

#[derive(Template)]
#[template(path = "settings/organization.html")]
struct OrganizationPage<'a> {
    viewer: &'a Viewer,
    organization: Organization,
    fields: &'static [Field],
    form: Form,
    troubles: Vec<TroubledConnection>,
}

/// `GET /settings/organization`
pub(crate) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Settings).await?;
    let organization = app.store.organization(viewer.tenant()).await?;
    let form = Form::with_values([("name", organization.name.clone())]);
    let page = OrganizationPage {
        viewer: &viewer,
        organization,
        fields: FIELDS,
        form,
        troubles: troubles(&app, &viewer).await?,
    };
    page::render(200, &page)
}

/// `POST /settings/organization`
pub(crate) async fn rename(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let form = request.form().await?;
    match form
        .create::<NewOrganization>(FIELDS, app.now().into())
        .await
    {
        Ok(new) => {
            let mut tx = app.store.begin().await?;
            tx.rename_organization(viewer.tenant(), &new.name).await?;
            tx.commit().await?;
            Ok(page::see_other("/settings/organization"))
        }
        Err(invalid) => {
            let page = OrganizationPage {
                organization: app.store.organization(viewer.tenant()).await?,
                troubles: troubles(&app, &viewer).await?,
                viewer: &viewer,
                fields: FIELDS,
                form: form.refuse(&invalid),
            };
            page::render(422, &page)
        }
    }
}

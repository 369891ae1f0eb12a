//! `/settings/organization`

use askama::Template;
use changelog_core::{NewOrganization, Organization};

use super::super::form::{Form, Kind};
use super::super::visit::{Section, Visit};
use super::super::{assets, page, show};
use crate::app::App;
use crate::web::{ApiResult, Request};

const FIELDS: [(&str, Kind); 1] = [("name", Kind::Required)];

#[derive(Template)]
#[template(path = "settings/organization.html")]
struct Page<'a> {
    visit: &'a Visit,
    organization: Organization,
    form: Form,
}

/// `GET /settings/organization`
pub(in super::super) async fn get(app: App, request: Request) -> ApiResult {
    let visit = Visit::read(&app, &request, Section::Settings).await?;
    let organization = app.store.organization(visit.tenant()).await?;
    let form = Form::showing([("name", organization.name.clone())]);
    let page = Page {
        visit: &visit,
        organization,
        form,
    };
    page::render(200, &page)
}

/// `POST /settings/organization`
pub(in super::super) async fn rename(app: App, mut request: Request) -> ApiResult {
    let visit = Visit::manage(&app, &request, Section::Settings).await?;
    let form = request.form().await?;
    match form
        .create::<NewOrganization>(&FIELDS, app.now().into())
        .await
    {
        Ok(new) => {
            let mut tx = app.store.begin().await?;
            tx.rename_organization(visit.tenant(), &new.name).await?;
            tx.commit().await?;
            Ok(page::see_other("/settings/organization"))
        }
        Err(invalid) => {
            let page = Page {
                organization: app.store.organization(visit.tenant()).await?,
                visit: &visit,
                form: form.refuse(&invalid),
            };
            page::render(422, &page)
        }
    }
}

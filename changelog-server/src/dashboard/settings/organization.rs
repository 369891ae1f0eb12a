//! `/settings/organization`

use askama::Template;
use changelog_core::{NewOrganization, Organization, RetentionInput, RetentionMonths};

use crate::app::App;
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::dashboard::settings::integrations::troubles;
use crate::store::{Retention, RetentionPreview, TroubledConnection};
use crate::web::{ApiResult, Request};

const NAME: &[Field] = &[Field::new("name", FieldKind::Required, "Name")];

const RETENTION: &[Field] = &[Field::new("months", FieldKind::Optional, "Months to keep")
    .hint("1 to 240. Empty keeps everything forever.")];

#[derive(Template)]
#[template(path = "settings/organization.html")]
struct OrganizationPage<'a> {
    viewer: &'a Viewer,
    organization: Organization,
    fields: &'static [Field],
    form: Form,
    retention: Option<Retention>,
    retention_fields: &'static [Field],
    retention_form: Form,
    troubles: Vec<TroubledConnection>,
}

/// What would be deleted, with the button that sets it.
#[derive(Template)]
#[template(path = "settings/retention.html")]
struct RetentionPage<'a> {
    viewer: &'a Viewer,
    months: RetentionMonths,
    older: RetentionPreview,
}

/// `GET /settings/organization`
pub(crate) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Settings).await?;
    render(&app, &viewer, 200, None, None).await
}

/// Returns the page, with the forms that were refused.
async fn render(
    app: &App,
    viewer: &Viewer,
    status: u16,
    form: Option<Form>,
    retention_form: Option<Form>,
) -> ApiResult {
    let organization = app.store.organization(viewer.tenant()).await?;
    let retention = app.store.retention(viewer.tenant()).await?;
    let months = retention.map(|kept| kept.months.get().to_string());
    let page = OrganizationPage {
        viewer,
        fields: NAME,
        form: form.unwrap_or_else(|| Form::with_values([("name", organization.name.clone())])),
        organization,
        retention,
        retention_fields: RETENTION,
        retention_form: retention_form
            .unwrap_or_else(|| Form::with_values([("months", months.unwrap_or_default())])),
        troubles: troubles(app, viewer).await?,
    };
    page::render(status, &page)
}

/// `POST /settings/organization`
pub(crate) async fn rename(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let form = request.form().await?;
    match form.create::<NewOrganization>(NAME, app.now().into()).await {
        Ok(new) => {
            let mut tx = app.store.begin().await?;
            tx.rename_organization(viewer.tenant(), &new.name).await?;
            tx.commit().await?;
            Ok(page::see_other("/settings/organization"))
        }
        Err(invalid) => render(&app, &viewer, 422, Some(form.refuse(&invalid)), None).await,
    }
}

/// `POST /settings/organization/retention`: shows what would be deleted, and sets it once that is
/// confirmed.
pub(crate) async fn set_retention(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::own(&app, &request, Section::Settings).await?;
    let form = request.form().await?;
    let now = app.now();
    let input = match form.create::<RetentionInput>(RETENTION, now.into()).await {
        Ok(input) => input,
        Err(invalid) => {
            return render(&app, &viewer, 422, None, Some(form.refuse(&invalid))).await;
        }
    };
    let tenant = viewer.tenant();
    let kept = app.store.retention(tenant).await?;
    if kept.map(|kept| kept.months) == input.months {
        return Ok(page::see_other("/settings/organization"));
    }
    if let Some(months) = input.months
        && form.value("confirmed").is_empty()
    {
        let older = app
            .store
            .retention_preview(tenant, months, now.into())
            .await?;
        let page = RetentionPage {
            viewer: &viewer,
            months,
            older,
        };
        return page::render(200, &page);
    }
    let name = app.store.organization(tenant).await?.name;
    let mut tx = app.store.begin_for(tenant).await?;
    tx.set_retention(tenant, &viewer.actor(), &name, input.months, now)
        .await?;
    tx.commit().await?;
    Ok(page::see_other("/settings/organization"))
}

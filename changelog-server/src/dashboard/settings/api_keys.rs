//! `/settings/api-keys`

use askama::Template;
use changelog_core::{ApiKey, CreatedApiKey, NewApiKey, Plan, Timestamp};
use chrono::TimeDelta;

use crate::app::App;
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::web::{ApiResult, Request};

const FIELDS: &[Field] = &[
    Field::new("name", FieldKind::Required, "Name")
        .hint("What the key is for, such as terraform. The activity log shows this name."),
    Field::new("expires_at", FieldKind::Time, "Expires at")
        .hint("Leave empty for a key that does not expire."),
];

/// Keys that expire within this time are marked.
const EXPIRES_SOON: TimeDelta = TimeDelta::days(14);

struct ListedKey {
    key: ApiKey,
    state: &'static str,
    is_valid: bool,
}

impl ListedKey {
    fn new(key: ApiKey, now: Timestamp) -> Self {
        let (state, is_valid) = match key.expires_at {
            _ if key.revoked_at.is_some() => ("revoked", false),
            Some(at) if at <= now => ("expired", false),
            Some(at) if at <= now.plus(EXPIRES_SOON) => ("⚠ expires soon", true),
            _ => ("valid", true),
        };
        Self {
            key,
            state,
            is_valid,
        }
    }
}

#[derive(Template)]
#[template(path = "settings/api_keys.html")]
struct ApiKeysPage<'a> {
    viewer: &'a Viewer,
    plan: Plan,
    keys: Vec<ListedKey>,
    created: Option<CreatedApiKey>,
    url: &'a str,
    fields: &'static [Field],
    form: Form,
}

/// `GET /settings/api-keys`
pub(crate) async fn list(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Settings).await?;
    show_keys(&app, &viewer, None, Form::default()).await
}

async fn show_keys(
    app: &App,
    viewer: &Viewer,
    created: Option<CreatedApiKey>,
    form: Form,
) -> ApiResult {
    let now = app.clock.for_expiry();
    let keys = app.store.api_keys(viewer.tenant()).await?;
    let page = ApiKeysPage {
        viewer,
        plan: app.store.organization(viewer.tenant()).await?.plan,
        keys: keys
            .into_iter()
            .rev()
            .map(|key| ListedKey::new(key, now))
            .collect(),
        url: &app.url(),
        created,
        fields: FIELDS,
        form,
    };
    let status = if page.form.is_refused() { 422 } else { 200 };
    page::render(status, &page)
}

/// `POST /settings/api-keys`
pub(crate) async fn create(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let form = request.form().await?;
    let now = app.now();
    let new: NewApiKey = match form.create(FIELDS, now.into()).await {
        Ok(new) => new,
        Err(invalid) => return show_keys(&app, &viewer, None, form.refuse(&invalid)).await,
    };
    let mut tx = app.store.begin().await?;
    let created = tx
        .insert_api_key(viewer.tenant(), &viewer.actor(), &new, now)
        .await?;
    tx.commit().await?;
    show_keys(&app, &viewer, Some(created), Form::default()).await
}

/// `POST /settings/api-keys/ID/revoke`
pub(crate) async fn revoke(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let key = app.store.api_key_of(viewer.tenant(), request.id()?).await?;
    let mut tx = app.store.begin().await?;
    tx.revoke_api_key(viewer.tenant(), &viewer.actor(), &key, app.now())
        .await?;
    tx.commit().await?;
    Ok(page::see_other("/settings/api-keys"))
}

//! `/settings/api-keys`

use askama::Template;
use changelog_core::limits::{MAX_KEY_SERVICES, MAX_NAME_CHARS};
use changelog_core::{
    AgentClient, ApiKey, CreatedApiKey, Environment, Invalid, NewApiKey, Permissions, Plan, Scope,
    Service, ServiceId, Timestamp, ToolServer, ViolationCode, list,
};
use chrono::TimeDelta;
use uuid::Uuid;

use crate::app::App;
use crate::dashboard::parts::activity_rows::key_actor;
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, named, one_time, page};
use crate::dashboard::settings::integrations::troubles;
use crate::store::{StoreError, Tenant, TroubledConnection};
use crate::web::{ApiResult, Request};

const FIELDS: &[Field] = &[
    Field::new("name", FieldKind::Required, "Name")
        .hint("What it's for, e.g. terraform. Shown in the activity log."),
    Field::new("expires_at", FieldKind::Time, "Expires at").hint("Leave empty for no expiry."),
    Field::new(SCOPES, FieldKind::Boxes, ""),
    Field::new("environments", FieldKind::Boxes, ""),
    Field::new(SERVICES, FieldKind::List, ""),
];

/// The fields that the template does not write itself.
const PLAIN_FIELDS: &[Field] = FIELDS.split_at(2).0;
const SCOPES: &str = "scopes";
const SERVICES: &str = "service_ids";

/// Keys that expire within this time are marked.
const EXPIRES_SOON: TimeDelta = TimeDelta::days(14);

struct ListedKey {
    key: ApiKey,
    state: &'static str,
    is_valid: bool,
    /// What it may do, and the bounds of what it may record.
    may: Vec<String>,
}

impl ListedKey {
    fn new(key: ApiKey, services: &[(ServiceId, String)], now: Timestamp) -> Self {
        let (state, is_valid) = match key.expires_at {
            _ if key.revoked_at.is_some() => ("Revoked", false),
            Some(at) if at <= now => ("Expired", false),
            Some(at) if at <= now.plus(EXPIRES_SOON) => ("Expires soon", true),
            _ => ("Active", true),
        };
        Self {
            may: may(&key.permissions, services),
            key,
            state,
            is_valid,
        }
    }

    /// Returns the value by which the activity log selects the entries of the key.
    fn actor(&self) -> String {
        key_actor(self.key.id)
    }
}

/// Returns what a key may do, in a few words: the scopes, then each bound.
pub(super) fn may(permissions: &Permissions, services: &[(ServiceId, String)]) -> Vec<String> {
    fn joined(words: &[impl ToString]) -> String {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        words.join(", ")
    }
    let mut parts = vec![joined(&permissions.scopes)];
    if !permissions.environments.is_empty() {
        parts.push(format!("in {} only", joined(&permissions.environments)));
    }
    if !permissions.service_ids.is_empty() {
        let name = |id: &ServiceId| {
            let found = services.iter().find(|(known, _)| known == id);
            found.map_or_else(|| id.to_string(), |(_, name)| format::visible(name))
        };
        let names: Vec<String> = permissions.service_ids.iter().map(name).collect();
        parts.push(format!("of {} only", format::excerpt(&names.join(", "))));
    }
    parts
}

#[derive(Template)]
#[template(path = "settings/api_keys.html")]
struct ApiKeysPage<'a> {
    viewer: &'a Viewer,
    plan: Plan,
    keys: Vec<ListedKey>,
    created: Option<CreatedApiKey>,
    /// Whether this form was sent before: its key exists.
    is_repeated: bool,
    /// The id of the next key.
    new_id: Uuid,
    /// The id of the next key for an agent.
    agent_key_id: Uuid,
    url: &'a str,
    /// The fields that are no choices.
    fields: &'static [Field],
    form: Form,
    troubles: Vec<TroubledConnection>,
}

impl ApiKeysPage<'_> {
    /// Returns whether a key may read.
    fn reads(created: &CreatedApiKey) -> bool {
        created.permissions.includes(&Scope::Read)
    }

    /// Returns whether a key may record changes.
    fn records(created: &CreatedApiKey) -> bool {
        created.permissions.includes(&Scope::Record)
    }

    /// Returns what connects an agent with a key.
    fn config(&self, client: &AgentClient, key: &str) -> String {
        let url = self.url;
        client.config(ToolServer::Service { url, key })
    }
}

/// `GET /settings/api-keys`
pub(crate) async fn list(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Settings).await?;
    show_keys(&app, &viewer, Outcome::Shown).await
}

/// What a request has done.
enum Outcome {
    Shown,
    Created(CreatedApiKey),
    /// The key was created by the same form before.
    Repeated,
    Refused(Form),
}

/// Returns the form of a key that may do everything.
fn empty_form() -> Form {
    Form::with_values([(SCOPES, Scope::WORDS.join(","))])
}

/// Reads a form.
async fn read(
    app: &App,
    tenant: Tenant,
    form: &Form,
    now: Timestamp,
) -> Result<NewApiKey, StoreError> {
    let mut form = form.clone();
    check_scopes(&mut form, FIELDS)?;
    named::resolve_services(&app.store, tenant, &mut form, SERVICES, MAX_KEY_SERVICES).await?;
    Ok(form.create(FIELDS, now).await?)
}

/// Joins the boxes of a form. One without any scope is refused if it offered them.
pub(super) fn check_scopes(form: &mut Form, fields: &[Field]) -> Result<(), Invalid> {
    let offers_scopes = form.has(SCOPES);
    form.join(fields);
    if offers_scopes && list::parse(form.value(SCOPES)).is_empty() {
        let message = "choose at least one";
        return Err(Invalid::one("/scopes", ViolationCode::Required, message));
    }
    Ok(())
}

async fn show_keys(app: &App, viewer: &Viewer, outcome: Outcome) -> ApiResult {
    let (status, is_repeated) = match outcome {
        Outcome::Shown | Outcome::Created(_) => (200, false),
        Outcome::Repeated => (409, true),
        Outcome::Refused(_) => (422, false),
    };
    let (created, form) = match outcome {
        Outcome::Created(created) => (Some(created), empty_form()),
        Outcome::Refused(form) => (None, form),
        Outcome::Shown | Outcome::Repeated => (None, empty_form()),
    };
    let now = app.clock.for_expiry();
    let keys = app.store.api_keys(viewer.tenant()).await?;
    let has_services = |key: &ApiKey| !key.permissions.service_ids.is_empty();
    let services = if keys.iter().any(has_services) {
        app.store.item_names::<Service>(viewer.tenant()).await?
    } else {
        Vec::new()
    };
    let page = ApiKeysPage {
        viewer,
        plan: app.store.organization(viewer.tenant()).await?.plan,
        keys: keys
            .into_iter()
            .rev()
            .map(|key| ListedKey::new(key, &services, now))
            .collect(),
        url: &app.url(),
        created,
        is_repeated,
        new_id: one_time::id_in(&Form::default(), app.now()),
        agent_key_id: one_time::id_in(&Form::default(), app.now()),
        fields: PLAIN_FIELDS,
        form,
        troubles: troubles(app, viewer).await?,
    };
    page::render(status, &page)
}

/// `POST /settings/api-keys`
pub(crate) async fn create(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let form = request.form().await?;
    let now = app.now();
    let new = match read(&app, viewer.tenant(), &form, now.into()).await {
        Ok(new) => new,
        Err(StoreError::Invalid(invalid)) => {
            let outcome = Outcome::Refused(form.refuse(&invalid));
            return show_keys(&app, &viewer, outcome).await;
        }
        Err(error) => return Err(error.into()),
    };
    let mut tx = app.store.begin().await?;
    let id = one_time::id_in(&form, now).into();
    let created = tx
        .insert_api_key_with_id(viewer.tenant(), &viewer.actor(), id, &new, now)
        .await;
    let outcome = match created {
        Ok(created) => {
            tx.commit().await?;
            Outcome::Created(created)
        }
        Err(StoreError::Conflict) => {
            // On SQLite the open transaction would keep others from writing.
            drop(tx);
            Outcome::Repeated
        }
        Err(error) => return Err(error.into()),
    };
    show_keys(&app, &viewer, outcome).await
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

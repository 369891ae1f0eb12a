//! `/settings/integrations/ID`: a connection and what it has sent.

use askama::Template;
use changelog_core::{ConnectionKind, Environment, RiskLevel, Status};
use http::Method;
use warp::reply::Response;

use super::deliveries::{self, Deliveries};
use super::kinds::{OfferedKind, kind_of};
use super::state::{NOTHING, State, counted};
use super::summary::summary;
use super::{PATH, form, list};
use crate::app::App;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::integrations::message::Attempt;
use crate::integrations::senders::webhook;
use crate::integrations::setup;
use crate::integrations::target::Target;
use crate::integrations::trial::Trial;
use crate::store::{Connection, Disabled, StoreError};
use crate::web::{ApiError, ApiResult, Request};

/// What is shown instead of the reason, which names a file of the server.
const UNREADABLE: &str = "The server lacks the key by which its address and secrets are \
                          encrypted, so nothing is sent to it, and what is queued stays queued. \
                          The operator can restore the key file; the log of the server names it. \
                          Otherwise, delete the connection and set it up again.";

#[derive(Template)]
#[template(path = "settings/integrations/item.html")]
struct ItemPage<'a> {
    viewer: &'a Viewer,
    /// The path of the page.
    address: String,
    connection: Connection,
    kind: Option<&'static OfferedKind>,
    /// What the kind is called.
    kind_label: String,
    state: State,
    sends: Vec<String>,
    pending: String,
    dead: String,
    has_dead: bool,
    /// The public key of a webhook, and where it is published.
    public_key: Option<(String, String)>,
    shown: Shown,
    message: &'static str,
    form: Form,
    events: [(&'static str, &'static str); 4],
    deliveries: Deliveries,
}

/// What the page shows of a request that has just been made.
#[derive(Default)]
pub(super) struct Shown {
    /// The status, if it is not 200.
    pub(super) status: u16,
    /// The signing secret, for the only time.
    pub(super) new_secret: Option<String>,
    /// Why nothing was done.
    pub(super) problem: Option<String>,
    /// What the receiver answered to a test.
    pub(super) attempt: Option<Attempt>,
    /// The form, if it was refused.
    pub(super) form: Option<Form>,
}

impl Shown {
    /// Returns the class and the first sentence of the result of a test.
    fn result(attempt: &Attempt, kind: Option<&OfferedKind>) -> (&'static str, String) {
        match attempt.verdict.reason() {
            None => {
                let delivered = kind.map_or("Delivered", OfferedKind::delivered);
                ("good", format!("{delivered}."))
            }
            Some(reason) => ("bad", reason.to_owned()),
        }
    }
}

/// `GET /settings/integrations/ID`
pub(in crate::dashboard) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Settings).await?;
    let connection = app.store.connection(viewer.tenant(), request.id()?).await?;
    show(&app, &request, &viewer, connection, Shown::default()).await
}

/// Shows the page of a connection.
pub(super) async fn show(
    app: &App,
    request: &Request,
    viewer: &Viewer,
    connection: Connection,
    mut shown: Shown,
) -> ApiResult {
    let tenant = viewer.tenant();
    let status = if shown.status == 0 { 200 } else { shown.status };
    let kind = kind_of(&connection.kind);
    let totals = app.store.delivery_totals(tenant).await?;
    let totals = totals.into_iter().find(|(id, _)| *id == connection.id);
    let totals = totals.map_or(NOTHING, |(_, totals)| totals);
    let services = list::services(app, tenant, std::slice::from_ref(&connection)).await?;
    let mut target = Target::default();
    let mut deliveries = Deliveries::default();
    if viewer.may_manage() {
        match app.integrations.target(tenant, &connection) {
            Ok(opened) => target = opened,
            Err(error) => {
                tracing::error!(connection = %connection.id, %error, "it cannot be shown");
                shown.problem.get_or_insert(UNREADABLE.to_owned());
            }
        }
        deliveries = deliveries::read(app, viewer, request, &connection).await?;
    }
    let public_key = target.ed25519_seed.as_deref().and_then(webhook::public_key);
    let form = shown.form.take().unwrap_or_else(|| match kind {
        Some(kind) => form::of(&connection, kind, &target, &services),
        None => Form::default(),
    });
    let page = ItemPage {
        viewer,
        address: format!("{PATH}/{}", connection.id),
        kind,
        kind_label: connection.kind.label().to_owned(),
        state: State::of(&connection, &totals),
        sends: summary(&connection.filter, kind, &services),
        pending: counted(totals.pending),
        dead: counted(totals.dead),
        has_dead: totals.dead > 0,
        public_key: public_key.map(|key| {
            let path = "/.well-known/changelog-webhook-keys";
            (key, format!("{}{path}/{}", app.url(), connection.id))
        }),
        message: message(&request.query_form()),
        shown,
        form,
        events: form::events(),
        deliveries,
        connection,
    };
    // Answers to forms may have a secret.
    if request.method == Method::GET {
        return page::render_live(request, &page);
    }
    page::render(status, &page)
}

/// Returns what was just done.
fn message(form: &Form) -> &'static str {
    match form.value("done") {
        "connected" => "Connected. Send a test to see that it works.",
        "saved" => "The connection was saved.",
        "enabled" => "Enabled. What was queued is sent now.",
        "disabled" => "Disabled. Events from now on are not sent to it, not even later.",
        "replayed" => "Queued again.",
        _ => "",
    }
}

/// Returns the connection of a form, and who has sent it.
pub(super) async fn managed(
    app: &App,
    request: &Request,
) -> Result<(Viewer, Connection), ApiError> {
    let viewer = Viewer::manage(app, request, Section::Settings).await?;
    let connection = app.store.connection(viewer.tenant(), request.id()?).await?;
    Ok((viewer, connection))
}

/// Shows a connection whose secrets cannot be decrypted, which [`show`] says.
async fn unreadable(
    app: &App,
    request: &Request,
    viewer: &Viewer,
    connection: Connection,
) -> ApiResult {
    let shown = Shown {
        status: 409,
        ..Shown::default()
    };
    show(app, request, viewer, connection, shown).await
}

/// Leads back to the page of a connection.
pub(super) fn back(connection: &Connection, done: &str) -> Response {
    page::see_other(&format!("{PATH}/{}?done={done}", connection.id))
}

/// Says that the name in a form belongs to another connection.
pub(super) fn taken(form: &Form) -> String {
    let name = format::visible(form.value("name").trim());
    format!("A connection named \"{name}\" already exists")
}

/// `POST /settings/integrations/ID`
pub(in crate::dashboard) async fn update(app: App, mut request: Request) -> ApiResult {
    let (viewer, connection) = managed(&app, &request).await?;
    let form = request.form().await?;
    let Some(kind) = kind_of(&connection.kind) else {
        return Err(ApiError::unknown_path());
    };
    let tenant = viewer.tenant();
    let Ok(target) = app.integrations.target(tenant, &connection) else {
        return unreadable(&app, &request, &viewer, connection).await;
    };
    let refused = match form::read_patch(&app, tenant, kind, &target, &form).await {
        Ok(patch) => {
            let secrets = app.integrations.secrets();
            let mut tx = app.store.begin_for(tenant).await?;
            let before = tx.lock_connection(tenant, connection.id).await?;
            let after = setup::patched(secrets, tenant, &before, patch);
            let after = after.map_err(|error| ApiError::internal(&error))?;
            let updated = tx
                .update_connection(tenant, &viewer.actor(), &before, &after, app.now())
                .await;
            match updated {
                Ok(()) => {
                    tx.commit().await?;
                    return Ok(back(&connection, "saved"));
                }
                Err(StoreError::Conflict) => {
                    let message = taken(&form);
                    form::without_secrets(form.refuse_field("name", message), kind)
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::Invalid(invalid)) => form::refused(form, kind, &invalid),
        Err(error) => return Err(error.into()),
    };
    let shown = Shown {
        status: 422,
        form: Some(refused),
        ..Shown::default()
    };
    show(&app, &request, &viewer, connection, shown).await
}

/// `POST /settings/integrations/ID/test`
pub(in crate::dashboard) async fn test(app: App, request: Request) -> ApiResult {
    let (viewer, connection) = managed(&app, &request).await?;
    app.rate_limits.connection_test(viewer.session.person.id)?;
    let Ok(target) = app.integrations.target(viewer.tenant(), &connection) else {
        return unreadable(&app, &request, &viewer, connection).await;
    };
    let dashboard = app.url();
    let trial = Trial {
        tenant: viewer.tenant(),
        organization: &viewer.session.organization_name,
        connection: &connection,
        target: &target,
        dashboard: &dashboard,
    };
    let attempt = trial.send(&app.integrations.http, app.now()).await;
    let shown = Shown {
        attempt: Some(attempt),
        ..Shown::default()
    };
    show(&app, &request, &viewer, connection, shown).await
}

/// `POST /settings/integrations/ID/rotate`
pub(in crate::dashboard) async fn rotate(app: App, request: Request) -> ApiResult {
    let (viewer, connection) = managed(&app, &request).await?;
    if connection.kind != ConnectionKind::Webhook {
        return Err(ApiError::unknown_path());
    }
    let (tenant, now) = (viewer.tenant(), app.now());
    if app.integrations.target(tenant, &connection).is_err() {
        return unreadable(&app, &request, &viewer, connection).await;
    }
    let mut tx = app.store.begin_for(tenant).await?;
    let before = tx.lock_connection(tenant, connection.id).await?;
    let rotated = setup::rotated(app.integrations.secrets(), tenant, &before, now.into());
    let rotated = rotated.map_err(|error| ApiError::internal(&error))?;
    let after = &rotated.connection;
    tx.update_connection(tenant, &viewer.actor(), &before, after, now)
        .await?;
    tx.commit().await?;
    let shown = Shown {
        new_secret: rotated.signing_secret,
        ..Shown::default()
    };
    show(&app, &request, &viewer, rotated.connection, shown).await
}

/// `POST /settings/integrations/ID/enable`
pub(in crate::dashboard) async fn enable(app: App, request: Request) -> ApiResult {
    let (viewer, connection) = managed(&app, &request).await?;
    let mut tx = app.store.begin_for(viewer.tenant()).await?;
    tx.enable_connection(viewer.tenant(), &viewer.actor(), &connection, app.now())
        .await?;
    tx.commit().await?;
    Ok(back(&connection, "enabled"))
}

/// `POST /settings/integrations/ID/disable`
pub(in crate::dashboard) async fn disable(app: App, request: Request) -> ApiResult {
    let (viewer, connection) = managed(&app, &request).await?;
    let reason = Disabled::reason_of_person(&viewer.session.person.name);
    let (tenant, actor) = (viewer.tenant(), viewer.actor());
    let mut tx = app.store.begin_for(tenant).await?;
    tx.disable_connection(tenant, &actor, &connection, &reason, app.now())
        .await?;
    tx.commit().await?;
    Ok(back(&connection, "disabled"))
}

/// `POST /settings/integrations/ID/delete`
pub(in crate::dashboard) async fn delete(app: App, request: Request) -> ApiResult {
    let (viewer, connection) = managed(&app, &request).await?;
    let mut tx = app.store.begin_for(viewer.tenant()).await?;
    tx.delete_connection(viewer.tenant(), &viewer.actor(), &connection, app.now())
        .await?;
    tx.commit().await?;
    Ok(page::see_other(&format!("{PATH}?done=deleted")))
}

//! The forms on the page of a connection.

use changelog_core::{ConnectionKind, ProblemCode};
use warp::reply::Response;

use super::item::{Shown, show, taken};
use super::kinds::kind_of;
use super::{PATH, form, list};
use crate::app::App;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::page;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::integrations::setup;
use crate::integrations::trial::Trial;
use crate::store::{Connection, Disabled, StoreError};
use crate::web::{ApiError, ApiResult, Request};

/// Returns the connection of a form, and who has sent it.
async fn managed(app: &App, request: &Request) -> Result<(Viewer, Connection), ApiError> {
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
fn back(connection: &Connection, done: &str) -> Response {
    page::see_other(&format!("{PATH}/{}?done={done}", connection.id))
}

/// `POST /settings/integrations/ID`
pub(in crate::dashboard) async fn update(app: App, request: Request) -> ApiResult {
    let (viewer, connection) = managed(&app, &request).await?;
    let form = request.form().await?;
    let Some(kind) = kind_of(&connection.kind) else {
        return Err(ApiError::unknown_path());
    };
    let tenant = viewer.tenant();
    let Ok(target) = app.integrations.target(tenant, &connection) else {
        return unreadable(&app, &request, &viewer, connection).await;
    };
    let services = list::services(&app, tenant, std::slice::from_ref(&connection)).await?;
    let present = form::of(&connection, kind, &target, &services);
    let form = match form::over_present(form, &present) {
        Ok(form) => form,
        Err(refused) => {
            let refused = form::without_secrets(refused, kind);
            return show_refused(&app, &request, &viewer, connection, refused).await;
        }
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
    show_refused(&app, &request, &viewer, connection, refused).await
}

/// Shows a form again that was refused.
async fn show_refused(
    app: &App,
    request: &Request,
    viewer: &Viewer,
    connection: Connection,
    refused: Form,
) -> ApiResult {
    let shown = Shown {
        status: 422,
        form: Some(refused),
        ..Shown::default()
    };
    show(app, request, viewer, connection, shown).await
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

/// `POST /settings/integrations/ID/replay`
pub(in crate::dashboard) async fn replay(app: App, request: Request) -> ApiResult {
    let (viewer, connection) = managed(&app, &request).await?;
    let form = request.form().await?;
    let Ok(sequence) = form.value("sequence").parse::<i64>() else {
        let detail = "the form has no number of a delivery";
        return Err(ApiError::new(ProblemCode::ValidationFailed, detail));
    };
    let tenant = viewer.tenant();
    let mut tx = app.store.begin_for(tenant).await?;
    match tx
        .replay(tenant, connection.id, sequence, app.now().into())
        .await
    {
        Ok(()) => tx.commit().await?,
        Err(StoreError::NotFound) => {
            drop(tx);
            let shown = Shown {
                status: 409,
                problem: Some("This delivery is being sent, or is no longer kept.".to_owned()),
                ..Shown::default()
            };
            return show(&app, &request, &viewer, connection, shown).await;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(back(&connection, "replayed"))
}

/// `POST /settings/integrations/ID/replay-dead`
pub(in crate::dashboard) async fn replay_dead(app: App, request: Request) -> ApiResult {
    let (viewer, connection) = managed(&app, &request).await?;
    let tenant = viewer.tenant();
    let mut tx = app.store.begin_for(tenant).await?;
    tx.replay_dead(tenant, connection.id, app.now().into())
        .await?;
    tx.commit().await?;
    Ok(back(&connection, "replayed"))
}

//! The forms on the page of a source.

use changelog_core::SourceEventId;
use warp::reply::Response;

use super::item::{Shown, full_address, show, taken};
use super::kinds::{OfferedKind, kind_of};
use super::{PATH, form, preview as previewed};
use crate::app::App;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::page;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::ingest::setup;
use crate::store::{Source, StoreError};
use crate::web::{ApiError, ApiResult, Request};

/// Returns the source of a form, and who has sent it.
pub(super) async fn managed(app: &App, request: &Request) -> Result<(Viewer, Source), ApiError> {
    let viewer = Viewer::manage(app, request, Section::Settings).await?;
    let source = app.store.source_of(viewer.tenant(), request.id()?).await?;
    Ok((viewer, source))
}

/// Leads back to the page of a source.
fn back(source: &Source, done: &str) -> Response {
    page::see_other(&format!("{PATH}/{}?done={done}", source.id))
}

fn known(source: &Source) -> Result<&'static OfferedKind, ApiError> {
    kind_of(source.kind.as_str()).ok_or_else(ApiError::unknown_path)
}

/// `POST /settings/sources/ID`
pub(in crate::dashboard) async fn update(app: App, request: Request) -> ApiResult {
    let (viewer, source) = managed(&app, &request).await?;
    let form = request.form().await?;
    let now = app.now();
    let form = match form::over_present(&form, &source) {
        Ok(form) => form,
        Err(refused) => return show_refused(&app, &request, &viewer, source, refused).await,
    };
    let refused = match form::read_patch(known(&source)?, &source, &form, now.into()).await {
        Ok((patch, new_secret)) => {
            let mut after = source.clone();
            if let Some(secret) = &patch.secret {
                let secrets = app.integrations.secrets();
                let sealed = setup::seal_secret(secrets, source.tenant, source.id, secret);
                after.secret = Some(sealed.map_err(|error| ApiError::internal(&error))?);
            } else if form::removes_secret(known(&source)?, &form) {
                after.secret = None;
            }
            after.name = patch.name;
            after.settings = patch.settings;
            match save(&app, &viewer, &source, &after).await {
                Ok(()) if new_secret.is_none() => return Ok(back(&source, "saved")),
                Ok(()) => {
                    let shown = Shown {
                        new_secret,
                        ..Shown::default()
                    };
                    return show(&app, &request, &viewer, after, shown).await;
                }
                Err(StoreError::Conflict) => {
                    let message = taken(&form);
                    form.refuse_field("name", message)
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(invalid) => form.refuse(&invalid),
    };
    show_refused(&app, &request, &viewer, source, refused).await
}

/// Shows a form again that was refused.
async fn show_refused(
    app: &App,
    request: &Request,
    viewer: &Viewer,
    source: Source,
    refused: Form,
) -> ApiResult {
    let shown = Shown {
        status: 422,
        form: Some(form::without_secret(refused)),
        ..Shown::default()
    };
    show(app, request, viewer, source, shown).await
}

/// Replaces a source in a transaction of its own.
async fn save(
    app: &App,
    viewer: &Viewer,
    before: &Source,
    after: &Source,
) -> Result<(), StoreError> {
    let mut tx = app.store.begin_for(before.tenant).await?;
    tx.update_source(&viewer.actor(), before, after, app.now())
        .await?;
    tx.commit().await
}

/// `POST /settings/sources/ID/preview`
pub(in crate::dashboard) async fn preview(app: App, request: Request) -> ApiResult {
    let (viewer, source) = managed(&app, &request).await?;
    let form = request.form().await?;
    let read = form::read_patch(known(&source)?, &source, &form, app.now().into()).await;
    let shown = match read {
        Ok((patch, _)) => Shown {
            preview: Some(previewed::of_last(&app, &source, patch.settings, viewer.zone).await?),
            form: Some(form::without_secret(form)),
            ..Shown::default()
        },
        Err(invalid) => {
            let refused = form.refuse(&invalid);
            return show_refused(&app, &request, &viewer, source, refused).await;
        }
    };
    show(&app, &request, &viewer, source, shown).await
}

/// `POST /settings/sources/ID/renew`
pub(in crate::dashboard) async fn renew(app: App, request: Request) -> ApiResult {
    let (viewer, source) = managed(&app, &request).await?;
    let token = setup::new_token(source.tenant);
    let mut tx = app.store.begin_for(source.tenant).await?;
    tx.renew_source(&viewer.actor(), &source, &token, app.now())
        .await?;
    tx.commit().await?;
    let shown = Shown {
        new_address: Some(full_address(&app, &source, &token)),
        ..Shown::default()
    };
    show(&app, &request, &viewer, source, shown).await
}

/// `POST /settings/sources/ID/enable`
pub(in crate::dashboard) async fn enable(app: App, request: Request) -> ApiResult {
    let (viewer, source) = managed(&app, &request).await?;
    let after = Source {
        disabled_at: None,
        ..source.clone()
    };
    save(&app, &viewer, &source, &after).await?;
    Ok(back(&source, "enabled"))
}

/// `POST /settings/sources/ID/disable`
pub(in crate::dashboard) async fn disable(app: App, request: Request) -> ApiResult {
    let (viewer, source) = managed(&app, &request).await?;
    let after = Source {
        disabled_at: source.disabled_at.or(Some(app.now().into())),
        ..source.clone()
    };
    save(&app, &viewer, &source, &after).await?;
    Ok(back(&source, "disabled"))
}

/// `POST /settings/sources/ID/dismiss`
pub(in crate::dashboard) async fn dismiss(app: App, request: Request) -> ApiResult {
    let (_, source) = managed(&app, &request).await?;
    app.store.dismiss_notices(&source).await?;
    Ok(page::see_other(&format!("{PATH}/{}", source.id)))
}

/// `POST /settings/sources/ID/delete`
pub(in crate::dashboard) async fn delete(app: App, request: Request) -> ApiResult {
    let (viewer, source) = managed(&app, &request).await?;
    let mut tx = app.store.begin_for(source.tenant).await?;
    tx.delete_source(&viewer.actor(), &source, app.now())
        .await?;
    tx.commit().await?;
    Ok(page::see_other(&format!("{PATH}?done=deleted")))
}

/// `POST /settings/sources/ID/replay`
pub(in crate::dashboard) async fn replay(app: App, request: Request) -> ApiResult {
    let (viewer, source) = managed(&app, &request).await?;
    let form = request.form().await?;
    let event = form.value("event").parse::<SourceEventId>().ok();
    let replayed = match event {
        Some(event) => app.store.replay_source_event(source.tenant, event).await,
        None => Err(StoreError::NotFound),
    };
    match replayed {
        Ok(()) => Ok(back(&source, "replayed")),
        Err(StoreError::NotFound) => {
            let shown = Shown::refused("This event is no longer kept.");
            show(&app, &request, &viewer, source, shown).await
        }
        Err(error) => Err(error.into()),
    }
}

/// `POST /settings/sources/ID/replay-set-aside`
pub(in crate::dashboard) async fn replay_set_aside(app: App, request: Request) -> ApiResult {
    let (_, source) = managed(&app, &request).await?;
    app.store.replay_set_aside(&source).await?;
    Ok(back(&source, "replayed"))
}

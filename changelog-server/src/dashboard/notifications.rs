//! `/notifications`: what happened to changes of services that the viewer is subscribed to.

use askama::Template;
use changelog_core::{EventKind, Timestamp};

use crate::app::App;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::store::Notification;
use crate::web::{ApiResult, Request};

#[derive(Template)]
#[template(path = "notifications.html")]
struct NotificationsPage<'a> {
    viewer: &'a Viewer,
    unread: Vec<Notification>,
    read: Vec<Notification>,
    /// The time of the newest, in milliseconds.
    until: i64,
}

/// Returns what happened, in words.
fn event(notification: &Notification) -> &str {
    match notification.kind {
        EventKind::Deleted => "deleted",
        EventKind::Updated => "edited",
        _ => &notification.status,
    }
}

/// `GET /notifications`
pub(super) async fn list(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Account).await?;
    let person = viewer.session.person.id;
    let all = app.store.notifications(viewer.tenant(), person).await?;
    let until = all.iter().map(|one| one.at.millis()).max();
    let (unread, read) = all.into_iter().partition(|one| one.is_unread);
    let page = NotificationsPage {
        viewer: &viewer,
        unread,
        read,
        until: until.unwrap_or_default(),
    };
    page::render_live(&request, &page)
}

/// `POST /notifications/read`: marks all that were recorded when the page was shown, also
/// those that it has no room for.
pub(super) async fn mark_all(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::write_own(&app, &request, Section::Account).await?;
    let form = request.form().await?;
    let until = form.value("until").parse().unwrap_or_default();
    let mut tx = app.store.begin().await?;
    tx.mark_all_read(
        viewer.tenant(),
        viewer.session.person.id,
        Timestamp::from_millis(until),
    )
    .await?;
    tx.commit().await?;
    Ok(page::see_other("/notifications"))
}

/// `POST /notifications/ID/read`: the id is that of the change.
pub(super) async fn mark_one(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write_own(&app, &request, Section::Account).await?;
    let person = viewer.session.person.id;
    let mut tx = app.store.begin().await?;
    tx.mark_read(viewer.tenant(), person, request.id()?).await?;
    tx.commit().await?;
    Ok(page::see_other("/notifications"))
}

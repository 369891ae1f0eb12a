//! `/notifications`: what happened to changes and incidents of services that the viewer is
//! subscribed to.

use std::collections::HashMap;

use askama::Template;
use changelog_core::{ChangeId, EventKind, Incident, IncidentId, Timestamp};

use crate::app::App;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::store::{Notification, NotificationSubject};
use crate::web::{ApiResult, Request};

#[derive(Template)]
#[template(path = "notifications.html")]
struct NotificationsPage<'a> {
    viewer: &'a Viewer,
    unread: Vec<Notification>,
    read: Vec<Notification>,
    /// The incidents of the unread ones.
    incidents: HashMap<IncidentId, Incident>,
    /// The time of the newest, in milliseconds.
    until: i64,
}

impl NotificationsPage<'_> {
    /// Returns what is known of the incident of an unread notification.
    fn incident(&self, id: &IncidentId) -> Option<&Incident> {
        self.incidents.get(id)
    }
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
    let (unread, read): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.is_unread);
    let incidents = unread.iter().filter_map(Notification::incident_id);
    let incidents = app
        .store
        .incidents_by_id(viewer.tenant(), incidents)
        .await?;
    let page = NotificationsPage {
        viewer: &viewer,
        unread,
        read,
        incidents,
        until: until.unwrap_or_default(),
    };
    page::render_live(&request, &page)
}

/// `POST /notifications/read`: marks all that were recorded when the page was shown, also
/// those that it has no room for.
pub(super) async fn mark_all(app: App, request: Request) -> ApiResult {
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

/// `POST /notifications/ID/read`: the id is that of the change or the incident.
pub(super) async fn mark_one(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write_own(&app, &request, Section::Account).await?;
    let person = viewer.session.person.id;
    let mut tx = app.store.begin().await?;
    let subject: ChangeId = request.id()?;
    tx.mark_read(viewer.tenant(), person, subject.0).await?;
    tx.commit().await?;
    Ok(page::see_other("/notifications"))
}

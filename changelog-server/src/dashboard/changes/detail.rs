//! `GET /changes/ID`

use std::sync::Arc;

use askama::Template;
use changelog_core::change::fields::long_texts;
use changelog_core::{
    ActorType, AuthorType, Change, ChangeFilter, ChangeId, Incident, Outcome, ResourceType, Status,
    Timestamp,
};
use chrono::TimeDelta;

use super::edit::present_form;
use super::find;
use crate::app::App;
use crate::blocking_pool;
use crate::dashboard::parts::activity_rows::ActivityRow;
use crate::dashboard::parts::shown_values::SHOWN;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::store::{HAPPENED, StoreError, StoredEntry, Tenant};
use crate::web::{ApiResult, Request};

/// For how long the user who changed the status is offered to undo that.
const UNDO_TIME: TimeDelta = TimeDelta::minutes(15);
/// The fields that change with the status.
const PROGRESS: [&str; 4] = ["status", "outcome", "started_at", "ended_at"];

/// Other changes are shown if they happened within this time before or after.
const AROUND_WINDOW: TimeDelta = TimeDelta::hours(1);
/// The maximum number of other changes that are shown.
const MAX_AROUND: u64 = 15;

#[derive(Template)]
#[template(path = "changes/detail.html")]
struct Detail<'a> {
    viewer: &'a Viewer,
    change: &'a Change,
    /// The labels and the HTML of the long texts that the change has.
    long_texts: Vec<(&'static str, Arc<str>)>,
    /// The statuses that the page has buttons for, with their labels.
    next_statuses: &'static [(&'static str, &'static str)],
    /// The present values, so that a button does not undo what others do meanwhile.
    shown: String,
    /// What undoes the newest change of the status.
    undo: Option<Undo>,
    /// The incidents whose cause the change was marked as.
    caused: Vec<Incident>,
    /// The other changes, and when they happened relative to this one.
    around: Vec<(Change, String)>,
    /// The number of all changes around it, if there are more than those shown.
    around_more: Option<u64>,
    around_query: String,
    history: Vec<ActivityRow>,
    chlog: String,
    curl: String,
    /// The address of this page.
    link: String,
}

impl Detail<'_> {
    /// Returns whether the viewer is offered to record that the change has failed: it was
    /// marked as a cause.
    fn proposes_failure(&self) -> bool {
        let has_failed = self.change.outcome == Some(Outcome::Failed);
        !self.caused.is_empty() && !has_failed && self.viewer.may_write()
    }
}

/// Leads to the change that has taken the place of one that is gone.
async fn to_joined(app: &App, tenant: Tenant, id: ChangeId) -> ApiResult {
    let joined = app.store.joined_into(tenant, [id]).await?;
    match joined.get(&id) {
        Some(into) => Ok(page::see_other(&format!("/changes/{into}"))),
        None => Err(StoreError::NotFound.into()),
    }
}

/// `GET /changes/ID`
pub(in crate::dashboard) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Changes).await?;
    let tenant = viewer.tenant();
    let id = request.id()?;
    let change = match find(&app, tenant, id).await {
        Err(StoreError::NotFound) => return to_joined(&app, tenant, id).await,
        change => change?,
    };
    let at = change.effective_at();
    let mut around = ChangeFilter {
        since: Some(at.plus(-AROUND_WINDOW)),
        // Exclusive.
        until: Some(at.plus(AROUND_WINDOW + TimeDelta::milliseconds(1))),
        statuses: HAPPENED.to_vec(),
        ..ChangeFilter::default()
    };
    let around_query = around.to_query();
    around.per_page = MAX_AROUND + 1;
    let list = app.store.changes(tenant, &around).await?;
    let count = list.count;
    let mut others = blocking_pool::run_sized(list.json.0.len(), move || list.json.parse()).await?;
    // What is in progress counts as now, whenever it was started.
    let hour = at.plus(-AROUND_WINDOW)..at.plus(AROUND_WINDOW + TimeDelta::milliseconds(1));
    others.retain(|other| other.id != change.id && hour.contains(&other.effective_at()));
    // A planned change is not among those that happened.
    let listed = others.len() as u64 + u64::from(change.status != Status::Planned);
    let history = app
        .store
        .history(tenant, ResourceType::Change, change.id.0, change.created_at)
        .await?;
    let undo = history
        .iter()
        .max_by_key(|stored| stored.entry.created_at)
        .and_then(|newest| Undo::of(newest, &viewer));
    let page = Detail {
        viewer: &viewer,
        undo,
        caused: app.store.incidents_caused_by(tenant, change.id).await?,
        shown: present_form(&change, viewer.zone).value(SHOWN).to_owned(),
        long_texts: render_long_texts(&app, &change).await,
        next_statuses: next_statuses(&change.status),
        around: others
            .into_iter()
            .map(|other| {
                let offset = format::offset(other.effective_at(), at);
                (other, offset)
            })
            .collect(),
        around_more: (count > listed).then_some(count),
        around_query,
        history: history
            .into_iter()
            .map(|entry| ActivityRow::new(entry, viewer.zone))
            .collect(),
        link: format!("{}/changes/{}", app.url(), change.id),
        chlog: format!("chlog show {}", change.id),
        curl: format!(
            "curl -H \"x-api-key: $CHLOG_API_KEY\" {}/api/changes/{}",
            app.url(),
            change.id
        ),
        change: &change,
    };
    page::render_live(&request, &page)
}

async fn render_long_texts(app: &App, change: &Change) -> Vec<(&'static str, Arc<str>)> {
    let mut rendered = Vec::new();
    for (_, field) in long_texts() {
        if let Some(text) = (field.of)(change) {
            rendered.push((field.label, app.markdown.render(text).await));
        }
    }
    rendered
}

/// The fields that a form sends to undo a change of the status.
#[derive(Debug)]
struct Undo {
    at: Timestamp,
    fields: Vec<(&'static str, String)>,
}

impl Undo {
    /// Returns what undoes an entry of the history: its former values, if the viewer has
    /// just changed the status.
    fn of(stored: &StoredEntry, viewer: &Viewer) -> Option<Self> {
        let (entry, by) = (&stored.entry, stored.actor());
        let changes = entry.metadata["changes"].as_object()?;
        let is_own = by.kind == ActorType::Person && by.id == Some(viewer.session.person.id.0);
        let is_new = viewer.now < entry.created_at.plus(UNDO_TIME);
        if !changes.contains_key("status") || !is_own || !is_new || !viewer.may_write() {
            return None;
        }
        let former = |name| {
            let value = &changes.get(name)?["from"];
            Some((name, value.as_str().unwrap_or_default().to_owned()))
        };
        Some(Self {
            at: entry.created_at,
            fields: PROGRESS.into_iter().filter_map(former).collect(),
        })
    }
}

/// Returns the statuses that usually follow a status, with the labels of their
/// buttons.
fn next_statuses(status: &Status) -> &'static [(&'static str, &'static str)] {
    match status {
        Status::Planned => &[
            ("in_progress", "Mark as started"),
            ("completed", "Mark as completed"),
        ],
        Status::InProgress => &[
            ("completed", "Mark as completed"),
            ("rolled_back", "Mark as rolled back"),
        ],
        Status::Completed => &[("rolled_back", "Mark as rolled back")],
        _ => &[],
    }
}

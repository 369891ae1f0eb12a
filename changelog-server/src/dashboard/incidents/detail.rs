//! `GET /incidents/ID`

use std::collections::HashMap;

use askama::Template;
use changelog_core::query::Pairs;
use changelog_core::{
    Change, ChangeId, Incident, IncidentFilter, IncidentId, IncidentSuspect, ResourceType,
    Timestamp,
};
use chrono::TimeDelta;

use super::edit::present_form;
use super::{bands, within};
use crate::app::App;
use crate::around::affected;
use crate::dashboard::around;
use crate::dashboard::parts::activity_rows::ActivityRow;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::query_string::address;
use crate::dashboard::parts::shown_values::SHOWN;
use crate::dashboard::parts::suspects::SuspectRow;
use crate::dashboard::parts::timeline::{Subject, Timeline};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page, zone};
use crate::store::{MAX_SUSPECTS, StoreError, Tenant};
use crate::suspects;
use crate::web::{ApiResult, Request};

/// Other incidents of the service are shown if they were open at the same time, or started this
/// long after one was resolved.
const NEAR: TimeDelta = TimeDelta::minutes(15);
/// How long before an incident others may have started, and the limit on those that are read.
const EARLIER: TimeDelta = TimeDelta::days(1);
const MAX_OTHERS: u64 = 20;
/// The end of the timeline moves in such steps, so that the page does not change with each
/// second.
const NOW_STEP: i64 = 5 * 60_000;

#[derive(Template)]
#[template(path = "incidents/detail.html")]
struct DetailPage<'a> {
    viewer: &'a Viewer,
    incident: &'a Incident,
    /// What was sent to mark a cause, if it was refused.
    form: Form,
    /// The present values, so that a button does not undo what others do meanwhile.
    shown: String,
    suspects: Vec<SuspectRow>,
    /// The number of suspects that were deleted since.
    deleted: usize,
    /// The suspects that were shown first, if they were others or had another order, with
    /// whether they still exist.
    first: Vec<(&'a IncidentSuspect, bool)>,
    /// Whether the change that is marked still exists.
    has_cause: bool,
    /// How long after the start the cause was marked.
    found: String,
    /// The other incidents of the service at the same time.
    others: Vec<Incident>,
    timeline: Timeline,
    history: Vec<ActivityRow>,
    /// The page of all changes before the start.
    around: String,
    /// The address of this page, and the command that prints it as Markdown.
    link: String,
    chlog: String,
}

impl DetailPage<'_> {
    /// Returns whether a change is marked as the cause.
    fn is_cause(&self, change: &ChangeId) -> bool {
        self.incident.cause_change_id == Some(*change)
    }
}

/// `GET /incidents/ID`
pub(in crate::dashboard) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Incidents).await?;
    let id = request.id()?;
    Box::pin(show(&app, &request, &viewer, id, Form::default())).await
}

/// Shows the page of an incident, with the form for its cause if that was refused.
pub(super) async fn show(
    app: &App,
    request: &Request,
    viewer: &Viewer,
    id: IncidentId,
    form: Form,
) -> ApiResult {
    let (store, tenant) = (&app.store, viewer.tenant());
    let incident = store.incident(tenant, id).await?;
    let at = incident.started_at;
    let changes = changes(app, tenant, &incident).await?;
    let has_cause = (incident.cause_change_id).is_some_and(|id| changes.contains_key(&id));
    let known: Vec<ChangeId> = changes.keys().copied().collect();
    let rows = rows(&incident, changes);
    let now = Timestamp::from_millis(viewer.now.millis() / NOW_STEP * NOW_STEP);
    let first = rows.first().map(|one| one.change.effective_at());
    let range = around::range_showing(at, first, now);
    let question = suspects::question(&incident);
    let affected = affected(app, tenant, &question).await?;
    let (events, shown, others, history) = tokio::try_join!(
        around::events(app, tenant, range, &affected, rows.iter()),
        within(app, tenant, range),
        others(app, tenant, &incident),
        store.history(tenant, ResourceType::Incident, id.0, incident.created_at),
    )?;
    let mut query = Pairs::default();
    query.push("at", zone::rfc3339(at));
    query.push_some("service", incident.service.as_ref().map(|one| &one.name));
    query.push_some("environment", incident.environment.as_ref());
    let query = query.finish();
    let subject = Subject {
        range,
        moment: Some(at),
        now,
        zone: viewer.zone,
        affected: &affected,
        gaps: &incident.gaps,
        bands: &bands(&shown),
        query: query.clone(),
    };
    let page = DetailPage {
        viewer,
        shown: present_form(&incident, viewer.zone).value(SHOWN).to_owned(),
        deleted: incident.suspects.len() - rows.len(),
        suspects: rows,
        first: first_suspects(&incident, &known),
        has_cause,
        found: incident
            .cause
            .as_ref()
            .map(|cause| format::offset(cause.marked_at, at))
            .unwrap_or_default(),
        others,
        timeline: Timeline::new(&subject, events),
        history: history
            .into_iter()
            .map(|entry| ActivityRow::new(entry, viewer.zone))
            .collect(),
        around: address("/around", &query),
        link: format!("{}/incidents/{}", app.url(), incident.id),
        chlog: format!("chlog incident show {} --format md", incident.id),
        incident: &incident,
        form,
    };
    if page.form.is_refused() {
        return page::render(422, &page);
    }
    page::render_live(request, &page)
}

/// Reads the changes that an incident names, as they are now.
async fn changes(
    app: &App,
    tenant: Tenant,
    incident: &Incident,
) -> Result<HashMap<ChangeId, Change>, StoreError> {
    let suspects = incident.suspects.iter().chain(&incident.first_suspects);
    let ids = suspects.map(|suspect| suspect.change.id);
    let mut ids: Vec<ChangeId> = ids.chain(incident.cause_change_id).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut changes = HashMap::new();
    // As many together as `around` reads: without statistics, PostgreSQL plans longer lists worse.
    for ids in ids.chunks(MAX_SUSPECTS) {
        for (id, json) in app.store.changes_of(tenant, ids.iter().copied()).await? {
            changes.insert(id, json.parse()?);
        }
    }
    Ok(changes)
}

/// Returns the suspects that still exist.
fn rows(incident: &Incident, mut changes: HashMap<ChangeId, Change>) -> Vec<SuspectRow> {
    let row = |suspect: &IncidentSuspect| {
        let change = changes.remove(&suspect.change.id)?;
        let reasons = suspect.reasons.clone();
        let at = incident.started_at;
        Some(SuspectRow::new(change, reasons, suspect.score, at))
    };
    incident.suspects.iter().filter_map(row).collect()
}

/// Returns the suspects that were shown first, unless they are those that are shown now; with
/// whether they are among the known changes.
fn first_suspects<'i>(
    incident: &'i Incident,
    known: &[ChangeId],
) -> Vec<(&'i IncidentSuspect, bool)> {
    let ids = |suspects: &[IncidentSuspect]| -> Vec<ChangeId> {
        suspects.iter().map(|suspect| suspect.change.id).collect()
    };
    let first = &incident.first_suspects;
    if ids(first) == ids(&incident.suspects) {
        return Vec::new();
    }
    let with = |suspect: &'i IncidentSuspect| (suspect, known.contains(&suspect.change.id));
    first.iter().map(with).collect()
}

/// Reads the other incidents of the service of an incident that were open at the same time.
async fn others(
    app: &App,
    tenant: Tenant,
    incident: &Incident,
) -> Result<Vec<Incident>, StoreError> {
    let Some(service) = incident.service_id else {
        return Ok(Vec::new());
    };
    let filter = IncidentFilter {
        service_id: Some(service),
        since: Some(incident.started_at.plus(-EARLIER)),
        until: incident.resolved_at.map(|at| at.plus(NEAR)),
        limit: MAX_OTHERS,
        ..IncidentFilter::default()
    };
    let mut others = app.store.incidents(tenant, &filter).await?;
    let from = incident.started_at.plus(-NEAR);
    others.retain(|other| {
        let is_over = other.resolved_at.is_some_and(|at| at < from);
        other.id != incident.id && !is_over
    });
    Ok(others)
}

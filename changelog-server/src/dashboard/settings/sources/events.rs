//! The last events of a source.

use std::collections::HashMap;

use changelog_core::{ChangeId, Incident, IncidentId, SourceEventId, Timestamp};

use crate::app::App;
use crate::dashboard::parts::format;
use crate::dashboard::parts::pager::Pager;
use crate::dashboard::parts::query_string::{address, with};
use crate::store::{Source, SourceEvent, StoreError};
use crate::web::Request;

const PER_PAGE: usize = 25;
const BEFORE: &str = "before";
/// The changes of an event that are named.
const MAX_NAMED: usize = 5;

/// A page of events.
#[derive(Default)]
pub(super) struct Events {
    pub(super) rows: Vec<Row>,
    /// Whether one of the rows was set aside.
    pub(super) has_set_aside: bool,
    pub(super) pager: Pager,
}

/// An event in the list.
pub(super) struct Row {
    pub(super) id: SourceEventId,
    pub(super) at: Timestamp,
    pub(super) outcome: &'static str,
    /// The class of the badge.
    pub(super) class: &'static str,
    pub(super) reason: String,
    /// The changes with their titles.
    pub(super) changes: Vec<(ChangeId, String)>,
    /// How many more there are.
    pub(super) more: usize,
    /// The incident of an alert, with its title.
    pub(super) incident: Option<(IncidentId, String)>,
    pub(super) may_replay: bool,
}

impl Row {
    fn new(
        event: &SourceEvent,
        titles: &HashMap<ChangeId, String>,
        incidents: &HashMap<IncidentId, Incident>,
    ) -> Self {
        let (outcome, class) = match event.outcome.as_str() {
            "pending" => ("Waiting", "planned"),
            "changed" if event.incident_id.is_some() => ("Incident opened", "completed"),
            "updated" if event.incident_id.is_some() => ("Incident updated", "completed"),
            "changed" => ("Change recorded", "completed"),
            "updated" => ("Change updated", "completed"),
            "ignored" => ("Ignored", "completed"),
            "duplicate" => ("Known already", "completed"),
            _ => ("Set aside", "overdue"),
        };
        let named = event.change_ids.iter().take(MAX_NAMED);
        // Those that were deleted are left out.
        let changes = named.filter_map(|id| Some((*id, titles.get(id)?.clone())));
        Self {
            id: event.id,
            at: event.received_at,
            outcome,
            class,
            reason: event
                .reason
                .as_deref()
                .map_or_else(String::new, format::visible),
            changes: changes.collect(),
            more: event.change_ids.len().saturating_sub(MAX_NAMED),
            incident: event
                .incident_id
                .and_then(|id| Some((id, format::visible(&incidents.get(&id)?.title)))),
            may_replay: event.outcome != "pending",
        }
    }
}

/// Reads the page of events that a request asks for.
pub(super) async fn read(
    app: &App,
    request: &Request,
    source: &Source,
    path: &str,
) -> Result<Events, StoreError> {
    let form = request.query_form();
    let before: Option<SourceEventId> = form.value(BEFORE).parse().ok();
    let mut events = app
        .store
        .source_events(source, before, PER_PAGE as u64 + 1)
        .await?;
    let has_more = events.len() > PER_PAGE;
    events.truncate(PER_PAGE);
    let titles = titles(app, source, &events).await?;
    let incidents = events.iter().filter_map(|event| event.incident_id);
    let incidents = app.store.incidents_by_id(source.tenant, incidents).await?;
    Ok(Events {
        has_set_aside: events.iter().any(|event| event.outcome == "set_aside"),
        pager: Pager {
            previous: before.map(|_| path.to_owned()),
            next: events
                .last()
                .filter(|_| has_more)
                .map(|last| address(path, &with("", BEFORE, last.id))),
            position: String::new(),
        },
        rows: events
            .iter()
            .map(|event| Row::new(event, &titles, &incidents))
            .collect(),
    })
}

/// Returns the titles of the changes that events name.
async fn titles(
    app: &App,
    source: &Source,
    events: &[SourceEvent],
) -> Result<HashMap<ChangeId, String>, StoreError> {
    let ids = events
        .iter()
        .flat_map(|event| event.change_ids.iter().take(MAX_NAMED));
    let mut ids: Vec<ChangeId> = ids.copied().collect();
    ids.sort_unstable();
    ids.dedup();
    let mut titles = HashMap::new();
    for (id, json) in app.store.changes_of(source.tenant, ids).await? {
        titles.insert(id, format::visible(&json.parse()?.title));
    }
    Ok(titles)
}

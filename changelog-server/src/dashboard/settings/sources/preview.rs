//! What settings make of the last requests, before they are saved.

use changelog_core::activity::value_text;
use changelog_core::{Timestamp, list};
use changelog_sources::{Alert, Observation, ObservedChange, Operation, Received, Settings};

use crate::app::App;
use crate::blocking_pool;
use crate::dashboard::parts::format;
use crate::dashboard::parts::zone::Zone;
use crate::store::{PendingEvent, Source, StoreError};

/// The requests that are read.
const MAX_REQUESTS: u64 = 5;
/// Larger requests are not read, in bytes.
const MAX_BODY_BYTES: i64 = 1024 * 1024;
/// The changes of one request that are shown.
const MAX_CHANGES: usize = 5;

/// What a request is read as.
pub(super) struct Previewed {
    /// When it arrived.
    pub(super) at: Timestamp,
    pub(super) changes: Vec<PreviewedChange>,
    /// How many more changes there are.
    pub(super) more: usize,
    /// Why it, or a part of it, is no change.
    pub(super) ignored: Vec<String>,
    /// Why it is set aside.
    pub(super) error: Option<String>,
}

/// The change of an operation, or the incident of an alert.
pub(super) struct PreviewedChange {
    pub(super) title: String,
    /// The other fields.
    pub(super) fields: Vec<(String, String)>,
}

impl PreviewedChange {
    fn new(change: &ObservedChange, zone: Zone) -> Self {
        let shown = |value| {
            value_text(value, &|text: &str| match text.parse::<Timestamp>() {
                Ok(at) => zone.minute(&at),
                Err(_) => format::visible(text),
            })
        };
        let title = change.fields.get("title").map(shown).unwrap_or_default();
        let others = change.fields.iter().filter(|(name, value)| {
            *name != "title" && !value.as_array().is_some_and(Vec::is_empty)
        });
        let mut fields: Vec<(String, String)> = others
            .map(|(name, value)| (format::label(name), format::excerpt(&shown(value))))
            .collect();
        if !change.services.is_empty() {
            let services = format::visible(&list::format(&change.services));
            fields.push(("services".to_owned(), services));
        }
        Self { title, fields }
    }

    /// What an alert is read as, which opens or resolves an incident.
    fn of_alert(alert: &Alert, settings: &Settings, zone: Zone) -> Self {
        let status = if alert.is_firing {
            "firing"
        } else {
            "resolved"
        };
        let severity = alert.severity.as_ref().map(ToString::to_string);
        let environment = alert.environment(settings);
        let services = alert.services(settings);
        let fields = [
            ("status", Some(status.to_owned())),
            ("severity", severity),
            ("at", Some(zone.minute(&alert.at))),
            ("started at", alert.started_at.map(|at| zone.minute(&at))),
            (
                "service",
                Some(list::format(&services)).filter(|_| !services.is_empty()),
            ),
            (
                "environment",
                environment.map(|environment| environment.to_string()),
            ),
            ("key", Some(alert.key.clone())),
            ("link", alert.web_url()),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| {
            let value = format::excerpt(&format::visible(&value?));
            Some((name.to_owned(), value))
        });
        Self {
            title: format::visible(&alert.incident_title()),
            fields: fields.collect(),
        }
    }
}

/// Reads the last requests of a source by other settings.
pub(super) async fn of_last(
    app: &App,
    source: &Source,
    settings: Settings,
    zone: Zone,
) -> Result<Vec<Previewed>, StoreError> {
    let last = app.store.source_events(source, None, MAX_REQUESTS).await?;
    let ids = last
        .into_iter()
        .filter(|event| event.size <= MAX_BODY_BYTES)
        .map(|event| event.id);
    let requests = app.store.source_requests(source, ids).await?;
    let (source, now) = (source.clone(), app.now().into());
    let size = requests.iter().map(|request| request.body.len()).sum();
    let read = move || {
        let newest_first = requests.iter().rev();
        newest_first
            .map(|request| preview(&source, &settings, request, now, zone))
            .collect()
    };
    Ok(blocking_pool::run_sized(size, read).await)
}

fn preview(
    source: &Source,
    settings: &Settings,
    request: &PendingEvent,
    now: Timestamp,
    zone: Zone,
) -> Previewed {
    let received = Received {
        headers: &request.headers,
        body: &request.body,
        at: request.received_at,
    };
    let mut previewed = Previewed {
        at: request.received_at,
        changes: Vec::new(),
        more: 0,
        ignored: Vec::new(),
        error: None,
    };
    match changelog_sources::read(&source.kind, &received, settings) {
        Err(unreadable) => previewed.error = Some(format::visible(&unreadable.to_string())),
        Ok(reading) => {
            previewed.more = reading.observations.len().saturating_sub(MAX_CHANGES);
            let observations = reading.observations.into_iter().take(MAX_CHANGES);
            let shown = |operation: Operation| {
                let change = operation.change(&source.kind, settings, now);
                PreviewedChange::new(&change, zone)
            };
            let previews = observations.map(|observation| match observation {
                Observation::State(state) => shown(Operation::from(*state)),
                Observation::Call(call) => shown(Operation::from(*call)),
                Observation::Alert(alert) => PreviewedChange::of_alert(&alert, settings, zone),
            });
            previewed.changes = previews.collect();
            let ignored = reading.ignored.iter();
            previewed.ignored = ignored.map(|reason| format::visible(reason)).collect();
        }
    }
    previewed
}

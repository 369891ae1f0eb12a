//! What `chlog watch` prints: changes that were recorded and updated, and incidents.

use std::fmt::Write;

use changelog_client::WatchedChange;
use changelog_core::{Change, ChangeEvent, Differences, Environment, Incident, Timestamp, csv};
use chrono::Local;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use super::colors::{colored, risk_color, status_color};
use super::differences;
use super::fitted::{MIN_ID_CHARS, cut, prefix};
use super::record::Record;
use crate::base::text::one_line;

const COLUMN_COUNT: usize = csv::COLUMNS.len() + 2;

const COLUMNS: [&str; COLUMN_COUNT] = {
    let mut columns = ["event"; COLUMN_COUNT];
    let mut index = 0;
    while index < csv::COLUMNS.len() {
        columns[index + 1] = csv::COLUMNS[index];
        index += 1;
    }
    columns[COLUMN_COUNT - 1] = "changes";
    columns
};

/// A change with what happened to it.
#[derive(Serialize)]
pub(crate) struct Watched {
    event: ChangeEvent,
    #[serde(flatten)]
    change: Change,
    /// What an update changed; absent for a new change.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Differences>,
}

impl From<WatchedChange> for Watched {
    fn from(watched: WatchedChange) -> Self {
        Self::new(watched.change, watched.update)
    }
}

impl Watched {
    fn new(change: Change, changes: Option<Differences>) -> Self {
        let event = match &changes {
            None => ChangeEvent::Created,
            Some(_) => ChangeEvent::Updated,
        };
        Self {
            event,
            change,
            changes,
        }
    }
}

/// An incident that was opened or changed.
#[derive(Serialize)]
pub(crate) struct WatchedIncident {
    event: ChangeEvent,
    #[serde(flatten)]
    incident: Incident,
}

impl From<Incident> for WatchedIncident {
    fn from(incident: Incident) -> Self {
        Self {
            event: ChangeEvent::Incident,
            incident,
        }
    }
}

impl Record for WatchedIncident {
    const PLURAL: &'static str = Incident::PLURAL;
    const COLUMNS: &'static [&'static str] = Incident::COLUMNS;
}

impl Record for Watched {
    const PLURAL: &'static str = "changes";
    const COLUMNS: &'static [&'static str] = &COLUMNS;

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.event.to_string()];
        cells.extend(csv::row(&self.change));
        let changes = self.changes.as_ref().map(differences::summary);
        cells.push(changes.unwrap_or_default());
        cells
    }
}

/// The width from which a line has more than the time, the id and the title; then the
/// environment and the date; then the service and the host.
const WIDTHS: [u16; 3] = [60, 100, 120];

/// Returns the line above the changes.
pub(crate) fn header(width: Option<u16>) -> String {
    let has = |nth: usize| width.is_none_or(|width| width >= WIDTHS[nth]);
    let (time, id) = (
        if has(1) { 19 } else { 8 },
        width.map_or(36, |_| MIN_ID_CHARS),
    );
    let mut header = format!("{:<time$}  {:<id$}  ", "TIME", "ID");
    if has(0) {
        header.push_str("RISK    STATUS       ");
    }
    if has(1) {
        header.push_str("ENV      ");
    }
    if has(2) {
        header.push_str("SERVICE/HOST      ");
    }
    header + "TITLE"
}

/// Formats what happened to a change on one line: an update at its own time, with what
/// was changed. A terminal of `width` columns gets a short line.
pub(crate) fn line(watched: &Watched, width: Option<u16>) -> String {
    match &watched.changes {
        None => line_of_change(&watched.change, width),
        Some(changes) => {
            let change = &watched.change;
            let title = format!("{}  ({})", change.title, differences::summary(changes));
            line_at(change, change.updated_at, &title, width)
        }
    }
}

/// Formats a new change on one line.
pub(crate) fn line_of_change(change: &Change, width: Option<u16>) -> String {
    line_at(change, change.effective_at(), &change.title, width)
}

/// Formats what happened to an incident on one line, with the first suspect or the cause.
pub(crate) fn line_of_incident(watched: &WatchedIncident, width: Option<u16>) -> String {
    let incident = &watched.incident;
    let title = one_line(&incident.title);
    let mut title = format!("incident ({}): {title}", incident.severity);
    let cause = incident
        .cause
        .as_ref()
        .and_then(|cause| cause.title.as_deref());
    let suspect = incident.suspects.first().map(|one| &*one.change.title);
    let notes = [("cause", cause), ("suspect", suspect)];
    if let Some((name, note)) = notes
        .into_iter()
        .find_map(|(name, note)| Some((name, note?)))
    {
        let _ = write!(title, "  ({name}: {})", one_line(note));
    }
    let line = Line {
        id: incident.id.to_string(),
        risk: String::new(),
        status: format!("{:<11}", incident.status),
        environment: incident.environment.as_ref(),
        target: incident
            .service
            .iter()
            .map(|service| &*service.name)
            .collect(),
        title,
    };
    line.at(incident.updated_at, width)
}

/// Formats a change on one line.
fn line_at(change: &Change, at: Timestamp, title: &str, width: Option<u16>) -> String {
    let service = change.service.as_ref().map(|service| &*service.name);
    let host = change.host_ref.as_ref().map(|host| &*host.hostname);
    let risk = format!("{:<6}", change.risk_level);
    let status = format!("{:<11}", change.status_label());
    let line = Line {
        id: change.id.to_string(),
        risk: colored(&risk, risk_color(&change.risk_level)),
        status: colored(&status, status_color(&change.status)),
        environment: change.environment.as_ref(),
        target: service.into_iter().chain(host).collect(),
        title: one_line(title),
    };
    line.at(at, width)
}
/// A line of an endless list.
struct Line<'a> {
    id: String,
    /// The risk level and the status, as wide as their columns; or nothing.
    risk: String,
    status: String,
    environment: Option<&'a Environment>,
    /// The service and the host.
    target: Vec<&'a str>,
    title: String,
}

impl Line<'_> {
    /// Formats the line: columns of fixed width first.
    fn at(&self, at: Timestamp, width: Option<u16>) -> String {
        let has = |nth: usize| width.is_none_or(|width| width >= WIDTHS[nth]);
        let at = at.to_datetime().with_timezone(&Local);
        let at = at.format(if has(1) {
            "%Y-%m-%d %H:%M:%S"
        } else {
            "%H:%M:%S"
        });
        let id = width.map_or(&*self.id, |_| prefix(&self.id, MIN_ID_CHARS));
        let mut line = format!("{at}  {id}  ");
        // Writing to a string cannot fail.
        if has(0) {
            let _ = write!(line, "{:<6}  {}  ", self.risk, self.status);
        }
        if has(1) {
            let environment = self.environment.map(Environment::as_str);
            let environment = one_line(environment.unwrap_or_default());
            let _ = write!(line, "{environment:<7}  ");
        }
        if has(2) {
            let target = one_line(&self.target.join("/"));
            let target = width.map_or(target.clone(), |_| cut(&target, 16));
            let _ = write!(line, "{target:<16}  ");
        }
        match width {
            Some(width) => {
                let used = anstream::adapter::strip_str(&line).to_string().width();
                line.push_str(&cut(&self.title, usize::from(width).saturating_sub(used)));
            }
            None => line.push_str(&self.title),
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::super::changes::tests::{change, plain};
    use super::super::incidents::tests::incident;
    use super::*;
    use serde_json::json;

    #[test]
    fn an_update_has_what_was_changed() {
        let changes = json!({ "status": { "from": "planned", "to": "in_progress" } });
        let watched = Watched::new(change("Deploy"), serde_json::from_value(changes).ok());
        let text = plain(&line(&watched, None));
        assert!(text.ends_with("(status planned → in_progress)"), "{text}");
        assert_eq!(watched.cells().len(), COLUMNS.len());
        let json = serde_json::to_value(&watched).unwrap();
        assert_eq!(json["event"], "updated");
        assert_eq!(json["title"], "Deploy");
        assert_eq!(json["changes"]["status"]["to"], "in_progress");

        let watched = Watched::new(change("Deploy"), None);
        assert_eq!(line(&watched, None), line_of_change(&watched.change, None));
        let json = serde_json::to_value(&watched).unwrap();
        assert_eq!(json["event"], "created");
        assert_eq!(json.get("changes"), None);
    }

    #[test]
    fn an_incident_has_its_suspect() {
        let mut incident = incident("Checkout is down");
        incident.cause = None;
        let watched = WatchedIncident::from(incident);
        let text = line_of_incident(&watched, None);
        let end = "incident (critical): Checkout is down  (suspect: Deploy *payments* 4.2)";
        assert!(text.ends_with(end), "{text}");
        for width in 40..200 {
            let text = line_of_incident(&watched, Some(width));
            assert!(text.width() <= usize::from(width), "{text}");
        }
        let json = serde_json::to_value(&watched).unwrap();
        assert_eq!(
            (&json["event"], &json["severity"]),
            (&json!("incident"), &json!("critical"))
        );
    }

    #[test]
    fn a_line_fits_the_terminal() {
        let change = change("Replace the certificate of every balancer by hand");
        for width in 20..200 {
            for text in [line_of_change(&change, Some(width)), header(Some(width))] {
                let text = plain(&text);
                assert!(text.width() <= usize::from(width.max(40)), "{text}");
            }
        }
        let text = plain(&line_of_change(&change, Some(80)));
        assert!(
            text.contains("  018f4e9a-7b1c  high    in progress  Replace"),
            "{text}"
        );
        assert!(text.ends_with('…'), "{text}");
    }
}

//! What `chlog watch` prints: changes that were recorded and updated.

use changelog_client::WatchedChange;
use changelog_core::{Change, ChangeEvent, Differences, Environment, Timestamp, csv};
use chrono::Local;
use serde::Serialize;

use super::detail::colored;
use super::differences;
use super::fields::Record;
use super::table::{risk_color, status_color};
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

impl Record for Watched {
    const KIND: &'static str = "change";
    const COLUMNS: &'static [&'static str] = &COLUMNS;

    fn id(&self) -> String {
        self.change.id.to_string()
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.event.to_string()];
        cells.extend(csv::row(&self.change));
        let changes = self.changes.as_ref().map(differences::summary);
        cells.push(changes.unwrap_or_default());
        cells
    }
}

/// Formats what happened to a change on one line: an update at its own time, with what
/// was changed.
pub(crate) fn line(watched: &Watched) -> String {
    match &watched.changes {
        None => line_of_change(&watched.change),
        Some(changes) => format!(
            "{}  ({})",
            line_at(&watched.change, watched.change.updated_at),
            differences::summary(changes)
        ),
    }
}

/// Formats a new change on one line.
pub(crate) fn line_of_change(change: &Change) -> String {
    line_at(change, change.effective_at())
}

/// Formats a change on one line, for an endless list: columns of fixed width first.
fn line_at(change: &Change, at: Timestamp) -> String {
    let at = at.to_datetime().with_timezone(&Local);
    let risk = format!("{:<6}", change.risk_level);
    let status = format!("{:<11}", change.status_label());
    let environment = change.environment.as_ref().map(Environment::as_str);
    let environment = one_line(environment.unwrap_or_default());
    let service = change.service.as_ref().map(|service| &*service.name);
    let host = change.host_ref.as_ref().map(|host| &*host.hostname);
    let target: Vec<&str> = service.into_iter().chain(host).collect();
    format!(
        "{}  {}  {}  {environment:<7}  {:<16}  {}  {}",
        at.format("%Y-%m-%d %H:%M:%S"),
        colored(&risk, risk_color(&change.risk_level)),
        colored(&status, status_color(&change.status)),
        one_line(&target.join("/")),
        one_line(&change.title),
        change.id
    )
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::{change, plain};
    use super::*;
    use serde_json::json;

    #[test]
    fn an_update_has_what_was_changed() {
        let changes = json!({ "status": { "from": "planned", "to": "in_progress" } });
        let watched = Watched::new(change("Deploy"), serde_json::from_value(changes).ok());
        let text = plain(&line(&watched));
        assert!(text.ends_with("(status planned → in_progress)"), "{text}");
        assert_eq!(watched.cells().len(), COLUMNS.len());
        let json = serde_json::to_value(&watched).unwrap();
        assert_eq!(
            (&json["event"], &json["title"]),
            (&json!("updated"), &json!("Deploy"))
        );
        assert_eq!(json["changes"]["status"]["to"], "in_progress");

        let watched = Watched::new(change("Deploy"), None);
        assert_eq!(line(&watched), line_of_change(&watched.change));
        let json = serde_json::to_value(&watched).unwrap();
        assert_eq!(
            (&json["event"], json.get("changes")),
            (&json!("created"), None)
        );
    }
}

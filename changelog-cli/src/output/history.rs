//! The history of a change.

use changelog_core::{Action, ActorType, HistoryEntry, Timestamp};

use super::record::Record;
use super::{differences, plain};
use crate::base::time::relative;

impl Record for HistoryEntry {
    const PLURAL: &'static str = "entries";
    const COLUMNS: &'static [&'static str] = &[
        "id", "at", "action", "by", "by_type", "by_id", "changes", "reason", "agent",
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.id.to_string(),
            self.at.to_string(),
            self.action.to_string(),
            self.by.name.clone(),
            self.by.kind.to_string(),
            self.by.id.map(|id| id.to_string()).unwrap_or_default(),
            differences::summary(&self.changes),
            self.reason.clone().unwrap_or_default(),
            self.agent.clone().unwrap_or_default(),
        ]
    }
}

/// Draws a table that says when who did what.
pub(crate) fn table(entries: &[HistoryEntry], width: Option<u16>, now: Timestamp) -> String {
    let rows = entries.iter().map(|entry| {
        let when = format!("{} ({})", entry.at, relative(entry.at, now));
        [when, who(entry), what(entry)].map(|text| plain::cell(&text))
    });
    plain::draw(&["WHEN", "WHO", "WHAT"], rows, width)
}

fn who(entry: &HistoryEntry) -> String {
    let name = &entry.by.name;
    let caller = match entry.by.kind {
        ActorType::ApiKey => format!("{name} (API key)"),
        ActorType::Workload => format!("{name} (pipeline)"),
        _ => name.clone(),
    };
    match &entry.agent {
        Some(agent) => format!("{caller}, {agent} (claimed)"),
        None => caller,
    }
}

fn what(entry: &HistoryEntry) -> String {
    let mut what = match entry.action {
        Action::Updated => differences::summary(&entry.changes),
        _ => entry.action.to_string(),
    };
    if let Some(reason) = &entry.reason {
        what.push_str("; reason: ");
        what.push_str(reason);
    }
    what
}

#[cfg(test)]
mod tests {
    use super::super::changes::tests::{NOW, plain};
    use super::*;
    use serde_json::json;

    #[test]
    fn a_table_says_when_who_did_what() {
        let id = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
        let entries = json!([
            {
                "id": id, "action": "updated", "at": "2026-11-21T08:31:00.000Z",
                "by": { "type": "person", "name": "Ada", "id": id },
                "changes": { "status": { "from": "completed", "to": "rolled_back" } },
                "reason": "errors\u{1b}[2J doubled", "agent": null,
            },
            {
                "id": id, "action": "created", "at": "2026-11-21T08:30:00.000Z",
                "by": { "type": "api_key", "name": "ci", "id": id },
                "changes": {}, "reason": null, "agent": "renovate",
            },
        ]);
        let entries: Vec<HistoryEntry> = serde_json::from_value(entries).unwrap();
        let text = plain(&table(&entries, None, NOW.parse().unwrap()));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            "2026-11-21T08:31:00.000Z (2m ago)  Ada                               \
             status completed → rolled_back; reason: errors<U+001B>[2J doubled"
        );
        assert_eq!(
            lines[2],
            "2026-11-21T08:30:00.000Z (3m ago)  ci (API key), renovate (claimed)  created"
        );
        for entry in &entries {
            assert_eq!(entry.cells().len(), HistoryEntry::COLUMNS.len());
        }
        for width in 50..120 {
            let text = plain(&table(&entries, Some(width), NOW.parse().unwrap()));
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(usize::from(width)), "{width}:\n{text}");
        }
    }
}

//! Changes as rows of a table, for CSV: the same columns from `chlog` and from
//! the dashboard's download.

use std::fmt::Display;

use crate::change::Change;

/// The columns of a change.
pub const CHANGE: [&str; 17] = [
    "id",
    "title",
    "description",
    "risk_level",
    "status",
    "impact",
    "service_id",
    "service",
    "host_id",
    "host",
    "tags",
    "links",
    "scheduled_for",
    "occurred_at",
    "organization_id",
    "created_at",
    "updated_at",
];

/// Returns one cell a column, empty where there is no value. Tags stand with
/// semicolons between them, links as `label=address`.
pub fn change(change: &Change) -> [String; 17] {
    let service = change.service.as_ref();
    let host = change.host_ref.as_ref();
    let links = change.links.iter();
    let links: Vec<String> = links
        .map(|link| format!("{}={}", link.label, link.url))
        .collect();
    [
        change.id.to_string(),
        change.title.clone(),
        or_empty(change.description.as_ref()),
        change.risk_level.to_string(),
        change.status.to_string(),
        or_empty(change.impact.as_ref()),
        or_empty(service.map(|service| service.id)),
        or_empty(service.map(|service| &service.name)),
        or_empty(host.map(|host| host.id)),
        or_empty(host.map(|host| &host.hostname)),
        change.tags.join(";"),
        links.join(";"),
        or_empty(change.scheduled_for),
        change.occurred_at.to_string(),
        change.organization_id.to_string(),
        change.created_at.to_string(),
        change.updated_at.to_string(),
    ]
}

fn or_empty(value: Option<impl Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Keeps a spreadsheet from taking a cell for a formula: whoever writes a
/// title must not run something at whoever opens the table.
pub fn guarded(cell: String) -> String {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{cell}")
    } else {
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_disarmed() {
        for (cell, expected) in [
            (
                "=HYPERLINK(\"http://evil\")",
                "'=HYPERLINK(\"http://evil\")",
            ),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\tx", "'\tx"),
            ("Deploy = 1", "Deploy = 1"),
            ("", ""),
        ] {
            assert_eq!(guarded(cell.to_owned()), expected);
        }
    }
}

//! Changes as rows of CSV: `chlog` and the dashboard write them, `chlog import`
//! reads them.
//!
//! A list in a cell is a JSON array, an object a JSON object.

use std::borrow::Cow;
use std::fmt::Display;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::change::Change;
use crate::change::fields::{FIELDS, FieldKind, ShortText};
use crate::text::is_format;

/// The id, services and host by name, and what the service sets.
const COLUMN_COUNT: usize = FIELDS.len() + 9;

/// The columns of a change.
pub const COLUMNS: [&str; COLUMN_COUNT] = {
    let mut columns = ["id"; COLUMN_COUNT];
    let (mut column, mut index) = (1, 0);
    while index < FIELDS.len() {
        columns[column] = FIELDS[index].name;
        column += 1;
        if let Some(name) = name_column(&FIELDS[index].kind) {
            columns[column] = name;
            column += 1;
        }
        index += 1;
    }
    columns[column] = "organization_id";
    columns[column + 1] = "created_at";
    columns[column + 2] = "created_by";
    columns[column + 3] = "updated_at";
    columns[column + 4] = "updated_by";
    columns
};

/// Returns the column with the name of what a field has the id of.
const fn name_column(kind: &FieldKind) -> Option<&'static str> {
    match kind {
        FieldKind::Service => Some("service"),
        FieldKind::Services => Some("services"),
        FieldKind::Host => Some("host"),
        _ => None,
    }
}

/// Returns one cell for each of [`COLUMNS`], empty where there is no value.
pub fn row(change: &Change) -> Vec<String> {
    let mut cells = Vec::with_capacity(COLUMN_COUNT);
    cells.push(change.id.to_string());
    for field in FIELDS {
        let cell = match field.kind {
            FieldKind::Title => change.title.clone(),
            FieldKind::LongText(text) | FieldKind::ShortText(ShortText { field: text, .. }) => {
                (text.of)(change).clone().unwrap_or_default()
            }
            FieldKind::RiskLevel => change.risk_level.to_string(),
            FieldKind::Status => change.status.to_string(),
            FieldKind::Service => {
                let service = change.service.as_ref();
                cells.push(or_empty(service.map(|service| service.id)));
                or_empty(service.map(|service| &service.name))
            }
            FieldKind::Services => {
                cells.push(list(&change.service_ids));
                let names = change.services.iter().map(|service| service.name.as_str());
                list(&names.collect::<Vec<_>>())
            }
            FieldKind::Host => {
                let host = change.host_ref.as_ref();
                cells.push(or_empty(host.map(|host| host.id)));
                or_empty(host.map(|host| &host.hostname))
            }
            FieldKind::Tags => list(&change.tags),
            FieldKind::Links => list(&change.links),
            FieldKind::Time(time) => or_empty((time.of)(change).as_ref()),
            FieldKind::Outcome(field) => or_empty((field.of)(change).as_ref()),
            FieldKind::Environment(field) => or_empty((field.of)(change).as_ref()),
            FieldKind::Agent(field) => object_cell((field.of)(change).as_ref()),
            FieldKind::OccurredAt => change.occurred_at.to_string(),
        };
        cells.push(cell);
    }
    cells.push(change.organization_id.to_string());
    cells.push(change.created_at.to_string());
    cells.push(object_cell(change.created_by.as_ref()));
    cells.push(change.updated_at.to_string());
    cells.push(object_cell(change.updated_by.as_ref()));
    cells
}

fn or_empty(value: Option<impl Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn object_cell(value: Option<&impl Serialize>) -> String {
    // Objects of strings always serialize.
    let cell = value.map(|value| serde_json::to_string(value).unwrap_or_default());
    cell.unwrap_or_default()
}

fn list<T: Serialize>(elements: &[T]) -> String {
    if elements.is_empty() {
        return String::new();
    }
    // Strings and objects of strings always serialize.
    serde_json::to_string(elements).unwrap_or_default()
}

/// Returns the object that a row describes, from pairs of column and cell. An
/// empty cell has no value. The values are checked by the reader of the object.
pub fn object<'a>(row: impl IntoIterator<Item = (&'a str, &'a str)>) -> Map<String, Value> {
    let mut object = Map::new();
    for (column, cell) in row {
        let cell = unguarded(cell);
        if cell.trim().is_empty() {
            continue;
        }
        let value = match column {
            // A cell that is not JSON stays a string, which is then reported as
            // a value of the wrong type.
            "tags" | "links" | "service_ids" | "services" | "agent" | "created_by"
            | "updated_by" => serde_json::from_str(&cell).unwrap_or(cell.as_ref().into()),
            _ => cell.as_ref().into(),
        };
        object.insert(column.to_owned(), value);
    }
    object
}

/// Protects a cell from being run as a formula by a spreadsheet: an apostrophe
/// before it makes it text. Some spreadsheets split lines at semicolons, so each
/// part after a semicolon is protected as well.
pub fn guarded(cell: String) -> String {
    if !cell.split(';').any(looks_like_formula) {
        return cell;
    }
    let mut guarded = String::with_capacity(cell.len() + 4);
    for (number, part) in cell.split(';').enumerate() {
        if number > 0 {
            guarded.push(';');
        }
        if looks_like_formula(part) {
            guarded.push('\'');
        }
        guarded.push_str(part);
    }
    guarded
}

/// Removes the protection of [`guarded`]. A cell that looked protected before was
/// protected once more, so nothing is lost.
pub fn unguarded(cell: &str) -> Cow<'_, str> {
    let without = |part| match str::strip_prefix(part, "'") {
        Some(rest) if looks_like_formula(rest) => rest,
        _ => part,
    };
    if cell.split(';').all(|part| without(part) == part) {
        return cell.into();
    }
    let parts: Vec<&str> = cell.split(';').map(without).collect();
    parts.join(";").into()
}

/// Returns whether a spreadsheet may run a cell as a formula, or would without
/// the apostrophes and invisible characters before it.
fn looks_like_formula(cell: &str) -> bool {
    let is_skipped =
        |c: char| c == '\'' || is_format(c) || (c.is_whitespace() && !matches!(c, '\t' | '\r'));
    cell.trim_start_matches(is_skipped).starts_with([
        '=', '+', '-', '@', '\t', '\r', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";

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
            ("'=1", "''=1"),
            ("'quoted'", "'quoted'"),
            ("a;=1+1|cmd", "a;'=1+1|cmd"),
            ("=1;b; -2;'@c", "'=1;b;' -2;''@c"),
            ("\u{ff1d}1+1", "'\u{ff1d}1+1"),
            ("\u{200b}\u{feff}=1", "'\u{200b}\u{feff}=1"),
            ("a;b", "a;b"),
        ] {
            assert_eq!(guarded(cell.to_owned()), expected);
            assert_eq!(unguarded(expected), cell);
        }
        // Not protected by `guarded`, and left as it is.
        assert_eq!(unguarded("=1"), "=1");
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let change: Change = serde_json::from_value(json!({
            "id": ID, "title": "=1+1", "description": "a\nb;=c", "risk_level": "high",
            "status": "completed", "impact": null,
            "service": { "id": ID, "name": "payments", "color": "#fff" },
            "service_ids": [ID], "host_ref": null, "environment": "prod",
            "agent": { "name": "bot", "mode": "autonomous", "run": null },
            "created_by": { "type": "api_key", "name": "ci", "id": ID },
            "tags": ["a", "b;c", "d\\", "e=f", "\"g\"", ";=1", "-h"],
            "links": [{ "label": "a=b;c", "url": "https://e.com/?a=b;-c" }],
            "scheduled_for": null, "occurred_at": "2026-01-01T00:00:00.000Z",
            "organization_id": ID, "created_at": "2026-01-01T00:00:00.000Z",
            "updated_at": "2026-01-01T00:00:00.000Z",
        }))
        .unwrap();
        let cells: Vec<String> = row(&change).into_iter().map(guarded).collect();
        assert_eq!(cells.len(), COLUMNS.len());
        let object = object(COLUMNS.into_iter().zip(cells.iter().map(String::as_str)));
        let expected = json!({
            "id": ID, "title": "=1+1", "description": "a\nb;=c", "risk_level": "high",
            "status": "completed", "service_id": ID, "service": "payments",
            "service_ids": [ID], "environment": "prod",
            "agent": change.agent, "created_by": change.created_by,
            "tags": change.tags, "links": change.links,
            "occurred_at": change.occurred_at, "organization_id": ID,
            "created_at": change.created_at, "updated_at": change.updated_at,
        });
        assert_eq!(Value::Object(object), expected);
    }

    #[test]
    fn a_cell_that_is_no_list_is_left_for_the_rules() {
        for cell in ["a;b", "[a]", "7"] {
            let object = object([("tags", cell)]);
            assert!(!object["tags"].is_array(), "{cell}");
        }
    }
}

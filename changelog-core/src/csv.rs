//! Changes as rows of a table, for CSV: the same columns from `chlog` and from
//! the dashboard's download, and read again by `chlog import`.

use std::borrow::Cow;
use std::fmt::Display;

use serde_json::{Map, Value, json};

use crate::change::Change;
use crate::text::is_format;

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
/// semicolons between them, links as `label=address`; a semicolon within one, or
/// an equals sign within a label, has a backslash in front.
pub fn change(change: &Change) -> [String; 17] {
    let service = change.service.as_ref();
    let host = change.host_ref.as_ref();
    let links = change.links.iter();
    let links: Vec<String> = links
        .map(|link| format!("{}={}", escaped(&link.label, "=;"), escaped(&link.url, ";")))
        .collect();
    let tags: Vec<String> = change.tags.iter().map(|tag| escaped(tag, ";")).collect();
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
        tags.join(";"),
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

/// Puts a backslash in front of these marks, and of backslashes.
fn escaped(text: &str, marks: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\\' || marks.contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Splits a text at a mark that has no backslash in front, at most into so many
/// parts, and takes the backslashes away from the last split on.
fn split(text: &str, mark: char, most: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let is_split = c == mark && parts.len() < most;
        if is_split {
            parts.push(String::new());
        }
        let Some(part) = parts.last_mut() else {
            break;
        };
        match c {
            _ if is_split => {}
            '\\' => {
                part.push(c);
                part.extend(chars.next());
            }
            _ => part.push(c),
        }
    }
    parts
}

/// Takes the backslashes away that [`escaped`] put there. One that stands in
/// front of anything else, as in a path of Windows, is what it is.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(&next @ ('\\' | ';' | '=')) if c == '\\' => {
                out.push(next);
                chars.next();
            }
            _ => out.push(c),
        }
    }
    out
}

/// Makes the object that a row stands for out of its cells, as [`change`] wrote
/// them; an empty cell is no value. What is in it is checked by whoever reads
/// the object.
pub fn object<'a>(row: impl IntoIterator<Item = (&'a str, &'a str)>) -> Map<String, Value> {
    let mut object = Map::new();
    for (column, cell) in row {
        let cell = unguarded(cell);
        let cell = cell.as_ref();
        if cell.trim().is_empty() {
            continue;
        }
        let parts = || {
            let parts = split(cell, ';', usize::MAX);
            parts.into_iter().filter(|part| !part.trim().is_empty())
        };
        let value = match column {
            "tags" => parts().map(|tag| unescaped(&tag)).collect(),
            "links" => parts().map(|link| read_link(&link)).collect(),
            _ => cell.into(),
        };
        object.insert(column.to_owned(), value);
    }
    object
}

fn read_link(link: &str) -> Value {
    let mut parts = split(link, '=', 2).into_iter().map(|part| unescaped(&part));
    match (parts.next(), parts.next()) {
        (Some(label), Some(url)) => json!({ "label": label, "url": url }),
        // Refused with its place, as any link without an address is.
        (label, _) => json!({ "label": label }),
    }
}

/// Keeps a spreadsheet from taking a cell for a formula: whoever writes a
/// title must not run something at whoever opens the table. Where commas are
/// decimal, spreadsheets split at semicolons, so what follows one is guarded as
/// well.
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

/// Takes the protection of [`guarded`] away. What looks protected of itself was
/// protected once more, so that nothing is lost.
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

/// Returns whether a spreadsheet may take a cell for a formula, or would without
/// the apostrophes and the invisible characters before it.
fn looks_like_formula(cell: &str) -> bool {
    let is_skipped =
        |c: char| c == '\'' || is_format(c) || (c.is_whitespace() && !matches!(c, '\t' | '\r'));
    cell.trim_start_matches(is_skipped).starts_with([
        '=', '+', '-', '@', '\t', '\r', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
    ])
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
        // Not protected by us, and not touched.
        assert_eq!(unguarded("=1"), "=1");
    }

    #[test]
    fn lists_in_a_cell_come_back() {
        let tags = ["a", "b;c", "d\\", "e=f", "\\;"];
        let links = [
            ("run", "https://e.com/?a=b;c"),
            ("a=b;c", "https://e.com/\\"),
        ];
        let cell: Vec<String> = tags.iter().map(|tag| escaped(tag, ";")).collect();
        let row = object([("tags", cell.join(";").as_str()), ("title", "")]);
        assert_eq!(Value::Object(row), json!({ "tags": tags }));
        let cell: Vec<String> = links
            .iter()
            .map(|(label, url)| format!("{}={}", escaped(label, "=;"), escaped(url, ";")))
            .collect();
        let row = object([("links", cell.join(";").as_str())]);
        let expected: Vec<Value> = links
            .iter()
            .map(|(label, url)| json!({ "label": label, "url": url }))
            .collect();
        assert_eq!(Value::Object(row), json!({ "links": expected }));
    }
}

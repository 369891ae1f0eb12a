//! Text with code and links, as descriptions and types have it.

use serde_json::Value;

use crate::dashboard::parts::format;

/// A run of plain text or of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    Code(String),
    /// The name of a schema, which is a link to its fields.
    Schema(String),
}

/// Splits a string in which backticks enclose code.
pub(super) fn prose(text: &str) -> Vec<Part> {
    let parts = text.split('`').enumerate();
    let parts = parts.filter(|(_, part)| !part.is_empty());
    parts
        .map(|(index, part)| match index % 2 {
            0 => Part::Text(part.to_owned()),
            _ => Part::Code(part.to_owned()),
        })
        .collect()
}

/// Puts a minimum and a maximum into words; `None` without both.
pub(super) fn range(least: &Value, most: &Value, unit: &str) -> Option<String> {
    let number = |value: &Value| match value.as_u64() {
        Some(number) => format::number(number),
        None => value.to_string(),
    };
    let counted = |value: &Value| match value.as_u64() {
        Some(1) => format!("1{}", unit.trim_end_matches('s')),
        _ => number(value) + unit,
    };
    match (least.is_null(), most.is_null()) {
        (true, true) => None,
        (true, false) => Some(format!("at most {}", counted(most))),
        (false, true) => Some(format!("at least {}", counted(least))),
        (false, false) if least == most => Some(format!("exactly {}", counted(most))),
        (false, false) => Some(format!("{} to {}{unit}", number(least), number(most))),
    }
}

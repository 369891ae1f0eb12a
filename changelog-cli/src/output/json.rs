//! JSON: some fields of records, and text that is safe to print on a terminal.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::base::failure::{Exit, Failure, Outcome};

/// Reduces a record to some of its fields; to all if none are named.
pub(super) fn reduced(mut record: Value, fields: &[String]) -> Value {
    if let Value::Object(members) = &mut record
        && !fields.is_empty()
    {
        members.retain(|name, _| fields.contains(name));
    }
    record
}

/// Reduces the records of a document.
pub(super) fn reduced_document(mut document: Value, fields: &[String]) -> Value {
    match document.get_mut("data") {
        Some(Value::Array(records)) => {
            for record in records {
                *record = reduced(record.take(), fields);
            }
        }
        Some(record) => *record = reduced(record.take(), fields),
        None => return reduced(document, fields),
    }
    document
}

/// Formats a value as a cell of CSV: texts as they are, lists of texts separated by `;`.
pub(super) fn csv_cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            texts.join(";")
        }
        other => other.to_string(),
    }
}

/// Encodes a value as JSON that is safe to print on a terminal.
pub(super) fn encode(value: &impl Serialize, pretty: bool) -> Outcome<String> {
    let text = if pretty {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    Ok(escaped(&text.map_err(encode_failure)?))
}

/// Escapes the characters that JSON allows and a terminal interprets. They occur
/// in strings only, so the value stays the same.
pub(super) fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        let is_unsafe = (c.is_control() && c != '\n')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if is_unsafe {
            // Writing to a string cannot fail.
            let _ = fmt::Write::write_fmt(&mut out, format_args!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

pub(super) fn encode_failure(error: impl fmt::Display) -> Failure {
    Failure::new(Exit::Other, format!("cannot write the result: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_safe_for_a_terminal_and_keeps_its_value() {
        let value = serde_json::json!({"title": "a\u{9b}b\u{202e}c\u{7f}\n"});
        let text = encode(&value, true).unwrap();
        assert!(text.contains("a\\u009bb\\u202ec\\u007f\\n"), "{text}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }
}

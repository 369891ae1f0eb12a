//! The event stream as people read it: what Terraform would have said itself.
//!
//! Shown to whoever started the run, and kept nowhere.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;
use serde_json::Value;

/// A line of output for people.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Nothing that anybody misses.
    Nothing,
    Text(String),
    /// An error.
    Error(String),
    /// Not an event: for whoever reads it, as it is.
    Foreign,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "@message")]
    message: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    diagnostic: Option<Diagnostic>,
    outputs: Option<BTreeMap<String, Output>>,
}

#[derive(Deserialize)]
struct Diagnostic {
    severity: String,
    #[serde(default)]
    detail: String,
    address: Option<String>,
    range: Option<Range>,
}

#[derive(Deserialize)]
struct Range {
    filename: String,
    start: Start,
}

#[derive(Deserialize)]
struct Start {
    line: u64,
}

#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    sensitive: bool,
    value: Option<Value>,
}

/// Says what to show of a line.
pub(crate) fn shown(line: &[u8]) -> Shown {
    let Ok(event) = serde_json::from_slice::<Event>(line) else {
        return Shown::Foreign;
    };
    match event.kind.as_deref() {
        Some("refresh_complete" | "provision_complete") => Shown::Nothing,
        Some("diagnostic") => match &event.diagnostic {
            Some(said) => {
                let text = told(&event.message, said);
                if said.severity == "error" {
                    Shown::Error(text)
                } else {
                    Shown::Text(text)
                }
            }
            None => Shown::Text(event.message),
        },
        Some("change_summary") => Shown::Text(format!("\n{}", event.message)),
        Some("outputs") => outputs(event.outputs.unwrap_or_default()),
        _ => Shown::Text(event.message),
    }
}

/// Tells an error or a warning in full.
fn told(message: &str, said: &Diagnostic) -> String {
    let mut text = format!("\n{message}\n");
    // Writing to a string cannot fail.
    if let Some(address) = &said.address {
        let _ = write!(text, "\n  with {address},");
    }
    if let Some(range) = &said.range {
        let _ = write!(text, "\n  on {} line {}", range.filename, range.start.line);
    }
    if said.address.is_some() || said.range.is_some() {
        text.push('\n');
    }
    if !said.detail.is_empty() {
        let _ = write!(text, "\n{}\n", said.detail.trim_end());
    }
    text
}

/// Lists outputs once they have values; before that nothing is known of them.
fn outputs(outputs: BTreeMap<String, Output>) -> Shown {
    let mut text = "\nOutputs:\n".to_owned();
    let mut any = false;
    for (name, output) in outputs {
        if output.sensitive {
            let _ = write!(text, "\n{name} = <sensitive>");
        } else if let Some(value) = output.value {
            let _ = write!(text, "\n{name} = {value}");
            any = true;
        }
    }
    if any {
        Shown::Text(text)
    } else {
        Shown::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_read_as_people_know_them() {
        let line = json!({ "@message": "a.b: Creating...", "type": "apply_start", "hook": {} });
        assert_eq!(
            shown(line.to_string().as_bytes()),
            Shown::Text("a.b: Creating...".to_owned())
        );
        let line = json!({
            "@message": "Error: it broke", "type": "diagnostic",
            "diagnostic": {
                "severity": "error", "summary": "it broke", "detail": "All of it.\n",
                "address": "a.b", "range": { "filename": "main.tf", "start": { "line": 3 } },
            },
        });
        assert_eq!(
            shown(line.to_string().as_bytes()),
            Shown::Error(
                "\nError: it broke\n\n  with a.b,\n  on main.tf line 3\n\nAll of it.\n".to_owned()
            )
        );
        let line = json!({
            "@message": "Outputs: 2", "type": "outputs",
            "outputs": { "a": { "sensitive": false, "value": [1] }, "b": { "sensitive": true } },
        });
        assert_eq!(
            shown(line.to_string().as_bytes()),
            Shown::Text("\nOutputs:\n\na = [1]\nb = <sensitive>".to_owned())
        );
        for foreign in ["", "plain", "{}", "3", "{\"@message\": 3}"] {
            assert_eq!(shown(foreign.as_bytes()), Shown::Foreign, "{foreign}");
        }
    }
}

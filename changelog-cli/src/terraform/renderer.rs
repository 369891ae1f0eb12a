//! Events as text for people, as Terraform prints them without `-json`.
//!
//! The text is shown to the user and not recorded.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;
use serde_json::Value;

/// A rendered line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rendered {
    /// Nothing to show.
    Nothing,
    Text(String),
    /// An error.
    Error(String),
    /// Not an event; show the line as it is.
    NotAnEvent,
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

/// Renders a line.
pub(crate) fn render(line: &[u8]) -> Rendered {
    let Ok(event) = serde_json::from_slice::<Event>(line) else {
        return Rendered::NotAnEvent;
    };
    match event.kind.as_deref() {
        Some("refresh_complete" | "provision_complete") => Rendered::Nothing,
        Some("diagnostic") => match &event.diagnostic {
            Some(found) => {
                let text = diagnostic(&event.message, found);
                if found.severity == "error" {
                    Rendered::Error(text)
                } else {
                    Rendered::Text(text)
                }
            }
            None => Rendered::Text(event.message),
        },
        Some("change_summary") => Rendered::Text(format!("\n{}", event.message)),
        Some("outputs") => outputs(event.outputs.unwrap_or_default()),
        _ => Rendered::Text(event.message),
    }
}

/// Formats an error or a warning in full.
fn diagnostic(message: &str, diagnostic: &Diagnostic) -> String {
    let mut text = format!("\n{message}\n");
    // Writing to a string cannot fail.
    if let Some(address) = &diagnostic.address {
        let _ = write!(text, "\n  with {address},");
    }
    if let Some(range) = &diagnostic.range {
        let _ = write!(text, "\n  on {} line {}", range.filename, range.start.line);
    }
    if diagnostic.address.is_some() || diagnostic.range.is_some() {
        text.push('\n');
    }
    if !diagnostic.detail.is_empty() {
        let _ = write!(text, "\n{}\n", diagnostic.detail.trim_end());
    }
    text
}

/// Lists outputs if they have values.
fn outputs(outputs: BTreeMap<String, Output>) -> Rendered {
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
        Rendered::Text(text)
    } else {
        Rendered::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_are_rendered() {
        let line = json!({ "@message": "a.b: Creating...", "type": "apply_start", "hook": {} });
        assert_eq!(
            render(line.to_string().as_bytes()),
            Rendered::Text("a.b: Creating...".to_owned())
        );
        let line = json!({
            "@message": "Error: it broke", "type": "diagnostic",
            "diagnostic": {
                "severity": "error", "summary": "it broke", "detail": "All of it.\n",
                "address": "a.b", "range": { "filename": "main.tf", "start": { "line": 3 } },
            },
        });
        assert_eq!(
            render(line.to_string().as_bytes()),
            Rendered::Error(
                "\nError: it broke\n\n  with a.b,\n  on main.tf line 3\n\nAll of it.\n".to_owned()
            )
        );
        let line = json!({
            "@message": "Outputs: 2", "type": "outputs",
            "outputs": { "a": { "sensitive": false, "value": [1] }, "b": { "sensitive": true } },
        });
        assert_eq!(
            render(line.to_string().as_bytes()),
            Rendered::Text("\nOutputs:\n\na = [1]\nb = <sensitive>".to_owned())
        );
        for foreign in ["", "plain", "{}", "3", "{\"@message\": 3}"] {
            assert_eq!(
                render(foreign.as_bytes()),
                Rendered::NotAnEvent,
                "{foreign}"
            );
        }
    }
}

//! Changes from the events that another system has sent or logged.

use changelog_core::{SourceKind, SourceSettings, Timestamp};
use changelog_sources::{Headers, History, Received, Unreadable, read};
use serde_json::{Value, json};

use crate::base::failure::{Failure, Outcome, note};
use crate::base::text::plural;

/// Reads events, each a JSON value of a list or of a line, and returns the changes that they
/// tell of as NDJSON.
pub(crate) fn changes(kind: &SourceKind, bytes: &[u8], now: Timestamp) -> Outcome<Vec<u8>> {
    let settings = SourceSettings::default();
    let headers = Headers::default();
    let mut history = History::default();
    let (mut ignored, mut unreadable): (u64, u64) = (0, 0);
    let mut last: Option<Unreadable> = None;
    for body in bodies(bytes) {
        let received = Received {
            headers: &headers,
            body: &body,
            at: now,
        };
        match read(kind, &received, &settings) {
            Ok(reading) => {
                ignored += u64::from(reading.observations.is_empty());
                history.add(reading);
            }
            Err(error) => {
                unreadable += 1;
                last = Some(error);
            }
        }
    }
    if ignored > 0 {
        note(&format!("{} about no change", plural(ignored, "event")));
    }
    if let Some(error) = last {
        let count = plural(unreadable, "event");
        return Err(Failure::usage(format!(
            "--from {kind}: {count} cannot be read, the last one because {error}"
        )));
    }
    let mut lines = Vec::new();
    for change in history.changes(kind, &settings, now) {
        let mut line = Value::from(change.fields);
        let mut services = change.services.into_iter();
        line["service"] = json!(services.next());
        line["services"] = json!(
            services
                .map(|name| json!({ "name": name }))
                .collect::<Vec<_>>()
        );
        line["host"] = json!(change.hostname);
        lines.extend(line.to_string().into_bytes());
        lines.push(b'\n');
    }
    Ok(lines)
}

/// Returns the bodies of a file, which may begin with a byte order mark: the elements of a list,
/// one value, or one a line.
fn bodies(bytes: &[u8]) -> Vec<Vec<u8>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match serde_json::from_slice(bytes) {
        Ok(Value::Array(values)) => {
            let bodies = values.iter().map(|value| value.to_string().into_bytes());
            bodies.collect()
        }
        Ok(_) => vec![bytes.to_vec()],
        Err(_) => {
            let lines = bytes.split(|byte| *byte == b'\n');
            let lines = lines.filter(|line| !line.trim_ascii().is_empty());
            lines.map(<[u8]>::to_vec).collect()
        }
    }
}

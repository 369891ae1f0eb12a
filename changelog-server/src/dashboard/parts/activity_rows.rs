//! Entries of the activity log, as pages show them.

use changelog_core::{ResourceType, Status, Timestamp};
use serde_json::Value;

use super::format;
use crate::store::Recorded;

/// An entry.
#[derive(Debug)]
pub(crate) struct ActivityRow {
    pub(crate) at: Timestamp,
    pub(crate) actor: String,
    /// What it is, where it is no person.
    pub(crate) machine: Option<&'static str>,
    /// From which IP address, where that is known.
    pub(crate) origin: Option<String>,
    pub(crate) action: String,
    pub(crate) kind: String,
    pub(crate) label: String,
    /// The page of what it is about, if it has one.
    pub(crate) address: Option<String>,
    pub(crate) details: Vec<Detail>,
}

/// Something that an entry tells besides: a value, or what it was before.
#[derive(Debug)]
pub(crate) struct Detail {
    pub(crate) name: String,
    pub(crate) from: Option<String>,
    pub(crate) to: String,
}

impl From<Recorded> for ActivityRow {
    fn from(Recorded { entry, address }: Recorded) -> Self {
        let path = match entry.resource_type {
            ResourceType::Change => Some("changes"),
            ResourceType::Service => Some("services"),
            ResourceType::Host => Some("hosts"),
            _ => None,
        };
        Self {
            at: entry.created_at,
            machine: match entry.actor_id {
                Some(_) => None,
                None if entry.actor_name == "Operator" => Some("operator"),
                None => Some("key"),
            },
            actor: entry.actor_name,
            origin: address,
            action: entry.action.to_string(),
            kind: entry.resource_type.to_string(),
            address: path.map(|path| format!("/{path}/{}", entry.resource_id)),
            label: format::visible(&entry.resource_label),
            details: details(&entry.metadata),
        }
    }
}

fn details(metadata: &Value) -> Vec<Detail> {
    let fields = metadata.as_object().into_iter().flatten();
    fields
        .flat_map(|(name, value)| match (name.as_str(), value) {
            ("changes", Value::Object(changes)) => changes
                .iter()
                .map(|(name, change)| Detail {
                    name: format::words(name),
                    from: Some(told(&change["from"])),
                    to: told(&change["to"]),
                })
                .collect(),
            _ => vec![Detail {
                name: format::words(name),
                from: None,
                to: told(value),
            }],
        })
        .collect()
}

/// Tells a value of the log in a line.
fn told(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) if Status::WORDS.contains(&text.as_str()) => format::words(text),
        Value::String(text) => format::visible(&format::excerpt(text)),
        Value::Array(values) if values.is_empty() => "nothing".to_owned(),
        Value::Array(values) => {
            let all: Vec<String> = values.iter().map(told).collect();
            format::excerpt(&all.join(", "))
        }
        // A service or a host, as changes show it; a link; or a long text.
        Value::Object(fields) => {
            let name = fields.get("name").or_else(|| fields.get("hostname"));
            name.or_else(|| fields.get("label"))
                .or_else(|| fields.get("excerpt"))
                .map_or_else(|| format::excerpt(&value.to_string()), told)
        }
        other => other.to_string(),
    }
}

//! Entries of the activity log, as pages show them.

use changelog_core::{ResourceType, Status, Timestamp};
use serde_json::Value;

use super::show;
use crate::store::Recorded;

/// An entry.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) at: Timestamp,
    pub(super) actor: String,
    /// What it is, where it is no person.
    pub(super) machine: Option<&'static str>,
    /// From which IP address, where that is known.
    pub(super) origin: Option<String>,
    pub(super) action: String,
    pub(super) kind: String,
    pub(super) label: String,
    /// The page of what it is about, if it has one.
    pub(super) address: Option<String>,
    pub(super) details: Vec<Detail>,
}

/// Something that an entry tells besides: a value, or what it was before.
#[derive(Debug)]
pub(super) struct Detail {
    pub(super) name: String,
    pub(super) from: Option<String>,
    pub(super) to: String,
}

impl From<Recorded> for Entry {
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
            label: show::visible(&entry.resource_label),
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
                    name: show::words(name),
                    from: Some(told(&change["from"])),
                    to: told(&change["to"]),
                })
                .collect(),
            _ => vec![Detail {
                name: show::words(name),
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
        Value::String(text) if Status::WORDS.contains(&text.as_str()) => show::words(text),
        Value::String(text) => show::visible(&show::excerpt(text)),
        Value::Array(values) if values.is_empty() => "nothing".to_owned(),
        Value::Array(values) => {
            let all: Vec<String> = values.iter().map(told).collect();
            show::excerpt(&all.join(", "))
        }
        // A service or a host, as changes show it; a link; or a long text.
        Value::Object(fields) => {
            let name = fields.get("name").or_else(|| fields.get("hostname"));
            name.or_else(|| fields.get("label"))
                .or_else(|| fields.get("excerpt"))
                .map_or_else(|| show::excerpt(&value.to_string()), told)
        }
        other => other.to_string(),
    }
}

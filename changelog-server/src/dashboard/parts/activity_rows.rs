//! Rows of the activity log.

use changelog_core::ActorType;
use changelog_core::activity::value_text;
use changelog_core::{Outcome, ResourceType, Status, Timestamp};
use serde_json::Value;

use super::format;
use crate::store::StoredEntry;

/// One row.
#[derive(Debug)]
pub(crate) struct ActivityRow {
    pub(crate) at: Timestamp,
    pub(crate) actor: String,
    /// A label for an actor that is not a user.
    pub(crate) machine: Option<&'static str>,
    /// The actor's IP address, if it is known.
    pub(crate) origin: Option<String>,
    pub(crate) action: String,
    pub(crate) kind: String,
    pub(crate) label: String,
    /// The page of the resource, if it has one.
    pub(crate) address: Option<String>,
    pub(crate) details: Vec<Detail>,
}

/// A detail of an entry: a value, or an old and a new one.
#[derive(Debug)]
pub(crate) struct Detail {
    pub(crate) name: String,
    pub(crate) from: Option<String>,
    pub(crate) to: String,
}

impl From<StoredEntry> for ActivityRow {
    fn from(stored: StoredEntry) -> Self {
        let machine = match stored.actor().kind {
            ActorType::Operator => Some("operator"),
            ActorType::ApiKey => Some("key"),
            _ => None,
        };
        let StoredEntry { entry, address, .. } = stored;
        let path = match entry.resource_type {
            ResourceType::Change => Some("changes"),
            ResourceType::Service => Some("services"),
            ResourceType::Host => Some("hosts"),
            _ => None,
        };
        Self {
            at: entry.created_at,
            machine,
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
    let failed = metadata["changes"]["outcome"]["to"] == Outcome::Failed.as_str();
    fields
        .flat_map(|(name, value)| match (name.as_str(), value) {
            ("changes", Value::Object(changes)) => changes
                .iter()
                .map(|(name, change)| Detail {
                    name: format::label(name),
                    from: Some(display(&change["from"])),
                    to: match name.as_str() {
                        // As the page of the change says.
                        "status" if failed => format::label(Outcome::Failed.as_str()),
                        _ => display(&change["to"]),
                    },
                })
                .collect(),
            // It is nowhere else in full.
            ("reason", Value::String(reason)) => vec![Detail {
                name: "reason".to_owned(),
                from: None,
                to: format::visible(reason),
            }],
            _ => vec![Detail {
                name: format::label(name),
                from: None,
                to: display(value),
            }],
        })
        .collect()
}

/// Formats a value of the log in one line.
fn display(value: &Value) -> String {
    let string = |text: &str| match text {
        status if Status::WORDS.contains(&status) => format::label(status),
        text => format::visible(&format::excerpt(text)),
    };
    format::excerpt(&value_text(value, &string))
}

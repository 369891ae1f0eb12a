//! Rows of the activity log.

use std::collections::BTreeSet;
use std::fmt::Write;

use changelog_core::activity::{AGENT, value_text};
use changelog_core::change::acted;
use changelog_core::{Action, ActivityId, ActorType, Outcome, ResourceType, Status, Timestamp};
use serde_json::Value;

use super::format;
use super::zone::Zone;
use crate::store::{BY_PROXY, EMERGENCY, StoredEntry};

/// What the id of an API key follows as the value of `actor_id`.
pub(crate) const KEY_PREFIX: &str = "key:";

/// Returns the value of `actor_id` that selects the entries of an API key.
pub(crate) fn key_actor(id: impl std::fmt::Display) -> String {
    format!("{KEY_PREFIX}{id}")
}

/// One row: a sentence.
#[derive(Debug)]
pub(crate) struct ActivityRow {
    pub(crate) id: ActivityId,
    pub(crate) at: Timestamp,
    pub(crate) actor: String,
    /// A label for an actor that is not a user.
    pub(crate) machine: Option<&'static str>,
    /// What else the actor did; `None` for the operator.
    pub(crate) actor_address: Option<String>,
    /// The actor's IP address, if it is known.
    pub(crate) origin: Option<String>,
    /// What was done, in the past tense.
    pub(crate) verb: &'static str,
    /// What it was done to; empty if that is the actor.
    pub(crate) label: String,
    /// Follows the label; may be empty.
    pub(crate) end: String,
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

impl ActivityRow {
    /// Returns the row of an entry, with times in a zone.
    pub(crate) fn new(stored: StoredEntry, zone: Zone) -> Self {
        let actor = stored.actor();
        let machine = match actor.kind {
            ActorType::Operator => Some("operator"),
            ActorType::ApiKey => Some("key"),
            ActorType::Source => Some("source"),
            ActorType::Workload => Some("pipeline"),
            _ => None,
        };
        let actor_address = actor.id.map(|id| match actor.kind {
            ActorType::Source => format!("/settings/sources/{id}"),
            ActorType::ApiKey | ActorType::Workload => {
                format!("/activity?{}", format::query("actor_id", key_actor(id)))
            }
            _ => format!("/activity?{}", format::query("actor_id", id)),
        });
        let StoredEntry { entry, address, .. } = stored;
        let path = match entry.resource_type {
            _ if entry.action == Action::Deleted => None,
            ResourceType::Change => Some("changes"),
            ResourceType::Service | ResourceType::Subscription => Some("services"),
            ResourceType::Host => Some("hosts"),
            ResourceType::Incident => Some("incidents"),
            ResourceType::Source => Some("settings/sources"),
            ResourceType::Integration if entry.action != Action::Disconnected => {
                Some("settings/integrations")
            }
            _ => None,
        };
        let claimed = claimed(&entry.metadata);
        let mut row = Self {
            id: entry.id,
            at: entry.created_at,
            machine,
            actor: format::visible(&actor.name),
            actor_address,
            origin: address,
            verb: verb(&entry.action, &entry.resource_type, &entry.metadata),
            end: String::new(),
            address: path.map(|path| format!("/{path}/{}", entry.resource_id)),
            label: format::visible(&entry.resource_label),
            details: Vec::new(),
        };
        match (entry.action, entry.metadata["role"].as_str()) {
            (Action::SignedIn, _) => row.label.clear(),
            // A person joins by an invitation, or is added by the operator.
            (Action::Joined, role) => {
                row.actor = std::mem::take(&mut row.label);
                row.actor_address = Some(format!(
                    "/activity?{}",
                    format::query("actor_id", entry.resource_id)
                ));
                row.end = role.map(|role| format!("as {role}")).unwrap_or_default();
            }
            (Action::Invited, Some(role)) => row.end = format!("as {role}"),
            (Action::Removed, Some(_)) => {}
            (Action::Created, _) => row.end = created(&entry.metadata),
            _ => row.details = details(&entry.metadata, zone),
        }
        if let Some(claimed) = claimed {
            let separator = if row.end.is_empty() { "" } else { ", " };
            let _ = write!(row.end, "{separator}{claimed}");
        }
        row
    }
}

/// Returns the risk and the status of a new change, or the severity of an incident; empty for
/// other records.
fn created(metadata: &Value) -> String {
    if let Some(severity) = metadata["severity"].as_str() {
        return format!("as {severity}");
    }
    let failed = metadata["outcome"] == Outcome::Failed.as_str();
    let status = match metadata["status"].as_str() {
        Some(_) if failed => Outcome::Failed.as_str(),
        Some(status) => status,
        None => return String::new(),
    };
    let risk = metadata["risk_level"].as_str().unwrap_or_default();
    format!("{risk} risk, {}", format::label(status))
}

/// Returns which agent acted for whom, as the entry claims.
fn claimed(metadata: &Value) -> Option<String> {
    let agent = metadata[AGENT].as_str()?;
    let acted = acted(agent, metadata["on_behalf_of"].as_str());
    Some(format!("by {} (claimed)", format::visible(&acted)))
}

/// Returns what was done, in the past tense, with the kind of resource before its name.
fn verb(action: &Action, kind: &ResourceType, metadata: &Value) -> &'static str {
    match (action, kind) {
        (Action::Created, ResourceType::Change) => "logged",
        (Action::Created, ResourceType::Incident) => "opened",
        (Action::Created, ResourceType::Service) => "created the service",
        (Action::Created, ResourceType::Host) => "created the host",
        (Action::Created, ResourceType::ApiKey) => "created the API key",
        (Action::Created, ResourceType::Source) => "created the source",
        (Action::Created, ResourceType::Workload) => "created the workload identity",
        (Action::Created, _) => "created",
        (Action::Updated, ResourceType::Service) => "updated the service",
        (Action::Updated, ResourceType::Host) => "updated the host",
        (Action::Updated, ResourceType::Subscription) => "changed the subscription to",
        (Action::Updated, ResourceType::Integration) => "changed the integration",
        (Action::Updated, ResourceType::Source) => "changed the source",
        (Action::Updated, ResourceType::Sso) => "changed the identity provider",
        (Action::Updated, ResourceType::Organization) => "changed how long records are kept of",
        (Action::Updated, _) => "updated",
        (Action::Deleted, ResourceType::Change) => "deleted the change",
        (Action::Deleted, ResourceType::Source) => "deleted the source",
        (Action::Deleted, ResourceType::Workload) => "deleted the workload identity",
        (Action::Deleted, ResourceType::Organization) => "deleted old records of",
        (Action::Deleted, ResourceType::Member) => "erased the name of",
        (Action::Deleted, _) => "deleted",
        (Action::Invited, _) => "invited",
        (Action::Joined, _) => "joined",
        (Action::Removed, _) if metadata["invitation"] == "withdrawn" => {
            "revoked the invitation of"
        }
        (Action::Removed, _) => "removed",
        (Action::RoleChanged, _) => "changed the role of",
        (Action::Revoked, _) => "revoked the API key",
        (Action::SignedIn, ResourceType::Sso) if metadata["method"] == EMERGENCY => {
            "signed in by the emergency access with a password"
        }
        (Action::SignedIn, ResourceType::Sso) if metadata["method"] == BY_PROXY => {
            "signed in by the proxy"
        }
        (Action::SignedIn, ResourceType::Sso) => "signed in by the identity provider",
        (Action::SignedIn, _) => "signed in",
        (Action::Stopped, ResourceType::Sso) => "ended the sessions of",
        (Action::Connected, ResourceType::Sso) if metadata["subject"].is_string() => {
            "connected to an identity of the provider the account of"
        }
        (Action::Connected, ResourceType::Sso) => "connected the identity provider",
        (Action::Disconnected, ResourceType::Sso) => "disconnected the identity provider",
        (Action::Started, ResourceType::Subscription) => "started the subscription to",
        (Action::Stopped, ResourceType::Subscription) => "stopped the subscription to",
        (Action::Started, _) => "started",
        (Action::Stopped, _) => "stopped",
        (Action::Exported, _) => "exported everything of",
        (Action::Connected, _) => "connected the integration",
        (Action::Disconnected, _) => "disconnected the integration",
        _ => "changed",
    }
}

fn details(metadata: &Value, zone: Zone) -> Vec<Detail> {
    let fields = metadata.as_object().into_iter().flatten();
    let failed = metadata["changes"]["outcome"]["to"] == Outcome::Failed.as_str();
    fields
        .flat_map(|(name, value)| match (name.as_str(), value) {
            ("changes", Value::Object(changes)) => changes
                .iter()
                .flat_map(|(name, change)| match name.as_str() {
                    // As the page of the change says.
                    "status" if failed => vec![Detail {
                        to: format::label(Outcome::Failed.as_str()),
                        ..difference(name, &change["from"], &Value::Null, zone)
                    }],
                    "settings" => members(&change["from"], &change["to"], zone),
                    _ => vec![difference(name, &change["from"], &change["to"], zone)],
                })
                .collect(),
            // The title of the cause says it, and the sentence the agent.
            ("cause_change_id" | AGENT, _) => Vec::new(),
            // It is nowhere else in full.
            ("reason", Value::String(reason)) => vec![Detail {
                name: "reason".to_owned(),
                from: None,
                to: format::visible(reason),
            }],
            _ => vec![Detail {
                name: format::label(name),
                from: None,
                to: display(value, zone),
            }],
        })
        .collect()
}

fn difference(name: &str, from: &Value, to: &Value, zone: Zone) -> Detail {
    Detail {
        name: format::label(name),
        from: Some(display(from, zone)),
        to: display(to, zone),
    }
}

/// Returns the members of objects, and of objects in them, that differ.
fn members(from: &Value, to: &Value, zone: Zone) -> Vec<Detail> {
    let objects = [from, to].into_iter().filter_map(Value::as_object);
    let names: BTreeSet<&String> = objects.flat_map(serde_json::Map::keys).collect();
    let differ = names
        .into_iter()
        .filter(|name| from[*name] != to[*name])
        .flat_map(|name| match (&from[name], &to[name]) {
            (from @ Value::Object(_), to @ Value::Object(_)) => members(from, to, zone),
            (from, to) => vec![difference(name, from, to, zone)],
        });
    differ.collect()
}

/// Formats a value of the log in one line.
fn display(value: &Value, zone: Zone) -> String {
    let string = |text: &str| match text {
        status if Status::WORDS.contains(&status) => format::label(status),
        time if time.ends_with('Z')
            && let Ok(at) = time.parse() =>
        {
            zone.minute(&at)
        }
        text => format::visible(&format::excerpt(text)),
    };
    match value {
        Value::Null => "–".to_owned(),
        Value::Array(values) if values.is_empty() => "–".to_owned(),
        value => format::excerpt(&value_text(value, &string)),
    }
}

//! The activity log: who did what, and when.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::ids::{ActivityId, UserId};
use crate::limits::{DEFAULT_ACTIVITY_ENTRIES, MAX_ACTIVITY_ENTRIES};
use crate::problem::{Invalid, ViolationCode};
use crate::query::{Pairs, Query};
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

/// The value of `actor_id` that selects the actions of API keys.
pub const API_KEY_ACTOR: &str = "__api_key__";
/// The name of the operator at the server's own command line.
pub const OPERATOR: &str = "Operator";
/// The name under which the service itself is recorded.
pub const SERVICE: &str = "Change log";
/// The member of an entry's metadata with the name of the automation that acted, as it claims.
pub const AGENT: &str = "agent";
/// What the name of an API key follows in the activity log.
pub const API_KEY_PREFIX: &str = "API key: ";
/// What the name of a pipeline follows in the activity log.
pub const PIPELINE_PREFIX: &str = "Pipeline: ";
/// What the name of a source follows in the activity log.
pub const SOURCE_PREFIX: &str = "Source: ";

wire_enum! {
    /// The action.
    Action, "an action", example "created" {
        /// Created.
        Created = "created",
        /// Updated; `metadata.changes` has the old and new values.
        Updated = "updated",
        /// Deleted.
        Deleted = "deleted",
        /// A user was invited.
        Invited = "invited",
        /// An invitation was accepted.
        Joined = "joined",
        /// A member was removed.
        Removed = "removed",
        /// A member's role was changed.
        RoleChanged = "role_changed",
        /// An API key was revoked.
        Revoked = "revoked",
        /// A subscription was started.
        Started = "started",
        /// A subscription was stopped.
        Stopped = "stopped",
        /// An integration was connected.
        Connected = "connected",
        /// An integration was disconnected.
        Disconnected = "disconnected",
        /// Everything of an organization was exported.
        Exported = "exported",
        /// A user signed in.
        SignedIn = "signed_in",
    }
}

wire_enum! {
    /// The type of the resource.
    ResourceType, "a resource type", example "change" {
        /// Changes logged, updated or deleted.
        Change = "change",
        /// Services created or updated.
        Service = "service",
        /// Hosts created or updated.
        Host = "host",
        /// Members invited, removed, or their role changed.
        Member = "member",
        /// API keys created or revoked.
        ApiKey = "api_key",
        /// Subscriptions to services started or stopped.
        Subscription = "subscription",
        /// Connections to Slack, Teams, Grafana or webhooks.
        Integration = "integration",
        /// Sources created, changed or deleted.
        Source = "source",
        /// Incidents opened, changed or resolved, and their causes marked.
        Incident = "incident",
        /// Workload identities created or deleted.
        Workload = "workload",
        /// Sign-in by the organization's identity provider: connected, changed or disconnected,
        /// and who signed in by it.
        Sso = "sso",
        /// The organization itself: how long it keeps its records, and which were deleted.
        Organization = "organization",
    }
}

/// One entry of the activity log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActivityEntry {
    /// The id of the entry.
    pub id: ActivityId,
    /// The user who did it; null for an API key.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub actor_id: Option<UserId>,
    /// The name of the user, or `API key: ` and the name of the key.
    #[cfg_attr(feature = "openapi", schema(example = "API key: terraform"))]
    pub actor_name: String,
    /// The action.
    pub action: Action,
    /// The type of the resource.
    pub resource_type: ResourceType,
    /// The id of the resource.
    pub resource_id: Uuid,
    /// The name of the resource; for a change, its title.
    #[cfg_attr(feature = "openapi", schema(example = "Deploy api 2.3"))]
    pub resource_label: String,
    /// Details: `risk_level` and `status` of a created change, with `agent` and
    /// `on_behalf_of` as it claims them if it names an agent; `changes` of an update, as
    /// `{field: {from, to}}`. A value of more than 300 characters is `{excerpt, length}`
    /// with its first 200 characters.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub metadata: Value,
    /// The time of the action.
    pub created_at: Timestamp,
}

/// The old and the new value of a field that an update changed. A string of more than
/// 300 characters is `{excerpt, length}` with its first 200 characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Difference {
    /// The value before the update.
    #[cfg_attr(feature = "openapi", schema(value_type = Value, example = "planned"))]
    pub from: Value,
    /// The value after the update.
    #[cfg_attr(feature = "openapi", schema(value_type = Value, example = "in_progress"))]
    pub to: Value,
}

/// What an update changed, by the names of the fields.
pub type Differences = BTreeMap<String, Difference>;

/// Returns a value of the activity log as one string: a service, a host and a link by
/// name, the values of a list separated by commas, `nothing` for an absent value.
/// `string` formats each string.
pub fn value_text(value: &Value, string: &dyn Fn(&str) -> String) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => string(text),
        Value::Array(values) if values.is_empty() => "nothing".to_owned(),
        Value::Array(values) => {
            let all: Vec<String> = values.iter().map(|one| value_text(one, string)).collect();
            all.join(", ")
        }
        Value::Object(fields) => {
            let names = ["name", "hostname", "label", "excerpt"];
            let name = names.iter().find_map(|name| fields.get(*name));
            name.map_or_else(|| value.to_string(), |name| value_text(name, string))
        }
        other => other.to_string(),
    }
}

/// A user, or an API key, with entries in the activity log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Actor {
    /// The user; null for an API key.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub actor_id: Option<UserId>,
    /// The name of the user, or `API key: ` and the name of the key.
    #[cfg_attr(feature = "openapi", schema(example = "API key: terraform"))]
    pub actor_name: String,
}

/// The response to `GET /api/activity`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActivityList {
    /// The entries, newest first.
    pub items: Vec<ActivityEntry>,
}

/// The response to `GET /api/activity/actors`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActorList {
    /// The actors, by name.
    pub actors: Vec<Actor>,
}

/// Selects entries by their actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActorFilter {
    /// Any API key.
    ApiKeys,
    /// One user.
    Person(UserId),
}

/// Selects entries of the activity log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityFilter {
    /// The most entries to return, 1 to [`MAX_ACTIVITY_ENTRIES`].
    pub limit: u64,
    /// The number of newest entries to skip.
    pub offset: u64,
    /// Only this resource type.
    pub resource: Option<ResourceType>,
    /// Only by this actor.
    pub actor: Option<ActorFilter>,
}

impl Default for ActivityFilter {
    fn default() -> Self {
        Self {
            limit: DEFAULT_ACTIVITY_ENTRIES,
            offset: 0,
            resource: None,
            actor: None,
        }
    }
}

impl ActivityFilter {
    /// Reads a query string; a `limit` above the maximum becomes the maximum.
    pub fn from_query(raw: &str) -> Result<Self, Invalid> {
        let mut query = Query::new(raw);
        let mut filter = Self {
            limit: query
                .number("limit", 1)
                .unwrap_or(DEFAULT_ACTIVITY_ENTRIES)
                .min(MAX_ACTIVITY_ENTRIES),
            offset: query.number("offset", 0).unwrap_or(0),
            resource: query.parsed("resource"),
            actor: None,
        };
        if let Some(text) = query.one("actor_id") {
            match text.parse() {
                _ if text == API_KEY_ACTOR => filter.actor = Some(ActorFilter::ApiKeys),
                Ok(person) => filter.actor = Some(ActorFilter::Person(person)),
                Err(_) => {
                    let text = crate::rules::quoted(&text);
                    let message = format!("must be a person's id or {API_KEY_ACTOR}, got {text}");
                    query.add("actor_id", ViolationCode::InvalidFormat, message);
                }
            }
        }
        query.finish(filter)
    }

    /// Writes the query string that [`Self::from_query`] reads.
    pub fn to_query(&self) -> String {
        let mut pairs = Pairs::default();
        pairs.push("limit", self.limit);
        pairs.push("offset", self.offset);
        pairs.push_some("resource", self.resource.as_ref());
        match self.actor {
            Some(ActorFilter::ApiKeys) => pairs.push("actor_id", API_KEY_ACTOR),
            Some(ActorFilter::Person(person)) => pairs.push("actor_id", person),
            None => {}
        }
        pairs.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_at_their_limits() {
        let read = |query: &str| ActivityFilter::from_query(query).map(|f| (f.limit, f.offset));
        for (query, expected) in [
            ("", (50, 0)),
            ("limit=1", (1, 0)),
            ("limit=99", (99, 0)),
            ("limit=100", (100, 0)),
            ("limit=101", (100, 0)),
            ("offset=0", (50, 0)),
            ("offset=1", (50, 1)),
            ("offset=99999999999999999999", (50, u64::MAX)),
        ] {
            assert_eq!(read(query), Ok(expected), "{query}");
        }
        for query in [
            "limit=0",
            "limit=-1",
            "limit=x",
            "limit=",
            "offset=-1",
            "limit=1&limit=1",
        ] {
            assert!(read(query).is_err(), "{query}");
        }
    }

    #[test]
    fn actors_and_resources_select() {
        let id = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
        let person = ActorFilter::Person(id.parse().unwrap());
        for (query, actor) in [
            (format!("actor_id={id}"), Some(person)),
            (
                "actor_id=__api_key__".to_owned(),
                Some(ActorFilter::ApiKeys),
            ),
            (String::new(), None),
        ] {
            let filter = ActivityFilter::from_query(&query).unwrap();
            assert_eq!(filter.actor, actor);
            assert_eq!(ActivityFilter::from_query(&filter.to_query()), Ok(filter));
        }
        for bad in [
            "actor_id=",
            "actor_id=ada",
            "actor_id=__API_KEY__",
            "resource=changes",
        ] {
            assert!(ActivityFilter::from_query(bad).is_err(), "{bad}");
        }
        let words = [
            "change",
            "service",
            "host",
            "member",
            "api_key",
            "subscription",
            "integration",
            "source",
            "incident",
            "workload",
            "sso",
            "organization",
        ];
        assert_eq!(ResourceType::WORDS, words);
        for word in words {
            let filter = ActivityFilter::from_query(&format!("resource={word}")).unwrap();
            assert_eq!(
                filter.resource.map(|r| r.to_string()).as_deref(),
                Some(word)
            );
        }
    }
}
